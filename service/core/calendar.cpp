#include "core/calendar.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace nvmaint::core {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kShorthands{{
    {"minutely", "*-*-* *:*:00"},
    {"hourly", "*-*-* *:00:00"},
    {"daily", "*-*-* 00:00:00"},
    {"weekly", "Mon *-*-* 00:00:00"},
    {"monthly", "*-*-01 00:00:00"},
    {"quarterly", "*-01,04,07,10-01 00:00:00"},
    {"semiannually", "*-01,07-01 00:00:00"},
    {"yearly", "*-01-01 00:00:00"},
    {"annually", "*-01-01 00:00:00"},
}};

constexpr std::array<std::string_view, 7> kWeekdays{"mon", "tue", "wed", "thu",
                                                    "fri", "sat", "sun"};

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const auto at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) {
            return parts;
        }
        text.remove_prefix(at + separator.size());
    }
}

std::optional<int> parse_number(std::string_view text) {
    int value = 0;
    const auto* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || stop != end || value < 0) {
        return std::nullopt;
    }
    return value;
}

// "Mon", "Monday" -> 0. The manual allows English names, short or full, in any case.
std::optional<unsigned> parse_weekday(std::string_view text) {
    if (text.size() < 3) {
        return std::nullopt;
    }
    constexpr std::array<std::string_view, 7> kRest{"day", "sday",  "nesday", "rsday",
                                                    "day", "urday", "day"};
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    for (unsigned day = 0; day < 7; ++day) {
        if (std::string_view(lower).substr(0, 3) == kWeekdays[day] &&
            (lower.size() == 3 || std::string_view(lower).substr(3) == kRest[day])) {
            return day;
        }
    }
    return std::nullopt;
}

std::optional<unsigned> parse_weekdays(std::string_view text) {
    unsigned mask = 0;
    for (const auto part : split(text, ",")) {
        auto ends = split(part, "..");
        if (ends.size() == 1) {
            ends = split(part, "-");
        }
        const auto first = parse_weekday(ends.front());
        const auto last = parse_weekday(ends.back());
        if (!first || !last || ends.size() > 2) {
            return std::nullopt;
        }
        for (unsigned day = *first;; day = (day + 1) % 7) {
            mask |= 1U << day;
            if (day == *last) {
                break;
            }
        }
    }
    return mask;
}

// `lowest`, `highest`: what "*" stands for where a repetition hangs on it, and the legal values.
std::optional<std::vector<CalendarRange>> parse_component(std::string_view text, int lowest,
                                                          int highest) {
    std::vector<CalendarRange> ranges;
    if (text == "*") {
        return ranges;
    }
    for (const auto part : split(text, ",")) {
        const auto halves = split(part, "/");
        const auto ends = split(halves[0], "..");
        if (halves.size() > 2 || ends.size() > 2) {
            return std::nullopt;
        }
        CalendarRange range{lowest, highest, 1};
        if (halves[0] != "*") {
            const auto first = parse_number(ends.front());
            const auto last = parse_number(ends.back());
            if (!first || !last || *first < lowest || *last > highest || *last < *first) {
                return std::nullopt;
            }
            range = {*first, ends.size() == 2 ? *last : *first, ends.size() == 2 ? 1 : 0};
        } else if (halves.size() == 1) {
            return std::nullopt; // "*" inside a list
        }
        if (halves.size() == 2) {
            const auto step = parse_number(halves[1]);
            if (!step || *step == 0) {
                return std::nullopt;
            }
            range.step = *step;
            if (ends.size() == 1) {
                range.last = highest;
            }
        }
        ranges.push_back(range);
    }
    return ranges;
}

bool parse_date(std::string_view text, Calendar& calendar) {
    auto parts = split(text, "-");
    if (parts.size() == 2) {
        parts.insert(parts.begin(), "*");
    }
    if (parts.size() != 3) {
        return false;
    }
    const auto years = parse_component(parts[0], 1970, 2199);
    const auto months = parse_component(parts[1], 1, 12);
    const auto days = parse_component(parts[2], 1, 31);
    if (!years || !months || !days) {
        return false;
    }
    calendar.years = *years;
    calendar.months = *months;
    calendar.days = *days;
    return true;
}

