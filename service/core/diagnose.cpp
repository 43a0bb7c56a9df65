#include "core/diagnose.hpp"

#include "core/drive_truth.hpp"
#include "core/effect_truth.hpp"
#include "core/flush_truth.hpp"
#include "core/trim_truth.hpp"

#include <algorithm>
#include <iterator>

namespace nvmaint::core {
namespace {

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
    findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
}

// A finding that stood at the last tick keeps its beginning; evidence may date it further back.
void carry_since(std::vector<Finding>& findings, const Memory& memory, WallTime now) {
    for (auto& finding : findings) {
        const auto known = memory.since.find(key_of(finding));
        if (known != memory.since.end()) {
            finding.since = std::min(known->second, finding.since.value_or(known->second));
        } else if (!finding.since) {
            finding.since = now;
        }
    }
}

// What nothing can be judged without. That it could not be read is a finding of its own: an empty
// list of filesystems would pass for a host on which all is well.
std::vector<Finding> judge_sight(const HostSnapshot& snapshot) {
    std::vector<Evidence> evidence;
    const auto look = [&](const char* source, const auto& reading) {
        if (!reading && !reading.is_not_recorded() && !reading.is_known_absent()) {
            evidence.push_back({source, reading.error().text()});
        }
    };
    look("proc/1/mountinfo", snapshot.mounts);
    if (snapshot.mounts.is_known_absent()) { // every Linux has one: it is hidden, not absent
        evidence.push_back({"proc/1/mountinfo", snapshot.mounts.error().text()});
    }
    look("sys/block", snapshot.block_devices);
    look("sys/class/nvme", snapshot.controllers);
    if (evidence.empty()) {
        return {};
    }
    Finding finding;
    finding.id = "svc.sandbox";
    finding.severity = Severity::Warning;
    finding.subject = {SubjectKind::Service, "nvmaintd.service"};
    finding.summary = "nvmaint cannot read what it judges by: filesystems and drives are missing "
                      "from what it says";
    finding.evidence = std::move(evidence);
    finding.fix = {
        "systemctl cat nvmaintd.service   # look for directives in drop-ins that hide files or "
        "system calls",
        "nvmaintctl doctor --local        # judges as root, without the service's sandbox"};
    return {std::move(finding)};
}

bool has_severity(const std::vector<Finding>& findings, Severity severity) {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const auto& finding) { return finding.severity == severity; });
}

} // namespace

std::string_view to_string(TrimState state) {
    switch (state) {
    case TrimState::Covered:
        return "covered";
    case TrimState::NotCovered:
        return "not-covered";
    case TrimState::Blocked:
        return "blocked";
    case TrimState::OtherAgent:
        return "other-agent";
    case TrimState::NotApplicable:
        return "not-applicable";
    case TrimState::Unknown:
        return "unknown";
    }
    return "unknown";
}

Diagnosis diagnose(const HostSnapshot& snapshot, const Memory& memory, const Policy& policy) {
    Diagnosis diagnosis{.now = snapshot.now.wall};
    auto trim = judge_trim(snapshot, memory, policy);
    diagnosis.filesystems = std::move(trim.filesystems);
    append(diagnosis.findings, std::move(trim.findings));
    append(diagnosis.findings, judge_flush(snapshot, memory, policy, diagnosis.filesystems));
    append(diagnosis.findings, judge_effects(memory, snapshot.now.wall));
    append(diagnosis.findings, judge_sight(snapshot));
    auto drives = judge_drives(snapshot, memory);
    diagnosis.drives = std::move(drives.drives);
    append(diagnosis.findings, std::move(drives.findings));
    carry_since(diagnosis.findings, memory, snapshot.now.wall);
    sort_findings(diagnosis.findings);
    diagnosis.verdict = verdict_of(diagnosis);
    return diagnosis;
}

Verdict verdict_of(const Diagnosis& diagnosis) {
    if (has_severity(diagnosis.findings, Severity::Critical)) {
        return Verdict::Critical;
    }
    if (has_severity(diagnosis.findings, Severity::Warning)) {
        return Verdict::Attention;
    }
    const bool unknown =
        std::any_of(diagnosis.filesystems.begin(), diagnosis.filesystems.end(),
                    [](const auto& view) { return view.trim == TrimState::Unknown; }) ||
        std::any_of(diagnosis.drives.begin(), diagnosis.drives.end(),
                    [](const auto& view) { return view.health == "unknown"; });
    return unknown ? Verdict::Unknown : Verdict::Healthy;
}

} // namespace nvmaint::core
