// Writing recordings, for those who also want what was recorded.
#pragma once

#include "admin/nvme_admin.hpp"
#include "collect/host_root.hpp"
#include "core/snapshot.hpp"

#include <string>

namespace nvmaint::collect {

// record_host(), returning the snapshot that was read meanwhile: the recording holds exactly what
// it was made of. Reading the recording back gives an equal one, but for what was redacted, the
// wording of errors, and what only a running process has (missing_capabilities, times since boot).
[[nodiscard]] Result<core::HostSnapshot> record_snapshot(const HostRoot& root,
                                                         nvme::NvmeAdmin& admin,
                                                         const std::string& directory, bool redact);

} // namespace nvmaint::collect
