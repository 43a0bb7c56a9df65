#include "collect/kmod.hpp"

#include "admin/open_in_root.hpp"
#include "collect/diskstats.hpp"

#include "uapi/nvmaint.h"

#include <fmt/format.h>

#include <sys/ioctl.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>

namespace nvmaint::collect {

namespace {

using core::nanoseconds;

// Judgement: a snapshot of today has 33 KiB; one of ten times as many classes and events is still a
// snapshot, what is longer is noise.
constexpr std::size_t kLongest = std::size_t{512} << 10;
constexpr std::size_t kUsual = std::size_t{64} << 10;
constexpr std::size_t kFirstHeader =
    offsetof(nvmaint_snapshot, disk) + sizeof(nvmaint_snapshot::disk);

nanoseconds to_ns(std::uint64_t value) {
    return nanoseconds{static_cast<std::int64_t>(
        std::min<std::uint64_t>(value, std::numeric_limits<std::int64_t>::max()))};
}

template <class T>
T load(std::span<const std::uint8_t> bytes, std::size_t offset) {
    T value{};
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

Error malformed(std::size_t offset, const std::string& what) {
    return Error::make(ErrorKind::Malformed,
                       fmt::format("snapshot of nvmaint.ko: {} (at byte {})", what, offset));
}

// Whether `count` structs, `stride` apart, of which each has `size` bytes, lie within `total`.
bool fits(std::uint64_t offset, std::uint64_t count, std::uint64_t stride, std::uint64_t size,
          std::uint64_t total) {
    return count == 0 || (stride >= size && offset + (count - 1) * stride + size <= total);
}

} // namespace

Result<core::DiskLatency> parse_kmod_snapshot(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < kFirstHeader || bytes.size() > kLongest) {
        return malformed(0, fmt::format("{} bytes", bytes.size()));
    }
    const auto head = load<nvmaint_snapshot>(bytes, 0);
    if (head.magic != NVMAINT_MAGIC) {
        return malformed(offsetof(nvmaint_snapshot, magic), "this is none");
    }
    if (head.size != bytes.size() || head.header_size < kFirstHeader ||
        head.header_size > head.size) {
        return malformed(offsetof(nvmaint_snapshot, size),
                         fmt::format("it says {} bytes and a head of {}, and has {}", head.size,
                                     head.header_size, bytes.size()));
    }
    core::DiskLatency out;
    out.shape = {.sub_bits = head.sub_bits,
                 .min_exponent = head.min_exponent,
                 .max_exponent = head.max_exponent};
    if (head.sub_bits < 1 || head.sub_bits > 8 || head.min_exponent < head.sub_bits ||
        head.max_exponent <= head.min_exponent || head.max_exponent > 62 ||
        head.bucket_count != out.shape.buckets()) {
        return malformed(offsetof(nvmaint_snapshot, bucket_count),
                         fmt::format("{} buckets, {} bits an octave from 2^{} to 2^{} ns",
                                     head.bucket_count, head.sub_bits, head.min_exponent,
                                     head.max_exponent));
    }
    const std::uint64_t class_bytes =
        head.bucket_offset + std::uint64_t{head.bucket_count} * sizeof(std::uint64_t);
    if (head.bucket_offset < sizeof(nvmaint_class_stats) ||
        !fits(head.class_offset, head.class_count, head.class_stride, class_bytes, head.size)) {
        return malformed(offsetof(nvmaint_snapshot, class_offset), "classes beyond its end");
    }
    if (!fits(head.event_offset, head.event_count, head.event_stride, sizeof(nvmaint_event),
              head.size)) {
        return malformed(offsetof(nvmaint_snapshot, event_offset), "events beyond its end");
    }

