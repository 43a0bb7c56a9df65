// Time is an argument: core never reads a clock.
#pragma once

#include "values/result.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace nvmaint::core {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

using WallTime = std::chrono::sys_time<microseconds>;
// Nanoseconds of CLOCK_BOOTTIME: goes on in suspend, never jumps. In a recording: seconds since
// `now`, negative before it.
using BootTime = std::chrono::nanoseconds;

struct Now {
    WallTime wall{};
    BootTime boot{};
    bool operator==(const Now&) const = default;
};

// "2026-11-30T20:47:33Z"; fractions of a second are left out.
[[nodiscard]] std::string to_rfc3339(WallTime time);
// Accepts a fraction and an offset. Errors: Malformed.
[[nodiscard]] Result<WallTime> parse_rfc3339(std::string_view text);
// "3 days 4 h", "2 h 5 min", "40 s", "12 ms": two units at most, for people.
[[nodiscard]] std::string humane(nanoseconds duration);
// "784.9 GiB", "512 B".
[[nodiscard]] std::string humane_bytes(std::uint64_t bytes);

} // namespace nvmaint::core
