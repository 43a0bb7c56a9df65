#include "core/alerts.hpp"

#include <gtest/gtest.h>

namespace nvmaint::core {
namespace {

using namespace std::chrono_literals;

Finding stall(Severity severity = Severity::Warning) {
    Finding finding;
    finding.id = "flush.device-stall";
    finding.severity = severity;
    finding.subject = {SubjectKind::Namespace, "nvme0n1"};
    finding.evidence = {{"proc/diskstats", "slow"}};
    return finding;
}

Hook hook() {
    Hook hook;
    hook.match = {"flush.*"};
    hook.exec = "/usr/local/bin/page";
    hook.hold = 10s;
    hook.clear = 30s;
    return hook;
}

TEST(Alerts, FireOnceAfterTheHold) {
    AlertState state;
    const std::vector<Hook> hooks{hook()};
    const std::vector<Finding> findings{stall()};
    EXPECT_TRUE(step_alerts(state, hooks, findings, 100s).empty());
    EXPECT_TRUE(step_alerts(state, hooks, findings, 109s).empty());
    const std::vector<AlertEvent> fired = step_alerts(state, hooks, findings, 110s);
    ASSERT_EQ(fired.size(), 1U);
    EXPECT_TRUE(fired[0].raised);
    EXPECT_TRUE(step_alerts(state, hooks, findings, 111s).empty());
}

TEST(Alerts, AreSilentWhereTheFindingGoesWithinTheHold) {
    AlertState state;
    const std::vector<Hook> hooks{hook()};
    EXPECT_TRUE(step_alerts(state, hooks, {stall()}, 100s).empty());
    EXPECT_TRUE(step_alerts(state, hooks, {}, 105s).empty());
    EXPECT_TRUE(state.empty());
    EXPECT_TRUE(step_alerts(state, hooks, {stall()}, 112s).empty()) << "the hold starts anew";
}

TEST(Alerts, ClearOnceAfterTheRest) {
    AlertState state;
    const std::vector<Hook> hooks{hook()};
    (void)step_alerts(state, hooks, {stall()}, 100s);
    ASSERT_EQ(step_alerts(state, hooks, {stall()}, 110s).size(), 1U);
    EXPECT_TRUE(step_alerts(state, hooks, {}, 120s).empty());
    EXPECT_TRUE(step_alerts(state, hooks, {}, 149s).empty());
    const std::vector<AlertEvent> cleared = step_alerts(state, hooks, {}, 150s);
    ASSERT_EQ(cleared.size(), 1U);
    EXPECT_FALSE(cleared[0].raised);
    EXPECT_TRUE(step_alerts(state, hooks, {}, 151s).empty());
}

TEST(Alerts, SayNothingOfAShortAbsence) {
    AlertState state;
    const std::vector<Hook> hooks{hook()};
    (void)step_alerts(state, hooks, {stall()}, 100s);
    (void)step_alerts(state, hooks, {stall()}, 110s);
    EXPECT_TRUE(step_alerts(state, hooks, {}, 120s).empty());
    EXPECT_TRUE(step_alerts(state, hooks, {stall()}, 140s).empty());
    EXPECT_TRUE(step_alerts(state, hooks, {}, 160s).empty()) << "the rest starts anew";
}

TEST(Alerts, TellAgainWhenItGrowsWorse) {
    AlertState state;
    const std::vector<Hook> hooks{hook()};
    (void)step_alerts(state, hooks, {stall()}, 100s);
    (void)step_alerts(state, hooks, {stall()}, 110s);
    const std::vector<AlertEvent> worse =
        step_alerts(state, hooks, {stall(Severity::Critical)}, 111s);
    ASSERT_EQ(worse.size(), 1U);
    EXPECT_EQ(worse[0].finding.severity, Severity::Critical);
    EXPECT_TRUE(step_alerts(state, hooks, {stall(Severity::Warning)}, 112s).empty());
}

TEST(Alerts, RunOnlyForIdsThatMatch) {
    AlertState state;
    Hook other = hook();
    other.match = {"trim.*"};
    other.hold = 0s;
    EXPECT_TRUE(step_alerts(state, {other}, {stall()}, 100s).empty());
    other.match.clear();
    EXPECT_EQ(step_alerts(state, {other}, {stall()}, 100s).size(), 1U);
}

} // namespace
} // namespace nvmaint::core
