// Small things that several readers of text files share.
#pragma once

#include "core/time.hpp"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::collect {

// A whole decimal number and nothing else.
template <class T>
[[nodiscard]] std::optional<T> parse_decimal(std::string_view text) {
    T value{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || problem != std::errc() || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

// Lines without their ends ("\n" or "\r\n"); a last line need not be ended.
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text);
// Fields between any of the separators, empty ones left out.
[[nodiscard]] std::vector<std::string_view> split_fields(std::string_view text,
                                                         std::string_view separators = " \t");
// Fields between single separators, empty ones kept.
[[nodiscard]] std::vector<std::string_view> split_exactly(std::string_view text, char separator);
// "a,b,c" as a list; empty text is an empty list.
[[nodiscard]] std::vector<std::string> split_options(std::string_view text);

// "\040" and its like, as the kernel and fstab(5) write blanks.
[[nodiscard]] std::string decode_octal(std::string_view text);

[[nodiscard]] bool is_utf8(std::string_view text);

// Microseconds since 1970 as a time. Nothing for 0, for "never" (all ones), and beyond the year
// 9999.
[[nodiscard]] std::optional<core::WallTime> wall_time_of(std::uint64_t microseconds);
// Seconds since 1970, held within the years that can be written.
[[nodiscard]] core::WallTime wall_time_of_seconds(std::int64_t seconds);

} // namespace nvmaint::collect
