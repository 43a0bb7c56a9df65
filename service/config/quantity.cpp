#include "quantity.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace nvmaint::config {

namespace {

struct Unit {
    std::string_view name;
    std::int64_t nanoseconds;
};

constexpr std::array<Unit, 8> units{{
    {"w", 604800000000000},
    {"d", 86400000000000},
    {"h", 3600000000000},
    {"min", 60000000000},
    {"s", 1000000000},
    {"ms", 1000000},
    {"us", 1000},
    {"ns", 1},
}};

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

Error wrong_duration(std::string_view text, std::string_view why) {
    return Error::make(ErrorKind::Malformed,
                       fmt::format("\"{}\" {}; write a number and one of the units ns, us, ms, s, "
                                   "min, h, d, w, such as \"5ms\" or \"1d\"",
                                   shown(text), why));
}

} // namespace

std::string shown(std::string_view text, std::size_t longest) {
    std::string out;
    for (char c : text.substr(0, longest)) {
        if (c >= ' ' && c <= '~') {
            out += c;
        } else {
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    return text.size() > longest ? out + "..." : out;
}

Result<core::nanoseconds> parse_duration(std::string_view text) {
    // Nineteen digits of the largest unit and nine of fraction stay inside 128 bits, so that the
    // arithmetic is exact and only the result needs a check.
    using Wide = unsigned __int128;
    std::size_t at = 0;
    Wide whole = 0;
    while (at < text.size() && is_digit(text[at])) {
        whole = whole * 10 + static_cast<unsigned>(text[at] - '0');
        if (++at > 19) {
            return wrong_duration(text, "is out of range");
        }
    }
    if (at == 0) {
        return wrong_duration(text, "is not a duration");
    }
    Wide fraction = 0;
    std::uint64_t scale = 1;
    if (at < text.size() && text[at] == '.') {
        const std::size_t first = ++at;
        while (at < text.size() && is_digit(text[at])) {
            fraction = fraction * 10 + static_cast<unsigned>(text[at] - '0');
            scale *= 10;
            if (++at - first > 9) {
                return wrong_duration(text, "has too many decimals");
            }
        }
        if (at == first) {
            return wrong_duration(text, "is not a duration");
        }
    }
    const std::string_view name = text.substr(at);
    if (name.empty()) {
        return wrong_duration(text, "has no unit");
    }
    for (const Unit& unit : units) {
        if (unit.name != name) {
            continue;
        }
        const Wide scaled = fraction * static_cast<Wide>(unit.nanoseconds);
        if (scaled % scale != 0) {
            return wrong_duration(text, "is finer than a nanosecond");
        }
        const Wide total = whole * static_cast<Wide>(unit.nanoseconds) + scaled / scale;
        if (total > static_cast<Wide>(std::numeric_limits<std::int64_t>::max())) {
            return wrong_duration(text, "is out of range");
        }
        return core::nanoseconds{static_cast<std::int64_t>(total)};
    }
    return wrong_duration(text, fmt::format("has the unknown unit \"{}\"", shown(name)));
}

std::string duration_text(core::nanoseconds duration) {
    const std::int64_t count = duration.count();
    if (count == 0) {
        return "0s";
    }
    for (const Unit& unit : units) {
        // A week is rarely what somebody meant by "14d", so days are the largest unit written.
        if (unit.name != "w" && count % unit.nanoseconds == 0) {
            return fmt::format("{}{}", count / unit.nanoseconds, unit.name);
        }
    }
    return fmt::format("{}ns", count);
}

Result<double> parse_share(std::string_view text) {
    const auto wrong = [&](std::string_view why) {
        return Error::make(
            ErrorKind::Malformed,
            fmt::format("\"{}\" {}; write a percentage such as \"20%\"", shown(text), why));
    };
    if (text.empty() || text.back() != '%') {
        return wrong("does not end in %");
    }
    const std::string_view number = text.substr(0, text.size() - 1);
    double percent = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), percent,
                                              std::chars_format::fixed);
    if (number.empty() || !is_digit(number.front()) || error != std::errc{} ||
        end != number.data() + number.size()) {
        return wrong("is not a percentage");
    }
    if (percent > 100) {
        return wrong("is over 100%");
    }
    return percent / 100;
}

std::string share_text(double share) {
    // Multiplying by 100 may land one step beside the number whose hundredth is `share`.
    const double near = share * 100;
    for (double percent : {near, std::nextafter(near, 0.0),
                           std::nextafter(near, std::numeric_limits<double>::max())}) {
        if (percent / 100 == share) {
            return fmt::format("{}%", percent);
        }
    }
    return fmt::format("{}%", near);
}

Result<std::chrono::minutes> parse_clock(std::string_view text) {
    const auto wrong = [&] {
        return Error::make(ErrorKind::Malformed,
                           fmt::format("\"{}\" is not a time of day; write hours and minutes such "
                                       "as \"02:30\"",
                                       shown(text)));
    };
    if (text.size() != 5 || text[2] != ':' || !is_digit(text[0]) || !is_digit(text[1]) ||
        !is_digit(text[3]) || !is_digit(text[4])) {
        return wrong();
    }
    const int hour = (text[0] - '0') * 10 + (text[1] - '0');
    const int minute = (text[3] - '0') * 10 + (text[4] - '0');
    if (minute > 59 || hour > 24 || (hour == 24 && minute != 0)) {
        return wrong();
    }
    return std::chrono::minutes{hour * 60 + minute};
}

std::string clock_text(std::chrono::minutes minutes) {
    return fmt::format("{:02}:{:02}", minutes.count() / 60, minutes.count() % 60);
}

std::optional<std::string> glob_problem(std::string_view pattern) {
    if (pattern.empty()) {
        return "an empty pattern matches nothing";
    }
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] == '\0') {
            return "a pattern cannot hold a NUL";
        }
        if (pattern[i] == '\\') {
            if (++i == pattern.size()) {
                return "the backslash at the end escapes nothing";
            }
        } else if (pattern[i] == '[') {
            // "]" right after the opening (or its negation) stands for itself (glob(7)).
            std::size_t end = i + 1;
            if (end < pattern.size() && (pattern[end] == '!' || pattern[end] == '^')) {
                ++end;
            }
            if (end < pattern.size() && pattern[end] == ']') {
                ++end;
            }
            while (end < pattern.size() && pattern[end] != ']') {
                ++end;
            }
            if (end >= pattern.size()) {
                return "the \"[\" is never closed; write \"\\\\[\" for the character itself";
            }
            i = end;
        }
    }
    return std::nullopt;
}

} // namespace nvmaint::config
