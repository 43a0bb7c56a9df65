// Does the space reach the drive? The parts of the diagnosis that answer it.
#pragma once

#include "core/diagnose.hpp"

#include <optional>
#include <string>
#include <vector>

namespace nvmaint::core {

// ---- what fstrim would do
// ------------------------------------------------------------------------------------- util-linux
// sys-utils/fstrim.c: -A/-a, --fstab, --listed-in LIST (first non-empty file wins), --types,
// --minimum,
// --quiet-unsupported, --dry-run, or mount points given by name.
struct FstrimCommand {
    bool understood = false;            // false: not an fstrim command line we can follow
    bool all = false;                   // -a / --all: the kernel's mount table
    std::vector<std::string> listed_in; // in order of preference; -A / --fstab = {"/etc/fstab"}
    std::vector<std::string> mounts;    // explicit mount points
    std::vector<std::string> types;     // --types as written, "no" prefixes kept
    bool quiet_unsupported = false;
    bool dry_run = false;
    bool operator==(const FstrimCommand&) const = default;
};
[[nodiscard]] FstrimCommand parse_fstrim_command(const std::vector<std::string>& argv);

// "/mnt/d: 933.4 MiB (978735104 bytes) trimmed on /dev/nvme0n1"
struct TrimmedLine {
    std::string mount;
    std::uint64_t bytes = 0;
    std::string device; // empty with old fstrim
    bool dry_run = false;
    bool operator==(const TrimmedLine&) const = default;
};
[[nodiscard]] std::optional<TrimmedLine> parse_trimmed_line(const std::string& message);

// ---- what lies below a filesystem
// -----------------------------------------------------------------------------
struct StackWalk {
    std::vector<std::string> devices; // from the filesystem's own device down; each once
    std::vector<std::string> disks;   // leaves: whole disks
    std::string problem;              // why it could not be walked to the end; empty = complete
    bool operator==(const StackWalk&) const = default;
};
[[nodiscard]] StackWalk walk_stack(const std::map<std::string, BlockDevice>& devices,
                                   const std::string& top);

// Filesystems of the host grouped by superblock, with stack and trim state, plus the findings of
// the trim family.
struct TrimTruth {
    std::vector<FilesystemView> filesystems;
    std::vector<Finding> findings;
};
[[nodiscard]] TrimTruth judge_trim(const HostSnapshot& snapshot, const Memory& memory,
                                   const Policy& policy);

} // namespace nvmaint::core
