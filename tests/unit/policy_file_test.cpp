#include "config/policy_file.hpp"
#include "config/quantity.hpp"
#include "config/toml_guard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <sys/stat.h>
#include <unistd.h>

namespace nvmaint::config {
namespace {

namespace fs = std::filesystem;
using core::Mode;
using core::Policy;
using core::Weekday;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Result<Policy> compile(const std::string& text) {
    return compile_policy({{"p.toml", text}});
}

// The policy that a text compiles to; a failure of the test where it does not.
Policy compiled(const std::string& text) {
    const Result<Policy> policy = compile(text);
    if (!policy) {
        ADD_FAILURE() << policy.error().text();
        return {};
    }
    Policy without_files = *policy;
    without_files.files.clear();
    return without_files;
}

std::string error_of(const std::string& text) {
    const Result<Policy> policy = compile(text);
    if (policy) {
        return "(compiled)";
    }
    EXPECT_EQ(policy.error().kind, ErrorKind::Malformed);
    return policy.error().text();
}

// ---- quantities ----

struct DurationCase {
    std::string text;
    std::optional<nanoseconds> value; // absent: refused
};
class Duration : public testing::TestWithParam<DurationCase> {};

TEST_P(Duration, IsReadExactlyOrRefused) {
    const Result<nanoseconds> value = parse_duration(GetParam().text);
    ASSERT_EQ(value.has_value(), GetParam().value.has_value()) << GetParam().text;
    if (value) {
        EXPECT_EQ(*value, *GetParam().value);
    } else {
        EXPECT_THAT(value.error().text(), HasSubstr("write a number and one of the units"));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Quantities, Duration,
    testing::Values(DurationCase{"5ms", milliseconds{5}}, DurationCase{"0s", nanoseconds{0}},
                    DurationCase{"1.5s", milliseconds{1500}},
                    DurationCase{"0.000000001s", nanoseconds{1}},
                    DurationCase{"250us", microseconds{250}}, DurationCase{"7ns", nanoseconds{7}},
                    DurationCase{"90min", minutes{90}}, DurationCase{"12h", hours{12}},
                    DurationCase{"1d", hours{24}}, DurationCase{"2w", hours{24 * 14}},
                    DurationCase{"106751d", hours{24 * 106751}}, // the last that fits 63 bits
                    DurationCase{"106752d", std::nullopt},
                    DurationCase{"9999999999w", std::nullopt},
                    DurationCase{"10000000000ns", seconds{10}},
                    DurationCase{"9223372036854775807ns", nanoseconds::max()},
                    DurationCase{"9223372036854775808ns", std::nullopt},
                    DurationCase{"99999999999999999999ns", std::nullopt}, // twenty digits
                    DurationCase{"0.1ns", std::nullopt}, DurationCase{"", std::nullopt},
                    DurationCase{"5", std::nullopt}, DurationCase{"ms", std::nullopt},
                    DurationCase{"5m", std::nullopt}, DurationCase{"5MS", std::nullopt},
                    DurationCase{"5 ms", std::nullopt}, DurationCase{"-5ms", std::nullopt},
                    DurationCase{"+5ms", std::nullopt}, DurationCase{"5.ms", std::nullopt},
                    DurationCase{".5ms", std::nullopt}, DurationCase{"1e3ms", std::nullopt},
                    DurationCase{"5ms ", std::nullopt}, DurationCase{"5msms", std::nullopt},
                    DurationCase{"1h30min", std::nullopt}, DurationCase{"16MiB/s", std::nullopt}));

TEST(Quantity, DurationTextIsReadBackAsTheSameDuration) {
    for (nanoseconds value :
         {nanoseconds{0}, nanoseconds{1}, nanoseconds{999}, nanoseconds{1500}, nanoseconds{2000000},
          nanoseconds{milliseconds{1500}}, nanoseconds{minutes{90}}, nanoseconds{hours{36}},
          nanoseconds{hours{24 * 14}}}) {
        const Result<nanoseconds> back = parse_duration(duration_text(value));
        ASSERT_TRUE(back) << duration_text(value);
        EXPECT_EQ(*back, value);
    }
}

TEST(Quantity, ShareTextIsReadBackAsTheSameDouble) {
    for (int tenth = 10; tenth <= 1000; ++tenth) {
        const Result<double> share =
            parse_share(std::to_string(tenth / 10) + "." + std::to_string(tenth % 10) + "%");
        ASSERT_TRUE(share);
        const Result<double> back = parse_share(share_text(*share));
        ASSERT_TRUE(back) << share_text(*share);
        EXPECT_EQ(*back, *share);
    }
    EXPECT_EQ(share_text(0.2), "20%");
}

TEST(Quantity, ShareNeedsAPercentSignAndAtMostAHundred) {
    EXPECT_EQ(parse_share("100%").value(), 1.0);
    for (const char* wrong : {"", "%", "20", "100.1%", "-1%", "+1%", "1e1%", "inf%", "nan%", "0x1%",
                              "20 %", " 20%", "20%%"}) {
        EXPECT_FALSE(parse_share(wrong)) << wrong;
    }
}

TEST(Quantity, ClockReadsHoursAndMinutesOnly) {
    EXPECT_EQ(parse_clock("00:00").value(), minutes{0});
    EXPECT_EQ(parse_clock("23:59").value(), minutes{1439});
    EXPECT_EQ(parse_clock("24:00").value(), minutes{1440});
    for (const char* wrong :
         {"", "2:30", "02:60", "24:01", "25:00", "02.30", "02:30:00", "0230", "-1:00", "ab:cd"}) {
        EXPECT_FALSE(parse_clock(wrong)) << wrong;
    }
}

TEST(Quantity, GlobsAreSoundOrSayWhatIsWrong) {
    for (const char* sound :
         {"*", "flush.*", "[a-z]?", "[!]x]", "[]]", "\\[x", "a\\\\", "[[:alpha:]]"}) {
        EXPECT_EQ(glob_problem(sound), std::nullopt) << sound;
    }
    for (const char* wrong : {"", "[", "a[bc", "[]", "[!]", "tail\\"}) {
        EXPECT_NE(glob_problem(wrong), std::nullopt) << wrong;
    }
    EXPECT_NE(glob_problem(std::string_view("a\0b", 3)), std::nullopt);
}

// ---- what compiles ----

TEST(Policy, IsObserveWithoutAnyFile) {
    const Result<Policy> policy = compile_policy({});
    ASSERT_TRUE(policy);
    EXPECT_EQ(*policy, Policy{});
    EXPECT_EQ(policy->mode, Mode::Observe);
}

TEST(Policy, ReadsEveryKey) {
    const Policy policy = compiled(R"(
schema = 1
mode = "maintain"
[flush]
target_p99 = "5ms"
[trim]
takeover = true
minimum_spacing = "12h"
debt_limit = "20%"
[[trim.window]]
days = ["Sun", "Sat"]
from = "22:30"
to = "06:00"
timezone = "UTC"
[[trim.window]]
days = "Mon-Fri"
from = "00:00"
to = "24:00"
timezone = "local"
[[alert]]
match = ["flush.*", "trim.?lo[ck]*"]
hook = "/usr/bin/page"
hold = "30s"
clear = "5min"
timeout = "3s"
[[alert]]
match = "health.*"
hook = "/bin/true"
[[drive]]
match.model = "KXG60*"
match.serial = "X?"
flush.target_p99 = "2.5ms"
trim.exclude = false
[[filesystem]]
match.mount = "/srv/*"
trim.exclude = true
)");
    Policy expected;
    expected.mode = Mode::Maintain;
    expected.flush.target_p99 = milliseconds{5};
    expected.trim.takeover = true;
    expected.trim.minimum_spacing = hours{12};
    expected.trim.debt_limit = 0.2;
    expected.trim.windows = {
        {{Weekday::Sat, Weekday::Sun}, hours{22} + minutes{30}, hours{6}, "UTC"},
        {{Weekday::Mon, Weekday::Tue, Weekday::Wed, Weekday::Thu, Weekday::Fri},
         minutes{0},
         hours{24},
         ""}};
    expected.hooks = {
        {{"flush.*", "trim.?lo[ck]*"}, "/usr/bin/page", seconds{3}, seconds{30}, minutes{5}},
        {{"health.*"}, "/bin/true", seconds{10}, seconds{0}, seconds{0}}};
    expected.drives.resize(1);
    expected.drives[0].match_model = "KXG60*";
    expected.drives[0].match_serial = "X?";
    expected.drives[0].flush.target_p99 = microseconds{2500};
    expected.drives[0].trim_exclude = false;
    expected.filesystems.resize(1);
    expected.filesystems[0].match_mount = "/srv/*";
    expected.filesystems[0].trim_exclude = true;
    EXPECT_EQ(policy, expected);
}

TEST(Policy, DaysMayRunOverTheEndOfTheWeekAndBeSaidTwice) {
    const Policy policy = compiled("[[trim.window]]\ndays = [\"Sat..Mon\", \"sunday\", "
                                   "\"TUE\"]\nfrom = \"01:00\"\nto = \"02:00\"\n");
    ASSERT_EQ(policy.trim.windows.size(), 1U);
    EXPECT_THAT(policy.trim.windows[0].days,
                testing::ElementsAre(Weekday::Mon, Weekday::Tue, Weekday::Sat, Weekday::Sun));
}

TEST(Policy, LaterFilesWinKeyByKeyAndReplaceArrays) {
    const Result<Policy> policy = compile_policy(
        {{"a",
          "mode = \"maintain\"\n[trim]\ntakeover = true\nminimum_spacing = \"2h\"\n"
          "[[alert]]\nhook = \"/a\"\n[[alert]]\nhook = \"/b\"\n[[drive]]\nmatch.model = \"A\"\n"},
         {"b", "[trim]\nminimum_spacing = \"3h\"\n[[alert]]\nhook = \"/c\"\n"},
         {"c", "drive = []\n"}});
    ASSERT_TRUE(policy) << policy.error().text();
    EXPECT_EQ(policy->mode, Mode::Maintain);
    EXPECT_TRUE(policy->trim.takeover);
    EXPECT_EQ(policy->trim.minimum_spacing, hours{3});
    ASSERT_EQ(policy->hooks.size(), 1U);
    EXPECT_EQ(policy->hooks[0].exec, "/c");
    EXPECT_TRUE(policy->drives.empty());
    EXPECT_THAT(policy->files, testing::ElementsAre("a", "b", "c"));
}

TEST(Policy, TheShippedFileCompilesToTheDefaults) {
    const Result<PolicySource> source =
        read_policy_source(std::string(NVMAINT_SOURCE_DIR) + "/policy/policy.toml");
    ASSERT_TRUE(source) << source.error().text();
    EXPECT_EQ(compiled(source->text), Policy{});
}

// What the shipped file says in its comments holds as well: uncommented, it compiles, and settings
// that it calls defaults are.
TEST(Policy, TheShippedFileWithoutItsCommentsCompiles) {
    const Result<PolicySource> source =
        read_policy_source(std::string(NVMAINT_SOURCE_DIR) + "/policy/policy.toml");
    ASSERT_TRUE(source) << source.error().text();
    std::string text;
    std::istringstream lines(source->text);
    for (std::string line; std::getline(lines, line);) {
        const bool setting = line.size() > 1 && line[0] == '#' && line[1] != ' ';
        text += (setting ? line.substr(1) : line) + "\n";
    }
    const Policy policy = compiled(text);
    EXPECT_EQ(policy.mode, Policy{}.mode);
    EXPECT_EQ(policy.trim.takeover, Policy{}.trim.takeover);
    EXPECT_EQ(policy.trim.minimum_spacing, Policy{}.trim.minimum_spacing);
    EXPECT_EQ(policy.trim.windows.size(), 1U);
    ASSERT_EQ(policy.hooks.size(), 1U);
    EXPECT_EQ(policy.hooks[0].timeout, core::Hook{}.timeout);
    EXPECT_EQ(policy.hooks[0].hold, core::Hook{}.hold);
    EXPECT_EQ(policy.hooks[0].clear, core::Hook{}.clear);
    EXPECT_EQ(policy.drives.size(), 1U);
    EXPECT_EQ(policy.filesystems.size(), 1U);
}

// ---- what does not ----

struct WrongCase {
    std::string name;
    std::string text;
    std::string place; // "line:column"
    std::string says;  // part of the message
};
class WrongPolicy : public testing::TestWithParam<WrongCase> {};

TEST_P(WrongPolicy, IsRefusedWithItsPlaceInOneLine) {
    const std::string error = error_of(GetParam().text);
    EXPECT_THAT(error, StartsWith("p.toml:" + GetParam().place + ": "));
    EXPECT_THAT(error, HasSubstr(GetParam().says));
    EXPECT_EQ(error.find('\n'), std::string::npos);
    for (char c : error) {
        EXPECT_TRUE(c >= ' ' && c <= '~') << error;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Each, WrongPolicy,
    testing::Values(
        WrongCase{"UnknownKey", "mode = \"observe\"\nmoed = 1\n", "2:1", "unknown key \"moed\""},
        WrongCase{"UnknownTable", "[trimm]\n", "1:2", "unknown key \"trimm\""},
        WrongCase{"UnknownKeyInTable", "[flush]\ntarget = \"5ms\"\n", "2:1",
                  "known here: target_p99"},
        WrongCase{"UnknownKeyInWindow",
                  "[[trim.window]]\nfrom = \"01:00\"\nto = \"02:00\"\nday = \"Mon\"\n", "4:1",
                  "unknown key \"trim.window.day\""},
        WrongCase{"UnknownKeyInAlert", "[[alert]]\nexec = \"/bin/true\"\n", "2:1",
                  "unknown key \"alert.exec\""},
        WrongCase{"UnknownKeyInMatch", "[[drive]]\nmatch.name = \"x\"\n", "2:7",
                  "known here: model, serial"},
        WrongCase{"DriveKeyOnFilesystem",
                  "[[filesystem]]\nmatch.mount = \"/\"\nflush.target_p99 = \"5ms\"\n", "3:1",
                  "unknown key \"filesystem.flush\""},
        WrongCase{"Throttle", "[throttle]\nenabled = true\n", "1:2",
                  "\"throttle\" is not known to this version"},
        WrongCase{"Profile", "[profile]\n", "1:2", "not known to this version"},
        WrongCase{"Health", "[health]\n", "1:2", "not known to this version"},
        WrongCase{"History", "[history]\n", "1:2", "not known to this version"},
        WrongCase{"Metrics", "[metrics]\n", "1:2", "not known to this version"},
        WrongCase{"Gate", "[trim.gate.load]\nexec = \"/x\"\n", "1:7",
                  "\"trim.gate\" is not known to this version"},
        WrongCase{"NewerSchema", "schema = 2\n", "1:10", "schema 1 only"},
        WrongCase{"SchemaZero", "schema = 0\n", "1:10", "schema 1 only"},
        WrongCase{"SchemaText", "schema = \"1\"\n", "1:10", "it must be the integer 1"},
        WrongCase{"Mode", "mode = \"on\"\n", "1:8", "\"observe\" or \"maintain\""},
        WrongCase{"ModeType", "mode = true\n", "1:8", "is true or false; it must be"},
        WrongCase{"TableIsNoTable", "flush = 5\n", "1:9", "it must be a table: [flush]"},
        WrongCase{"ArrayIsTable", "[alert]\nhook = \"/x\"\n", "1:1",
                  "an array of tables: [[alert]]"},
        WrongCase{"ArrayOfNumbers", "alert = [1]\n", "1:10", "an array of tables: [[alert]]"},
        WrongCase{"BareDuration", "[flush]\ntarget_p99 = 5\n", "2:14", "a string with a unit"},
        WrongCase{"NoUnit", "[flush]\ntarget_p99 = \"5\"\n", "2:14", "has no unit"},
        WrongCase{"WrongUnit", "[flush]\ntarget_p99 = \"5MiB/s\"\n", "2:14",
                  "unknown unit \"MiB/s\""},
        WrongCase{"UnquotedDuration", "[flush]\ntarget_p99 = 5ms\n", "2:15", "parsing"},
        WrongCase{"TargetTooLow", "[flush]\ntarget_p99 = \"9us\"\n", "2:14", "10us to 1min"},
        WrongCase{"TargetTooHigh", "[flush]\ntarget_p99 = \"61s\"\n", "2:14", "10us to 1min"},
        WrongCase{"SpacingTooLong", "[trim]\nminimum_spacing = \"366d\"\n", "2:19", "0s to 365d"},
        WrongCase{"SpacingFraction", "[trim]\nminimum_spacing = \"500ms\"\n", "2:19",
                  "whole seconds"},
        WrongCase{"TakeoverText", "[trim]\ntakeover = \"true\"\n", "2:12", "without quotes"},
        WrongCase{"DebtNumber", "[trim]\ndebt_limit = 0.2\n", "2:14", "a percentage"},
        WrongCase{"DebtUnit", "[trim]\ndebt_limit = \"20\"\n", "2:14", "does not end in %"},
        WrongCase{"DebtTooHigh", "[trim]\ndebt_limit = \"101%\"\n", "2:14", "over 100%"},
        WrongCase{"DebtTooLow", "[trim]\ndebt_limit = \"0.9%\"\n", "2:14", "1% to 100%"},
        WrongCase{"WindowIsTable", "[trim.window]\nfrom = \"01:00\"\n", "1:1", "[[trim.window]]"},
        WrongCase{"WindowWithoutTo", "\n[[trim.window]]\nfrom = \"01:00\"\n", "2:1",
                  "needs both \"from\" and \"to\""},
        WrongCase{"WindowOfNothing", "[[trim.window]]\nfrom = \"01:00\"\nto = \"01:00\"\n", "1:1",
                  "same time"},
        WrongCase{"WindowFromMidnightOfTheNextDay",
                  "[[trim.window]]\nfrom = \"24:00\"\nto = \"01:00\"\n", "1:1", "before \"24:00\""},
        WrongCase{"Clock", "[[trim.window]]\nfrom = \"1am\"\nto = \"02:00\"\n", "2:8",
                  "not a time of day"},
        WrongCase{"ClockOfToml", "[[trim.window]]\nfrom = 01:00:00\nto = \"02:00\"\n", "2:8",
                  "is a time; it must be a string"},
        WrongCase{"Day",
                  "[[trim.window]]\ndays = [\"Mon\", \"Mond\"]\nfrom = \"01:00\"\nto = \"02:00\"\n",
                  "2:16", "no day of the week"},
        WrongCase{"DayNumber", "[[trim.window]]\ndays = [1]\nfrom = \"01:00\"\nto = \"02:00\"\n",
                  "2:9", "a day of the week"},
        WrongCase{"NoDays", "[[trim.window]]\ndays = []\nfrom = \"01:00\"\nto = \"02:00\"\n", "2:8",
                  "is empty"},
        WrongCase{
            "Timezone",
            "[[trim.window]]\nfrom = \"01:00\"\nto = \"02:00\"\ntimezone = \"Europe/Berlin\"\n",
            "4:12", "knows \"local\" (the host's own) and \"UTC\""},
        WrongCase{"AlertWithoutHook", "[[alert]]\nmatch = \"*\"\n", "1:1", "needs \"hook\""},
        WrongCase{"RelativeHook", "[[alert]]\nhook = \"page\"\n", "2:8", "absolute path"},
        WrongCase{"RootAsHook", "[[alert]]\nhook = \"/\"\n", "2:8", "absolute path"},
        WrongCase{"HookNul", "[[alert]]\nhook = \"/a\\u0000b\"\n", "2:8", "holds a NUL"},
        WrongCase{"BadGlob", "[[alert]]\nhook = \"/x\"\nmatch = [\"ok\", \"flush.[\"]\n", "3:16",
                  "never closed"},
        WrongCase{"EmptyGlob", "[[alert]]\nhook = \"/x\"\nmatch = \"\"\n", "3:9",
                  "matches nothing"},
        WrongCase{"NoGlobs", "[[alert]]\nhook = \"/x\"\nmatch = []\n", "3:9", "leave it out"},
        WrongCase{"GlobNumber", "[[alert]]\nhook = \"/x\"\nmatch = [1]\n", "3:10", "a pattern"},
        WrongCase{"HoldTooLong", "[[alert]]\nhook = \"/x\"\nhold = \"31d\"\n", "3:8", "0s to 30d"},
        WrongCase{"TimeoutTooShort", "[[alert]]\nhook = \"/x\"\ntimeout = \"0s\"\n", "3:11",
                  "1s to 10min"},
        WrongCase{"TimeoutTooLong", "[[alert]]\nhook = \"/x\"\ntimeout = \"11min\"\n", "3:11",
                  "1s to 10min"},
        WrongCase{"DriveWithoutMatch", "[[drive]]\nflush.target_p99 = \"5ms\"\n", "1:1",
                  "needs \"match.model\" or \"match.serial\""},
        WrongCase{"FilesystemWithoutMatch", "[[filesystem]]\ntrim.exclude = true\n", "1:1",
                  "needs \"match.mount\""},
        WrongCase{"MountIsRelative", "[[filesystem]]\nmatch.mount = \"srv\"\n", "2:1",
                  "begins with \"/\""},
        WrongCase{"ExcludeText", "[[filesystem]]\nmatch.mount = \"/\"\ntrim.exclude = \"yes\"\n",
                  "3:16", "true or false"},
        WrongCase{"DuplicateKey", "mode = \"observe\"\nmode = \"maintain\"\n", "2:8",
                  "cannot redefine"},
        WrongCase{"DuplicateTable", "[flush]\n[flush]\n", "2:1", "cannot redefine"},
        WrongCase{"Syntax", "mode = \n", "1:8", "parsing"},
        WrongCase{"FirstOfTwo", "zzz = 1\naaa = 2\n", "1:1", "\"zzz\""},
        WrongCase{"HostileKey", "\"a\\u001b\\u00ff\" = 1\n", "1:1", "a\\x1b\\xc3\\xbf"},
        WrongCase{"InvalidUtf8", "mode = \"\xff\"\n", "1:8", "utf-8"},
        WrongCase{"HeaderOfNothing", "[=", "1:2", "parsing"},
        WrongCase{"Nul", std::string("mode\0 = 1\n", 10), "1:5", "parsing"}),
    [](const testing::TestParamInfo<WrongCase>& info) { return info.param.name; });

TEST(Policy, ErrorsNameTheFileTheyStandIn) {
    const Result<Policy> policy =
        compile_policy({{"a.toml", "mode = \"maintain\"\n"}, {"b.toml", "\n\nx = 1\n"}});
    ASSERT_FALSE(policy);
    EXPECT_THAT(policy.error().text(), StartsWith("b.toml:3:1: "));
}

// ---- hostile files ----

std::string repeated(const std::string& part, std::size_t count) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i) {
        out += part;
    }
    return out;
}

TEST(HostilePolicy, DottedKeysCannotOverflowTheStack) {
    for (const std::string& text :
         {"a" + repeated(".a", 400000) + " = 1\n", "[a" + repeated(".a", 400000) + "]\n",
          "x = { a" + repeated(" . \"a\"", 100000) + " = 1 }\n",
          "# it's\n'''x''' = 1\n[a" + repeated(".a", 400000) + "]\n",
          "x = \"\"\"\n\" it's # \"\"\"\"\n[a" + repeated(".a", 400000) + "]\n"}) {
        EXPECT_THAT(error_of(text), HasSubstr("nested deeper")) << text.substr(0, 40);
    }
}

TEST(HostilePolicy, DepthCountsDotsOfOneKeyOnly) {
    EXPECT_EQ(find_trap("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p = 1"), std::nullopt); // 16 parts
    const auto trap = find_trap("\na.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q = 1");
    ASSERT_TRUE(trap);
    EXPECT_EQ(trap->line, 2U);
    EXPECT_EQ(trap->column, 32U);
    EXPECT_EQ(find_trap("x = [" + repeated("\"a.b.c\", ", 100) + "]"), std::nullopt);
    EXPECT_EQ(find_trap("x = [" + repeated("1.5, ", 100) + "]"), std::nullopt);
    EXPECT_EQ(find_trap(repeated("a.b = 1\n", 100)), std::nullopt);
    EXPECT_EQ(find_trap("# " + repeated(".", 100) + "\n"), std::nullopt);
}

// The parser's own test for white space beyond ASCII does not return for such characters.
TEST(HostilePolicy, WhatIsNotAsciiStandsInStringsAndCommentsOnly) {
    EXPECT_THAT(error_of("# \xc3\xa4\nmode = \xc3\xa4\n"),
                StartsWith("p.toml:2:8: only strings and comments"));
    EXPECT_THAT(error_of("mode = \"observe\" \xef\xac\x81\n"), StartsWith("p.toml:1:18: only"));
    EXPECT_THAT(error_of("\xc3\xa4 = 1\n"), StartsWith("p.toml:1:1: only"));
    EXPECT_EQ(compiled("\xef\xbb\xbf# \xc3\xa4\n[[filesystem]] # \xe3\x81\x82\n"
                       "match.mount = \"/\xc3\xa4\"\n")
                  .filesystems.size(),
              1U);
}

TEST(HostilePolicy, DeepValuesAreRefused) {
    EXPECT_THAT(error_of("x = " + repeated("[", 500000)), HasSubstr("depth"));
    EXPECT_NE(error_of("x = " + repeated("{ a = ", 200000)), "(compiled)");
}

TEST(HostilePolicy, AMegabyteOfNoiseIsRefusedInOneShortLine) {
    std::mt19937 random(1);
    for (int round = 0; round < 8; ++round) {
        std::string noise(std::size_t{1} << 20, '\0');
        for (char& c : noise) {
            // Every second round only printable noise, which gets further into the parser.
            c = static_cast<char>(round % 2 == 0 ? random() % 256 : 32 + random() % 95);
        }
        const std::string error = error_of(noise);
        EXPECT_THAT(error, StartsWith("p.toml:"));
        EXPECT_LT(error.size(), 1000U);
        EXPECT_EQ(error.find('\n'), std::string::npos);
    }
}

// Bytes of a good policy are changed, left out and doubled: it compiles or is refused, and a
// refusal names a line that the text has.
TEST(HostilePolicy, DamagedPoliciesCompileOrAreRefused) {
    const std::string good = "schema = 1\nmode = \"maintain\"\n[flush]\ntarget_p99 = \"5ms\"\n"
                             "[[trim.window]]\ndays = [\"Sat\", \"Sun\"]\nfrom = \"22:00\"\n"
                             "to = \"06:00\"\n[[alert]]\nmatch = [\"a*\"]\nhook = \"/x\"\n"
                             "[[drive]]\nmatch.model = \"K*\"\nflush.target_p99 = \"1ms\"\n";
    ASSERT_TRUE(compile(good));
    std::mt19937 random(7);
    for (int round = 0; round < 5000; ++round) {
        std::string bad = good;
        for (unsigned change = 0; change <= random() % 3; ++change) {
            const std::size_t at = random() % bad.size();
            switch (random() % 4) {
            case 0:
                bad[at] = static_cast<char>(random() % 256);
                break;
            case 1:
                bad.erase(at, 1 + random() % 10);
                break;
            case 2:
                bad.insert(at, bad.substr(at, random() % 20));
                break;
            default:
                bad.insert(at, 1, "[]{}=.\"'\\#\n,"[random() % 12]);
            }
            if (bad.empty()) {
                bad = "x";
            }
        }
        const Result<Policy> policy = compile(bad);
        if (!policy) {
            EXPECT_THAT(policy.error().context, StartsWith("p.toml:"));
            EXPECT_EQ(policy.error().context.find('\n'), std::string::npos);
        }
    }
}

// ---- there and back ----

TEST(PolicyText, CompilesToTheSamePolicy) {
    std::mt19937 random(3);
    const auto maybe = [&] { return random() % 2 == 0; };
    for (int round = 0; round < 300; ++round) {
        Policy policy;
        policy.mode = maybe() ? Mode::Maintain : Mode::Observe;
        if (maybe()) {
            policy.flush.target_p99 = nanoseconds{10000 + (random() << 4U) % 59999990000};
        }
        policy.trim.takeover = maybe();
        policy.trim.minimum_spacing = seconds{random() % 31536000};
        if (maybe()) {
            policy.trim.debt_limit = (1 + static_cast<double>(random() % 99000) / 1000) / 100;
        }
        for (std::size_t i = random() % 3; i > 0; --i) {
            core::TrimWindow window;
            for (int day = 0; day < 7; ++day) {
                if (maybe()) {
                    window.days.push_back(static_cast<Weekday>(day));
                }
            }
            window.from = minutes{random() % 1440};
            window.to = minutes{(window.from.count() + 1 + random() % 1439) % 1440};
            window.timezone = maybe() ? "UTC" : "";
            policy.trim.windows.push_back(window);
        }
        for (std::size_t i = random() % 3; i > 0; --i) {
            core::Hook hook;
            hook.exec = "/opt/\"odd\" \\name\x7f\t\n\xc3\xa4";
            if (maybe()) {
                hook.match = {"flush.*", "[]\"']"};
            }
            hook.hold = seconds{random() % 100000};
            hook.clear = seconds{random() % 100000};
            hook.timeout = seconds{1 + random() % 600};
            policy.hooks.push_back(hook);
        }
        for (std::size_t i = random() % 3; i > 0; --i) {
            core::Override drive;
            drive.match_model = "M*";
            drive.match_serial = maybe() ? "S[0-9]" : "";
            if (maybe()) {
                drive.flush.target_p99 = microseconds{10 + random() % 1000000};
            }
            if (maybe()) {
                drive.trim_exclude = maybe();
            }
            policy.drives.push_back(drive);
            core::Override filesystem;
            filesystem.match_mount = "/srv/?";
            if (maybe()) {
                filesystem.trim_exclude = maybe();
            }
            policy.filesystems.push_back(filesystem);
        }
        const std::string text = policy_to_toml(policy);
        ASSERT_EQ(compiled(text), policy) << text;
        ASSERT_EQ(policy_to_toml(compiled(text)), text);
    }
}

// ---- files ----

class PolicyFiles : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "nvmaint-policy-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        root_ = name;
    }
    void TearDown() override {
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }
    void write(const std::string& path, const std::string& text) const {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path, std::ios::binary) << text;
    }
    [[nodiscard]] std::string error() const {
        const auto sources = read_policy_sources(root_.string());
        return sources ? "(read)" : sources.error().text();
    }
    fs::path root_;
};

