// Drives: identity, health as far as it is judged here, and what the service itself lacks to see
// more.
#pragma once

#include "core/diagnose.hpp"

#include <vector>

namespace nvmaint::core {

struct DriveTruth {
    std::vector<DriveView> drives;
    std::vector<Finding> findings;
};
[[nodiscard]] DriveTruth judge_drives(const HostSnapshot& snapshot, const Memory& memory);

} // namespace nvmaint::core
