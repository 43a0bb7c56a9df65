// Literal hosts for the tests of the diagnosis: a plain host, and helpers that change one thing.
#pragma once

#include "core/diagnose.hpp"
#include "core/snapshot.hpp"

#include <string>
#include <utility>
#include <vector>

namespace nvmaint::core::host {

inline WallTime at(const std::string& rfc3339) {
    const auto time = parse_rfc3339(rfc3339);
    return time ? *time : WallTime{};
}

inline BlockDevice disk(const std::string& name, DeviceNumber number) {
    BlockDevice device;
    device.name = name;
    device.number = number;
    device.size_bytes = std::uint64_t{1} << 40;
    device.read_only = std::uint64_t{0};
    device.sysfs_path = "sys/devices/pci0000:00/0000:00:1d.0/nvme/" + name;
    device.queue.discard_granularity = std::uint64_t{512};
    device.queue.discard_max_bytes = std::uint64_t{2199023255040};
    device.queue.discard_max_hw_bytes = std::uint64_t{2199023255040};
    device.queue.zoned = std::string("none");
    return device;
}

inline BlockDevice partition(const BlockDevice& disk, const std::string& name,
                             DeviceNumber number) {
    BlockDevice device = disk;
    device.name = name;
    device.number = number;
    device.partition_of = disk.name;
    return device;
}

inline void no_discard(BlockDevice& device) {
    device.queue.discard_granularity = std::uint64_t{0};
    device.queue.discard_max_bytes = std::uint64_t{0};
    device.queue.discard_max_hw_bytes = std::uint64_t{0};
}

inline BlockDevice mapped(const std::string& name, DeviceNumber number, const std::string& label,
                          const std::string& uuid, const std::string& table,
                          std::vector<std::string> slaves) {
    BlockDevice device = disk(name, number);
    device.sysfs_path = "sys/devices/virtual/block/" + name;
    device.slaves = std::move(slaves);
    device.dm = DeviceMapper{label, uuid, std::vector<std::string>{table}};
    return device;
}

inline void add(HostSnapshot& host, BlockDevice device) {
    const std::string name = device.name;
    (*host.block_devices)[name] = std::move(device);
}

inline Mount mount(const std::string& point, const std::string& type, DeviceNumber number,
                   const std::string& source, std::vector<std::string> super_options = {"rw"}) {
    return {.id = 0,
            .parent = 1,
            .device = number,
            .root = "/",
            .mount_point = point,
            .options = {"rw", "relatime"},
            .type = type,
            .source = source,
            .super_options = std::move(super_options)};
}

inline void add(HostSnapshot& host, Mount mount) {
    mount.id = 20 + static_cast<int>(host.mounts->size());
    host.mounts->push_back(std::move(mount));
}

inline void list(HostSnapshot& host, const std::string& source, const std::string& file,
                 const std::string& type, std::vector<std::string> options = {"defaults"}) {
    auto& table = *host.tables["/etc/fstab"];
    table.push_back({static_cast<int>(table.size()) + 1, source, file, type, std::move(options)});
}

inline Unit& timer(HostSnapshot& host) {
    return (*host.units)["fstrim.timer"];
}
inline Unit& service(HostSnapshot& host) {
    return (*host.units)["fstrim.service"];
}

inline const std::vector<std::string> kStockCommand{"/sbin/fstrim", "--listed-in",
                                                    "/etc/fstab:/proc/self/mountinfo", "--verbose",
                                                    "--quiet-unsupported"};

inline Unit weekly_timer(const std::string& name) {
    Unit unit;
    unit.name = name + ".timer";
    unit.load_state = "loaded";
    unit.active_state = "active";
    unit.unit_file_state = "enabled";
    unit.on_calendar = {"Mon *-*-* 00:00:00"};
    unit.accuracy = std::chrono::hours{1};
    unit.randomized_delay = std::chrono::minutes{100};
    unit.persistent = true;
    unit.triggers_unit = name + ".service";
    unit.condition_result = true;
    return unit;
}

// Monday 2026-11-30 20:47:33 UTC. "/" (ext4) and "/boot/efi" (vfat) on nvme0n1, both in fstab; the
// stock timer enabled, last fired this morning. Nothing is wrong.
inline HostSnapshot plain() {
    HostSnapshot host;
    host.now.wall = at("2026-11-30T20:47:33Z");
    host.uptime = std::chrono::hours{24 * 30};
    host.utc_offset = seconds{0};
    host.boot_id = std::string("b1");
    host.container = std::string();
    host.init = std::string("systemd");
    host.block_devices = std::map<std::string, BlockDevice>{};
    host.mounts = std::vector<Mount>{};
    host.tables["/etc/fstab"] = std::vector<FstabEntry>{};
    host.units = std::map<std::string, Unit>{};
    const auto nvme = disk("nvme0n1", {259, 0});
    add(host, nvme);
    add(host, partition(nvme, "nvme0n1p1", {259, 1}));
    add(host, partition(nvme, "nvme0n1p2", {259, 2}));
    add(host, mount("/", "ext4", {259, 2}, "/dev/nvme0n1p2"));
    add(host, mount("/proc", "proc", {0, 22}, "proc"));
    add(host, mount("/boot/efi", "vfat", {259, 1}, "/dev/nvme0n1p1"));
    list(host, "UUID=aaaa", "/", "ext4");
    list(host, "UUID=bbbb", "/boot/efi", "vfat");
    (*host.units)["fstrim.timer"] = weekly_timer("fstrim");
    timer(host).last_trigger = at("2026-11-30T01:12:00Z");
    Unit unit;
    unit.name = "fstrim.service";
    unit.load_state = "loaded";
    unit.active_state = "inactive";
    unit.unit_file_state = "static";
    unit.result = "success";
    unit.exec_start = {kStockCommand};
    (*host.units)["fstrim.service"] = unit;
    return host;
}

// A database volume that a mount unit mounts: not in fstab.
inline void add_database(HostSnapshot& host, const std::string& type = "xfs") {
    add(host, disk("nvme1n1", {259, 8}));
    add(host, mount("/var/lib/db", type, {259, 8}, "/dev/nvme1n1"));
}

inline void log(HostSnapshot& host, const std::string& time, const std::string& identifier,
                const std::string& message, const std::string& unit = "fstrim.service") {
    if (!host.journal) {
        host.journal = std::vector<JournalEntry>{};
    }
    host.journal->push_back({.time = at(time),
                             .boot_id = "b1",
                             .unit = unit,
                             .identifier = identifier,
                             .message_id = {},
                             .message = message});
}

// "warning trim.not-covered not-in-fstab filesystem /var/lib/db -", as the replay tests write it.
inline std::string line_of(const Finding& finding) {
    const auto dash = [](const std::string& text) { return text.empty() ? "-" : text; };
    return std::string(to_string(finding.severity)) + " " + finding.id + " " +
           dash(finding.reason) + " " + std::string(to_string(finding.subject.kind)) + " " +
           dash(finding.subject.name) + " " + dash(finding.layer);
}

inline std::vector<std::string> lines_of(std::vector<Finding> findings) {
    sort_findings(findings);
    std::vector<std::string> lines;
    for (const auto& finding : findings) {
        lines.push_back(line_of(finding));
    }
    return lines;
}

} // namespace nvmaint::core::host