TEST_F(PolicyFiles, NoneIsFine) {
    const Result<Policy> policy = load_policy(root_.string());
    ASSERT_TRUE(policy) << policy.error().text();
    EXPECT_EQ(*policy, Policy{});
}

TEST_F(PolicyFiles, AreReadVendorFirstThenLocalThenDropInsByName) {
    write("usr/lib/nvmaint/policy.toml", "mode = \"maintain\"\n");
    write("etc/nvmaint/policy.toml", "[trim]\ntakeover = true\n");
    write("etc/nvmaint/policy.d/20-b.toml", "mode = \"observe\"\n");
    write("etc/nvmaint/policy.d/10-a.toml", "mode = \"maintain\"\n");
    write("etc/nvmaint/policy.d/.hidden.toml", "broken");
    write("etc/nvmaint/policy.d/30-c.toml.dpkg-old", "broken");
    const Result<Policy> policy = load_policy(root_.string());
    ASSERT_TRUE(policy) << policy.error().text();
    EXPECT_EQ(policy->mode, Mode::Observe);
    EXPECT_TRUE(policy->trim.takeover);
    const std::string root = root_.string();
    EXPECT_THAT(policy->files, testing::ElementsAre(root + "/usr/lib/nvmaint/policy.toml",
                                                    root + "/etc/nvmaint/policy.toml",
                                                    root + "/etc/nvmaint/policy.d/10-a.toml",
                                                    root + "/etc/nvmaint/policy.d/20-b.toml"));
}

