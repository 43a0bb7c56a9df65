#include "collect/block.hpp"

#include "admin/kernel_names.hpp"
#include "collect/collect.hpp"
#include "collect/device_mapper.hpp"
#include "collect/diskstats.hpp"
#include "collect/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <set>

namespace nvmaint::collect {
namespace {

constexpr std::uint64_t kSectorBytes = 512; // of every size and count in sysfs, whatever the disk

using Folders = std::map<std::string, std::vector<std::string>>;

std::string base_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

std::string parent_name(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : base_name(path.substr(0, slash));
}

bool is_absent(const Error& error) {
    return error.kind == ErrorKind::NotRecorded ||
           (error.kind == ErrorKind::System && error.sys_errno == ENOENT);
}

bool is_numbered(std::string_view name, std::string_view word) {
    return name.starts_with(word) && parse_decimal<unsigned>(name.substr(word.size()));
}

Result<std::uint64_t> as_number(const Result<std::string>& text, const std::string& what) {
    if (!text) {
        return text.error();
    }
    const auto value = parse_decimal<std::uint64_t>(*text);
    if (!value) {
        return Error::make(ErrorKind::Malformed, what + ": not a number");
    }
    return *value;
}

class Reader {
  public:
    explicit Reader(const HostRoot& root) : root_(root) {}

    Result<BlockLayer> read() {
        const Result<Done> found = find_devices();
        if (!found) {
            return found.error();
        }
        BlockLayer layer;
        for (const auto& [name, folders] : folders_) {
            if (!nvme::is_hidden_path_name(name)) {
                layer.devices.emplace(name, read_device(name, folders));
            }
        }
        for (auto& [name, device] : layer.devices) {
            const std::string disk = device.partition_of.empty() ? name : device.partition_of;
            const auto folders = folders_.find(disk);
            if (folders != folders_.end()) {
                device.queue = read_queue(folders->second);
            }
        }
        read_counters(layer.devices);
        read_dm_tables(layer.devices);
        read_links_without_udev(layer.devices);
        layer.folders = std::move(folders_);
        return layer;
    }

  private:
    Result<Done> find_devices() {
        const Result<std::vector<std::string>> disks = root_.list("sys/block");
        const Result<std::vector<std::string>> all = root_.list("sys/class/block");
        if (!disks && !all) {
            return is_absent(disks.error()) ? all.error() : disks.error();
        }
        for (const std::string& name : disks.value_or(std::vector<std::string>{})) {
            folders_[name].push_back("sys/block/" + name);
        }
        for (const std::string& name : all.value_or(std::vector<std::string>{})) {
            folders_[name].push_back("sys/class/block/" + name);
        }
        if (!root_.is_live() || !all) {
            find_nested_partitions(disks.value_or(std::vector<std::string>{}));
        }
        return Done{};
    }

    void find_nested_partitions(const std::vector<std::string>& disks) {
        for (const std::string& disk : disks) {
            const std::string folder = "sys/block/" + disk;
            const Result<std::vector<std::string>> children = root_.list(folder);
            for (const std::string& child : children.value_or(std::vector<std::string>{})) {
                if (child.starts_with(disk) && child != disk &&
                    (has(folder + "/" + child + "/partition") ||
                     has(folder + "/" + child + "/dev"))) {
                    folders_[child].insert(folders_[child].begin(), folder + "/" + child);
                    nested_in_[child] = disk;
                }
            }
        }
    }

    [[nodiscard]] bool has(const std::string& path) const {
        const Result<std::optional<std::string>> content = root_.read_if_there(path);
        return content && *content;
    }

    [[nodiscard]] Result<std::string> attribute(const std::vector<std::string>& folders,
                                                const std::string& name) const {
        return read_attribute(root_, folders, name);
    }

    [[nodiscard]] Result<std::uint64_t> number(const std::vector<std::string>& folders,
                                               const std::string& name) const {
        return as_number(attribute(folders, name), folders.front() + "/" + name);
    }

