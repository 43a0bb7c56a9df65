#include "collect/units.hpp"

#include "fake_systemd.hpp"
#include "folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nvmaint::collect {
namespace {

using core::Condition;
using core::Unit;
using test::FakeSystemd;
using test::Folder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

core::WallTime usec(std::int64_t microseconds) {
    return core::WallTime(core::microseconds(microseconds));
}

TEST(Units, ReadsATimer) {
    const auto units = parse_units(R"({"fstrim.timer": {
        "Id": "fstrim.timer", "LoadState": "loaded", "ActiveState": "active",
        "UnitFileState": "enabled", "FragmentPath": "/lib/systemd/system/fstrim.timer",
        "DropInPaths": ["/etc/systemd/system/fstrim.timer.d/a.conf"],
        "Unit": "fstrim.service", "Persistent": true, "ConditionResult": false,
        "Conditions": [["ConditionPathExists", false, true, "/etc/fstab", -1]],
        "TimersCalendar": [["OnCalendar", "Mon *-*-* 00:00:00", 1764547200000000],
                           ["OnClockChange", "x", 0]],
        "LastTriggerUSec": 1763946727000000, "NextElapseUSecRealtime": 18446744073709551615,
        "AccuracyUSec": 3600000000, "RandomizedDelayUSec": 6000000000,
        "ActiveEnterTimestamp": 1763000000000000, "InactiveExitTimestamp": 0}})");
    ASSERT_TRUE(units) << units.error().text();
    EXPECT_EQ(units->at("fstrim.timer"),
              (Unit{.name = "fstrim.timer",
                    .load_state = "loaded",
                    .active_state = "active",
                    .unit_file_state = "enabled",
                    .condition_result = false,
                    .conditions = {Condition{"ConditionPathExists", false, true, "/etc/fstab", -1}},
                    .drop_in_paths = {"/etc/systemd/system/fstrim.timer.d/a.conf"},
                    .fragment_path = "/lib/systemd/system/fstrim.timer",
                    .active_enter = usec(1763000000000000),
                    .inactive_exit = std::nullopt,
                    .on_calendar = {"Mon *-*-* 00:00:00"},
                    .last_trigger = usec(1763946727000000),
                    .next_elapse = std::nullopt,
                    .accuracy = core::microseconds(3600000000),
                    .randomized_delay = core::microseconds(6000000000),
                    .persistent = true,
                    .triggers_unit = "fstrim.service",
                    .result = "",
                    .exec_main_code = std::nullopt,
                    .exec_main_status = std::nullopt,
                    .exec_main_start = std::nullopt,
                    .exec_main_exit = std::nullopt,
                    .exec_start = {},
                    .sandbox = {}}));
}

TEST(Units, ReadsAService) {
    const auto units = parse_units(R"({"fstrim.service": {
        "LoadState": "loaded", "Result": "exit-code", "ExecMainCode": 1, "ExecMainStatus": 32,
        "ExecMainStartTimestamp": 1763946727000000, "ExecMainExitTimestamp": 1763946728000000,
        "ExecStart": [["/sbin/fstrim", ["/sbin/fstrim", "--fstab", "--verbose"], false, 0, 0, 0, 0,
                       0, 0, 0], ["/bin/true", ["true"]]],
        "ProtectSystem": "strict", "PrivateDevices": false, "ReadOnlyPaths": ["/srv", "/mnt"],
        "TemporaryFileSystem": [["/run", "mode=0755"]], "CapabilityBoundingSet": 7,
        "Environment": ["PASSWORD=x"]}})");
    ASSERT_TRUE(units) << units.error().text();
    const Unit& unit = units->at("fstrim.service");
    EXPECT_EQ(unit.result, "exit-code");
    EXPECT_EQ(unit.exec_main_code, 1);
    EXPECT_EQ(unit.exec_main_status, 32);
    EXPECT_EQ(unit.exec_main_exit, usec(1763946728000000));
    EXPECT_THAT(unit.exec_start, ElementsAre(ElementsAre("/sbin/fstrim", "--fstab", "--verbose"),
                                             ElementsAre("true")));
    EXPECT_THAT(unit.sandbox,
                UnorderedElementsAre(Pair("ProtectSystem", "strict"), Pair("PrivateDevices", "no"),
                                     Pair("ReadOnlyPaths", "/srv /mnt"),
                                     Pair("TemporaryFileSystem", "/run"),
                                     Pair("CapabilityBoundingSet", "7")));
}

TEST(Units, LeavesOutWhatWasNotRead) {
    const auto units = parse_units(R"({"fstrim.timer": {"LoadState": null}, "a.timer": {}})");
    ASSERT_TRUE(units) << units.error().text();
    Unit empty;
    empty.name = "a.timer";
    EXPECT_EQ(units->at("a.timer"), empty);
    EXPECT_EQ(units->at("fstrim.timer").load_state, "");
}

