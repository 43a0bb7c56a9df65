#include "plot.hpp"

#include "core/flush_watch.hpp"
#include "escape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace nvmaint::report {

namespace {

// Sizes are in the units of the drawing, about a pixel each when the page shows it at full size.
struct Frame {
    double width, height;
    double left, right, top, bottom; // margins
    int time_ticks, value_ticks;     // at most, roughly
    [[nodiscard]] double inner_width() const { return width - left - right; }
    [[nodiscard]] double inner_height() const { return height - top - bottom; }
};

constexpr Frame wide{960, 320, 62, 14, 44, 46, 10, 6};
constexpr Frame narrow{380, 300, 50, 8, 44, 46, 5, 6};
constexpr double glyph_width = 6.6; // mean of a sans serif at 12 units; only to keep labels apart
constexpr double label_line = 15;   // distance of two lines of labels

// What lies beyond is no measurement, and would not fit an axis: three centuries, eleven days.
constexpr double furthest = 1e10; // s
constexpr double slowest = 1e9;   // ms

std::vector<PlotPoint> sound_points(const DrivePlot& plot) {
    std::vector<PlotPoint> points;
    for (const PlotPoint& point : plot.flush) {
        if (std::fabs(point.t) <= furthest && point.ms >= 0 && point.ms <= slowest) {
            points.push_back(point);
        }
    }
    std::stable_sort(points.begin(), points.end(),
                     [](const PlotPoint& a, const PlotPoint& b) { return a.t < b.t; });
    return points;
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// ---- axes ----

struct Tick {
    double at = 0;
    std::string label;
};

// 1, 2 or 5 times a power of ten, not below `least`.
double nice_step(double least) {
    const double power = std::pow(10, std::floor(std::log10(least)));
    for (double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= least * (1 - 1e-9)) {
            return factor * power;
        }
    }
    return 10 * power;
}

// The time axis: seconds in, with steps that a clock has.
struct TimeAxis {
    double from, to;
    double step;
    std::string unit;

    TimeAxis(double first, double last, int most) : from(first), to(last) {
        if (to - from < 1) {
            from -= 0.5;
            to += 0.5;
        }
        constexpr std::array<double, 17> steps{1,   2,   5,    10,   15,   30,    60,    120,  300,
                                               600, 900, 1800, 3600, 7200, 14400, 21600, 43200};
        step = 86400;
        for (double candidate : steps) {
            if ((to - from) / candidate <= most) {
                step = candidate;
                break;
            }
        }
        while ((to - from) / step > most) {
            step *= 2;
        }
        unit = step >= 3600       ? "hours"
               : step >= 60       ? "minutes"
               : to - from <= 120 ? "seconds"
                                  : "minutes:seconds";
    }

    [[nodiscard]] std::string label(double t) const {
        if (unit == "hours") {
            return fmt::format("{:g}", t / 3600);
        }
        if (unit == "minutes") {
            return fmt::format("{:g}", t / 60);
        }
        return unit == "seconds" ? fmt::format("{:g}", t) : clock(t);
    }
    [[nodiscard]] static std::string clock(double t) {
        const auto seconds = static_cast<long long>(std::llround(std::fabs(t)));
        return fmt::format("{}{}:{:02}", t < -0.5 ? "\u2212" : "", seconds / 60, seconds % 60);
    }
    [[nodiscard]] std::vector<Tick> ticks() const {
        std::vector<Tick> all;
        const double first = std::ceil(from / step - 1e-9) * step;
        for (int i = 0; first + i * step <= to + 1e-9; ++i) {
            // Adding 0.0 turns a negative zero into a positive one.
            const double at = first + i * step + 0.0;
            std::string text = label(at);
            if (text.starts_with('-')) {
                text.replace(0, 1, "\u2212");
            }
            all.push_back({at, std::move(text)});
        }
        return all;
    }
};

// The latency axis: linear where the worst point leaves the usual ones readable, else logarithmic.
struct ValueAxis {
    bool logarithmic = false;
    bool in_us = false;
    double low = 0, high = 1; // ms
    double step = 1;          // linear only

