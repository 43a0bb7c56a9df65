// What the diagnosis says. Ids and reasons are a public contract: users' scripts match on them.
#pragma once

#include "core/time.hpp"

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::core {

enum class Severity { Critical, Warning, Notice, Info }; // sorted as findings are shown
enum class SubjectKind { Filesystem, Namespace, Drive, Unit, Service, Host };

struct Subject {
    SubjectKind kind = SubjectKind::Host;
    std::string name = "host";
    auto operator<=>(const Subject&) const = default;
};

struct Evidence {
    std::string source; // where it was read: "etc/fstab", "sys/block/dm-0/queue/discard_max_bytes"
    std::string says;   // what it says, in one line
    bool operator==(const Evidence&) const = default;
};

struct Finding {
    std::string id;     // "trim.not-covered"
    std::string reason; // "not-in-fstab"; empty = none
    Severity severity = Severity::Info;
    Subject subject;
    std::string layer; // the block device at fault; empty = none
    std::string summary;
    std::vector<Evidence> evidence; // never empty
    std::vector<std::string> fix;   // pasteable or followable lines; empty where nobody can act
    std::optional<WallTime> since;
    bool operator==(const Finding&) const = default;
};

// Identity of a finding over time: it is "the same" while these are equal.
struct FindingKey {
    std::string id;
    std::string reason;
    Subject subject;
    auto operator<=>(const FindingKey&) const = default;
};
[[nodiscard]] FindingKey key_of(const Finding& finding);

[[nodiscard]] std::string_view to_string(Severity severity); // "critical", ...
[[nodiscard]] std::string_view to_string(SubjectKind kind);  // "filesystem", ...

// By severity, id, reason, subject name.
void sort_findings(std::vector<Finding>& findings);

enum class Verdict { Healthy, Attention, Critical, Unknown };
[[nodiscard]] std::string_view to_string(Verdict verdict);

} // namespace nvmaint::core
