#include "report.hpp"

#include "escape.hpp"
#include "plot.hpp"

#include <fmt/format.h>

namespace nvmaint::report {

namespace {

// Colours are chosen to be told apart by eyes that see no red or no green, in light and in dark.
constexpr std::string_view style_sheet = R"css(
:root { color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --ink: #1b2027; --soft: #59636e; --rule: #d9dee4;
  --grid: #e6eaee; --series: #1f6fb4; --far: #c4430b; --stall: rgba(214, 96, 26, .17);
  --trim: rgba(18, 128, 92, .20); --trim-ink: #0b6b4b; --critical: #b3202a; --warning: #9a5b00;
  --notice: #1f6fb4; --info: #59636e; --good: #0b6b4b; }
@media (prefers-color-scheme: dark) { :root {
  --page: #10141a; --card: #181e26; --ink: #e4e9ef; --soft: #9aa6b2; --rule: #2d3641;
  --grid: #28303a; --series: #63b0f2; --far: #ff9a5c; --stall: rgba(255, 140, 70, .20);
  --trim: rgba(62, 200, 150, .22); --trim-ink: #6fdcb2; --critical: #ff7b82; --warning: #f0b456;
  --notice: #63b0f2; --info: #9aa6b2; --good: #6fdcb2; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 28px 20px 40px; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 4px; }
h2 { font-size: 1.15rem; margin: 0 0 10px; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
p { margin: 0 0 12px; overflow-wrap: anywhere; }
.when, footer { color: var(--soft); font-size: .875rem; }
.when { margin-bottom: 18px; }
.story { max-width: 46rem; margin-bottom: 22px; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  padding: 18px 20px; margin: 0 0 18px; }
.verdict { border-left: 4px solid var(--soft); padding: 2px 0 2px 12px; margin: 0 0 14px; }
.is-healthy, .is-helped { border-color: var(--good); }
.is-attention, .is-worse { border-color: var(--warning); }
.is-critical { border-color: var(--critical); }
.plot { display: block; width: 100%; height: auto; }
.plot.narrow { display: none; }
.plot text { font-size: 12px; fill: var(--soft); font-family: inherit; }
.plot .axis-name { font-size: 12px; }
.plot .grid line { stroke: var(--grid); stroke-width: 1; shape-rendering: crispEdges; }
.plot .grid .axis { stroke: var(--soft); }
.plot .stall { fill: var(--stall); }
.plot .trim { fill: var(--trim); }
.plot .trim-name { fill: var(--trim-ink); font-weight: 600; }
.plot .series { fill: none; stroke: var(--series); stroke-width: 1.4; stroke-linejoin: round; }
.plot .far, .plot .alone { fill: none; stroke-linecap: round; stroke-width: 4.2; }
.plot .far { stroke: var(--far); }
.plot .alone { stroke: var(--series); }
.plot .usual { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 5 4; opacity: .75; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 6px 0 0;
  padding: 0; color: var(--soft); font-size: .8125rem; }
.legend svg { display: inline-block; width: 26px; height: 12px; margin-right: 7px;
  vertical-align: -1px; }
.scroll { overflow-x: auto; margin-top: 14px; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 22px 5px 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
th { font-weight: 600; color: var(--soft); white-space: nowrap; }
.figures td + td, .figures th + th { text-align: right; padding: 5px 0 5px 28px;
  white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
.finding { border-top: 1px solid var(--rule); padding: 12px 0; }
.finding:last-child { padding-bottom: 0; }
.finding p { margin: 4px 0 0; }
.badge { display: inline-block; font-size: .75rem; font-weight: 700; letter-spacing: .03em;
  text-transform: uppercase; margin-right: 8px; }
.critical { color: var(--critical); } .warning { color: var(--warning); }
.notice { color: var(--notice); } .info { color: var(--info); }
details { margin-top: 6px; font-size: .9rem; }
summary { cursor: pointer; color: var(--soft); }
details ul { margin: 6px 0; padding-left: 20px; }
details li { overflow-wrap: anywhere; }
pre { margin: 6px 0 0; padding: 10px 12px; overflow-x: auto; background: var(--page);
  border: 1px solid var(--rule); border-radius: 6px; font-size: .85rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
@media (max-width: 640px) {
  main { padding: 18px 12px 28px; }
  h1 { font-size: 1.35rem; }
  .card { padding: 14px 12px; }
  .plot.wide { display: none; }
  .plot.narrow { display: block; }
  .figures td + td, .figures th + th { padding-left: 14px; }
}
@media print { body { background: none; } .card { break-inside: avoid; } }
)css";

std::string legend_item(std::string_view drawing, std::string_view text) {
    return fmt::format("<li><svg class=\"plot\" viewBox=\"0 0 26 12\" aria-hidden=\"true\">{}"
                       "</svg>{}</li>\n",
                       drawing, text);
}

std::string legend(const DrivePlot& plot) {
    std::string out = "<ul class=\"legend\">\n";
    out += legend_item("<path class=\"series\" d=\"M0 8L9 6L17 7L26 4\"/>",
                       "mean flush time of each second");
    out += legend_item("<path class=\"far\" d=\"M13 6h0\"/>", "far over the usual");
    if (!plot.stalls.empty()) {
        out += legend_item("<rect class=\"stall\" width=\"26\" height=\"12\"/>", "stall");
    }
    if (!plot.trims.empty()) {
        out += legend_item("<rect class=\"trim\" width=\"26\" height=\"12\"/>", "trim");
    }
    if (const std::optional<double> usual = plot_usual_ms(plot)) {
        out += legend_item("<line class=\"usual\" x1=\"0\" x2=\"26\" y1=\"6\" y2=\"6\"/>",
                           "usual: " + latency_text(*usual));
    }
    return out + "</ul>\n";
}

using Rows = std::vector<std::vector<std::string>>;

// The first row is the header.
std::string table_html(const Rows& rows, std::string_view kind) {
    std::string out = fmt::format("<div class=\"scroll\"><table class=\"{}\">\n", kind);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        out += i == 0 ? "<thead><tr>" : i == 1 ? "<tbody>\n<tr>" : "<tr>";
        for (const std::string& cell : rows[i]) {
            out += i == 0 ? fmt::format("<th scope=\"col\">{}</th>", html_text(cell))
                          : fmt::format("<td>{}</td>", html_text(cell));
        }
        out += i == 0 ? "</tr></thead>\n" : "</tr>\n";
    }
    return out + (rows.size() > 1 ? "</tbody>" : "") + "</table></div>\n";
}

// The word before the first colon picks the colour: "helped: ...".
std::string verdict_html(const std::string& verdict) {
    const std::string word = verdict.substr(0, verdict.find(':'));
    const bool known = word == "helped" || word == "worse" || word == "healthy" ||
                       word == "attention" || word == "critical";
    return fmt::format("<p class=\"verdict{}\">{}</p>\n", known ? " is-" + word : "",
                       html_text(verdict));
}

std::string drive_html(const DrivePlot& plot, std::size_t number) {
    std::string out = fmt::format("<section class=\"card\">\n<h2>{}</h2>\n", html_text(plot.title));
    if (!plot.verdict.empty()) {
        out += verdict_html(plot.verdict);
    }
    const std::string drawn = plot_svg(plot, fmt::format("plot-{}-wide", number), PlotShape::Wide);
    if (drawn.empty()) {
        out += "<p>No flush was seen on this disk.</p>\n";
    } else {
        out += drawn;
        out += plot_svg(plot, fmt::format("plot-{}-narrow", number), PlotShape::Narrow);
        out += legend(plot);
    }
    if (!plot.figures.empty()) {
        out += table_html(plot.figures, "figures");
    }
    return out + "</section>\n";
}

std::string finding_html(const core::Finding& finding) {
    const std::string_view severity = core::to_string(finding.severity);
    std::string out = fmt::format(
        "<div class=\"finding\">\n<h3><span class=\"badge {0}\">{0}</span>{1}{2} \u00b7 {3}</h3>\n"
        "<p>{4}</p>\n",
        severity, html_text(finding.id),
        finding.reason.empty() ? "" : html_text("/" + finding.reason),
        html_text(finding.subject.name), html_text(finding.summary));
    if (finding.since) {
        out += fmt::format("<p class=\"when\">since {}</p>\n", core::to_rfc3339(*finding.since));
    }
    if (!finding.evidence.empty()) {
        out += "<details><summary>Evidence</summary><ul>\n";
        for (const core::Evidence& evidence : finding.evidence) {
            out += fmt::format("<li><code>{}</code>: {}</li>\n", html_text(evidence.source),
                               html_text(evidence.says));
        }
        out += "</ul></details>\n";
    }
    if (!finding.fix.empty()) {
        out += "<details open><summary>What to do</summary><pre>";
        for (const std::string& line : finding.fix) {
            out += html_text(line) + "\n";
        }
        out += "</pre></details>\n";
    }
    return out + "</div>\n";
}

std::string diagnosis_html(const core::Diagnosis& diagnosis) {
    std::string out =
        fmt::format("<section class=\"card\">\n<h2>Findings</h2>\n<p class=\"verdict is-{0}\">"
                    "Verdict of the host: <strong>{0}</strong></p>\n",
                    core::to_string(diagnosis.verdict));
    if (diagnosis.findings.empty()) {
        out += "<p>There is nothing to report.</p>\n";
    }
    for (const core::Finding& finding : diagnosis.findings) {
        out += finding_html(finding);
    }
    out += "</section>\n";

    Rows drives{{"drive", "model", "firmware", "class", "usual flush", "health"}};
    for (const core::DriveView& drive : diagnosis.drives) {
        drives.push_back({drive.name, drive.model, drive.firmware, drive.drive_class,
                          drive.flush_median_ms ? latency_text(*drive.flush_median_ms) : "unknown",
                          drive.health});
    }
    if (!diagnosis.drives.empty()) {
        out += "<section class=\"card\">\n<h2>Drives</h2>\n" + table_html(drives, "list") +
               "</section>\n";
    }
    Rows filesystems{{"filesystem", "type", "trim", "why"}};
    for (const core::FilesystemView& filesystem : diagnosis.filesystems) {
        filesystems.push_back({filesystem.mount, filesystem.type,
                               std::string(core::to_string(filesystem.trim)), filesystem.why});
    }
    if (!diagnosis.filesystems.empty()) {
        out += "<section class=\"card\">\n<h2>Filesystems</h2>\n" +
               table_html(filesystems, "list") + "</section>\n";
    }
    return out;
}

} // namespace

std::string html_report(const HtmlReport& report) {
    std::string out = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n"
        "<p class=\"when\">{2}</p>\n",
        html_text(report.title), style_sheet, html_text(report.generated));
    if (!report.story.empty()) {
        out += "<div class=\"story\">\n";
        for (const std::string& text : report.story) {
            out += fmt::format("<p>{}</p>\n", html_text(text));
        }
        out += "</div>\n";
    }
    for (std::size_t i = 0; i < report.drives.size(); ++i) {
        out += drive_html(report.drives[i], i);
    }
    if (report.diagnosis) {
        out += diagnosis_html(*report.diagnosis);
    }
    return out + "<footer><p>Flush times are means over the flushes that completed in a second, as "
                 "the kernel counts them: a single slow flush among many quick ones does not show. "
                 "\u201cUsual\u201d is the median of the seconds.</p></footer>\n"
                 "</main>\n</body>\n</html>\n";
}

} // namespace nvmaint::report
