#include "core/finding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace nvmaint::core {
namespace {

Finding finding(std::string id, std::string reason, Severity severity, std::string name) {
    Finding f;
    f.id = std::move(id);
    f.reason = std::move(reason);
    f.severity = severity;
    f.subject = {SubjectKind::Filesystem, std::move(name)};
    f.evidence = {{"etc/fstab", "x"}};
    return f;
}

TEST(Finding, IsSortedBySeverityIdReasonName) {
    std::vector<Finding> sorted{
        finding("z.z", "", Severity::Critical, "/z"), finding("a.a", "a", Severity::Warning, "/b"),
        finding("a.a", "b", Severity::Warning, "/a"), finding("a.a", "b", Severity::Warning, "/b"),
        finding("b.a", "", Severity::Warning, "/"),   finding("a.a", "", Severity::Notice, "/"),
        finding("a.a", "", Severity::Info, "/")};
    std::vector<std::size_t> order{6, 2, 0, 4, 1, 5, 3};
    std::vector<Finding> mixed;
    mixed.reserve(order.size());
    for (const std::size_t i : order) {
        mixed.push_back(sorted[i]);
    }
    sort_findings(mixed);
    EXPECT_EQ(mixed, sorted);
}

TEST(Finding, StaysTheSameWhileIdReasonAndSubjectDo) {
    const Finding a = finding("a.a", "r", Severity::Warning, "/a");
    Finding b = a;
    b.severity = Severity::Critical;
    b.summary = "worse";
    b.layer = "dm-0";
    EXPECT_EQ(key_of(a), key_of(b));
    b.reason = "s";
    EXPECT_NE(key_of(a), key_of(b));
    b = a;
    b.subject.kind = SubjectKind::Namespace;
    EXPECT_NE(key_of(a), key_of(b));
    b = a;
    b.id = "a.b";
    EXPECT_NE(key_of(a), key_of(b));
}

TEST(Finding, NamesAreTheContract) {
    EXPECT_EQ(to_string(Severity::Critical), "critical");
    EXPECT_EQ(to_string(Severity::Warning), "warning");
    EXPECT_EQ(to_string(Severity::Notice), "notice");
    EXPECT_EQ(to_string(Severity::Info), "info");
    EXPECT_EQ(to_string(SubjectKind::Filesystem), "filesystem");
    EXPECT_EQ(to_string(SubjectKind::Namespace), "namespace");
    EXPECT_EQ(to_string(SubjectKind::Drive), "drive");
    EXPECT_EQ(to_string(SubjectKind::Unit), "unit");
    EXPECT_EQ(to_string(SubjectKind::Service), "service");
    EXPECT_EQ(to_string(SubjectKind::Host), "host");
    EXPECT_EQ(to_string(Verdict::Healthy), "healthy");
    EXPECT_EQ(to_string(Verdict::Attention), "attention");
    EXPECT_EQ(to_string(Verdict::Critical), "critical");
    EXPECT_EQ(to_string(Verdict::Unknown), "unknown");
}

} // namespace
} // namespace nvmaint::core
