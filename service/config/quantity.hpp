// Quantities as people write them in a policy: text with a unit ("5ms", "20%", "22:30"), and back.
#pragma once

#include "core/time.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace nvmaint::config {

// "5ms", "1.5s", "90min", "1d": one number, one unit of ns, us, ms, s, min, h, d, w, no blank
// between. Not negative, whole nanoseconds. Errors: Malformed, saying what would be right.
[[nodiscard]] Result<core::nanoseconds> parse_duration(std::string_view text);
// "20%" -> 0.2. Errors: Malformed.
[[nodiscard]] Result<double> parse_share(std::string_view text);
// "22:30" -> minutes since midnight, 0..1439; "24:00" -> 1440. Errors: Malformed.
[[nodiscard]] Result<std::chrono::minutes> parse_clock(std::string_view text);
// A pattern as glob(7) has it. Nothing if it is sound, else what is wrong with it.
[[nodiscard]] std::optional<std::string> glob_problem(std::string_view pattern);

// Each the exact inverse of its parser.
[[nodiscard]] std::string duration_text(core::nanoseconds duration);
[[nodiscard]] std::string share_text(double share); // `share` 0..1
[[nodiscard]] std::string clock_text(std::chrono::minutes minutes);

// Text of a stranger within an error message: bytes outside 20h-7Eh as \xNN, cut at `longest`
// bytes.
[[nodiscard]] std::string shown(std::string_view text, std::size_t longest = 60);

} // namespace nvmaint::config
