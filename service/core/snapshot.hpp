// The host as a value. Everything the product concludes, it concludes from this, the history, the
// policy and a time, so that a recording of any host can be judged anywhere. Each field is present,
// or says why it is not.
#pragma once

#include "core/latency.hpp"
#include "core/time.hpp"
#include "values/identify.hpp"
#include "values/result.hpp"
#include "values/smart_log.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nvmaint::core {

struct DeviceNumber {
    unsigned major = 0;
    unsigned minor = 0;
    auto operator<=>(const DeviceNumber&) const = default;
};

// One line of /proc/1/mountinfo, octal escapes resolved (proc(5)).
struct Mount {
    int id = 0;
    int parent = 0;
    DeviceNumber device; // st_dev of the superblock; anonymous (major 0) for btrfs, overlay, tmpfs
    std::string root;    // root of the mount within the filesystem: "/" or a subtree
    std::string mount_point;
    std::vector<std::string> options;       // per mount: rw, noatime, ...
    std::string type;                       // "ext4"
    std::string source;                     // as mounted: "/dev/nvme0n1p2", "none"
    std::vector<std::string> super_options; // per superblock: rw, discard, ...
    bool operator==(const Mount&) const = default;
};

// One line of an fstab(5)-like file.
struct FstabEntry {
    int line = 0;       // 1-based
    std::string source; // as written: "UUID=...", "/dev/..."
    std::string file;   // mount point, "none" or "swap" for swap
    std::string type;
    std::vector<std::string> options;
    bool operator==(const FstabEntry&) const = default;
};

struct CrypttabEntry {
    int line = 0;
    std::string name; // of the mapping
    std::string device;
    std::vector<std::string> options;
    bool operator==(const CrypttabEntry&) const = default;
};

// Counters of one block device as /proc/diskstats and /sys/block/*/stat give them
// (Documentation/admin-guide/iostats.rst): sectors are 512 bytes, times whole milliseconds, all
// since boot.
struct DiskCounters {
    std::uint64_t reads = 0, reads_merged = 0, read_sectors = 0, read_ms = 0;
    std::uint64_t writes = 0, writes_merged = 0, write_sectors = 0, write_ms = 0;
    std::uint64_t in_flight = 0, io_ms = 0, weighted_ms = 0;
    struct Discards {
        std::uint64_t count = 0, merged = 0, sectors = 0, ms = 0;
        bool operator==(const Discards&) const = default;
    };
    struct Flushes {
        std::uint64_t count = 0, ms = 0;
        bool operator==(const Flushes&) const = default;
    };
    std::optional<Discards> discards; // since Linux 4.18
    std::optional<Flushes> flushes; // since Linux 5.5; whole disks only, 0 on partitions, dm and md
    bool operator==(const DiskCounters&) const = default;
};

struct QueueAttributes {
    Reading<std::uint64_t> discard_granularity; // bytes; 0 = no discard
    Reading<std::uint64_t> discard_max_bytes;   // bytes; 0 = no discard; writable
    Reading<std::uint64_t> discard_max_hw_bytes;
    Reading<std::string> write_cache; // "write back", "write through"
    Reading<std::uint64_t> fua;
    Reading<std::string> zoned; // "none", "host-managed", ...
    Reading<std::uint64_t> rotational;
    Reading<std::uint64_t> io_timeout; // milliseconds
    Reading<std::uint64_t> logical_block_size;
    bool operator==(const QueueAttributes&) const = default;
};

struct DeviceMapper {
    std::string name; // "vg0-root"
    std::string uuid; // "CRYPT-LUKS2-...", "LVM-..."
    Reading<std::vector<std::string>>
        table; // "0 2048 crypt aes-xts-plain64 000 0 259:3 0 1 allow_discards"
    bool operator==(const DeviceMapper&) const = default;
};

struct MdArray {
    std::string level;                // "raid1"
    Reading<std::string> sync_action; // "idle", "resync", ...
    bool operator==(const MdArray&) const = default;
};

struct BlockDevice {
    std::string name; // kernel name
    DeviceNumber number;
    std::string partition_of;        // parent disk for a partition; empty otherwise
    std::vector<std::string> slaves; // devices right below (dm, md); kernel names, sorted
    Reading<std::uint64_t> size_bytes;
    Reading<std::uint64_t> read_only; // 0 or 1
    Reading<std::uint64_t> diskseq;
    std::string
        sysfs_path; // resolved, below sys/devices; tells the transport ("usb", "nvme", "virtio")
    QueueAttributes queue; // of the whole disk for a partition
    Reading<DiskCounters> counters;
    std::optional<DeviceMapper> dm;
    std::optional<MdArray> md;
    Reading<std::string> loop_backing_file;
    Reading<std::string> scsi_provisioning_mode; // "full", "unmap", ... for SCSI disks
    std::string nvme_controller; // for an NVMe namespace: a controller of it ("nvme0"), by sysfs
                                 // links; else empty
    Reading<std::uint64_t> nsid;
    std::map<std::string, std::string> udev; // properties: ID_FS_UUID, DEVLINKS, ...
    bool operator==(const BlockDevice&) const = default;
};

