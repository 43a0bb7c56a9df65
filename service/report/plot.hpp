// Flush latency over time as inline SVG.
#pragma once

#include "report.hpp"

#include <string>

namespace nvmaint::report {

// The median of a drive's points, or the `usual_ms` it came with; nothing without points.
[[nodiscard]] std::optional<double> plot_usual_ms(const DrivePlot& plot);

// "2.10 ms", "85 us": as on the axis of a plot of about that height.
[[nodiscard]] std::string latency_text(double ms);

enum class PlotShape { Wide, Narrow }; // for a window, for a telephone

// An <svg> element whose colours are CSS variables of the page. `id` is unique within the page and
// safe in an attribute. Points and spans that are not finite are left out; text is escaped.
[[nodiscard]] std::string plot_svg(const DrivePlot& plot, const std::string& id, PlotShape shape);

} // namespace nvmaint::report
