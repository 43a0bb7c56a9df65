#include "collect/text.hpp"

#include <algorithm>

namespace nvmaint::collect {
namespace {

constexpr std::int64_t kLastSecond = 253402300799; // 9999-12-31T23:59:59Z

bool is_octal(char c) {
    return c >= '0' && c <= '7';
}

} // namespace

std::vector<std::string_view> split_lines(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        lines.push_back(line);
    }
    return lines;
}

std::vector<std::string_view> split_fields(std::string_view text, std::string_view separators) {
    std::vector<std::string_view> fields;
    std::size_t at = text.find_first_not_of(separators);
    while (at != std::string_view::npos) {
        const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
        fields.push_back(text.substr(at, end - at));
        at = text.find_first_not_of(separators, end);
    }
    return fields;
}

std::vector<std::string_view> split_exactly(std::string_view text, char separator) {
    std::vector<std::string_view> fields;
    for (;;) {
        const std::size_t end = text.find(separator);
        fields.push_back(text.substr(0, end));
        if (end == std::string_view::npos) {
            return fields;
        }
        text.remove_prefix(end + 1);
    }
}

std::vector<std::string> split_options(std::string_view text) {
    // Commas within double quotes belong to the value (SELinux contexts), as libmount has it.
    std::vector<std::string> options;
    std::string option;
    bool quoted = false;
    for (const char c : text) {
        quoted ^= c == '"';
        if (c == ',' && !quoted) {
            if (!option.empty()) {
                options.push_back(std::move(option));
            }
            option.clear();
        } else {
            option += c;
        }
    }
    if (!option.empty()) {
        options.push_back(std::move(option));
    }
    return options;
}

std::string decode_octal(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) &&
            is_octal(text[i + 2]) && is_octal(text[i + 3])) {
            const int value =
                (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0');
            out += static_cast<char>(static_cast<unsigned char>(value & 0xff));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

bool is_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        if (lead < 0x80) {
            ++i;
            continue;
        }
        const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        if (lead < 0xc2 || lead > 0xf4 || i + length > text.size()) {
            return false;
        }
        std::uint32_t point = lead & (0x7fU >> length);
        for (std::size_t k = 1; k < length; ++k) {
            const auto byte = static_cast<unsigned char>(text[i + k]);
            if ((byte & 0xc0U) != 0x80) {
                return false;
            }
            point = point << 6U | (byte & 0x3fU);
        }
        const bool shorter = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
        if (shorter || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) {
            return false;
        }
        i += length;
    }
    return true;
}

std::optional<core::WallTime> wall_time_of(std::uint64_t microseconds) {
    if (microseconds == 0 ||
        microseconds > static_cast<std::uint64_t>(kLastSecond) * 1000000U + 999999U) {
        return std::nullopt;
    }
    return core::WallTime(core::microseconds(static_cast<std::int64_t>(microseconds)));
}

core::WallTime wall_time_of_seconds(std::int64_t seconds) {
    return core::WallTime(core::seconds(std::clamp<std::int64_t>(seconds, 0, kLastSecond)));
}

} // namespace nvmaint::collect
