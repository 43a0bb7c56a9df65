// What the flushes say: the flush family of findings.
#pragma once

#include "core/diagnose.hpp"

#include <optional>
#include <string>
#include <vector>

namespace nvmaint::core {

[[nodiscard]] std::vector<Finding> judge_flush(const HostSnapshot& snapshot, const Memory& memory,
                                               const Policy& policy,
                                               const std::vector<FilesystemView>& filesystems);

// What a drive's flushes usually cost, once that may be learned: long enough seen, enough flushes,
// no stall. Absent otherwise. `firmware` is noted with it.
[[nodiscard]] std::optional<FlushBaseline> baseline_candidate(const FlushWatch& watch, WallTime now,
                                                              const std::string& firmware);

// The baseline that could be learned now: nothing unless the flushes were fine for at least ten
// minutes (enough of them, no stall, nothing ongoing, steady). Whoever calls keeps an older
// baseline of the same firmware: learning anew on a drive that has slowed would make the slowness
// normal.
[[nodiscard]] std::optional<FlushBaseline> baseline_candidate(const FlushWatch& watch, WallTime now,
                                                              const std::string& firmware);

} // namespace nvmaint::core
