#include "core/timer_truth.hpp"
#include "host_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nvmaint::core {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

TimerTruth judge(const HostSnapshot& h) {
    return judge_timer(h, "fstrim.timer", service_runs(h, "fstrim.service"));
}

// Last Monday's run, and nothing since.
HostSnapshot waiting(const char* now) {
    auto h = host::plain();
    h.now.wall = host::at(now);
    host::timer(h).last_trigger = host::at("2026-11-23T01:12:00Z");
    return h;
}

TEST(Timer, ThatRunsIsWorking) {
    const auto truth = judge(host::plain());
    EXPECT_EQ(truth.state, TimerState::Working);
    EXPECT_EQ(truth.id, "");
    EXPECT_EQ(to_rfc3339(*truth.deadline), "2026-12-07T02:40:00Z");
}

// Due Monday 00:00, 100 minutes of random delay, an hour of accuracy: any time up to 02:40.
struct WindowCase {
    const char* now;
    TimerState state;
};
class Window : public testing::TestWithParam<WindowCase> {};
TEST_P(Window, IsDelayPlusAccuracyAfterTheEvent) {
    EXPECT_EQ(judge(waiting(GetParam().now)).state, GetParam().state);
}
INSTANTIATE_TEST_SUITE_P(Limits, Window,
                         testing::Values(WindowCase{"2026-11-29T23:00:00Z", TimerState::Working},
                                         WindowCase{"2026-11-30T00:50:00Z", TimerState::Working},
                                         WindowCase{"2026-11-30T02:39:59Z", TimerState::Working},
                                         WindowCase{"2026-11-30T02:40:00Z", TimerState::Working},
                                         WindowCase{"2026-11-30T02:40:01Z", TimerState::Late},
                                         WindowCase{"2026-11-30T03:30:00Z", TimerState::Late}));

TEST(Timer, OverdueSaysSinceWhenAndThatTheTriggerIsAHint) {
    const auto truth = judge(waiting("2026-11-30T03:30:00Z"));
    EXPECT_EQ(truth.id, "trim.timer.overdue");
    EXPECT_EQ(to_rfc3339(*truth.since), "2026-11-30T02:40:00Z");
    EXPECT_THAT(truth.evidence, Contains(Field(&Evidence::says, HasSubstr("a hint"))));
    EXPECT_FALSE(truth.fix.empty());
}

TEST(Timer, LocalTimeCounts) {
    auto h = waiting("2026-11-30T02:00:00Z");
    h.utc_offset = std::chrono::hours{1}; // due 23:00 UTC, until 01:40
    EXPECT_EQ(judge(h).state, TimerState::Late);
    h.utc_offset = std::chrono::hours{-1}; // until 03:40
    EXPECT_EQ(judge(h).state, TimerState::Working);
}

TEST(Timer, AHostThatWasDownGetsTheWindowAfterItsStart) {
    auto h = waiting("2026-12-01T12:00:00Z");
    h.uptime = std::chrono::minutes{160}; // since 09:20: until 12:00
    EXPECT_EQ(judge(h).state, TimerState::Working);
    h.uptime = std::chrono::minutes{160} + seconds{1};
    EXPECT_EQ(judge(h).state, TimerState::Late);
}

TEST(Timer, OneThatDoesNotCatchUpWaitsForTheNextEventAfterABoot) {
    auto h = waiting("2026-12-01T12:00:00Z");
    host::timer(h).persistent = false;
    h.uptime = std::chrono::hours{12};
    EXPECT_EQ(judge(h).state, TimerState::Working);
    h.uptime = std::chrono::hours{24 * 20}; // it was up on Monday
    EXPECT_EQ(judge(h).state, TimerState::Late);
}

TEST(Timer, StartedLatelyIsNotLate) {
    auto h = waiting("2026-12-01T12:00:00Z");
    host::timer(h).active_enter = host::at("2026-12-01T11:00:00Z");
    EXPECT_EQ(judge(h).state, TimerState::Working);
}

