// Pages of a recording: nvme/<controller>/NAME.bin, NAME.hex or NAME.status.
#include "admin/hex_page.hpp"
#include "admin/kernel_names.hpp"
#include "admin/nvme_admin.hpp"
#include "admin/open_in_root.hpp"
#include "values/errno_name.hpp"

#include <fmt/format.h>

#include <fcntl.h>

#include <cerrno>
#include <charconv>

namespace nvmaint::nvme {
namespace {

constexpr std::size_t kIdentifyBytes = 4096;
constexpr std::size_t kMaxFile = std::size_t{4} << 20U;
constexpr std::uint16_t kStatusMask = 0x7ff;

// An NVMe status in hex, or the name of an errno. Names first: "EBADF" is both.
Result<Error> parse_status(std::string_view text, const std::string& what) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    text = text.substr(begin);
    text = text.substr(0, text.find_first_of(" \t\r\n#"));
    if (!text.empty() && text.front() == 'E') {
        if (const std::optional<int> number = parse_errno_name(text)) {
            return Error::system(*number, what);
        }
    }
    if (text.starts_with("0x") || text.starts_with("0X")) {
        text.remove_prefix(2);
    }
    std::uint16_t status = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), status, 16);
    if (text.empty() || problem != std::errc() || end != text.data() + text.size() ||
        (status & kStatusMask) == 0) {
        return Error::make(ErrorKind::Malformed,
                           what + ": neither an NVMe status in hex nor the name of an errno");
    }
    Error failure = Error::make(ErrorKind::NvmeStatus, what);
    failure.nvme_status = status & kStatusMask;
    return failure;
}

class ReplayAdmin final : public NvmeAdmin {
  public:
    explicit ReplayAdmin(int root_fd) : root_fd_(root_fd) {}

    Result<Bytes> identify_controller(const std::string& controller) override {
        return page(controller, "id-ctrl", kIdentifyBytes, "Identify Controller");
    }

    Result<Bytes> identify_namespace(const std::string& controller, std::uint32_t nsid) override {
        return page(controller, fmt::format("id-ns-{}", nsid), kIdentifyBytes,
                    fmt::format("Identify Namespace {}", nsid));
    }

    Result<Bytes> get_log(const std::string& controller, std::uint8_t lid,
                          std::uint32_t length) override {
        return page(controller, fmt::format("log-{:02x}", lid), length,
                    fmt::format("Get Log Page {:02x}h", lid));
    }

  private:
    [[nodiscard]] Result<std::string> file(const std::string& path) const {
        Result<UniqueFd> fd = open_in_root(root_fd_, path, O_RDONLY | O_NONBLOCK);
        if (!fd) {
            return fd.error().in(path);
        }
        Result<std::string> content = read_whole(fd->get(), kMaxFile);
        if (!content) {
            return content.error().in(path);
        }
        return content;
    }

    [[nodiscard]] Result<Bytes> page(const std::string& controller, const std::string& name,
                                     std::size_t bytes, const std::string& what) const {
        if (!is_controller_name(controller)) {
            return Error::system(EINVAL, fmt::format("\"{}\" is no NVMe controller", controller));
        }
        const std::string path = "nvme/" + controller + "/" + name;
        const auto absent = [](const Error& error) {
            return error.sys_errno == ENOENT || error.sys_errno == ENOTDIR;
        };
        Result<std::string> raw = file(path + ".bin");
        if (raw) {
            return whole({raw->begin(), raw->end()}, bytes, false, path + ".bin");
        }
        if (!absent(raw.error())) {
            return raw.error();
        }
        raw = file(path + ".hex");
        if (raw) {
            Result<HexPage> hex = parse_hex_page(*raw);
            if (!hex) {
                return hex.error().in(path + ".hex");
            }
            return whole(std::move(hex->bytes), bytes, hex->fill, path + ".hex");
        }
        if (!absent(raw.error())) {
            return raw.error();
        }
        raw = file(path + ".status");
        if (raw) {
            Result<Error> status = parse_status(*raw, what);
            return status ? *status : status.error().in(path + ".status");
        }
        if (!absent(raw.error())) {
            return raw.error();
        }
        return Error::make(ErrorKind::NotRecorded, path + ".bin");
    }

    // The first `bytes` bytes. A device that gave too little gave nothing we can trust.
    [[nodiscard]] static Result<Bytes> whole(Bytes page, std::size_t bytes, bool fill,
                                             const std::string& path) {
        if (page.size() < bytes && !fill) {
            return Error::make(ErrorKind::Malformed,
                               fmt::format("{}: {} bytes of {}", path, page.size(), bytes));
        }
        page.resize(bytes);
        return page;
    }

    int root_fd_;
};

} // namespace

std::unique_ptr<NvmeAdmin> make_replay_admin(int root_fd) {
    return std::make_unique<ReplayAdmin>(root_fd);
}

} // namespace nvmaint::nvme
