#include "layout.hpp"

#include "escape.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace nvmaint::report {

int text_width(const Style& style) {
    return std::clamp(style.width, 40, 200);
}

std::vector<std::string> wrapped_lines(std::string_view text, int width) {
    const std::string clean = printable(text);
    std::string_view rest = clean;
    std::vector<std::string> lines;
    while (columns(rest) > width) {
        std::string_view line = prefix_of_columns(rest, width);
        if (line.empty()) { // a character wider than the line
            line = prefix_of_columns(rest, 2);
        }
        std::size_t end = line.size();
        if (rest[end] != ' ') {
            const std::size_t blank = line.find_last_of(' ');
            if (blank != std::string_view::npos && line.find_first_not_of(' ') < blank) {
                end = blank;
            }
        }
        std::string_view kept = rest.substr(0, end);
        kept = kept.substr(0, kept.find_last_not_of(' ') + 1);
        lines.emplace_back(kept);
        rest.remove_prefix(end);
        rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    }
    if (!rest.empty() || lines.empty()) {
        lines.emplace_back(rest);
    }
    return lines;
}

std::string paragraph(std::string_view first, std::string_view rest, std::string_view text,
                      const Style& style) {
    const int indent = static_cast<int>(std::max(first.size(), rest.size()));
    std::string out;
    for (const std::string& line : wrapped_lines(text, std::max(10, text_width(style) - indent))) {
        out += out.empty() ? first : rest;
        out += line;
        out += '\n';
    }
    return out;
}

std::string cut_to(std::string_view text, int width) {
    if (columns(text) <= width) {
        return std::string(text);
    }
    constexpr std::string_view ellipsis = "...";
    const int kept = std::max(0, width - static_cast<int>(ellipsis.size()));
    return std::string(prefix_of_columns(text, kept)) +
           std::string(ellipsis.substr(0, static_cast<std::size_t>(std::clamp(width, 0, 3))));
}

std::string inked(std::string_view text, Ink ink, const Style& style) {
    // ECMA-48 SGR; the sixteen colours that every terminal has and its owner may have chosen.
    constexpr std::array<std::string_view, 7> codes{"", "1", "2", "31;1", "33", "36", "32"};
    if (!style.colour || ink == Ink::Plain || text.empty()) {
        return std::string(text);
    }
    return "\x1b[" + std::string(codes.at(static_cast<std::size_t>(ink))) + "m" +
           std::string(text) + "\x1b[0m";
}

Ink ink_of(std::string_view word) {
    constexpr std::array<std::pair<std::string_view, Ink>, 17> inks{{
        {"critical", Ink::Red},
        {"warning", Ink::Yellow},
        {"attention", Ink::Yellow},
        {"notice", Ink::Cyan},
        {"info", Ink::Dim},
        {"healthy", Ink::Green},
        {"ok", Ink::Green},
        {"unknown", Ink::Dim},
        {"covered", Ink::Green},
        {"not-covered", Ink::Yellow},
        {"blocked", Ink::Yellow},
        {"other-agent", Ink::Green},
        {"not-applicable", Ink::Dim},
        {"helped", Ink::Green},
        {"worse", Ink::Yellow},
        {"failed", Ink::Red},
        {"interrupted", Ink::Yellow},
    }};
    for (const auto& [known, ink] : inks) {
        if (known == word) {
            return ink;
        }
    }
    return Ink::Plain;
}

} // namespace nvmaint::report
