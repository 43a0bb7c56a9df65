// A guard in front of the TOML parser.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nvmaint::config {

struct Place {
    std::uint32_t line = 1;
    std::uint32_t column = 1; // in bytes, from 1
    bool operator==(const Place&) const = default;
};

// Where a dotted key ("a.b.c") has more than 16 parts. toml++ 3.3 limits how deep values nest but
// not how deep dotted keys do, and walks and frees what it read by recursion: a megabyte of "a.a.a"
// overflows the stack of whoever reads it.
[[nodiscard]] std::optional<Place> too_deep(std::string_view toml);

} // namespace nvmaint::config