    ValueAxis(const std::vector<double>& values, double usual, int most) {
        const double worst = *std::max_element(values.begin(), values.end());
        // Judgement: at 15 times the usual, the usual sits at 7 % of a linear axis.
        logarithmic = usual > 0 && worst > 15 * usual;
        in_us = worst < 1;
        if (!logarithmic) {
            step = nice_step(std::max(worst, 1e-3) * 1.05 / most);
            high = step * std::ceil(std::max(worst, 1e-3) * 1.05 / step);
            return;
        }
        std::vector<double> positive;
        for (double value : values) {
            if (value > 0) {
                positive.push_back(value);
            }
        }
        // Not down to the least of all: a single second of one quick flush would take half the
        // axis.
        std::sort(positive.begin(), positive.end());
        const double calm = positive[positive.size() / 50];
        low = std::max(calm, usual / 20) / 1.3;
        high = worst * 1.25;
    }

    [[nodiscard]] double share(double ms) const { // 0 bottom, 1 top
        const double value = logarithmic ? std::log(std::max(ms, low) / low) / std::log(high / low)
                                         : (ms - low) / (high - low);
        return std::clamp(value, 0.0, 1.0);
    }
    [[nodiscard]] std::string unit() const { return in_us ? "\u00b5s" : "ms"; }
    [[nodiscard]] std::string label(double ms) const {
        return fmt::format("{:g}", std::round((in_us ? ms * 1000 : ms) * 1e6) / 1e6);
    }
    [[nodiscard]] std::vector<Tick> ticks() const {
        std::vector<Tick> all;
        if (!logarithmic) {
            for (int i = 0; i * step <= high * (1 + 1e-9); ++i) {
                all.push_back({i * step, label(i * step)});
            }
            return all;
        }
        for (int power = static_cast<int>(std::floor(std::log10(low))); std::pow(10, power) <= high;
             ++power) {
            for (double factor : {1.0, 2.0, 5.0}) {
                const double at = factor * std::pow(10, power);
                if (at >= low && at <= high && (factor == 1 || high / low < 300)) {
                    all.push_back({at, label(at)});
                }
            }
        }
        return all;
    }
};

// ---- drawing ----

class Drawing {
  public:
    Drawing(const DrivePlot& plot, std::vector<PlotPoint> points, double usual, const Frame& frame)
        : plot_(plot), points_(std::move(points)), usual_(usual), frame_(frame),
          time_(points_.front().t, points_.back().t, frame.time_ticks),
          value_(values(points_, usual), usual, frame.value_ticks) {}

    [[nodiscard]] std::string svg(const std::string& id, std::string_view shape) const {
        std::string out = fmt::format(
            "<svg class=\"plot {}\" viewBox=\"0 0 {} {}\" role=\"img\" "
            "aria-labelledby=\"{}-title {}-desc\">\n<title id=\"{}-title\">{}</title>\n"
            "<desc id=\"{}-desc\">{}</desc>\n",
            shape, frame_.width, frame_.height, id, id, id,
            html_text("Flush latency over time: " + plot_.title), id, html_text(description()));
        out += spans(plot_.stalls, "stall") + spans(plot_.trims, "trim");
        out += grid() + series() + usual_line() + dots() + trim_labels();
        return out + "</svg>\n";
    }

  private:
    static std::vector<double> values(const std::vector<PlotPoint>& points, double usual) {
        std::vector<double> all{usual};
        for (const PlotPoint& point : points) {
            all.push_back(point.ms);
        }
        return all;
    }

    [[nodiscard]] double x(double t) const {
        const double share = (t - time_.from) / (time_.to - time_.from);
        return frame_.left + std::clamp(share, 0.0, 1.0) * frame_.inner_width();
    }
    [[nodiscard]] double y(double ms) const {
        return frame_.top + (1 - value_.share(ms)) * frame_.inner_height();
    }
    [[nodiscard]] double bottom() const { return frame_.height - frame_.bottom; }
    [[nodiscard]] double right() const { return frame_.width - frame_.right; }

    [[nodiscard]] bool shows(const PlotSpan& span) const {
        return std::isfinite(span.from) && std::isfinite(span.to) && span.to >= span.from &&
               span.to >= time_.from && span.from <= time_.to;
    }

    // "7:10 to 7:26", as far as the drawing shows it.
    [[nodiscard]] std::string stretch(const PlotSpan& span) const {
        return fmt::format("{} to {}", TimeAxis::clock(std::max(span.from, time_.from)),
                           TimeAxis::clock(std::min(span.to, time_.to)));
    }

