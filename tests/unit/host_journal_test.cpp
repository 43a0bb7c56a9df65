#include "collect/journal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nvmaint::collect {
namespace {

using core::Boot;
using core::JournalEntry;
using testing::ElementsAre;
using testing::HasSubstr;

core::WallTime usec(std::int64_t microseconds) {
    return core::WallTime(core::microseconds(microseconds));
}

TEST(Journal, ReadsWhatJournalctlPrints) {
    const auto entries = parse_journal(
        R"({"__REALTIME_TIMESTAMP":"1764000000000001","_BOOT_ID":"b1","_SYSTEMD_UNIT":"fstrim.service",)"
        R"("SYSLOG_IDENTIFIER":"fstrim","MESSAGE":"/: 1 GiB trimmed","PRIORITY":"6","_PID":"77"})"
        "\n");
    ASSERT_TRUE(entries) << entries.error().text();
    EXPECT_THAT(*entries, ElementsAre(JournalEntry{.time = usec(1764000000000001),
                                                   .boot_id = "b1",
                                                   .unit = "fstrim.service",
                                                   .identifier = "fstrim",
                                                   .message_id = "",
                                                   .message = "/: 1 GiB trimmed"}));
}

TEST(Journal, FilesMessagesOfPid1UnderTheUnitTheyAreAbout) {
    const auto entries = parse_journal(
        R"({"__REALTIME_TIMESTAMP":"1","_PID":"1","_SYSTEMD_UNIT":"init.scope","UNIT":"fstrim.timer","MESSAGE":"Started"})"
        "\n"
        R"({"__REALTIME_TIMESTAMP":"2","_PID":"1","_SYSTEMD_UNIT":"init.scope","MESSAGE":"Reloading."})"
        "\n"
        R"({"__REALTIME_TIMESTAMP":"3","_PID":"9","_SYSTEMD_UNIT":"a.service","UNIT":"b.service"})"
        "\n");
    ASSERT_TRUE(entries);
    EXPECT_EQ((*entries)[0].unit, "fstrim.timer");
    EXPECT_EQ((*entries)[1].unit, "init.scope");
    EXPECT_EQ((*entries)[2].unit, "a.service"); // anybody may set UNIT=
}

TEST(Journal, SortsByTime) {
    const auto entries = parse_journal("{\"__REALTIME_TIMESTAMP\":\"9\",\"MESSAGE\":\"late\"}\n\n"
                                       "{\"__REALTIME_TIMESTAMP\":5,\"MESSAGE\":\"early\"}");
    ASSERT_TRUE(entries);
    EXPECT_EQ((*entries)[0].message, "early");
    EXPECT_EQ((*entries)[1].message, "late");
}

TEST(Journal, ReadsBytesRepeatedAndMissingFields) {
    const auto entries =
        parse_journal("{\"__REALTIME_TIMESTAMP\":\"1\",\"MESSAGE\":[104,105,255]}\n"
                      "{\"__REALTIME_TIMESTAMP\":\"2\",\"MESSAGE\":[\"one\",\"two\"]}\n"
                      "{\"__REALTIME_TIMESTAMP\":\"3\",\"MESSAGE\":null}\n"
                      "{\"__REALTIME_TIMESTAMP\":\"4\",\"MESSAGE\":[[104],[105]]}\n"
                      "{\"__REALTIME_TIMESTAMP\":\"5\",\"MESSAGE\":[300]}\n");
    ASSERT_TRUE(entries);
    EXPECT_EQ((*entries)[0].message, "hi\xff");
    EXPECT_EQ((*entries)[1].message, "one");
    EXPECT_EQ((*entries)[2].message, "");
    EXPECT_EQ((*entries)[3].message, "h");
    EXPECT_EQ((*entries)[4].message, "");
}

TEST(Journal, BearsDeepNesting) {
    std::string deep = "{\"__REALTIME_TIMESTAMP\":\"1\",\"MESSAGE\":";
    deep += std::string(200000, '[') + std::string(200000, ']') + "}";
    const auto entries = parse_journal(deep);
    ASSERT_TRUE(entries);
    EXPECT_EQ(entries->front().message, "");
}

class BadJournal : public testing::TestWithParam<const char*> {};
TEST_P(BadJournal, NamesItsLine) {
    const auto entries =
        parse_journal(std::string("{\"__REALTIME_TIMESTAMP\":\"1\"}\n") + GetParam() + "\n");
    ASSERT_FALSE(entries);
    EXPECT_EQ(entries.error().kind, ErrorKind::Malformed);
    EXPECT_THAT(entries.error().text(), HasSubstr("line 2"));
}
INSTANTIATE_TEST_SUITE_P(Lines, BadJournal,
                         testing::Values("x", "[]", "{}", "{\"MESSAGE\":\"no time\"}",
                                         "{\"__REALTIME_TIMESTAMP\":\"soon\"}",
                                         "{\"__REALTIME_TIMESTAMP\":\"99999999999999999999\"}",
                                         "{\"__REALTIME_TIMESTAMP\":\"1\",\"MESSAGE\":\"\xff\"}"));

TEST(Boots, AreReadInBothForms) {
    const auto boots = parse_boots(
        "{\"boot_id\":\"b\",\"first_entry\":2000000,\"last_entry\":3000000,\"index\":0}\n"
        "{\"boot_id\":\"a\",\"first\":\"1970-01-01T00:00:01Z\",\"last\":\"1970-01-01T00:00:01.5Z\"}"
        "\n");
    ASSERT_TRUE(boots) << boots.error().text();
    EXPECT_THAT(*boots, ElementsAre(Boot{"a", usec(1000000), usec(1500000)},
                                    Boot{"b", usec(2000000), usec(3000000)}));
    EXPECT_EQ(parse_boots(format_boots(*boots)), boots);
}

TEST(Boots, NeedIdAndBothTimes) {
    for (const char* line : {"{\"boot_id\":\"a\",\"first\":1}", "{\"first\":1,\"last\":2}",
                             "{\"boot_id\":\"a\",\"first\":\"x\",\"last\":2}"}) {
        EXPECT_THAT(parse_boots(line).error().text(), HasSubstr("line 1")) << line;
    }
}

TEST(LiveJournal, IsTextOfARecordingOrAReason) {
    // Whatever this machine has: the text must parse, an absence must be explained.
    const Result<std::string> text = read_journal_live(
        {"fstrim.service", "fstrim.timer"}, *core::parse_rfc3339("2026-11-30T00:00:00Z"));
    if (text) {
        EXPECT_TRUE(parse_journal(*text));
    } else {
        EXPECT_FALSE(text.error().context.empty());
    }
    const Result<std::string> boots = read_boots_live();
    if (boots) {
        EXPECT_TRUE(parse_boots(*boots));
    } else {
        EXPECT_FALSE(boots.error().context.empty());
    }
}

} // namespace
} // namespace nvmaint::collect