TEST(Units, KnowsThatSystemdDoesNotKnowThem) {
    const auto units = parse_units(R"({"db-fstrim.timer": {"LoadState": "loaded"}})");
    ASSERT_TRUE(units);
    EXPECT_EQ(units->size(), 3U);
    EXPECT_EQ(units->at("fstrim.timer").load_state, "not-found");
    EXPECT_EQ(units->at("fstrim.service").load_state, "not-found");
    EXPECT_EQ(units->at("fstrim.service").name, "fstrim.service");
}

class BadUnits : public testing::TestWithParam<const char*> {};
TEST_P(BadUnits, NameTheirProperty) {
    const auto units = parse_units(std::string("{\"fstrim.timer\": {\"") + GetParam() + "}}");
    ASSERT_FALSE(units);
    EXPECT_EQ(units.error().kind, ErrorKind::Malformed);
    const std::string property(GetParam());
    EXPECT_THAT(units.error().text(), HasSubstr("fstrim.timer"));
    EXPECT_THAT(units.error().text(), HasSubstr(property.substr(0, property.find('"'))));
}
INSTANTIATE_TEST_SUITE_P(
    Properties, BadUnits,
    testing::Values(R"(LoadState": 1)", R"(Persistent": "yes")", R"(LastTriggerUSec": "today")",
                    R"(LastTriggerUSec": -1)", R"(LastTriggerUSec": 1.5)",
                    R"(ExecMainStatus": 4294967296)", R"(ExecMainCode": "1")",
                    R"(DropInPaths": "a")", R"(DropInPaths": [1])", R"(Conditions": [[]])",
                    R"(Conditions": [["a", false, false, "b"]])",
                    R"(Conditions": [["a", 0, false, "b", 1]])",
                    R"(TimersCalendar": [["OnCalendar"]])", R"(TimersCalendar": [[1, 2, 3]])",
                    R"(TimersCalendar": {})", R"(ExecStart": [["/bin/a", "/bin/a"]])",
                    R"(ExecStart": [["/bin/a", [1]]])"));

TEST(Units, RefusesWhatIsNoObjectOfObjects) {
    for (const char* text : {"", "x", "[]", "{\"a.timer\": []}", "{\"a.timer\": 1}", "{", "\xff"}) {
        EXPECT_FALSE(parse_units(text)) << text;
    }
}

TEST(Units, BearsDeepNesting) {
    for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"a\":", "}")}) {
        std::string deep;
        std::string end;
        for (int i = 0; i < 100000; ++i) {
            deep += open;
            end += close;
        }
        (void)parse_units("{\"a.timer\": {\"ReadOnlyPaths\": " + deep + "1" + end + "}}");
    }
}

TEST(Units, OfARecordingAreReadFromItsFile) {
    Folder folder;
    folder.file("systemd/units.json", R"({"fstrim.timer": {"ActiveState": "active"}})");
    const Result<HostRoot> root = HostRoot::recording(folder.path());
    const auto units = read_units(*root, std::string("init"));
    ASSERT_TRUE(units) << units.error().text();
    EXPECT_EQ(units->at("fstrim.timer").active_state, "active");
}

TEST(Units, OfARecordingWithoutTheFileAreNotRecorded) {
    Folder folder;
    const Result<HostRoot> root = HostRoot::recording(folder.path());
    EXPECT_TRUE(read_units(*root, std::string("systemd")).is_not_recorded());
}

TEST(Units, OfAHostWithoutSystemdHaveAReason) {
    const Result<HostRoot> root = HostRoot::live();
    const auto units = read_units(*root, std::string("runit"));
    ASSERT_FALSE(units);
    EXPECT_EQ(units.error().kind, ErrorKind::Unsupported);
    EXPECT_THAT(units.error().text(), HasSubstr("PID 1 is runit, not systemd"));
}

TEST(Units, OfInterestAreThoseThatTrimAndWhatTheyStart) {
    const auto units = parse_units(R"({"db-fstrim.timer": {"Unit": "db-trim.service"}})");
    EXPECT_THAT(names_of_trim_units(*units), ElementsAre("db-fstrim.timer", "db-trim.service",
                                                         "fstrim.service", "fstrim.timer"));
    EXPECT_THAT(names_of_trim_units(Error::make(ErrorKind::Unsupported, "no systemd")),
                ElementsAre("fstrim.service", "fstrim.timer"));
}

// ---- the bus ----

void text(sd_bus_message* reply, const char* name, const char* value) {
    FakeSystemd::property(reply, name, "s", [&] { sd_bus_message_append(reply, "s", value); });
}

