#include "escape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace nvmaint::report {

namespace {

struct Character {
    char32_t code = 0;
    std::size_t length = 1; // bytes
    bool valid = false;
};

// The character that begins at `text`, which is not empty. Well-formed as Unicode has it: no
// overlong forms, no surrogates, nothing above U+10FFFF.
Character first_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) {
        return {lead, 1, true};
    }
    const std::size_t length = lead >= 0xf0 && lead <= 0xf4   ? 4
                               : lead >= 0xe0 && lead <= 0xef ? 3
                               : lead >= 0xc2 && lead <= 0xdf ? 2
                                                              : 0;
    if (length == 0 || text.size() < length) {
        return {};
    }
    char32_t code = lead & (0x7fU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0U) != 0x80U) {
            return {};
        }
        code = (code << 6U) | (byte(i) & 0x3fU);
    }
    constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
    if (code < least.at(length) || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return {};
    }
    return {code, length, true};
}

void append_hex(std::string& out, std::string_view bytes) {
    for (char c : bytes) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
}

bool commands_terminal(char32_t code) {
    return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x061c || // controls, ALM
           (code >= 0x200b && code <= 0x200f) ||                              // zero width, marks
           (code >= 0x2028 && code <= 0x202e) || // separators, embeddings and overrides
           (code >= 0x2060 && code <= 0x206f) || // joiners, isolates
           code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) || code >= 0xe0000;
}

using Range = std::pair<char32_t, char32_t>;

bool within(char32_t code, const Range* begin, const Range* end) {
    return std::any_of(begin, end, [code](const Range& range) {
        return code >= range.first && code <= range.second;
    });
}

// The large blocks of Unicode's EastAsianWidth.txt (W, F) and of its combining marks: near enough
// to keep columns straight, without the tables of a terminal.
constexpr std::array<Range, 9> wide{{{0x1100, 0x115f},
                                     {0x2e80, 0x303e},
                                     {0x3041, 0xa4cf},
                                     {0xac00, 0xd7a3},
                                     {0xf900, 0xfaff},
                                     {0xfe30, 0xfe6f},
                                     {0xff00, 0xff60},
                                     {0xffe0, 0xffe6},
                                     {0x1f300, 0x1faff}}};
constexpr std::array<Range, 5> combining{
    {{0x0300, 0x036f}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}}};

int columns_of(const Character& character) {
    if (within(character.code, combining.data(), combining.data() + combining.size())) {
        return 0;
    }
    const bool is_wide = within(character.code, wide.data(), wide.data() + wide.size()) ||
                         (character.code >= 0x20000 && character.code <= 0x3fffd);
    return is_wide ? 2 : 1;
}

} // namespace

std::string utf8_text(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Character character = first_character(text);
        if (character.valid) {
            out += text.substr(0, character.length);
        } else {
            append_hex(out, text.substr(0, 1));
        }
        text.remove_prefix(character.length);
    }
    return out;
}

std::string printable(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Character character = first_character(text);
        if (character.valid && !commands_terminal(character.code)) {
            out += text.substr(0, character.length);
        } else {
            append_hex(out, text.substr(0, character.length));
        }
        text.remove_prefix(character.length);
    }
    return out;
}

std::string html_text(std::string_view text) {
    std::string out;
    for (char c : printable(text)) {
        switch (c) {
        case '&':
            out += "&amp;";
            break;
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '"':
            out += "&quot;";
            break;
        case '\'':
            out += "&#39;";
            break;
        default:
            out += c;
        }
    }
    return out;
}

int columns(std::string_view text) {
    int total = 0;
    while (!text.empty()) {
        const Character character = first_character(text);
        total += character.valid ? columns_of(character) : 1;
        text.remove_prefix(character.length);
    }
    return total;
}

std::string_view prefix_of_columns(std::string_view text, int width) {
    std::size_t at = 0;
    int total = 0;
    while (at < text.size()) {
        const Character character = first_character(text.substr(at));
        total += character.valid ? columns_of(character) : 1;
        if (total > width) {
            break;
        }
        at += character.length;
    }
    return text.substr(0, at);
}

} // namespace nvmaint::report
