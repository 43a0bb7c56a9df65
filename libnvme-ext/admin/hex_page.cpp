#include "admin/hex_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace nvmaint::nvme {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U; // no page we read is longer
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
constexpr std::string_view kBlanks = " \t\r";

Error malformed(std::size_t line, std::string_view what) {
    return Error::make(ErrorKind::Malformed, fmt::format("line {}: {}", line, what));
}

// Takes "OFFSET:" or an offset as hexdump -C writes it off the front of the line.
std::optional<std::size_t> take_offset(std::string_view& line) {
    const std::size_t digits = std::min(line.find_first_not_of(kHexDigits), line.size());
    const std::string_view rest = line.substr(digits);
    const bool colon = digits > 0 && digits <= 8 && rest.starts_with(':');
    const bool dump = digits == 8 && (rest.empty() || rest.starts_with("  "));
    if (!colon && !dump) {
        return std::nullopt;
    }
    std::size_t offset = 0;
    (void)std::from_chars(line.data(), line.data() + digits, offset, 16); // digits, at most 8
    line = rest;
    line.remove_prefix(colon ? 1 : 0);
    return offset;
}

std::string_view without_blanks_in_front(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    return text;
}

} // namespace

Result<HexPage> parse_hex_page(std::string_view text) {
    HexPage page;
    std::vector<std::pair<std::size_t, std::size_t>> gaps; // line, offset
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        line = line.substr(0, line.find_first_of("#|"));
        line = without_blanks_in_front(line);
        line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
        if (line == "fill") {
            page.fill = true;
            continue;
        }
        if (const std::optional<std::size_t> offset = take_offset(line)) {
            if (*offset < page.bytes.size()) {
                return malformed(number, "an offset goes back");
            }
            if (*offset > kMaxBytes) {
                return malformed(number, "an offset beyond 1 MiB");
            }
            if (*offset > page.bytes.size()) {
                gaps.emplace_back(number, *offset);
                page.bytes.resize(*offset);
            }
            line = without_blanks_in_front(line);
            // xxd sets its text column off by two blanks; hexdump -C also splits its bytes so, but
            // has "|" before the text, which is gone by now.
            const std::size_t column = line.find("  ");
            if (column != std::string_view::npos &&
                line.substr(column).find_first_not_of("0123456789abcdefABCDEF \t") !=
                    std::string_view::npos) {
                line = line.substr(0, column);
            }
        }
        while (!line.empty()) {
            std::uint8_t byte = 0;
            const auto [stop, problem] = std::from_chars(
                line.data(), line.data() + std::min<std::size_t>(2, line.size()), byte, 16);
            if (problem != std::errc() || stop != line.data() + 2) {
                return malformed(number, "no pair of hexadecimal digits");
            }
            if (page.bytes.size() >= kMaxBytes) {
                return malformed(number, "over 1 MiB");
            }
            page.bytes.push_back(byte);
            line = without_blanks_in_front(line.substr(2));
        }
    }
    if (!gaps.empty() && !page.fill) {
        return malformed(gaps.front().first, "bytes before this offset are missing, and no `fill`");
    }
    return page;
}

} // namespace nvmaint::nvme
