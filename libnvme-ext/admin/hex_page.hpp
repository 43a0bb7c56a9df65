// Pages written by hand. One example: the bytes of an Identify Controller page that say "no
// volatile write cache, Dataset Management", all else zero:
//
//     # ONCS bit 2
//     0208: 04 00
//     020d: 00        # VWC
//     fill
//
// Two hexadecimal digits a byte, blanks anywhere between bytes. "OFFSET:" at the start of a line
// (or eight digits and two blanks, as hexdump -C writes them) moves on to that offset; what lies
// between needs `fill`, alone on a line, which makes every byte not given zero. "#" starts a
// comment, "|" or, after an offset, two blanks behind data the text column of hexdump or xxd.
#pragma once

#include "values/result.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace nvmaint::nvme {

struct HexPage {
    std::vector<std::uint8_t> bytes;
    bool fill = false; // bytes not given are zero
    bool operator==(const HexPage&) const = default;
};

// Errors: Malformed, with the line.
[[nodiscard]] Result<HexPage> parse_hex_page(std::string_view text);

} // namespace nvmaint::nvme