TEST_F(PolicyFiles, AFolderInPlaceOfAFileIsRefused) {
    fs::create_directories(root_ / "etc/nvmaint/policy.toml");
    EXPECT_THAT(error(),
                AllOf(HasSubstr("etc/nvmaint/policy.toml"), HasSubstr("not a regular file")));
}

TEST_F(PolicyFiles, AFileInPlaceOfTheFolderIsRefused) {
    write("etc/nvmaint/policy.d", "");
    EXPECT_THAT(error(), AllOf(HasSubstr("policy.d"), HasSubstr("Not a directory")));
}

TEST_F(PolicyFiles, AFifoIsRefusedAndNotWaitedFor) {
    fs::create_directories(root_ / "etc/nvmaint");
    ASSERT_EQ(mkfifo((root_ / "etc/nvmaint/policy.toml").c_str(), 0600), 0);
    EXPECT_THAT(error(), HasSubstr("not a regular file"));
}

TEST_F(PolicyFiles, ALinkToNowhereIsAnErrorAndNotAbsence) {
    fs::create_directories(root_ / "etc/nvmaint");
    fs::create_symlink("gone.toml", root_ / "etc/nvmaint/policy.toml");
    EXPECT_THAT(error(), HasSubstr("No such file"));
}

TEST_F(PolicyFiles, LinksStayWithinTheRoot) {
    write("srv/shared.toml", "mode = \"maintain\"\n");
    fs::create_directories(root_ / "etc/nvmaint");
    fs::create_symlink("/srv/shared.toml", root_ / "etc/nvmaint/policy.toml");
    const Result<Policy> policy = load_policy(root_.string());
    ASSERT_TRUE(policy) << policy.error().text();
    EXPECT_EQ(policy->mode, Mode::Maintain);
}

