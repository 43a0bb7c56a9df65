#include "core/time.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

namespace nvmaint::core {

namespace {

// Reads exactly `digits` decimal digits at the front of `text` and takes them off.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) {
    if (text.size() < digits) {
        return std::nullopt;
    }
    int value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
        const char c = text[i];
        if (c < '0' || c > '9') {
            return std::nullopt;
        }
        value = value * 10 + (c - '0');
    }
    text.remove_prefix(digits);
    return value;
}

bool take_char(std::string_view& text, std::string_view any_of) {
    if (text.empty() || any_of.find(text.front()) == std::string_view::npos) {
        return false;
    }
    text.remove_prefix(1);
    return true;
}

// ".25" as microseconds, digits past the sixth dropped. Nothing where there is a point but no
// digit.
std::optional<microseconds> take_fraction(std::string_view& text) {
    if (!take_char(text, ".,")) {
        return microseconds{0};
    }
    std::int64_t value = 0;
    std::size_t digits = 0;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
        if (digits < 6) {
            value = value * 10 + (text.front() - '0');
        }
        ++digits;
        text.remove_prefix(1);
    }
    if (digits == 0) {
        return std::nullopt;
    }
    for (; digits < 6; ++digits) {
        value *= 10;
    }
    return microseconds{value};
}

// "Z" or "+02:00".
std::optional<std::chrono::minutes> take_offset(std::string_view& text) {
    if (take_char(text, "Zz")) {
        return std::chrono::minutes{0};
    }
    const bool west = !text.empty() && text.front() == '-';
    if (!take_char(text, "+-")) {
        return std::nullopt;
    }
    const auto hours = take_digits(text, 2);
    if (!hours || !take_char(text, ":")) {
        return std::nullopt;
    }
    const auto minutes = take_digits(text, 2);
    if (!minutes || *hours > 23 || *minutes > 59) {
        return std::nullopt;
    }
    const std::chrono::minutes offset{*hours * 60 + *minutes};
    return west ? -offset : offset;
}

std::optional<WallTime> parse(std::string_view text) {
    using namespace std::chrono;
    const auto y = take_digits(text, 4);
    if (!y || !take_char(text, "-")) {
        return std::nullopt;
    }
    const auto mo = take_digits(text, 2);
    if (!mo || !take_char(text, "-")) {
        return std::nullopt;
    }
    const auto d = take_digits(text, 2);
    if (!d || !take_char(text, "Tt ")) {
        return std::nullopt;
    }
    const auto h = take_digits(text, 2);
    if (!h || !take_char(text, ":")) {
        return std::nullopt;
    }
    const auto mi = take_digits(text, 2);
    if (!mi || !take_char(text, ":")) {
        return std::nullopt;
    }
    const auto s = take_digits(text, 2);
    if (!s) {
        return std::nullopt;
    }
    const auto fraction = take_fraction(text);
    const auto offset = fraction ? take_offset(text) : std::nullopt;
    const year_month_day date{year{*y}, month{static_cast<unsigned>(*mo)},
                              day{static_cast<unsigned>(*d)}};
    // Second 60 is a leap second (RFC 3339, 5.6); system time has none, so it is the next second.
    if (!offset || !text.empty() || !date.ok() || *h > 23 || *mi > 59 || *s > 60) {
        return std::nullopt;
    }
    return WallTime{sys_days{date} + hours{*h} + minutes{*mi} + std::chrono::seconds{*s} +
                    *fraction - *offset};
}

struct Unit {
    std::int64_t length; // of one, in nanoseconds
    std::string_view one;
    std::string_view many;
};
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::array<Unit, 7> kUnits{{{86400 * kSecond, "day", "days"},
                                      {3600 * kSecond, "h", "h"},
                                      {60 * kSecond, "min", "min"},
                                      {kSecond, "s", "s"},
                                      {1'000'000, "ms", "ms"},
                                      {1'000, "us", "us"},
                                      {1, "ns", "ns"}}};
constexpr std::size_t kSecondsIndex = 3;

std::string count(std::int64_t n, const Unit& unit) {
    return fmt::format("{} {}", n, n == 1 ? unit.one : unit.many);
}

} // namespace

std::string to_rfc3339(WallTime time) {
    using namespace std::chrono;
    const auto whole = floor<std::chrono::seconds>(time);
    const auto midnight = floor<days>(whole);
    const year_month_day date{midnight};
    const hh_mm_ss clock{whole - midnight};
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                       clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

Result<WallTime> parse_rfc3339(std::string_view text) {
    if (const auto time = parse(text)) {
        return *time;
    }
    return Error::make(ErrorKind::Malformed, fmt::format("'{}' is not an RFC 3339 time",
                                                         std::string(text.substr(0, 64))));
}

std::string humane(nanoseconds duration) {
    // The magnitude of the most negative value does not fit; one nanosecond less does.
    const bool negative = duration < nanoseconds::zero();
    std::int64_t left = duration.count();
    if (negative) {
        left = left == INT64_MIN ? INT64_MAX : -left;
    }
    const std::string sign = negative ? "-" : "";
    if (left == 0) {
        return "0 s";
    }
    std::size_t i = 0;
    while (left < kUnits[i].length) {
        ++i;
    }
    // Below a minute one unit is exact enough: "40 s", "12 ms", and "2.3 ms" where it is short.
    if (i >= kSecondsIndex) {
        const double value = static_cast<double>(left) / static_cast<double>(kUnits[i].length);
        if (value < 10 && left % kUnits[i].length != 0) {
            const std::string text = fmt::format("{:.1f}", value);
            return sign + (text.ends_with(".0") ? text.substr(0, text.size() - 2) : text) + " " +
                   std::string(kUnits[i].one);
        }
        return sign + count(left / kUnits[i].length, kUnits[i]);
    }
    std::string text = sign + count(left / kUnits[i].length, kUnits[i]);
    const std::int64_t rest = left % kUnits[i].length / kUnits[i + 1].length;
    if (rest != 0) {
        text += " " + count(rest, kUnits[i + 1]);
    }
    return text;
}

std::string humane_bytes(std::uint64_t bytes) {
    constexpr std::array<std::string_view, 6> kSuffixes{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        return fmt::format("{} B", bytes);
    }
    double value = static_cast<double>(bytes) / 1024;
    std::size_t i = 0;
    // 1023.95 and up would print as "1024.0".
    while (value >= 1023.95 && i + 1 < kSuffixes.size()) {
        value /= 1024;
        ++i;
    }
    return fmt::format("{:.1f} {}", value, kSuffixes[i]);
}

} // namespace nvmaint::core
