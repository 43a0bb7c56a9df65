// Disk counters: /proc/diskstats, /sys/block/*/stat, and series of them in a recording.
#pragma once

#include "core/snapshot.hpp"
#include "values/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::collect {

// The numbers of a stat line, 11 (before Linux 4.18), 15 (with discards) or 17 and more (with
// flushes, since 5.5). Errors: Malformed.
[[nodiscard]] Result<core::DiskCounters> parse_stat(std::string_view text);
// A whole /proc/diskstats, by kernel name as sysfs writes it ("cciss!c0d0"). The hidden disks that
// are the paths of an NVMe multipath head ("nvme0c1n1") are folded into their head: see
// add_path_flushes(). Errors: Malformed (line).
[[nodiscard]] Result<std::map<std::string, core::DiskCounters>>
parse_diskstats(std::string_view text);

// The head of a path disk: "nvme0c1n1" is a path of "nvme0n1" (Linux drivers/nvme/host/core.c,
// nvme_alloc_ns()). Empty for other names.
[[nodiscard]] std::string head_of_path(std::string_view name);
// A multipath head is bio-based: the kernel counts flushes where their requests are, on its paths
// (block/blk-flush.c, blk_account_io_flush()). Takes a path's flushes into its head's.
void add_path_flushes(core::DiskCounters& head, const core::DiskCounters& path, bool first);

} // namespace nvmaint::collect