TEST(Timer, WithoutUptimeNothingIsClaimed) {
    auto h = waiting("2026-12-01T12:00:00Z");
    h.uptime = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_EQ(judge(h).state, TimerState::Working);
    EXPECT_EQ(judge(h).id, "");
    h.boots = std::vector<Boot>{{"b1", host::at("2026-11-01T00:00:00Z"), h.now.wall}};
    EXPECT_EQ(judge(h).id, "trim.timer.overdue");
}

TEST(Timer, AManualRunCounts) {
    auto h = waiting("2026-12-01T12:00:00Z");
    host::log(h, "2026-11-30T15:00:00Z", "systemd", "Starting Discard unused blocks...");
    host::log(h, "2026-11-30T15:01:00Z", "systemd", "Finished Discard unused blocks.");
    EXPECT_EQ(judge(h).state, TimerState::Working);
}

TEST(Timer, NeverFiredNeedsAJournalThatCoversAWholePeriod) {
    auto h = waiting("2026-12-01T12:00:00Z");
    host::timer(h).last_trigger.reset();
    EXPECT_EQ(judge(h).id, "") << "no journal: not known";
    EXPECT_EQ(judge(h).state, TimerState::Unknown);
    h.journal = std::vector<JournalEntry>{};
    EXPECT_EQ(judge(h).state, TimerState::Unknown) << "empty: since when is not known";
    h.boots = std::vector<Boot>{{"b1", host::at("2026-11-30T10:00:00Z"), h.now.wall}};
    EXPECT_EQ(judge(h).state, TimerState::Unknown) << "rotated after the event";
    h.boots = std::vector<Boot>{{"b1", host::at("2026-11-01T00:00:00Z"), h.now.wall}};
    EXPECT_EQ(judge(h).id, "trim.timer.never-fired");
    EXPECT_EQ(judge(h).state, TimerState::Late);
}

TEST(Timer, AStampOfTheFirstStartIsNoRun) {
    // Two boots: the stamp of the first was loaded as the last trigger of the second.
    auto h = waiting("2026-12-01T12:00:00Z");
    h.uptime = std::chrono::hours{24 * 9};
    host::timer(h).last_trigger = host::at("2026-11-20T10:00:00Z");
    h.journal = std::vector<JournalEntry>{};
    h.boots = std::vector<Boot>{
        {"b0", host::at("2026-11-20T10:00:00Z"), host::at("2026-11-22T10:00:00Z")},
        {"b1", host::at("2026-11-22T12:00:00Z"), h.now.wall}};
    EXPECT_EQ(judge(h).id, "trim.timer.never-fired");
}

TEST(Timer, AFreshHostIsFine) {
    auto h = waiting("2026-12-01T12:00:00Z");
    host::timer(h).last_trigger.reset();
    h.stamps["fstrim.timer"] = host::at("2026-11-30T20:00:00Z");
    h.uptime = std::chrono::hours{16};
    EXPECT_EQ(judge(h).state, TimerState::Working);
}

TEST(Timer, AScheduleThatCannotBeFollowedIsNotLate) {
    auto h = waiting("2027-12-01T12:00:00Z");
    for (const auto& events : {std::vector<std::string>{"*-*~1 00:00:00"},
                               std::vector<std::string>{"Mon *-*-* 00:00:00", "*-*~1 00:00:00"},
                               std::vector<std::string>{}}) {
        host::timer(h).on_calendar = events;
        EXPECT_EQ(judge(h).state, TimerState::Working);
        EXPECT_NE(judge(h).why, "");
    }
}

