#include "report.hpp"

#include "escape.hpp"
#include "layout.hpp"

#include <algorithm>
#include <numeric>

namespace nvmaint::report {

namespace {

constexpr int gap = 2;       // blanks between columns
constexpr int narrowest = 4; // below this a column says nothing
constexpr int prose = 24;    // below this a sentence cannot be read

using Row = std::vector<std::string>; // printable

int total_width(const std::vector<int>& widths) {
    return std::accumulate(widths.begin(), widths.end(), 0) +
           gap * (static_cast<int>(widths.size()) - 1);
}

// The last column gives way first, for it holds the prose, then the widest: the others are names
// that should be read whole.
void shrink_to(int width, std::vector<int>& widths) {
    while (total_width(widths) > width) {
        const auto widest = widths.back() > prose ? widths.end() - 1
                                                  : std::max_element(widths.begin(), widths.end());
        if (*widest <= narrowest) {
            return;
        }
        --*widest;
    }
}

std::string line_text(const std::vector<std::string>& cells, const std::vector<int>& widths,
                      const Table& table, bool heading, const Style& style) {
    std::string out;
    std::string blanks; // written before the next cell only: no line ends in blanks
    for (std::size_t column = 0; column < widths.size(); ++column) {
        const std::string cell = column < cells.size() ? cells[column] : std::string();
        const int pad = std::max(0, widths[column] - columns(cell));
        const bool right = std::find(table.right_aligned.begin(), table.right_aligned.end(),
                                     column) != table.right_aligned.end();
        const std::string padding(static_cast<std::size_t>(pad), ' ');
        if (right) {
            blanks += padding;
        }
        if (!cell.empty()) {
            out += blanks + inked(cell, heading ? Ink::Bold : ink_of(cell), style);
            blanks.clear();
        }
        if (!right || cell.empty()) {
            blanks += right ? "" : padding;
        }
        blanks += std::string(gap, ' ');
    }
    return out + "\n";
}

} // namespace

std::string table_text(const Table& table, const Style& style) {
    std::size_t count = table.header.size();
    for (const Row& row : table.rows) {
        count = std::max(count, row.size());
    }
    if (count == 0) {
        return {};
    }
    const auto clean = [](const Row& row) {
        Row out;
        for (const std::string& cell : row) {
            out.push_back(printable(cell));
        }
        return out;
    };
    std::vector<Row> rows;
    if (!table.header.empty()) {
        rows.push_back(clean(table.header));
    }
    for (const Row& row : table.rows) {
        rows.push_back(clean(row));
    }
    std::vector<int> widths(count, 0);
    for (const Row& row : rows) {
        for (std::size_t column = 0; column < row.size(); ++column) {
            widths[column] = std::max(widths[column], columns(row[column]));
        }
    }
    shrink_to(text_width(style), widths);

    std::string out;
    for (std::size_t at = 0; at < rows.size(); ++at) {
        const bool heading = at == 0 && !table.header.empty();
        std::vector<std::vector<std::string>> cells; // lines of each cell
        std::size_t height = 1;
        for (std::size_t column = 0; column < rows[at].size(); ++column) {
            const std::string& cell = rows[at][column];
            cells.push_back(table.cut ? Row{cut_to(cell, widths[column])}
                                      : wrapped_lines(cell, widths[column]));
            height = std::max(height, cells.back().size());
        }
        for (std::size_t line = 0; line < height; ++line) {
            Row parts;
            for (const auto& cell : cells) {
                parts.push_back(line < cell.size() ? cell[line] : std::string());
            }
            out += line_text(parts, widths, table, heading, style);
        }
    }
    return out;
}

} // namespace nvmaint::report