    out.disk.assign(head.disk, strnlen(head.disk, sizeof head.disk));
    out.now = to_ns(head.now_ns);
    out.attached = to_ns(head.attached_ns);
    out.diskseq = head.diskseq;
    out.gone = (head.flags & NVMAINT_DYING) != 0;
    out.write_through = (head.flags & NVMAINT_WRITE_THROUGH) != 0;
    out.waits_unknown = (head.flags & NVMAINT_NO_WAIT) != 0;
    out.unseen = head.no_start + head.no_slot;
    out.events = head.events;
    // The classes of the first version are in the order of core's.
    static_assert(NVMAINT_CLASSES == core::kLatencyClasses);
    const std::size_t known = std::min<std::size_t>(head.class_count, core::kLatencyClasses);
    for (std::size_t i = 0; i < known; ++i) {
        const auto kind = static_cast<core::LatencyClass>(i);
        if (out.waits_unknown &&
            (kind == core::LatencyClass::FlushWait || kind == core::LatencyClass::FlushSequence)) {
            continue;
        }
        const std::size_t at = head.class_offset + i * std::size_t{head.class_stride};
        const auto stats = load<nvmaint_class_stats>(bytes, at);
        core::LatencyHistogram& histogram = out.classes[i].emplace();
        histogram = {.count = stats.count,
                     .sum = to_ns(stats.sum_ns),
                     .max = to_ns(stats.max_ns),
                     .errors = stats.errors,
                     .requeues = stats.requeues,
                     .in_flight = stats.in_flight,
                     .oldest = to_ns(stats.oldest_ns),
                     .buckets = {}};
        histogram.buckets.resize(head.bucket_count);
        std::memcpy(histogram.buckets.data(), bytes.data() + at + head.bucket_offset,
                    histogram.buckets.size() * sizeof(std::uint64_t));
    }
    for (std::size_t i = 0; i < head.event_count; ++i) {
        const auto event =
            load<nvmaint_event>(bytes, head.event_offset + i * std::size_t{head.event_stride});
        if (event.event_class == NVMAINT_FLUSH) {
            out.slow.push_back({.number = event.number,
                                .start = to_ns(event.start_ns),
                                .duration = to_ns(event.duration_ns),
                                .pending = (event.flags & NVMAINT_EVENT_PENDING) != 0,
                                .error = -event.error});
        }
    }
    return out;
}

namespace {

constexpr const char* kModuleFolders[] = {"updates/dkms", "updates", "extra", "misc"};
constexpr const char* kModuleFiles[] = {"nvmaint.ko", "nvmaint.ko.xz", "nvmaint.ko.zst",
                                        "nvmaint.ko.gz"};

// Names in a folder; none where it is known not to be there.
Result<std::vector<std::string>> names_in(const HostRoot& root, const std::string& path) {
    Result<std::vector<std::string>> names = root.list(path);
    if (!names && names.error().sys_errno == ENOENT) {
        return std::vector<std::string>{};
    }
    return names;
}

// Where a module of another package may lie for a kernel; empty: nowhere.
Result<std::string> module_file(const HostRoot& root, const std::string& kernel) {
    for (const char* const folder : kModuleFolders) {
        const std::string path = "lib/modules/" + kernel + "/" + folder;
        TRY(names, names_in(root, path));
        for (const char* const file : kModuleFiles) {
            if (std::find(names.begin(), names.end(), file) != names.end()) {
                return path + "/" + file;
            }
        }
    }
    return std::string();
}

Result<bool> source_installed(const HostRoot& root, const std::string& kernel) {
    TRY(sources, names_in(root, "usr/src"));
    for (const std::string& name : sources) {
        if (name.starts_with("nvmaint-")) {
            return true;
        }
    }
    TRY(kernels, names_in(root, "lib/modules"));
    for (const std::string& other : kernels) {
        if (other != kernel) {
            TRY(file, module_file(root, other));
            if (!file.empty()) {
                return true;
            }
        }
    }
    return false;
}

// "none [integrity] confidentiality": the one in brackets.
std::string chosen(const std::string& text) {
    const std::size_t open = text.find('[');
    const std::size_t close = text.find(']');
    return open == std::string::npos || close == std::string::npos || close < open
               ? ""
               : text.substr(open + 1, close - open - 1);
}

} // namespace

Reading<core::KernelModule> read_kernel_module(const HostRoot& root,
                                               const Reading<std::string>& kernel) {
    TRY(modules, root.read("proc/modules"));
    if (!kernel) {
        return kernel.error();
    }
    core::KernelModule module;
    module.loaded =
        modules.starts_with("nvmaint ") || modules.find("\nnvmaint ") != std::string::npos;
    module.file = module_file(root, *kernel);
    module.source = source_installed(root, *kernel);
    const Result<std::optional<std::string>> lockdown =
        root.read_if_there("sys/kernel/security/lockdown");
    if (lockdown && *lockdown) {
        module.lockdown = chosen(**lockdown);
    }
    const Result<std::optional<std::string>> enforced =
        root.read_if_there("sys/module/module/parameters/sig_enforce");
    module.signatures_enforced = enforced && *enforced && (*enforced)->starts_with("Y");
    return module;
}

std::map<std::string, Reading<core::DiskLatency>> read_recorded_latency(const HostRoot& root) {
    std::map<std::string, Reading<core::DiskLatency>> out;
    if (root.is_live()) {
        return out;
    }
    const Result<std::vector<std::string>> names = root.list("kmod");
    if (!names) {
        return out;
    }
    std::map<std::string, std::vector<core::DiskLatency>> paths; // by multipath head
    for (const std::string& name : *names) {
        if (!name.ends_with(".bin")) {
            continue;
        }
        const std::string disk = name.substr(0, name.size() - 4);
        const Result<std::string> raw = root.read("kmod/" + name);
        Reading<core::DiskLatency> latency =
            raw ? Reading<core::DiskLatency>(parse_kmod_snapshot(
                      {reinterpret_cast<const std::uint8_t*>(raw->data()), raw->size()}))
                : Reading<core::DiskLatency>(raw.error());
        const std::string head = head_of_path(disk);
        if (head.empty()) {
            out.insert_or_assign(disk, std::move(latency));
        } else if (!latency) {
            out.insert_or_assign(head, std::move(latency)); // a part would pass for all
        } else {
            paths[head].push_back(std::move(*latency));
        }
    }
    for (const auto& [head, all] : paths) {
        if (auto sum = core::joined(head, all)) {
            out.emplace(head, std::move(*sum));
        }
    }
    return out;
}

namespace {

Result<std::vector<std::uint8_t>> read_bytes(int file) {
    std::vector<std::uint8_t> bytes(kUsual);
    ssize_t got = ::pread(file, bytes.data(), bytes.size(), 0);
    if (got == static_cast<ssize_t>(bytes.size())) { // a later module's, longer than today's
        bytes.resize(kLongest);
        got = ::pread(file, bytes.data(), bytes.size(), 0);
    }
    if (got < 0) {
        return Error::system(errno, "reading a snapshot of nvmaint.ko");
    }
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
}

Result<UniqueFd> attach_file(const std::string& node, const std::string& disk,
                             const std::string& path) {
    UniqueFd file(::open(node.c_str(), O_RDONLY | O_CLOEXEC)); // attaching is no writing
    if (file.get() < 0) {
        return Error::system(errno, "opening " + node);
    }
    const std::string name = "/dev/" + disk;
    const UniqueFd device(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (device.get() < 0) {
        return Error::system(errno, "opening " + name);
    }
    nvmaint_attach attach{};
    attach.size = sizeof attach;
    attach.disk_fd = device.get();
    if (path.size() >= sizeof attach.path) {
        return Error::system(ENAMETOOLONG, path);
    }
    std::memcpy(attach.path, path.data(), path.size());
    if (::ioctl(file.get(), NVMAINT_IOC_ATTACH, &attach) != 0) {
        return Error::system(errno, node + ": attaching " + (path.empty() ? disk : path));
    }
    return file;
}

class KmodCounter final : public LatencyCounter {
  public:
    explicit KmodCounter(UniqueFd file) : file_(std::move(file)) {}

    Result<core::DiskLatency> read() override {
        TRY(bytes, read_bytes(file_.get()));
        return parse_kmod_snapshot(bytes);
    }

    Result<Done> set_threshold(core::nanoseconds threshold) override {
        nvmaint_threshold order{};
        order.size = sizeof order;
        order.flush_threshold_ns = static_cast<std::uint64_t>(threshold.count());
        if (::ioctl(file_.get(), NVMAINT_IOC_THRESHOLD, &order) != 0) {
            return Error::system(errno, "nvmaint.ko: setting a threshold");
        }
        return Done{};
    }

    [[nodiscard]] int wake_fd() const override { return file_.get(); }

  private:
    UniqueFd file_;
};

} // namespace

Result<std::unique_ptr<LatencyCounter>>
attach_kmod(const std::string& node, const std::string& disk, const std::string& path) {
    TRY(file, attach_file(node, disk, path));
    return std::unique_ptr<LatencyCounter>(std::make_unique<KmodCounter>(std::move(file)));
}

Result<std::vector<std::string>> paths_of_head(const HostRoot& root, const std::string& head) {
    TRY(disks, root.list("sys/block"));
    std::erase_if(disks, [&](const std::string& disk) { return head_of_path(disk) != head; });
    return disks;
}

Result<std::vector<std::uint8_t>> kmod_snapshot(const std::string& node, const std::string& disk,
                                                const std::string& path) {
    TRY(file, attach_file(node, disk, path));
    return read_bytes(file.get());
}

} // namespace nvmaint::collect
