// Strings that come from disks, mount tables and drives may hold any byte. Each output has its own
// idea of what must not reach it.
#pragma once

#include <string>
#include <string_view>

namespace nvmaint::report {

// Valid UTF-8: every byte that is not part of a well-formed sequence as \xNN. For JSON.
[[nodiscard]] std::string utf8_text(std::string_view text);

// utf8_text() without what could command a terminal or reorder a line: controls and the marks that
// override the direction of text as \xNN of their bytes. For people's terminals; one line.
[[nodiscard]] std::string printable(std::string_view text);

// printable(), with the characters that mean something to HTML as references.
[[nodiscard]] std::string html_text(std::string_view text);

// Columns of a terminal that printable() text takes: two for wide characters, none for combining
// ones.
[[nodiscard]] int columns(std::string_view printable_text);

// The longest prefix that fits into `width` columns, without cutting a character.
[[nodiscard]] std::string_view prefix_of_columns(std::string_view printable_text, int width);

} // namespace nvmaint::report
