#include "ctl/local.hpp"

#include "admin/nvme_admin.hpp"
#include "collect/collect.hpp"
#include "config/policy_file.hpp"
#include "state/state_store.hpp"

#include <memory>
#include <utility>

namespace nvmaint::ctl {
namespace {

void remember(core::Memory& memory, const core::Diagnosis& diagnosis) {
    memory.since.clear();
    for (const core::Finding& finding : diagnosis.findings) {
        memory.since[core::key_of(finding)] = finding.since.value_or(diagnosis.now);
    }
}

Result<Judged> judge_with(const std::string& recording, const core::Memory& before,
                          const std::optional<core::Policy>& policy) {
    Judged judged;
    TRY(root,
        recording.empty() ? collect::HostRoot::live() : collect::HostRoot::recording(recording));
    const std::unique_ptr<nvme::NvmeAdmin> admin =
        recording.empty() ? nvme::make_libnvme_admin() : nvme::make_replay_admin(root.fd());
    const std::string base = recording.empty() ? "/" : recording;
    if (policy) {
        judged.policy = *policy;
    } else {
        TRY(loaded, config::load_policy(base));
        judged.policy = std::move(loaded);
    }
    TRY(snapshot, collect::collect_host(root, *admin));
    judged.snapshot = std::move(snapshot);
    judged.memory = before;
    state::Loaded state = state::load_state_read_only(base + "/var/lib/nvmaint");
    judged.memory.trims = std::move(state.trims);
    judged.memory.baselines = std::move(state.baselines);
    // The running service's own trim is under way, not cut off: only a recording's marker is one
    // that was found.
    if (!recording.empty()) {
        judged.memory.marker = std::move(state.marker);
        judged.memory.marker_lost = state.marker_lost;
        Result<std::map<std::string, core::FlushWatch>> series = collect::read_flush_series(root);
        if (series) {
            judged.memory.flush = std::move(*series);
        } else if (series.error().kind != ErrorKind::NotRecorded) {
            return series.error();
        }
    }
    judged.diagnosis = core::diagnose(judged.snapshot, judged.memory, judged.policy);
    return judged;
}

} // namespace

Result<Judged> judge(const std::string& recording) {
    return judge_with(recording, {}, {});
}

Result<std::vector<Tick>> replay(const std::vector<std::string>& recordings,
                                 const std::string& policy_file) {
    std::optional<core::Policy> policy;
    if (!policy_file.empty()) {
        TRY(source, config::read_policy_source(policy_file));
        TRY(compiled, config::compile_policy({source}));
        policy = std::move(compiled);
    }
    std::vector<Tick> ticks;
    core::Memory memory;
    for (const std::string& recording : recordings) {
        Result<Judged> judged = judge_with(recording, memory, policy);
        if (!judged) {
            return judged.error().in(recording);
        }
        ticks.push_back({judged->diagnosis, core::decide(judged->snapshot, judged->diagnosis,
                                                         judged->memory, judged->policy)});
        memory = std::move(judged->memory);
        remember(memory, judged->diagnosis);
    }
    return ticks;
}

} // namespace nvmaint::ctl
