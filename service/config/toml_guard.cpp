#include "toml_guard.hpp"

namespace nvmaint::config {

namespace {

constexpr unsigned most_parts = 16; // the policy itself has four at most

bool may_stand_in_key(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ' ' || c == '\t';
}

// Position after the string that begins at `at`, or the end of the text for one that never closes:
// the parser refuses that anyhow.
std::size_t skip_string(std::string_view text, std::size_t at) {
    const char quote = text[at];
    const bool multi_line = text.substr(at, 3) == std::string_view(quote == '"' ? "\"\"\"" : "'''");
    std::size_t i = at + (multi_line ? 3 : 1);
    while (i < text.size()) {
        if (text[i] == '\\' && quote == '"') {
            i += 2;
        } else if (multi_line && text[i] == quote && text.substr(i, 3) == text.substr(at, 3)) {
            // Up to two quotes may stand right before the closing three.
            i += 3;
            while (i < text.size() && text[i] == quote) {
                ++i;
            }
            return i;
        } else if (!multi_line && (text[i] == quote || text[i] == '\n')) {
            return i + 1;
        } else {
            ++i;
        }
    }
    return text.size();
}

Trap trap_at(std::string_view toml, std::size_t at, std::string_view what) {
    Trap trap;
    trap.what = what;
    for (char before : toml.substr(0, at)) {
        trap.column = before == '\n' ? 1 : trap.column + 1;
        trap.line += before == '\n' ? 1U : 0U;
    }
    return trap;
}

} // namespace

std::optional<Trap> find_trap(std::string_view toml) {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    unsigned dots = 0;
    std::size_t i = toml.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    while (i < toml.size()) {
        const char c = toml[i];
        if (c == '#') {
            i = toml.find('\n', i);
            if (i == std::string_view::npos) {
                break;
            }
            dots = 0;
        } else if (c == '"' || c == '\'') {
            i = skip_string(toml, i);
        } else if (may_stand_in_key(c)) {
            dots += c == '.' ? 1U : 0U;
            if (dots >= most_parts) {
                return trap_at(toml, i, "keys are nested deeper than any setting of the policy");
            }
            ++i;
        } else if (static_cast<unsigned char>(c) >= 0x80) {
            return trap_at(toml, i, "only strings and comments may hold what is not ASCII");
        } else {
            dots = 0;
            ++i;
        }
    }
    return std::nullopt;
}

} // namespace nvmaint::config