    // Nothing where no folder has it; an error only where it is there and cannot be read.
    [[nodiscard]] Result<std::optional<std::string>>
    optional_attribute(const std::vector<std::string>& folders, const std::string& name) const {
        for (const std::string& folder : folders) {
            TRY(content, root_.read_if_there(folder + "/" + name));
            if (content) {
                content->resize(std::min(content->find('\0'), content->size()));
                content->resize(content->find_last_not_of(" \t\r\n") + 1);
                return content;
            }
        }
        return std::optional<std::string>();
    }

    core::BlockDevice read_device(const std::string& name,
                                  const std::vector<std::string>& folders) {
        core::BlockDevice device;
        device.name = name;
        device.sysfs_path = root_.resolve(folders.front()).value_or("");
        device.number = read_device_number(folders);
        device.partition_of = find_disk_of_partition(name, folders, device.sysfs_path);
        device.size_bytes = read_size(folders);
        device.read_only = number(folders, "ro");
        if (device.partition_of.empty()) {
            device.diskseq = number(folders, "diskseq");
            device.slaves = read_slaves(folders);
            device.dm = read_dm(name, folders);
            device.md = read_md(name, folders);
            if (is_numbered(name, "loop")) {
                device.loop_backing_file = attribute(folders, "loop/backing_file");
            }
            if (name.starts_with("sd")) {
                device.scsi_provisioning_mode = read_provisioning_mode(folders);
            }
            if (nvme::is_namespace_name(name)) {
                device.nsid = number(folders, "nsid");
            }
        }
        device.udev = read_udev(device.number);
        return device;
    }

    [[nodiscard]] core::DeviceNumber
    read_device_number(const std::vector<std::string>& folders) const {
        const std::string text = attribute(folders, "dev").value_or("");
        const std::vector<std::string_view> parts = split_exactly(text, ':');
        if (parts.size() == 2) {
            const auto major = parse_decimal<unsigned>(parts[0]);
            const auto minor = parse_decimal<unsigned>(parts[1]);
            if (major && minor) {
                return {*major, *minor};
            }
        }
        return {};
    }

    // sysfs puts a partition's folder into its disk's. Where a recording has it elsewhere, the
    // kernel's rule for its name tells: the disk's name, "p" after a digit, the number (Linux
    // block/partitions/core.c, add_partition()).
    [[nodiscard]] std::string find_disk_of_partition(const std::string& name,
                                                     const std::vector<std::string>& folders,
                                                     const std::string& resolved) const {
        const auto nested = nested_in_.find(name);
        if (nested != nested_in_.end()) {
            return nested->second;
        }
        const Result<std::optional<std::string>> partition =
            optional_attribute(folders, "partition");
        if (partition && !*partition) {
            return {};
        }
        const std::string above = parent_name(resolved);
        if (folders_.contains(above)) {
            return above;
        }
        if (!partition) {
            return {};
        }
        const std::string number = **partition;
        for (const std::string& suffix : {"p" + number, number}) {
            if (name.ends_with(suffix) && name.size() > suffix.size()) {
                const std::string disk = name.substr(0, name.size() - suffix.size());
                if (folders_.contains(disk)) {
                    return disk;
                }
            }
        }
        return {};
    }

    [[nodiscard]] Reading<std::uint64_t> read_size(const std::vector<std::string>& folders) const {
        TRY(sectors, number(folders, "size"));
        if (sectors > std::numeric_limits<std::uint64_t>::max() / kSectorBytes) {
            return Error::make(ErrorKind::Malformed, folders.front() + "/size: too large");
        }
        return sectors * kSectorBytes;
    }

    [[nodiscard]] std::vector<std::string>
    read_slaves(const std::vector<std::string>& folders) const {
        for (const std::string& folder : folders) {
            const Result<std::vector<std::string>> slaves = root_.list(folder + "/slaves");
            if (slaves) {
                return *slaves;
            }
            if (!is_absent(slaves.error())) {
                return {"?"};
            }
        }
        return {};
    }

    [[nodiscard]] std::optional<core::DeviceMapper>
    read_dm(const std::string& name, const std::vector<std::string>& folders) const {
        const Result<std::optional<std::string>> dm_name = optional_attribute(folders, "dm/name");
        if (!is_numbered(name, "dm-") && !(dm_name && *dm_name)) {
            return std::nullopt;
        }
        core::DeviceMapper dm;
        dm.name = dm_name ? dm_name->value_or("") : "";
        dm.uuid = optional_attribute(folders, "dm/uuid").value_or(std::nullopt).value_or("");
        return dm;
    }

