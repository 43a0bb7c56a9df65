// Findings and policy in, a plan out: what to do, and what is refused and why. Pure.
#pragma once

#include "core/diagnose.hpp"

#include <string>
#include <vector>

namespace nvmaint::core {

struct Action {
    std::string kind; // "trim"
    Subject subject;
    std::string reason;               // why now, one line
    std::vector<std::string> because; // ids of findings
    bool operator==(const Action&) const = default;
};
struct Refusal {
    std::string kind;
    Subject subject;
    std::string reason;
    std::vector<std::string> because;
    bool operator==(const Refusal&) const = default;
};
struct Plan {
    std::vector<Action> actions;
    std::vector<Refusal> refusals;
    bool operator==(const Plan&) const = default;
};

// What the service would start by itself now: nothing in mode observe (each wish is then a refusal
// that says so).
[[nodiscard]] Plan decide(const HostSnapshot& snapshot, const Diagnosis& diagnosis,
                          const Memory& memory, const Policy& policy);

// Whether somebody who asked by hand may trim this filesystem now. Empty = yes; else why not.
// Unknown is a no: a stack that could not be walked is not trimmed.
[[nodiscard]] std::optional<std::string> refuse_trim(const HostSnapshot& snapshot,
                                                     const Diagnosis& diagnosis,
                                                     const Memory& memory,
                                                     const std::string& mount);

} // namespace nvmaint::core
