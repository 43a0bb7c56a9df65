// What only a mounted filesystem itself can tell.
#pragma once

#include "collect/host_root.hpp"
#include "collect/recording_toml.hpp"
#include "core/snapshot.hpp"

#include <vector>

namespace nvmaint::collect {

// Size and free bytes of filesystems on local block devices, by mount point. Network and FUSE
// filesystems are not touched: statvfs(3) on them may wait for a peer for ever.
[[nodiscard]] std::map<std::string, Reading<core::FilesystemProbe>>
read_probes(const HostRoot& root, const Reading<std::vector<core::Mount>>& mounts);

} // namespace nvmaint::collect
