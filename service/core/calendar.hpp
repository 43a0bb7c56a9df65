// Calendar events of systemd timers (systemd.time(7), "Calendar Events"): when is the next one due?
// Worked example: "Mon *-*-* 00:00:00" after Monday 2026-11-23 01:12 is Monday 2026-11-30 00:00, in
// the host's local time.
#pragma once

#include "core/time.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace nvmaint::core {

// One value or range of a component: first, first+step, ... up to last. step 0 = `first` alone.
struct CalendarRange {
    int first = 0;
    int last = 0;
    int step = 0;
    bool operator==(const CalendarRange&) const = default;
};

// An empty list stands for "any value".
struct Calendar {
    unsigned weekdays = 0; // bit 0 = Monday ... bit 6 = Sunday; 0 = any day
    std::vector<CalendarRange> years, months, days, hours, minutes, seconds;
    bool utc = false; // the event names UTC; otherwise local time
    bool operator==(const Calendar&) const = default;
};

// As systemd writes it after normalising, and the shorthands ("weekly"). Nothing for what is not
// understood: days counted from the end of a month, fractions of seconds, named time zones.
[[nodiscard]] std::optional<Calendar> parse_calendar(std::string_view text);

// The first event strictly after `after`; nothing when there is none within ten years. `utc_offset`
// is that of the local time; it is taken as constant, so that a result across a change of summer
// time is off by that hour.
[[nodiscard]] std::optional<WallTime> next_elapse(const Calendar& calendar, WallTime after,
                                                  seconds utc_offset);

} // namespace nvmaint::core