    [[nodiscard]] std::string description() const {
        const auto worst =
            std::max_element(points_.begin(), points_.end(),
                             [](const auto& a, const auto& b) { return a.ms < b.ms; });
        std::string text = fmt::format(
            "Mean time of a flush, second by second, over {}. Usual {}, worst {}. {} {} marked.",
            core::humane(std::chrono::round<core::nanoseconds>(
                std::chrono::duration<double>(std::min(time_.to - time_.from, 1e9)))),
            latency_text(usual_), latency_text(worst->ms), plot_.stalls.size(),
            plot_.stalls.size() == 1 ? "stall is" : "stalls are");
        for (const PlotSpan& trim : plot_.trims) {
            if (shows(trim)) {
                text += fmt::format(" {}, {}.", trim.label, stretch(trim));
            }
        }
        return text;
    }

    [[nodiscard]] std::string grid() const {
        std::string out = "<g class=\"grid\">\n";
        for (const Tick& tick : value_.ticks()) {
            out += fmt::format("<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" "
                               "y2=\"{2:.1f}\"/><text class=\"tick\" x=\"{3:.1f}\" y=\"{4:.1f}\" "
                               "text-anchor=\"end\">{5}</text>\n",
                               frame_.left, right(), y(tick.at), frame_.left - 8, y(tick.at) + 4,
                               tick.label);
        }
        for (const Tick& tick : time_.ticks()) {
            out += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>"
                               "<text class=\"tick\" x=\"{0:.1f}\" y=\"{3:.1f}\" "
                               "text-anchor=\"middle\">{4}</text>\n",
                               x(tick.at), bottom(), bottom() + 5, bottom() + 19, tick.label);
        }
        out += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" "
                           "y2=\"{2:.1f}\"/>\n</g>\n",
                           frame_.left, right(), bottom());
        const bool before_now = time_.to <= 0;
        out += fmt::format("<text class=\"axis-name\" x=\"{:.1f}\" y=\"{:.1f}\" "
                           "text-anchor=\"end\">{}{}</text>\n",
                           right(), frame_.height - 8, time_.unit,
                           before_now ? " (0 = the report)" : "");
        out += fmt::format("<text class=\"axis-name\" x=\"4\" y=\"14\">flush, {}{}</text>\n",
                           value_.unit(), value_.logarithmic ? " (log)" : "");
        return out;
    }

    [[nodiscard]] std::string spans(const std::vector<PlotSpan>& spans,
                                    std::string_view kind) const {
        constexpr double least = 2; // or a short one would not be seen
        std::string out;
        for (const PlotSpan& span : spans) {
            if (!shows(span)) {
                continue;
            }
            const double width = std::max(least, x(span.to) - x(span.from));
            out += fmt::format(
                "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                "height=\"{:.1f}\"><title>{}</title></rect>\n",
                kind, std::min(x(span.from), right() - width), frame_.top, width,
                frame_.inner_height(),
                html_text(fmt::format("{}, {} to {}", span.label, TimeAxis::clock(span.from),
                                      TimeAxis::clock(span.to))));
        }
        return out;
    }

    // The line of the means. Where many points share a column of the drawing, its first, least,
    // greatest and last are drawn: the picture is that of all points, and no burst is lost.
    [[nodiscard]] std::string series() const {
        const double gap = std::max(3.0, 3 * spacing());
        std::string path;
        std::size_t at = 0;
        double previous = points_.front().t - 2 * gap;
        while (at < points_.size()) {
            const double column = std::floor(x(points_[at].t) * 2);
            std::size_t end = at + 1;
            while (end < points_.size() && std::floor(x(points_[end].t) * 2) == column &&
                   points_[end].t - points_[end - 1].t <= gap) {
                ++end;
            }
            const auto begin_it = points_.begin() + static_cast<std::ptrdiff_t>(at);
            const auto end_it = points_.begin() + static_cast<std::ptrdiff_t>(end);
            const auto [least, greatest] =
                std::minmax_element(begin_it, end_it, [](const PlotPoint& a, const PlotPoint& b) {
                    return a.ms < b.ms;
                });
            std::vector<std::size_t> kept{at, static_cast<std::size_t>(least - points_.begin()),
                                          static_cast<std::size_t>(greatest - points_.begin()),
                                          end - 1};
            std::sort(kept.begin(), kept.end());
            kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
            for (std::size_t index : kept) {
                const PlotPoint& point = points_[index];
                path += fmt::format("{}{:.1f} {:.1f}", point.t - previous > gap ? "M" : "L",
                                    x(point.t), y(point.ms));
                previous = point.t;
            }
            previous = points_[end - 1].t;
            at = end;
        }
        return fmt::format("<path class=\"series\" d=\"{}\"/>\n", path);
    }

    // Seconds that were far over the usual, and points that stand alone, which a line cannot show.
    [[nodiscard]] std::string dots() const {
        const double gap = std::max(3.0, 3 * spacing());
        std::string far;
        std::string alone;
        double last_x = -10;
        double last_y = -10;
        for (std::size_t i = 0; i < points_.size(); ++i) {
            const PlotPoint& point = points_[i];
            const bool lonely = (i == 0 || point.t - points_[i - 1].t > gap) &&
                                (i + 1 == points_.size() || points_[i + 1].t - point.t > gap);
            const bool slow = core::far_over(point.ms, usual_);
            if (!lonely && !slow) {
                continue;
            }
            // Two dots on one spot are one dot.
            if (std::fabs(x(point.t) - last_x) < 0.5 && std::fabs(y(point.ms) - last_y) < 0.5) {
                continue;
            }
            last_x = x(point.t);
            last_y = y(point.ms);
            (slow ? far : alone) += fmt::format("M{:.1f} {:.1f}h0", last_x, last_y);
        }
        std::string out;
        if (!alone.empty()) {
            out += fmt::format("<path class=\"alone\" d=\"{}\"/>\n", alone);
        }
        if (!far.empty()) {
            out += fmt::format("<path class=\"far\" d=\"{}\"/>\n", far);
        }
        return out;
    }

    [[nodiscard]] std::string usual_line() const {
        return fmt::format("<line class=\"usual\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" "
                           "y2=\"{2:.1f}\"/>\n",
                           frame_.left, right(), y(usual_));
    }
    // Names of the trims in the margin above, in two lines; one that finds no room has its tooltip.
    [[nodiscard]] std::string trim_labels() const {
        std::array<double, 2> taken{frame_.left + 60,
                                    frame_.left - 10}; // the axis' name is in line 0
        std::string out;
        for (const PlotSpan& span : plot_.trims) {
            if (!shows(span) || span.label.empty()) {
                continue;
            }
            const double middle = (x(span.from) + x(span.to)) / 2;
            const std::string clean = printable(span.label);
            const double width = glyph_width * columns(clean);
            const double room = right() - frame_.left;
            const double start =
                std::max(frame_.left, std::min(middle - width / 2, right() - width));
            for (std::size_t line : {std::size_t{1}, std::size_t{0}}) {
                if (width > room || start < taken.at(line) + 10) {
                    continue;
                }
                const double baseline = frame_.top - 6 - label_line * (line == 1 ? 0 : 1);
                out += fmt::format("<text class=\"trim-name\" x=\"{:.1f}\" y=\"{:.1f}\" "
                                   "text-anchor=\"middle\">{}</text>\n",
                                   start + width / 2, baseline, html_text(clean));
                taken.at(line) = start + width;
                break;
            }
        }
        return out;
    }

    [[nodiscard]] double spacing() const {
        std::vector<double> distances;
        for (std::size_t i = 1; i < points_.size(); ++i) {
            distances.push_back(points_[i].t - points_[i - 1].t);
        }
        return distances.empty() ? 1 : median(std::move(distances));
    }

    const DrivePlot& plot_;
    std::vector<PlotPoint> points_;
    double usual_;
    const Frame& frame_;
    TimeAxis time_;
    ValueAxis value_;
};

} // namespace

std::string latency_text(double ms) {
    if (!std::isfinite(ms)) {
        return "unknown";
    }
    if (ms < 1) {
        return fmt::format("{:.0f} \u00b5s", ms * 1000);
    }
    return fmt::format("{:.{}f} ms", ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

std::optional<double> plot_usual_ms(const DrivePlot& plot) {
    if (plot.usual_ms && std::isfinite(*plot.usual_ms) && *plot.usual_ms > 0) {
        return plot.usual_ms;
    }
    std::vector<double> values;
    for (const PlotPoint& point : sound_points(plot)) {
        values.push_back(point.ms);
    }
    return values.empty() ? std::nullopt : std::optional(median(std::move(values)));
}

std::string plot_svg(const DrivePlot& plot, const std::string& id, PlotShape shape) {
    std::vector<PlotPoint> points = sound_points(plot);
    const std::optional<double> usual = plot_usual_ms(plot);
    if (points.empty() || !usual) {
        return {};
    }
    const bool is_wide = shape == PlotShape::Wide;
    return Drawing(plot, std::move(points), *usual, is_wide ? wide : narrow)
        .svg(id, is_wide ? "wide" : "narrow");
}

} // namespace nvmaint::report
