// The judgement without the service: of this host, or of a recording.
#pragma once

#include "core/decide.hpp"
#include "core/diagnose.hpp"
#include "values/result.hpp"

#include <optional>
#include <string>
#include <vector>

namespace nvmaint::ctl {

struct Judged {
    core::HostSnapshot snapshot;
    core::Memory memory;
    core::Policy policy;
    core::Diagnosis diagnosis;
};

// `recording` empty: the live host. Its policy comes from the host judged, its history from
// var/lib/nvmaint there; a flush series only a recording has. Errors: an unreadable recording or
// policy.
[[nodiscard]] Result<Judged> judge(const std::string& recording);

struct Tick {
    core::Diagnosis diagnosis;
    core::Plan plan;
};
// Recordings are ticks of one host in order: what one finds, the next remembers. `policy_file`
// empty: each recording's own.
[[nodiscard]] Result<std::vector<Tick>> replay(const std::vector<std::string>& recordings,
                                               const std::string& policy_file);

} // namespace nvmaint::ctl
