// Which hook is to run for which finding, now: a finding must have stood for the hook's `hold`
// before it fires, and be gone for its `clear` before that is told. Each rise and each end is told
// once.
#pragma once

#include "core/finding.hpp"
#include "core/policy.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nvmaint::core {

struct AlertEntry {
    Finding finding;
    BootTime since{};
    std::optional<BootTime> gone;  // since when it is not there any more
    std::optional<Severity> fired; // at which severity the hook was told
    bool operator==(const AlertEntry&) const = default;
};

// By hook (program and patterns, so that a reload of the policy does not tell everything again) and
// finding.
using AlertState = std::map<std::pair<std::string, FindingKey>, AlertEntry>;

struct AlertEvent {
    std::size_t hook = 0; // index into the hooks
    Finding finding;
    bool raised = true; // false: cleared
    bool operator==(const AlertEvent&) const = default;
};

// A finding that grows more severe after it was told is told again.
[[nodiscard]] std::vector<AlertEvent> step_alerts(AlertState& state, const std::vector<Hook>& hooks,
                                                  const std::vector<Finding>& findings,
                                                  BootTime now);

} // namespace nvmaint::core