void fstrim_timer(sd_bus_message* reply) {
    text(reply, "LoadState", "loaded");
    text(reply, "Unit", "fstrim.service");
    FakeSystemd::property(reply, "Persistent", "b", [&] { sd_bus_message_append(reply, "b", 1); });
    FakeSystemd::property(reply, "LastTriggerUSec", "t", [&] {
        sd_bus_message_append(reply, "t", std::uint64_t{1763946727000000});
    });
    FakeSystemd::property(reply, "TimersCalendar", "a(sst)", [&] {
        sd_bus_message_append(reply, "a(sst)", 1, "OnCalendar", "Mon *-*-* 00:00:00",
                              std::uint64_t{1764547200000000});
    });
    FakeSystemd::property(reply, "Conditions", "a(sbbsi)", [&] {
        sd_bus_message_append(reply, "a(sbbsi)", 1, "ConditionPathExists", 0, 1, "/etc/x", -1);
    });
}

void fstrim_service(sd_bus_message* reply) {
    text(reply, "Result", "success");
    FakeSystemd::property(reply, "ExecMainStatus", "i",
                          [&] { sd_bus_message_append(reply, "i", 64); });
    FakeSystemd::property(reply, "ExecStart", "a(sasbttttuii)", [&] {
        sd_bus_message_append(reply, "a(sasbttttuii)", 1, "/sbin/fstrim", 2, "/sbin/fstrim", "-A",
                              0, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3},
                              std::uint64_t{4}, 5U, 6, 7);
    });
    FakeSystemd::property(reply, "Environment", "as",
                          [&] { sd_bus_message_append(reply, "as", 1, "PASSWORD=hunter2"); });
    FakeSystemd::property(reply, "TemporaryFileSystem", "a(ss)",
                          [&] { sd_bus_message_append(reply, "a(ss)", 1, "/srv", "ro"); });
    FakeSystemd::property(reply, "IOReadBandwidthMax", "a{sv}", [&] {
        sd_bus_message_append(reply, "a{sv}", 1, "x", "(dyq)", 0.5, 7, 8);
    });
}

TEST(LiveUnits, ComeFromTheBusAsARecordingHoldsThem) {
    FakeSystemd systemd({{"fstrim.timer", fstrim_timer},
                         {"fstrim.service", fstrim_service},
                         {"db-fstrim.timer",
                          [](sd_bus_message* reply) { text(reply, "Unit", "db-trim.service"); }}});
    const Result<std::string> json = read_units_live();
    ASSERT_TRUE(json) << json.error().text();
    EXPECT_THAT(*json, Not(HasSubstr("hunter2")));
    const auto units = parse_units(*json);
    ASSERT_TRUE(units) << units.error().text() << *json;
    EXPECT_THAT(*units, UnorderedElementsAre(Pair("fstrim.timer", testing::_),
                                             Pair("fstrim.service", testing::_),
                                             Pair("db-fstrim.timer", testing::_),
                                             Pair("db-trim.service", testing::_)));
    const Unit& timer = units->at("fstrim.timer");
    EXPECT_EQ(timer.persistent, true);
    EXPECT_EQ(timer.last_trigger, usec(1763946727000000));
    EXPECT_THAT(timer.on_calendar, ElementsAre("Mon *-*-* 00:00:00"));
    EXPECT_THAT(timer.conditions,
                ElementsAre(Condition{"ConditionPathExists", false, true, "/etc/x", -1}));
    const Unit& service = units->at("fstrim.service");
    EXPECT_EQ(service.exec_main_status, 64);
    EXPECT_THAT(service.exec_start, ElementsAre(ElementsAre("/sbin/fstrim", "-A")));
    EXPECT_EQ(service.sandbox.at("TemporaryFileSystem"), "/srv");
    EXPECT_EQ(units->at("db-trim.service").load_state, "not-found");
}

TEST(LiveUnits, SayWhichCallWasRefused) {
    FakeSystemd systemd({{"fstrim.timer", fstrim_timer}});
    systemd.fail("LoadUnit");
    const Result<std::string> json = read_units_live();
    ASSERT_FALSE(json);
    EXPECT_THAT(json.error().text(), HasSubstr("LoadUnit of fstrim.timer: not for you"));
}

TEST(LiveUnits, WithoutABusHaveAReason) {
    setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/nvmaint/bus", 1);
    const Result<std::string> json = read_units_live();
    unsetenv("DBUS_SYSTEM_BUS_ADDRESS");
    if (json) {
        GTEST_SKIP() << "PID 1's own socket answered: this is root on a host with systemd";
    }
    EXPECT_THAT(json.error().text(), HasSubstr("connecting to the system bus"));
}

} // namespace
} // namespace nvmaint::collect