// A systemd unit as its D-Bus properties describe it. A property that was not read is absent from
// the record.
struct Condition {
    std::string name;     // "ConditionPathExists"
    bool trigger = false; // a triggering ("|") condition
    bool negate = false;
    std::string parameter; // "/etc/fstab"
    int state = 0;         // < 0 failed, 0 untested, > 0 held
    bool operator==(const Condition&) const = default;
};
struct Unit {
    std::string name;
    std::string load_state;      // "loaded", "not-found", "masked"
    std::string active_state;    // "active", "inactive", "failed"
    std::string unit_file_state; // "enabled", "disabled", "static", "masked", ""
    std::optional<bool> condition_result;
    std::vector<Condition> conditions;
    std::vector<std::string> drop_in_paths;
    std::string fragment_path;
    std::optional<WallTime> active_enter; // ActiveEnterTimestamp
    std::optional<WallTime> inactive_exit;
    // timers
    std::vector<std::string> on_calendar; // "weekly", normalised by systemd: "Mon *-*-* 00:00:00"
    std::optional<WallTime> last_trigger; // LastTriggerUSec; a hint only, see the diagnosis
    std::optional<WallTime> next_elapse;  // NextElapseUSecRealtime; absent = none planned
    std::optional<microseconds> accuracy;
    std::optional<microseconds> randomized_delay;
    std::optional<bool> persistent;
    std::string triggers_unit; // Unit= of a timer
    // services
    std::string result;                // "success", "exit-code", ...
    std::optional<int> exec_main_code; // CLD_EXITED = 1, ...; 0 = did not run
    std::optional<int> exec_main_status;
    std::optional<WallTime> exec_main_start;
    std::optional<WallTime> exec_main_exit;
    std::vector<std::vector<std::string>> exec_start; // argv of each ExecStart=
    std::map<std::string, std::string>
        sandbox; // ProtectSystem, ProtectHome, PrivateDevices, ... as text
    bool operator==(const Unit&) const = default;
};

struct JournalEntry {
    WallTime time{};
    std::string boot_id;
    std::string unit;       // _SYSTEMD_UNIT, or UNIT for PID 1's own messages about it
    std::string identifier; // SYSLOG_IDENTIFIER
    std::string message_id;
    std::string message;
    bool operator==(const JournalEntry&) const = default;
};

struct Boot {
    std::string boot_id;
    WallTime first{};
    WallTime last{};
    bool operator==(const Boot&) const = default;
};

// What only the live host can give about a mount; in a recording: probe.toml.
struct FilesystemProbe {
    std::optional<std::uint64_t> size_bytes;
    std::optional<std::uint64_t> free_bytes;
    std::optional<int> fitrim_errno;           // of a FITRIM that somebody tried; 0 = it succeeded
    std::optional<std::uint64_t> fitrim_bytes; // what it reported: an upper bound, never a proof
    bool operator==(const FilesystemProbe&) const = default;
};

struct NvmeController {
    std::string name;           // "nvme0"
    Reading<std::string> state; // "live", ...
    Reading<std::string> transport;
    Reading<std::string> model; // as sysfs gives it, cleaned
    Reading<std::string> serial;
    Reading<std::string> firmware;
    Reading<std::string> subsystem_nqn;
    Reading<std::uint64_t> cntlid;
    Reading<std::string> address;
    std::vector<std::string>
        namespaces; // kernel names of the disks it serves (heads under multipath)
    Reading<nvme::IdentifyController> identify;
    Reading<nvme::SmartLog> smart;
    std::map<std::string, Reading<nvme::IdentifyNamespace>> identify_namespaces; // by disk name
    std::optional<seconds> commands_pending; // a worker has been waiting that long for an answer
    bool operator==(const NvmeController&) const = default;
};

// What files tell of nvmaint.ko.
struct KernelModule {
    bool loaded = false;
    Reading<std::string> file; // for the running kernel, below the root; empty: there is none
    Reading<bool> source;      // its source is installed, or it was built for another kernel
    std::string lockdown;      // "none", "integrity", "confidentiality"; empty: the kernel has none
    bool signatures_enforced = false;
    bool operator==(const KernelModule&) const = default;
};

struct HostSnapshot {
    Now now;
    Reading<seconds> uptime;
    Reading<seconds> utc_offset; // of the host's local time at `now`
    Reading<std::string> boot_id;
    Reading<std::string> kernel;
    Reading<std::string> kernel_command_line; // /proc/cmdline
    Reading<std::string> container;           // "" = not in a container; else "lxc", "docker", ...
    Reading<std::string> virtualization;      // "none", "kvm", ...
    Reading<std::string> init;                // comm of PID 1: "systemd", ...

    Reading<std::vector<Mount>> mounts; // of PID 1, in order
    // fstab-like files by absolute path; at least /etc/fstab. Known absent and empty are told
    // apart.
    std::map<std::string, Reading<std::vector<FstabEntry>>> tables;
    Reading<std::vector<CrypttabEntry>> crypttab;
    Reading<std::map<std::string, BlockDevice>>
        block_devices; // by kernel name, partitions included
    std::map<std::string, std::string>
        module_parameters; // "raid0/devices_discard_performance" -> "N"; absent: no such file
    Reading<std::map<std::string, Unit>>
        units; // by name; a unit that systemd does not know has load_state not-found
    std::map<std::string, Reading<WallTime>> stamps; // timer name -> mtime of its stamp file
    Reading<std::vector<JournalEntry>> journal;      // oldest first
    Reading<std::vector<Boot>> boots;                // oldest first
    Reading<std::map<std::string, NvmeController>> controllers;
    std::map<std::string, Reading<FilesystemProbe>> probes; // by mount point
    std::optional<std::string>
        io_uring_disabled; // kernel.io_uring_disabled, where the kernel has it
    Reading<KernelModule> module;
    // What the module counted, by disk; the reason where it was asked and did not tell. A disk that
    // nobody asked for has no entry.
    std::map<std::string, Reading<DiskLatency>> latency;
    // What this process itself may do, live only: names of capabilities it misses.
    std::vector<std::string> missing_capabilities;

    bool operator==(const HostSnapshot&) const = default;
};

} // namespace nvmaint::core
