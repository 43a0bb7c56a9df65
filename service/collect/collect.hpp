// Reads a host into a snapshot. Blocks (D-Bus to PID 1, journal, device files): called from a
// worker thread or a one-shot program, never from the loop.
#pragma once

#include "admin/nvme_admin.hpp"
#include "collect/host_root.hpp"
#include "core/diagnose.hpp"
#include "core/snapshot.hpp"

#include <map>
#include <string>

namespace nvmaint::collect {

struct CollectOptions {
    bool nvme_commands =
        true; // also send Identify and Get Log (may block for long on a sick drive)
};

// Never fails as a whole: what could not be read says so in its place. `now` comes from the
// manifest for a recording and from the clocks for the live host. Errors: a recording without a
// readable manifest (System, Malformed, with file:line:column).
[[nodiscard]] Result<core::HostSnapshot> collect_host(const HostRoot& root, nvme::NvmeAdmin& admin,
                                                      const CollectOptions& options = {});

// Counters of every block device in one read of /proc/diskstats. Does not touch devices: allowed in
// the loop.
[[nodiscard]] Result<std::map<std::string, core::DiskCounters>>
read_diskstats(const HostRoot& root);

// Flush series of a recording: REC/series/diskstats.jsonl, one object a line:
// {"t": -12.0, "disk": "nvme0n1", "stat": [17 numbers as in /sys/block/nvme0n1/stat]}.
// Errors: NotRecorded, Malformed (line).
[[nodiscard]] Result<std::map<std::string, core::FlushWatch>>
read_flush_series(const HostRoot& root);

// Writes a recording of the live host to `directory`, which is created and must not exist. Serial
// numbers, host names and machine ids are replaced unless `redact` is false. Errors: System.
[[nodiscard]] Result<Done> record_host(const HostRoot& root, nvme::NvmeAdmin& admin,
                                       const std::string& directory, bool redact);

} // namespace nvmaint::collect
