#include "core/calendar.hpp"

#include <gtest/gtest.h>

namespace nvmaint::core {
namespace {

struct Case {
    const char* event;
    const char* after;
    const char* next; // "" = none
    int offset_hours = 0;
};

WallTime at(const char* text) {
    return *parse_rfc3339(text);
}

class CalendarCase : public testing::TestWithParam<Case> {};

TEST_P(CalendarCase, NextElapseIsTheFirstEventAfter) {
    const auto& c = GetParam();
    const auto calendar = parse_calendar(c.event);
    ASSERT_TRUE(calendar) << c.event;
    const auto next = next_elapse(*calendar, at(c.after), std::chrono::hours{c.offset_hours});
    ASSERT_EQ(next.has_value(), *c.next != '\0');
    if (next) {
        EXPECT_EQ(to_rfc3339(*next), c.next) << c.event;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Events, CalendarCase,
    testing::Values(
        Case{"Mon *-*-* 00:00:00", "2026-11-23T01:12:00Z", "2026-11-30T00:00:00Z"},
        Case{"weekly", "2026-11-29T23:59:59Z", "2026-11-30T00:00:00Z"},
        // Strictly after: the event itself does not count.
        Case{"weekly", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"},
        Case{"weekly", "2026-11-30T20:00:00Z", "2026-12-06T23:00:00Z", 1},
        Case{"Mon *-*-* 00:00:00 UTC", "2026-11-30T20:00:00Z", "2026-12-07T00:00:00Z", 1},
        Case{"daily", "2026-12-31T12:00:00Z", "2027-01-01T00:00:00Z"},
        Case{"hourly", "2026-11-30T20:00:01Z", "2026-11-30T21:00:00Z"},
        Case{"monthly", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
        Case{"quarterly", "2026-11-01T00:00:00Z", "2027-01-01T00:00:00Z"},
        Case{"*-*-* 02:30", "2026-11-30T02:29:59Z", "2026-11-30T02:30:00Z"},
        Case{"*:0/15", "2026-11-30T02:31:00Z", "2026-11-30T02:45:00Z"},
        Case{"*-*-* *:00/7:30", "2026-11-30T02:01:00Z", "2026-11-30T02:07:30Z"},
        Case{"Mon..Fri *-*-* 06,18:00:00", "2026-11-27T18:00:00Z", "2026-11-30T06:00:00Z"},
        Case{"Sat,Sun 04:00", "2026-11-30T00:00:00Z", "2026-12-05T04:00:00Z"},
        Case{"Sun..Tue 04:00", "2026-12-01T05:00:00Z", "2026-12-06T04:00:00Z"},
        Case{"*-02-29 00:00:00", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"},
        Case{"*-*-1..7/2 00:00:00", "2026-11-03T00:00:00Z", "2026-11-05T00:00:00Z"},
        Case{"11-30", "2026-11-30T20:00:00Z", "2027-11-30T00:00:00Z"},
        Case{"2026-01-01 00:00:00", "2026-11-30T00:00:00Z", ""},
        Case{"*-02-30 00:00:00", "2026-11-30T00:00:00Z", ""}));

class NotACalendar : public testing::TestWithParam<const char*> {};

TEST_P(NotACalendar, IsRefused) {
    EXPECT_EQ(parse_calendar(GetParam()), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Texts, NotACalendar,
                         testing::Values("", " ", "sometimes", "Mon *-*-* 25:00:00", "*-13-01",
                                         "*-*~3 00:00:00", "*-*-* 00:00:00.5", "*-*-* 1..99:00",
                                         "*-*-* 5..3:00", "*-*-* 00/0:00", "Mo 00:00",
                                         "*-*-* 00:00:00 Europe/Berlin", "@1700000000", ":", "-",
                                         "*-*-* 99999999999:00:00", ",", "Mon,,Tue", "*,1:00"));

} // namespace
} // namespace nvmaint::core
