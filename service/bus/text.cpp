#include "bus/text.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace nvmaint::bus {

namespace {

// Unicode's 66 noncharacters. The specification of D-Bus allows them since 0.21, sd-bus does not
// (unichar_is_valid() of systemd's src/basic/utf8.c): the whole reply would fail with EINVAL.
bool is_noncharacter(std::uint32_t code_point) {
    return (code_point & 0xfffe) == 0xfffe || (code_point >= 0xfdd0 && code_point <= 0xfdef);
}

// Length of the well-formed character that `bytes` begins with, 0 if there is none. RFC 3629,
// section 4: no overlong form, no surrogate, nothing above U+10FFFF. NUL and noncharacters are left
// out.
std::size_t character_length(std::string_view bytes) {
    const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
    const std::uint8_t lead = at(0);
    if (lead < 0x80) {
        return lead == 0 ? 0 : 1;
    }
    // The range of the second byte carries the exclusions.
    std::size_t length = 0;
    std::uint8_t low = 0x80;
    std::uint8_t high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        length = 3;
        low = lead == 0xe0 ? 0xa0 : low;
        high = lead == 0xed ? 0x9f : high;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        low = lead == 0xf0 ? 0x90 : low;
        high = lead == 0xf4 ? 0x8f : high;
    } else {
        return 0;
    }
    if (bytes.size() < length || at(1) < low || at(1) > high) {
        return 0;
    }
    std::uint32_t code_point = lead & (0x7fU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if (at(i) < 0x80 || at(i) > 0xbf) {
            return 0;
        }
        code_point = code_point << 6 | (at(i) & 0x3fU);
    }
    return is_noncharacter(code_point) ? 0 : length;
}

template <class Replace>
std::string replaced(std::string_view bytes, Replace replace) {
    std::string text;
    text.reserve(bytes.size());
    while (!bytes.empty()) {
        const std::size_t length = character_length(bytes);
        if (length == 0) {
            text += replace(static_cast<std::uint8_t>(bytes.front()));
            bytes.remove_prefix(1);
        } else {
            text += bytes.substr(0, length);
            bytes.remove_prefix(length);
        }
    }
    return text;
}

} // namespace

std::string to_bus_text(std::string_view bytes) {
    return replaced(bytes, [](std::uint8_t byte) { return fmt::format("\\x{:02x}", byte); });
}

std::vector<std::string> to_bus_text(const std::vector<std::string>& list) {
    std::vector<std::string> texts;
    texts.reserve(list.size());
    for (const std::string& bytes : list) {
        texts.push_back(to_bus_text(bytes));
    }
    return texts;
}

std::string to_bus_json(std::string_view bytes) {
    return replaced(bytes, [](std::uint8_t) { return "\xef\xbf\xbd"; });
}

} // namespace nvmaint::bus
