#include "admin/libnvme_admin.hpp"

#include "admin/kernel_names.hpp"

#include <fmt/format.h>
#include <libnvme.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace nvmaint::nvme {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::uint32_t kAllNamespaces = 0xffffffff;
constexpr std::uint16_t kStatusMask = 0x7ff; // SCT and SC, without More and Do Not Retry
constexpr std::uint16_t kInvalidPrpOffset = 0x13;
constexpr std::uint8_t kLogSmart = 0x02;

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

// Whole, page-aligned pages: some controllers refuse other addresses, and some transfer a page
// whatever was asked.
struct Buffer {
    explicit Buffer(std::size_t bytes)
        : size((std::max(bytes, kPageBytes) + kPageBytes - 1) / kPageBytes * kPageBytes),
          memory(std::aligned_alloc(kPageBytes, size)) {
        if (memory) {
            std::memset(memory.get(), 0, size);
        }
    }
    [[nodiscard]] Bytes first(std::size_t bytes) const {
        const auto* begin = static_cast<const std::uint8_t*>(memory.get());
        return {begin, begin + bytes};
    }
    std::size_t size;
    std::unique_ptr<void, Free> memory;
};

// What libnvme's calls return: 0, an NVMe status, or -1 with errno.
Result<Done> outcome(int returned, int error, const std::string& what) {
    if (returned == 0) {
        return Done{};
    }
    if (returned > 0) {
        Error failure = Error::make(ErrorKind::NvmeStatus, what);
        failure.nvme_status = static_cast<std::uint16_t>(returned) & kStatusMask;
        return failure;
    }
    return Error::system(error, what);
}

// The controller's node is 0600 root by default, its namespaces' nodes are 0660 disk.
UniqueFd open_namespace_of(const std::string& controller) {
    const UniqueFd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const Result<std::vector<std::string>> nodes = read_namespace_nodes(root.get(), controller);
    if (nodes) {
        for (const std::string& node : *nodes) {
            UniqueFd fd(::open(("/dev/" + node).c_str(), O_RDONLY | O_CLOEXEC));
            if (fd.get() >= 0) {
                return fd;
            }
        }
    }
    return UniqueFd();
}

Result<UniqueFd> open_controller(const std::string& controller) {
    if (!is_controller_name(controller)) {
        return Error::system(EINVAL, fmt::format("\"{}\" is no NVMe controller", controller));
    }
    const std::string node = "/dev/" + controller;
    UniqueFd fd(::open(node.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() >= 0) {
        return fd;
    }
    const int refused = errno;
    if (refused == EACCES || refused == EPERM) {
        UniqueFd other = open_namespace_of(controller);
        if (other.get() >= 0) {
            return other;
        }
    }
    return Error::system(refused, "opening " + node);
}

class LibnvmeAdmin final : public NvmeAdmin {
  public:
    explicit LibnvmeAdmin(NodeOpener open) : open_(std::move(open)) {}

    Result<Bytes> identify_controller(const std::string& controller) override {
        return identify(controller, NVME_IDENTIFY_CNS_CTRL, NVME_NSID_NONE, "Identify Controller");
    }

    Result<Bytes> identify_namespace(const std::string& controller, std::uint32_t nsid) override {
        return identify(controller, NVME_IDENTIFY_CNS_NS, nsid,
                        fmt::format("Identify Namespace {}", nsid));
    }

    Result<Bytes> get_log(const std::string& controller, std::uint8_t lid,
                          std::uint32_t length) override {
        const std::string what = fmt::format("Get Log Page {:02x}h", lid);
        if (length == 0 || length % 4 != 0) {
            return Error::system(EINVAL, fmt::format("{} of {} bytes", what, length));
        }
        TRY(fd, open_(controller));
        const Buffer buffer(length);
        if (!buffer.memory) {
            return Error::system(ENOMEM, what);
        }
        Result<Done> done = get_log_once(fd.get(), lid, length, buffer, what);
        if (!done && done.error().nvme_status == kInvalidPrpOffset && length < buffer.size) {
            // The length itself was refused; a whole page is taken by the same controllers.
            done =
                get_log_once(fd.get(), lid, static_cast<std::uint32_t>(buffer.size), buffer, what);
        }
        if (!done) {
            return done.error();
        }
        return buffer.first(length);
    }

  private:
    Result<Bytes> identify(const std::string& controller, nvme_identify_cns cns, std::uint32_t nsid,
                           const std::string& what) const {
        TRY(fd, open_(controller));
        const Buffer buffer(kPageBytes);
        if (!buffer.memory) {
            return Error::system(ENOMEM, what);
        }
        nvme_identify_args args{};
        args.data = buffer.memory.get();
        args.args_size = sizeof args;
        args.fd = fd.get();
        args.timeout = NVME_DEFAULT_IOCTL_TIMEOUT;
        args.cns = cns;
        args.csi = NVME_CSI_NVM;
        args.nsid = nsid;
        args.cntid = 0; // as the kernel sends it: these structures do not take one
        args.uuidx = NVME_UUID_NONE;
        errno = 0;
        const int returned = nvme_identify(&args);
        TRY(done, outcome(returned, errno, what));
        (void)done; // carries nothing
        return buffer.first(kPageBytes);
    }

    // Not libnvme's page helpers: up to 1.4 they lose RAE=0 where they split a read, and they pass
    // a timeout of their own.
    static Result<Done> get_log_once(int fd, std::uint8_t lid, std::uint32_t length,
                                     const Buffer& buffer, const std::string& what) {
        nvme_get_log_args args{};
        args.log = buffer.memory.get();
        args.args_size = sizeof args;
        args.fd = fd;
        args.timeout = NVME_DEFAULT_IOCTL_TIMEOUT;
        args.lid = static_cast<nvme_cmd_get_log_lid>(lid);
        args.len = length;
        args.nsid = kAllNamespaces;
        args.csi = NVME_CSI_NVM;
        args.lsi = NVME_LOG_LSI_NONE;
        args.lsp = NVME_LOG_LSP_NONE;
        args.uuidx = NVME_UUID_NONE;
        // Reading the SMART log is what re-arms its asynchronous events; the events of other logs
        // belong to whoever waits for them.
        args.rae = lid != kLogSmart;
        errno = 0;
        const int returned = nvme_get_log(&args);
        return outcome(returned, errno, what);
    }

    NodeOpener open_;
};

} // namespace

std::unique_ptr<NvmeAdmin> make_libnvme_admin() {
    return make_libnvme_admin(open_controller);
}

std::unique_ptr<NvmeAdmin> make_libnvme_admin(NodeOpener open) {
    return std::make_unique<LibnvmeAdmin>(std::move(open));
}

} // namespace nvmaint::nvme