struct StandingCase {
    const char* load;
    const char* file;
    const char* active;
    const char* id;
    TimerState state;
};
class Standing : public testing::TestWithParam<StandingCase> {};
TEST_P(Standing, IsNamed) {
    const auto& c = GetParam();
    auto h = host::plain();
    host::timer(h).load_state = c.load;
    host::timer(h).unit_file_state = c.file;
    host::timer(h).active_state = c.active;
    const auto truth = judge(h);
    EXPECT_EQ(truth.id, c.id);
    EXPECT_EQ(truth.state, c.state);
    EXPECT_EQ(truth.fix.empty(), truth.id.empty());
}
INSTANTIATE_TEST_SUITE_P(
    States, Standing,
    testing::Values(
        StandingCase{"loaded", "disabled", "inactive", "trim.timer.disabled", TimerState::Broken},
        StandingCase{"loaded", "disabled", "active", "trim.timer.disabled", TimerState::Broken},
        StandingCase{"masked", "masked", "inactive", "trim.timer.masked", TimerState::Broken},
        StandingCase{"loaded", "masked-runtime", "inactive", "trim.timer.masked",
                     TimerState::Broken},
        StandingCase{"not-found", "", "inactive", "trim.timer.missing", TimerState::Broken},
        StandingCase{"loaded", "enabled", "inactive", "trim.timer.never-fired", TimerState::Broken},
        StandingCase{"loaded", "static", "active", "", TimerState::Working},
        StandingCase{"loaded", "enabled-runtime", "active", "", TimerState::Working},
        StandingCase{"", "", "", "", TimerState::Unknown}));

TEST(Timer, NotRecordedIsUnknown) {
    auto h = host::plain();
    h.units->erase("fstrim.timer");
    EXPECT_EQ(judge(h).state, TimerState::Unknown);
    EXPECT_EQ(judge(h).id, "");
    h.units = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_EQ(judge(h).state, TimerState::Unknown);
    h.init = std::string("runit");
    EXPECT_EQ(judge(h).id, "trim.timer.missing");
}

TEST(Timer, AConditionThatFailedIsQuoted) {
    auto h = host::plain();
    auto& timer = host::timer(h);
    timer.active_state = "inactive";
    timer.condition_result = false;
    timer.conditions = {{"ConditionVirtualization", false, true, "container", 1},
                        {"ConditionPathExists", false, false, "/etc/fstab", -1}};
    const auto truth = judge(h);
    EXPECT_EQ(truth.id, "trim.timer.condition-unmet");
    EXPECT_THAT(truth.summary, HasSubstr("ConditionPathExists=/etc/fstab"));
    EXPECT_THAT(truth.fix, Contains(HasSubstr("ConditionPathExists=")));
}

TEST(Timer, AConditionAgainstContainersIsNoFault) {
    auto h = host::plain();
    h.container = Error::make(ErrorKind::NotRecorded, "");
    auto& timer = host::timer(h);
    timer.active_state = "inactive";
    timer.condition_result = false;
    timer.conditions = {{"ConditionVirtualization", false, true, "container", -1}};
    EXPECT_EQ(judge(h).id, "");
    EXPECT_TRUE(judge(h).in_container);
}

// ---- runs ----

TEST(ServiceRuns, ArePutTogetherFromTheJournal) {
    auto h = host::plain();
    host::log(h, "2026-11-23T01:12:00Z", "systemd", "Starting fstrim.service - Discard...");
    host::log(h, "2026-11-23T01:12:09Z", "fstrim", "/: 1 GiB (1073741824 bytes) trimmed on /dev/x");
    host::log(h, "2026-11-23T01:12:10Z", "systemd", "fstrim.service: Deactivated successfully.");
    host::log(h, "2026-11-23T01:12:10Z", "systemd", "Finished fstrim.service - Discard...");
    host::log(h, "2026-11-30T00:40:00Z", "systemd", "Starting fstrim.service - Discard...");
    host::log(h, "2026-11-30T00:40:01Z", "fstrim",
              "fstrim: /old: FITRIM ioctl failed: Remote I/O error");
    host::log(h, "2026-11-30T00:40:02Z", "systemd",
              "fstrim.service: Main process exited, code=exited, status=64/n/a");
    host::log(h, "2026-11-30T00:40:02Z", "systemd",
              "fstrim.service: Failed with result 'exit-code'.");
    host::log(h, "2026-11-30T00:40:03Z", "other", "noise", "ssh.service");
    const auto runs = service_runs(h, "fstrim.service");
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_TRUE(runs[0].finished);
    ASSERT_EQ(runs[0].trimmed.size(), 1U);
    EXPECT_TRUE(runs[1].failed);
    EXPECT_FALSE(runs[1].finished);
    EXPECT_EQ(runs[1].status, 64);
    EXPECT_EQ(runs[1].complaints.size(), 1U);
}