TEST_F(PolicyFiles, AMebibyteIsReadAndNoByteMore) {
    write("etc/nvmaint/policy.toml", std::string(std::size_t{1} << 20, '#'));
    EXPECT_EQ(error(), "(read)");
    write("etc/nvmaint/policy.toml", std::string((std::size_t{1} << 20) + 1, '#'));
    EXPECT_THAT(error(), HasSubstr("larger than 1 MiB"));
}

TEST_F(PolicyFiles, AnUnreadableFileIsRefused) {
    write("etc/nvmaint/policy.toml", "mode = \"observe\"\n");
    ASSERT_EQ(chmod((root_ / "etc/nvmaint/policy.toml").c_str(), 0), 0);
    ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
    if (geteuid() == 0 && seteuid(65534) != 0) {
        GTEST_SKIP() << "root reads every file, and the identity cannot be dropped here";
    }
    const std::string said = error();
    if (getuid() == 0) {
        ASSERT_EQ(seteuid(0), 0);
    }
    EXPECT_THAT(said, AllOf(HasSubstr("etc/nvmaint/policy.toml"), HasSubstr("Permission denied")));
}

TEST_F(PolicyFiles, NamesInErrorsAreOneLine) {
    write("etc/nvmaint/policy.d/a\nb\x1b.toml", "x = 1\n");
    const Result<Policy> policy = load_policy(root_.string());
    ASSERT_FALSE(policy);
    EXPECT_THAT(policy.error().text(), HasSubstr("a\\x0ab\\x1b.toml:1:1: "));
}

TEST_F(PolicyFiles, ASingleFileThatIsAbsentIsAnError) {
    const auto source = read_policy_source((root_ / "gone.toml").string());
    ASSERT_FALSE(source);
    EXPECT_EQ(source.error().sys_errno, ENOENT);
}

} // namespace
} // namespace nvmaint::config
