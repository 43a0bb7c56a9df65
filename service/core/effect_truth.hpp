// What the trims did so far have changed: the finding trim.effect.
#pragma once

#include "core/diagnose.hpp"

#include <vector>

namespace nvmaint::core {

// One for each mount: of its last complete trim whose effect was judged, for a week.
[[nodiscard]] std::vector<Finding> judge_effects(const Memory& memory, WallTime now);

} // namespace nvmaint::core
