// Text for a terminal: wrapped paragraphs and colours.
#pragma once

#include "core/finding.hpp"
#include "report.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::report {

// The width to write for: that of the style, within what can be read (40 to 200 columns).
[[nodiscard]] int text_width(const Style& style);

// The text made printable() and broken at blanks into lines of at most `width` columns, longer
// words anywhere. At least one line.
[[nodiscard]] std::vector<std::string> wrapped_lines(std::string_view text, int width);

// A paragraph: the first line behind `first`, the others behind `rest`; each with a newline. The
// indents are taken as they are, the text is made printable and wrapped to the style's width.
[[nodiscard]] std::string paragraph(std::string_view first, std::string_view rest,
                                    std::string_view text, const Style& style);

// At most `width` columns of printable text, the end cut off and replaced by "..." where it is
// longer.
[[nodiscard]] std::string cut_to(std::string_view text, int width);

enum class Ink { Plain, Bold, Dim, Red, Yellow, Cyan, Green };
// The text in that colour, or as it is where the style has none.
[[nodiscard]] std::string inked(std::string_view text, Ink ink, const Style& style);
// The ink of a word that stands for a state ("critical", "not-covered", "helped", ...); Plain for
// any other.
[[nodiscard]] Ink ink_of(std::string_view word);

} // namespace nvmaint::report
