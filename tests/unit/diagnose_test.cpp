#include "core/diagnose.hpp"
#include "host_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

namespace nvmaint::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Finding finding(Severity severity) {
    return {.id = "x", .severity = severity, .evidence = {{"a", "b"}}};
}

TEST(Diagnose, VerdictIsTheWorstThatIsKnown) {
    Diagnosis d;
    EXPECT_EQ(verdict_of(d), Verdict::Healthy);
    d.findings = {finding(Severity::Info), finding(Severity::Notice)};
    EXPECT_EQ(verdict_of(d), Verdict::Healthy);
    d.filesystems.push_back({.mount = "/", .trim = TrimState::Unknown});
    EXPECT_EQ(verdict_of(d), Verdict::Unknown);
    d.findings.push_back(finding(Severity::Warning));
    EXPECT_EQ(verdict_of(d), Verdict::Attention);
    d.findings.push_back(finding(Severity::Critical));
    EXPECT_EQ(verdict_of(d), Verdict::Critical);
    d = {};
    d.drives.push_back({.name = "nvme0", .health = "unknown"});
    EXPECT_EQ(verdict_of(d), Verdict::Unknown);
    d.drives.front().health = "ok";
    EXPECT_EQ(verdict_of(d), Verdict::Healthy);
}

TEST(Diagnose, APlainHostIsHealthy) {
    const auto d = diagnose(host::plain(), {}, {});
    EXPECT_THAT(host::lines_of(d.findings), IsEmpty());
    EXPECT_EQ(d.verdict, Verdict::Healthy);
    EXPECT_EQ(d.now, host::plain().now.wall);
}

TEST(Diagnose, AnEmptySnapshotHasNoFinding) {
    const auto d = diagnose(HostSnapshot{}, {}, {});
    EXPECT_THAT(d.findings, IsEmpty());
}

TEST(Diagnose, AFindingKeepsItsBeginning) {
    auto h = host::plain();
    host::add_database(h);
    const auto first = diagnose(h, {}, {});
    ASSERT_EQ(first.findings.size(), 1U);
    EXPECT_EQ(first.findings[0].since, h.now.wall);
    Memory memory;
    const auto earlier = host::at("2026-11-29T00:00:00Z");
    memory.since[key_of(first.findings[0])] = earlier;
    EXPECT_EQ(diagnose(h, memory, {}).findings[0].since, earlier);
}

TEST(Diagnose, EvidenceMayDateAFindingBack) {
    auto h = host::plain();
    host::timer(h).last_trigger = host::at("2026-11-16T01:12:00Z");
    const auto d = diagnose(h, {}, {});
    ASSERT_EQ(d.findings.size(), 1U);
    EXPECT_EQ(d.findings[0].since, host::at("2026-11-23T02:40:00Z"));
    Memory memory;
    memory.since[key_of(d.findings[0])] = h.now.wall;
    EXPECT_EQ(diagnose(h, memory, {}).findings[0].since, host::at("2026-11-23T02:40:00Z"));
}

TEST(Diagnose, FindingsAreSorted) {
    auto h = host::plain();
    host::add_database(h);
    h.io_uring_disabled = "2";
    auto d = diagnose(h, {}, {});
    auto sorted = d.findings;
    sort_findings(sorted);
    EXPECT_EQ(d.findings, sorted);
    EXPECT_EQ(d.findings.size(), 2U);
}

TEST(Diagnose, StatesHaveTheirContractNames) {
    EXPECT_THAT((std::vector<std::string_view>{
                    to_string(TrimState::Covered), to_string(TrimState::NotCovered),
                    to_string(TrimState::Blocked), to_string(TrimState::OtherAgent),
                    to_string(TrimState::NotApplicable), to_string(TrimState::Unknown)}),
                ElementsAre("covered", "not-covered", "blocked", "other-agent", "not-applicable",
                            "unknown"));
}

HostSnapshot empty_host() {
    HostSnapshot snapshot;
    snapshot.mounts = std::vector<Mount>{};
    snapshot.block_devices = std::map<std::string, BlockDevice>{};
    snapshot.controllers = std::map<std::string, NvmeController>{};
    return snapshot;
}

bool has(const Diagnosis& diagnosis, const std::string& id) {
    return std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(),
                       [&](const Finding& finding) { return finding.id == id; });
}

TEST(Diagnose, CallsAHostWithoutFilesystemsAndDrivesHealthy) {
    const Diagnosis diagnosis = diagnose(empty_host(), {}, {});
    EXPECT_EQ(diagnosis.verdict, Verdict::Healthy);
    EXPECT_FALSE(has(diagnosis, "svc.sandbox"));
}

// A seccomp filter that refuses a system call must not make a host look healthy.
TEST(Diagnose, SaysWhatItCouldNotReadInsteadOfCallingTheHostHealthy) {
    for (const int error : {ENOSYS, EPERM, EACCES, EIO, ENOENT}) {
        HostSnapshot snapshot = empty_host();
        snapshot.mounts = Error::system(error, "proc/1/mountinfo");
        const Diagnosis diagnosis = diagnose(snapshot, {}, {});
        EXPECT_TRUE(has(diagnosis, "svc.sandbox")) << error;
        EXPECT_EQ(diagnosis.verdict, Verdict::Attention) << error;
    }
}

TEST(Diagnose, TakesAnAbsentFolderForAFact) {
    HostSnapshot snapshot = empty_host();
    snapshot.controllers = Error::system(ENOENT, "sys/class/nvme");
    EXPECT_FALSE(has(diagnose(snapshot, {}, {}), "svc.sandbox"));
    snapshot.controllers = Reading<std::map<std::string, NvmeController>>();
    EXPECT_FALSE(has(diagnose(snapshot, {}, {}), "svc.sandbox"));
}

} // namespace
} // namespace nvmaint::core
