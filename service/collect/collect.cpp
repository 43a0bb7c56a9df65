#include "collect/collect.hpp"

#include "collect/block.hpp"
#include "collect/controllers.hpp"
#include "collect/environment.hpp"
#include "collect/journal.hpp"
#include "collect/kmod.hpp"
#include "collect/mounts.hpp"
#include "collect/probes.hpp"
#include "collect/text.hpp"
#include "collect/units.hpp"
#include "core/trim_truth.hpp"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <set>

namespace nvmaint::collect {
namespace {

constexpr std::string_view kStampFolder = "var/lib/systemd/timers";
constexpr std::string_view kStampPrefix = "stamp-";
// What decides whether md passes discards on (Linux drivers/md/raid0.c and raid5.c).
constexpr std::array<std::pair<const char*, const char*>, 2> kModuleParameters = {{
    {"raid0", "devices_discard_performance"},
    {"raid456", "devices_handle_discard_safely"},
}};

template <class T>
Reading<T> recorded(const std::optional<T>& value, const std::string& key) {
    return value ? Reading<T>(*value)
                 : Reading<T>(Error::make(ErrorKind::NotRecorded, "manifest.toml: " + key));
}

// From the manifest; where that is silent, from the file that says it.
Reading<std::string> from_file(const HostRoot& root, const std::optional<std::string>& told,
                               const std::string& path) {
    return told ? Reading<std::string>(*told) : Reading<std::string>(root.read_line(path));
}

core::BootTime boot_time(const HostRoot& root) {
    if (!root.is_live()) {
        return core::BootTime{0}; // times of a recording count from its `now`
    }
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return core::seconds(now.tv_sec) + core::nanoseconds(now.tv_nsec);
}

void read_environment(const HostRoot& root, const Manifest& manifest,
                      core::HostSnapshot& snapshot) {
    snapshot.now = {manifest.now, boot_time(root)};
    snapshot.uptime = recorded(manifest.uptime, "uptime_seconds");
    snapshot.utc_offset = recorded(manifest.utc_offset, "utc_offset_seconds");
    snapshot.boot_id = from_file(root, manifest.boot_id, "proc/sys/kernel/random/boot_id");
    snapshot.kernel = from_file(root, manifest.kernel, "proc/sys/kernel/osrelease");
    snapshot.kernel_command_line = root.read_line("proc/cmdline");
    snapshot.init = from_file(root, manifest.init, "proc/1/comm");
    if (root.is_live()) {
        snapshot.container = detect_container(root, snapshot.init);
        snapshot.virtualization = detect_virtualization(root);
        const Result<std::string> status = root.read("proc/self/status");
        if (status) {
            snapshot.missing_capabilities = missing_capabilities(*status);
        }
    } else {
        snapshot.container = recorded(manifest.container, "container");
        snapshot.virtualization = recorded(manifest.virtualization, "virtualization");
    }
}

// /etc/fstab, and every file that the commands of fstrim.service may read instead. The kernel's own
// table is `mounts`.
void read_tables(const HostRoot& root, core::HostSnapshot& snapshot) {
    std::set<std::string> paths = {"/etc/fstab"};
    if (snapshot.units) {
        const auto service = snapshot.units->find("fstrim.service");
        if (service != snapshot.units->end()) {
            for (const std::vector<std::string>& argv : service->second.exec_start) {
                for (const std::string& path : core::parse_fstrim_command(argv).listed_in) {
                    if (path.starts_with('/') && !path.starts_with("/proc/")) {
                        paths.insert(path);
                    }
                }
            }
        }
    }
    for (const std::string& path : paths) {
        snapshot.tables[path] = read_fstab(root, path);
    }
}

void read_stamps(const HostRoot& root, core::HostSnapshot& snapshot) {
    std::set<std::string> timers = {"fstrim.timer"};
    for (const std::string& unit : names_of_trim_units(snapshot.units)) {
        if (unit.ends_with(".timer")) {
            timers.insert(unit);
        }
    }
    for (const std::string& timer : timers) {
        const Result<std::int64_t> mtime =
            root.mtime_seconds(fmt::format("{}/{}{}", kStampFolder, kStampPrefix, timer));
        snapshot.stamps[timer] = mtime ? Reading<core::WallTime>(wall_time_of_seconds(*mtime))
                                       : Reading<core::WallTime>(mtime.error());
    }
}

void read_devices(const HostRoot& root, nvme::NvmeAdmin& admin, const CollectOptions& options,
                  core::HostSnapshot& snapshot) {
    Result<BlockLayer> layer = read_block_layer(root);
    snapshot.controllers =
        read_controllers(root, admin, options.nvme_commands, layer ? &layer->devices : nullptr);
    snapshot.block_devices =
        layer ? Reading<std::map<std::string, core::BlockDevice>>(std::move(layer->devices))
              : Reading<std::map<std::string, core::BlockDevice>>(layer.error());
    for (const auto& [module, parameter] : kModuleParameters) {
        const Result<std::optional<std::string>> value =
            root.read_if_there(fmt::format("sys/module/{}/parameters/{}", module, parameter));
        if (value && *value) {
            const std::vector<std::string_view> words = split_fields(**value, " \t\r\n");
            snapshot.module_parameters[fmt::format("{}/{}", module, parameter)] =
                words.empty() ? "" : std::string(words.front());
        }
    }
    const Result<std::optional<std::string>> io_uring =
        root.read_if_there("proc/sys/kernel/io_uring_disabled");
    if (io_uring && *io_uring) {
        const std::vector<std::string_view> words = split_fields(**io_uring, " \t\r\n");
        snapshot.io_uring_disabled = words.empty() ? "" : std::string(words.front());
    }
}

} // namespace

Result<core::HostSnapshot> collect_host(const HostRoot& root, nvme::NvmeAdmin& admin,
                                        const CollectOptions& options) {
    TRY(manifest, read_manifest(root));
    core::HostSnapshot snapshot;
    read_environment(root, manifest, snapshot);
    snapshot.mounts = read_mounts(root);
    snapshot.units = read_units(root, snapshot.init);
    read_tables(root, snapshot);
    snapshot.crypttab = read_crypttab(root);
    read_stamps(root, snapshot);
    snapshot.journal = read_journal(root, names_of_trim_units(snapshot.units), snapshot.now.wall);
    snapshot.boots = read_boots(root);
    read_devices(root, admin, options, snapshot);
    snapshot.probes = read_probes(root, snapshot.mounts);
    snapshot.module = read_kernel_module(root, snapshot.kernel);
    snapshot.latency = read_recorded_latency(root);
    return snapshot;
}

} // namespace nvmaint::collect
