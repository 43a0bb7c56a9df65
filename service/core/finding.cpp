#include "core/finding.hpp"

#include <algorithm>
#include <tuple>

namespace nvmaint::core {

FindingKey key_of(const Finding& finding) {
    return {finding.id, finding.reason, finding.subject};
}

std::string_view to_string(Severity severity) {
    switch (severity) {
    case Severity::Critical:
        return "critical";
    case Severity::Warning:
        return "warning";
    case Severity::Notice:
        return "notice";
    case Severity::Info:
        return "info";
    }
    return "info";
}

std::string_view to_string(SubjectKind kind) {
    switch (kind) {
    case SubjectKind::Filesystem:
        return "filesystem";
    case SubjectKind::Namespace:
        return "namespace";
    case SubjectKind::Drive:
        return "drive";
    case SubjectKind::Unit:
        return "unit";
    case SubjectKind::Service:
        return "service";
    case SubjectKind::Host:
        return "host";
    }
    return "host";
}

void sort_findings(std::vector<Finding>& findings) {
    // Kind and layer come last so that the order is total for all that tells two findings apart.
    const auto key = [](const Finding& f) {
        return std::tie(f.severity, f.id, f.reason, f.subject.name, f.subject.kind, f.layer);
    };
    std::stable_sort(findings.begin(), findings.end(),
                     [&](const Finding& a, const Finding& b) { return key(a) < key(b); });
}

std::string_view to_string(Verdict verdict) {
    switch (verdict) {
    case Verdict::Healthy:
        return "healthy";
    case Verdict::Attention:
        return "attention";
    case Verdict::Critical:
        return "critical";
    case Verdict::Unknown:
        return "unknown";
    }
    return "unknown";
}

} // namespace nvmaint::core