    [[nodiscard]] std::optional<core::MdArray>
    read_md(const std::string& name, const std::vector<std::string>& folders) const {
        const Result<std::optional<std::string>> level = optional_attribute(folders, "md/level");
        if (!is_numbered(name, "md") && !(level && *level)) {
            return std::nullopt;
        }
        return core::MdArray{level ? level->value_or("") : "",
                             attribute(folders, "md/sync_action")};
    }

    [[nodiscard]] Reading<std::string>
    read_provisioning_mode(const std::vector<std::string>& folders) const {
        for (const std::string& folder : folders) {
            const std::string below = folder + "/device/scsi_disk";
            const Result<std::vector<std::string>> disks = root_.list(below);
            if (disks && !disks->empty()) {
                return root_.read_line(below + "/" + disks->front() + "/provisioning_mode");
            }
        }
        // A recording may hold only the class: sys/class/scsi_disk/0:0:0:0/device leads to the same
        // SCSI device as sys/block/sda/device.
        const Result<std::string> device = root_.resolve(folders.front() + "/device");
        if (!device) {
            return device.error();
        }
        TRY(disks, root_.list("sys/class/scsi_disk"));
        for (const std::string& disk : disks) {
            const std::string entry = "sys/class/scsi_disk/" + disk;
            if (base_name(*device) == disk || root_.resolve(entry + "/device") == device) {
                return root_.read_line(entry + "/provisioning_mode");
            }
        }
        return Error::make(ErrorKind::NotRecorded, folders.front() + "/device/scsi_disk");
    }

    [[nodiscard]] std::map<std::string, std::string>
    read_udev(const core::DeviceNumber& number) const {
        const Result<std::optional<std::string>> data =
            root_.read_if_there(fmt::format("run/udev/data/b{}:{}", number.major, number.minor));
        return data && *data ? parse_udev_data(**data) : std::map<std::string, std::string>{};
    }

    [[nodiscard]] core::QueueAttributes read_queue(const std::vector<std::string>& folders) const {
        core::QueueAttributes queue;
        queue.discard_granularity = number(folders, "queue/discard_granularity");
        queue.discard_max_bytes = number(folders, "queue/discard_max_bytes");
        queue.discard_max_hw_bytes = number(folders, "queue/discard_max_hw_bytes");
        queue.write_cache = attribute(folders, "queue/write_cache");
        queue.fua = number(folders, "queue/fua");
        queue.zoned = attribute(folders, "queue/zoned");
        queue.rotational = number(folders, "queue/rotational");
        queue.io_timeout = number(folders, "queue/io_timeout");
        queue.logical_block_size = number(folders, "queue/logical_block_size");
        return queue;
    }

    void read_counters(std::map<std::string, core::BlockDevice>& devices) const {
        std::optional<Result<std::map<std::string, core::DiskCounters>>> all; // where `stat` is not
        for (auto& [name, device] : devices) {
            const std::vector<std::string>& folders = folders_.at(name);
            const Result<std::string> stat = attribute(folders, "stat");
            if (stat) {
                device.counters = parse_counters(*stat, folders.front() + "/stat");
                continue;
            }
            device.counters = stat.error();
            if (stat.error().kind == ErrorKind::NotRecorded) {
                if (!all) {
                    all = read_diskstats(root_);
                }
                if (*all && (*all)->contains(name)) {
                    device.counters = (*all)->at(name);
                }
            }
        }
        std::set<std::string> begun;
        for (const auto& [name, folders] : folders_) {
            const auto head = devices.find(head_of_path(name));
            if (head == devices.end() || !head->second.counters) {
                continue;
            }
            const Result<std::string> stat = attribute(folders, "stat");
            const Reading<core::DiskCounters> path =
                stat ? parse_counters(*stat, name) : Reading<core::DiskCounters>(stat.error());
            if (path) {
                add_path_flushes(*head->second.counters, *path, begun.insert(head->first).second);
            }
        }
    }

