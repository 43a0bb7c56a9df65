// What the flushes say: the flush family of findings.
#pragma once

#include "core/diagnose.hpp"

#include <vector>

namespace nvmaint::core {

[[nodiscard]] std::vector<Finding> judge_flush(const HostSnapshot& snapshot, const Memory& memory,
                                               const Policy& policy,
                                               const std::vector<FilesystemView>& filesystems);

} // namespace nvmaint::core