bool parse_time(std::string_view text, Calendar& calendar) {
    auto parts = split(text, ":");
    if (parts.size() == 2) {
        parts.push_back("00");
    }
    if (parts.size() != 3) {
        return false;
    }
    const auto hours = parse_component(parts[0], 0, 23);
    const auto minutes = parse_component(parts[1], 0, 59);
    const auto seconds = parse_component(parts[2], 0, 59);
    if (!hours || !minutes || !seconds) {
        return false;
    }
    calendar.hours = *hours;
    calendar.minutes = *minutes;
    calendar.seconds = *seconds;
    return true;
}

bool matches(const std::vector<CalendarRange>& ranges, int value) {
    return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
               return value == range.first ||
                      (range.step > 0 && value >= range.first && value <= range.last &&
                       (value - range.first) % range.step == 0);
           });
}

bool day_matches(const Calendar& calendar, std::chrono::sys_days day) {
    const std::chrono::year_month_day date{day};
    const unsigned weekday = std::chrono::weekday{day}.iso_encoding() - 1; // Monday = 0
    return (calendar.weekdays == 0 || (calendar.weekdays & (1U << weekday)) != 0) &&
           matches(calendar.years, static_cast<int>(date.year())) &&
           matches(calendar.months, static_cast<int>(static_cast<unsigned>(date.month()))) &&
           matches(calendar.days, static_cast<int>(static_cast<unsigned>(date.day())));
}

// The first moment of a day at or after `from` (seconds since midnight).
std::optional<int> first_time(const Calendar& calendar, int from) {
    for (int hour = from / 3600; hour < 24; ++hour) {
        if (!matches(calendar.hours, hour)) {
            continue;
        }
        for (int minute = 0; minute < 60; ++minute) {
            if (!matches(calendar.minutes, minute) || hour * 3600 + minute * 60 + 59 < from) {
                continue;
            }
            for (int second = 0; second < 60; ++second) {
                const int time = hour * 3600 + minute * 60 + second;
                if (time >= from && matches(calendar.seconds, second)) {
                    return time;
                }
            }
        }
    }
    return std::nullopt;
}

} // namespace

std::optional<Calendar> parse_calendar(std::string_view text) {
    for (const auto& [name, meaning] : kShorthands) {
        if (text == name) {
            text = meaning;
            break;
        }
    }
    Calendar calendar;
    calendar.hours = calendar.minutes = calendar.seconds = {CalendarRange{}}; // midnight
    bool any = false;
    for (const auto token : split(text, " ")) {
        if (token.empty()) {
            continue;
        }
        any = true;
        const char first = token.front();
        if (token == "UTC") {
            calendar.utc = true;
        } else if ((first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z')) {
            const auto weekdays = parse_weekdays(token);
            if (!weekdays) {
                return std::nullopt;
            }
            calendar.weekdays = *weekdays;
        } else if (token.find(':') != std::string_view::npos) {
            if (!parse_time(token, calendar)) {
                return std::nullopt;
            }
        } else if (!parse_date(token, calendar)) {
            return std::nullopt;
        }
    }
    return any ? std::optional(calendar) : std::nullopt;
}

std::optional<WallTime> next_elapse(const Calendar& calendar, WallTime after, seconds utc_offset) {
    using std::chrono::days;
    const seconds offset = calendar.utc ? seconds{0} : utc_offset;
    const auto local = std::chrono::floor<seconds>(after) + offset;
    auto day = std::chrono::floor<days>(local);
    int from = static_cast<int>((local - day).count()) + 1; // strictly after
    constexpr int kSearchDays = 3653;                       // ten years
    for (int i = 0; i < kSearchDays; ++i, day += days{1}, from = 0) {
        if (!day_matches(calendar, day)) {
            continue;
        }
        if (const auto time = first_time(calendar, from)) {
            return WallTime(day + seconds{*time} - offset);
        }
    }
    return std::nullopt;
}

} // namespace nvmaint::core