    [[nodiscard]] static Reading<core::DiskCounters> parse_counters(const std::string& text,
                                                                    const std::string& path) {
        const Result<core::DiskCounters> counters = parse_stat(text);
        return counters ? *counters : Reading<core::DiskCounters>(counters.error().in(path));
    }

    void read_dm_tables(std::map<std::string, core::BlockDevice>& devices) const {
        std::vector<std::string> names;
        for (const auto& [name, device] : devices) {
            if (device.dm && !device.dm->name.empty()) {
                names.push_back(device.dm->name);
            }
        }
        if (names.empty()) {
            return;
        }
        const Result<std::string> text =
            root_.read_source("dm/table", [&] { return read_dm_tables_live(names); });
        const auto tables =
            text ? parse_dm_tables(*text) : std::map<std::string, std::vector<std::string>>{};
        for (auto& [name, device] : devices) {
            if (!device.dm) {
                continue;
            }
            const auto table = tables.find(device.dm->name);
            if (table != tables.end()) {
                device.dm->table = table->second;
            } else {
                device.dm->table =
                    text ? Error::make(ErrorKind::NotRecorded, "dm/table: no table of " + name)
                         : text.error();
            }
        }
    }

    // The links that udev made, where its database is not there: dev/disk/by-uuid/X -> ../../sda1.
    void read_links_without_udev(std::map<std::string, core::BlockDevice>& devices) const {
        for (const auto& [name, device] : devices) {
            if (!device.udev.empty()) {
                return;
            }
        }
        static const std::map<std::string, std::string> kProperties = {
            {"by-uuid", "ID_FS_UUID"},
            {"by-label", "ID_FS_LABEL_ENC"},
            {"by-partuuid", "ID_PART_ENTRY_UUID"},
            {"by-partlabel", "ID_PART_ENTRY_NAME"},
            {"by-id", ""},
        };
        for (const auto& [folder, property] : kProperties) {
            const std::string path = "dev/disk/" + folder;
            const Result<std::vector<std::string>> links = root_.list(path);
            for (const std::string& link : links.value_or(std::vector<std::string>{})) {
                const Result<std::string> target = root_.read_link(path + "/" + link);
                const auto device = target ? devices.find(base_name(*target)) : devices.end();
                if (device == devices.end()) {
                    continue;
                }
                std::map<std::string, std::string>& udev = device->second.udev;
                if (!property.empty()) {
                    udev[property] = link;
                }
                std::string& all = udev["DEVLINKS"];
                all += (all.empty() ? "/" : " /") + path + "/" + link;
            }
        }
    }

    const HostRoot& root_;
    Folders folders_;
    std::map<std::string, std::string> nested_in_; // partition -> disk, by where its folder is
};

} // namespace

Result<std::string> read_attribute(const HostRoot& root, const std::vector<std::string>& folders,
                                   const std::string& name) {
    Error first;
    for (const std::string& folder : folders) {
        Result<std::string> text = root.read_line(folder + "/" + name);
        if (text) {
            return text;
        }
        if (text.error().kind != ErrorKind::NotRecorded) {
            return text.error();
        }
        if (first.context.empty()) {
            first = text.error();
        }
    }
    return first.context.empty() ? Error::make(ErrorKind::NotRecorded, name) : first;
}

std::map<std::string, std::string> parse_udev_data(std::string_view text) {
    std::map<std::string, std::string> properties;
    std::string links;
    for (const std::string_view line : split_lines(text)) {
        if (line.starts_with("E:")) {
            const std::size_t equals = line.find('=');
            if (equals != std::string_view::npos) {
                properties[std::string(line.substr(2, equals - 2))] =
                    std::string(line.substr(equals + 1));
            }
        } else if (line.starts_with("S:")) {
            links += (links.empty() ? "/dev/" : " /dev/") + std::string(line.substr(2));
        }
    }
    if (!links.empty()) {
        properties.try_emplace("DEVLINKS", links);
    }
    return properties;
}

Result<BlockLayer> read_block_layer(const HostRoot& root) {
    return Reader(root).read();
}

} // namespace nvmaint::collect
