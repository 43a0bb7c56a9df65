#include "core/trim_truth.hpp"

#include <algorithm>

namespace nvmaint::core {
namespace {

// Deeper than any sane stack (partition, md, crypt, thin pool, thin volume make ten): a recording
// with a loop of links ends here.
constexpr std::size_t kDeepest = 64;

void note(std::string& problem, const std::string& text) {
    if (problem.empty()) {
        problem = text;
    }
}

} // namespace

StackWalk walk_stack(const std::map<std::string, BlockDevice>& devices, const std::string& top) {
    StackWalk walk;
    std::vector<std::string> level{top};
    for (std::size_t depth = 0; !level.empty(); ++depth) {
        if (depth == kDeepest) {
            note(walk.problem, "the stack below " + top + " does not end");
            return walk;
        }
        std::vector<std::string> below;
        for (const auto& name : level) {
            if (std::find(walk.devices.begin(), walk.devices.end(), name) != walk.devices.end()) {
                continue;
            }
            const auto found = devices.find(name);
            if (found == devices.end()) {
                note(walk.problem, "block device " + name + " is not known");
                continue;
            }
            walk.devices.push_back(name);
            const auto& device = found->second;
            if (!device.partition_of.empty()) {
                below.push_back(device.partition_of);
            } else if (!device.slaves.empty()) {
                below.insert(below.end(), device.slaves.begin(), device.slaves.end());
            } else if (device.dm || device.md) {
                note(walk.problem, "what lies below " + name + " is not known");
            } else {
                walk.disks.push_back(name);
            }
        }
        level = std::move(below);
    }
    return walk;
}

} // namespace nvmaint::core