TEST(ServiceRuns, MessageIdsCountBeforeWords) {
    auto h = host::plain();
    host::log(h, "2026-11-23T01:12:00Z", "systemd", "Starte fstrim.service...");
    h.journal->back().message_id = "7d4958e842da4a758f6c1cdc7b36dcc5";
    host::log(h, "2026-11-23T01:12:10Z", "systemd", "fstrim.service beendet.");
    h.journal->back().message_id = "39f53479d3a045ac8e11786248231fbf";
    const auto runs = service_runs(h, "fstrim.service");
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_TRUE(runs[0].started && runs[0].finished);
}

TEST(ServiceRuns, PropertiesAndJournalOfOneRunAreOne) {
    auto h = host::plain();
    auto& service = host::service(h);
    service.exec_main_start = host::at("2026-11-30T01:12:00Z");
    service.exec_main_exit = host::at("2026-11-30T01:12:10Z");
    service.exec_main_status = 32;
    ASSERT_EQ(service_runs(h, "fstrim.service").size(), 1U);
    host::log(h, "2026-11-30T01:12:00Z", "systemd", "Starting x");
    const auto runs = service_runs(h, "fstrim.service");
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_TRUE(runs[0].failed);
    EXPECT_EQ(runs[0].status, 32);
}

TEST(ServiceRuns, AnOlderRunOfThePropertiesDoesNotColourALaterOne) {
    auto h = host::plain();
    auto& service = host::service(h);
    service.exec_main_start = host::at("2026-11-23T01:12:00Z");
    service.exec_main_exit = host::at("2026-11-23T01:12:10Z");
    service.exec_main_status = 32;
    host::log(h, "2026-11-30T01:12:00Z", "systemd", "Starting x");
    host::log(h, "2026-11-30T01:12:00Z", "systemd", "Finished x");
    EXPECT_FALSE(service_runs(h, "fstrim.service").back().failed);
}

TEST(ServiceRuns, ASignalIsNoExitStatus) {
    auto h = host::plain();
    host::log(h, "2026-11-30T00:40:00Z", "systemd", "Starting x");
    host::log(h, "2026-11-30T00:40:02Z", "systemd",
              "fstrim.service: Main process exited, code=killed, status=9/KILL");
    auto runs = service_runs(h, "fstrim.service");
    EXPECT_TRUE(runs.at(0).failed);
    EXPECT_EQ(runs.at(0).status, std::nullopt);
    h = host::plain();
    auto& service = host::service(h);
    service.exec_main_exit = host::at("2026-11-30T01:12:10Z");
    service.exec_main_code = 2;
    service.exec_main_status = 9;
    runs = service_runs(h, "fstrim.service");
    EXPECT_TRUE(runs.at(0).failed);
    EXPECT_EQ(runs.at(0).status, std::nullopt);
}

TEST(ServiceRuns, OneThatIsUnderWayCounts) {
    auto h = host::plain();
    auto& service = host::service(h);
    service.active_state = "activating";
    service.exec_main_start = host::at("2026-11-30T20:40:00Z");
    service.exec_main_status = 1; // of the run before
    const auto runs = service_runs(h, "fstrim.service");
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_FALSE(runs[0].failed || runs[0].finished);
}

TEST(ServiceRuns, HostileMessagesAreHarmless) {
    auto h = host::plain();
    for (const char* text :
         {"", "status=", "exited status=99999999999999", "\xff\xfe", "Starting "}) {
        host::log(h, "2026-11-30T01:12:00Z", "systemd", text);
        host::log(h, "2026-11-30T01:12:00Z", "fstrim", text);
    }
    EXPECT_FALSE(service_runs(h, "fstrim.service").empty());
}

} // namespace
} // namespace nvmaint::core
