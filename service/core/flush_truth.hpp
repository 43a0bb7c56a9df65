// What the flushes say: the flush family of findings.
#pragma once

#include "core/diagnose.hpp"

#include <vector>

namespace nvmaint::core {

[[nodiscard]] std::vector<Finding> judge_flush(const HostSnapshot& snapshot, const Memory& memory,
                                               const Policy& policy,
                                               const std::vector<FilesystemView>& filesystems);

// What a drive's flushes usually cost, once that may be learned: long enough seen, enough flushes,
// no stall. Absent otherwise. `firmware` is noted with it.
[[nodiscard]] std::optional<FlushBaseline> baseline_candidate(const FlushWatch& watch, WallTime now,
                                                              const std::string& firmware);

} // namespace nvmaint::core
