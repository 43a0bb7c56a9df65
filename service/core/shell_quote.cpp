#include "core/shell_quote.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace nvmaint::core {
namespace {

bool is_control(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

bool is_harmless(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("@%_+=:,./-").find(c) != std::string_view::npos;
}

} // namespace

std::string shell_quoted(std::string_view word) {
    if (!word.empty() && std::all_of(word.begin(), word.end(), is_harmless)) {
        return std::string(word);
    }
    if (std::none_of(word.begin(), word.end(), is_control)) {
        std::string quoted = "'";
        for (const char c : word) {
            quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
        }
        return quoted + "'";
    }
    std::string quoted = "$'";
    for (const char c : word) {
        if (is_control(c)) {
            quoted += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
        } else if (c == '\'' || c == '\\') {
            quoted += std::string("\\") + c;
        } else {
            quoted += c;
        }
    }
    return quoted + "'";
}

std::string fstab_field(std::string_view word) {
    std::string field;
    for (const char c : word) {
        if (is_control(c) || c == ' ' || c == '\\' || c == '#') {
            field += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
        } else {
            field += c;
        }
    }
    return field;
}

} // namespace nvmaint::core
