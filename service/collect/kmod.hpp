// What nvmaint.ko counts (kmod/ABI.md): its snapshots, from the device or a recording's
// kmod/<disk>.bin.
#pragma once

#include "collect/host_root.hpp"
#include "collect/latency_counter.hpp"
#include "core/snapshot.hpp"
#include "values/result.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nvmaint::collect {

// A snapshot as read from /dev/nvmaint, in this machine's byte order. Classes and fields that are
// not known yet are passed over. Errors: Malformed (what, offset).
[[nodiscard]] Result<core::DiskLatency> parse_kmod_snapshot(std::span<const std::uint8_t> bytes);

// What files tell of the module: loaded, there for this kernel, hindered. NotRecorded where a
// recording has no list of modules.
[[nodiscard]] Reading<core::KernelModule> read_kernel_module(const HostRoot& root,
                                                             const Reading<std::string>& kernel);
// The snapshots of a recording, by disk: kmod/<disk>.bin, those of a multipath head's paths as one.
// Nothing on the live host.
[[nodiscard]] std::map<std::string, Reading<core::DiskLatency>>
read_recorded_latency(const HostRoot& root);

// Opens a disk and a file of the module (`node`: /dev/nvmaint, elsewhere in tests) and has that
// count for it from now on. `path`: of the multipath head `disk`, else empty. Opens a block device,
// so not for the loop. Errors: System (of the node: ENOENT without the module, EPERM without
// CAP_PERFMON; EOPNOTSUPP for a disk without requests).
[[nodiscard]] Result<std::unique_ptr<LatencyCounter>>
attach_kmod(const std::string& node, const std::string& disk, const std::string& path);
// The hidden disks that are the paths of a multipath head ("nvme0n1" -> "nvme0c0n1", ...), sorted;
// empty for any other disk. Errors: those of the root.
[[nodiscard]] Result<std::vector<std::string>> paths_of_head(const HostRoot& root,
                                                             const std::string& head);
// One snapshot as it is: all since somebody first attached the disk. Otherwise as attach_kmod().
[[nodiscard]] Result<std::vector<std::uint8_t>>
kmod_snapshot(const std::string& node, const std::string& disk, const std::string& path);

} // namespace nvmaint::collect
