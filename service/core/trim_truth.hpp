// Does the space reach the drive? The parts of the diagnosis that answer it.
#pragma once

#include "core/diagnose.hpp"

#include <optional>
#include <string>
#include <vector>

namespace nvmaint::core {

// ---- what fstrim would do: util-linux sys-utils/fstrim.c ----

// -A/-a, --fstab, --listed-in LIST (first non-empty file wins), --types, --minimum,
// --quiet-unsupported, --dry-run, or mount points given by name.
struct FstrimCommand {
    bool understood = false;            // false: not an fstrim command line we can follow
    bool all = false;                   // -a / --all: the kernel's mount table
    std::vector<std::string> listed_in; // in order of preference; -A / --fstab = {"/etc/fstab"}
    std::vector<std::string> mounts;    // explicit mount points
    std::vector<std::string> types;     // --types as written, "no" prefixes kept
    bool quiet_unsupported = false;
    bool dry_run = false;
    bool verbose = false; // prints a line per trimmed filesystem
    bool operator==(const FstrimCommand&) const = default;
};
// `argv` as systemd gives it, the program first.
[[nodiscard]] FstrimCommand parse_fstrim_command(const std::vector<std::string>& argv);

// "/mnt/d: 933.4 MiB (978735104 bytes) trimmed on /dev/nvme0n1"
struct TrimmedLine {
    std::string mount;
    std::uint64_t bytes = 0;
    std::string device; // empty with old fstrim
    bool dry_run = false;
    bool operator==(const TrimmedLine&) const = default;
};
// Also translated lines: fstrim speaks the language of the system. Nothing for other messages.
[[nodiscard]] std::optional<TrimmedLine> parse_trimmed_line(const std::string& message);

// Why fstrim passes over an entry of its table, in the order in which it asks.
enum class FstrimSkip {
    None,           // it is trimmed
    Pseudo,         // pseudo, network, swap, autofs
    ListedReadOnly, // the table says "ro"
    OptedOut,       // X-fstrim.notrim
    OtherType,      // --types
    NotMounted,     // no mount there
    ReadOnly,       // mounted read-only
    ReadOnlyView,   // read-only for the unit only: its sandbox
    UnknownSource,  // the tag names no device, or the source is no path
    NoDiscard,      // discard_granularity is 0 or missing
    ReadOnlyDevice,
    Duplicate, // the same source stands earlier in the table
};

struct FstrimEntry {
    std::string mount;
    std::string source; // a device path where that is known
    int line = 0;       // of the table; 0 for the kernel's table and for a guessed root
    FstrimSkip skip = FstrimSkip::None;
    bool uncertain = false; // rests on evidence that is missing
    std::string detail;     // the setting, option or attribute that decides
    bool operator==(const FstrimEntry&) const = default;
};

struct FstrimSelection {
    std::string problem;                  // why the selection cannot be told; empty = it can
    std::string table;                    // the file that is obeyed; empty for explicit mounts
    bool kernel_table = false;            // that file is the kernel's mount table
    std::vector<std::string> passed_over; // "/etc/fstab (empty)"
    bool root_guessed = false;            // fstab has no "/", fstrim adds it
    std::vector<FstrimEntry> entries;
    bool operator==(const FstrimSelection&) const = default;
};
// What this command line would trim on this host now. `unit` is the service that runs it (its
// sandbox counts), or null.
[[nodiscard]] FstrimSelection select_fstrim(const FstrimCommand& command,
                                            const HostSnapshot& snapshot, const Unit* unit);

// The setting of a unit's sandbox that makes a mount point read-only or unreachable for it
// (systemd.exec(5)): "ProtectHome=yes". Nothing where there is none.
[[nodiscard]] std::optional<std::string> sandbox_hides(const Unit& unit, const std::string& mount);

// The device that a source names: a path of /dev, a link of udev, or a tag ("UUID=..."). Empty
// where there is none.
[[nodiscard]] std::string find_device(const std::map<std::string, BlockDevice>& devices,
                                      const std::string& source);

// Kinds of filesystem as libmount tells them apart (mnt_fstype_is_pseudofs(), _is_netfs()).
[[nodiscard]] bool is_pseudo_filesystem(const std::string& type);
[[nodiscard]] bool is_network_filesystem(const std::string& type);

// ---- what lies below a filesystem ----

struct StackWalk {
    std::vector<std::string> devices; // from the filesystem's own device down; each once
    std::vector<std::string> disks;   // leaves: whole disks
    std::string problem;              // why it could not be walked to the end; empty = complete
    bool operator==(const StackWalk&) const = default;
};
[[nodiscard]] StackWalk walk_stack(const std::map<std::string, BlockDevice>& devices,
                                   const std::string& top);

// What stops discards on the way from a device down to its disks.
struct StackBlame {
    bool blocked = false;
    bool rotating = false; // blocked by a disk that rotates, which has nothing to gain from trims
    bool unknown = false;  // neither blocked nor free as far as the evidence goes
    std::string layer;     // the lowest device that offers no discard although what is below does
    std::string reason;    // "dm-crypt", "device", ...
    std::string summary;
    std::vector<Evidence> evidence;
    std::vector<std::string> fix;
};
[[nodiscard]] StackBlame blame_stack(const HostSnapshot& snapshot, const std::string& top);

// The container this host is, where it is one: "lxc", or "container" where only a refused condition
// of a unit tells. Empty: none, or not known.
[[nodiscard]] std::string container_of(const HostSnapshot& snapshot);

// Filesystems of the host grouped by superblock, with stack and trim state, plus the findings of
// the trim family.
struct TrimTruth {
    std::vector<FilesystemView> filesystems;
    std::vector<Finding> findings;
};
[[nodiscard]] TrimTruth judge_trim(const HostSnapshot& snapshot, const Memory& memory,
                                   const Policy& policy);

} // namespace nvmaint::core
