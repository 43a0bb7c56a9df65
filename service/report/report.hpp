// What people and machines read. Pure: values in, text out.
#pragma once

#include "core/decide.hpp"
#include "core/diagnose.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace nvmaint::report {

// ---- machines ----

// Schema nvmaint.doctor/1. Same diagnosis, same bytes: keys in a fixed order.
[[nodiscard]] nlohmann::ordered_json doctor_json(const core::Diagnosis& diagnosis);
[[nodiscard]] nlohmann::ordered_json finding_json(const core::Finding& finding);
// Passes over keys it does not know: a newer service may say more. Errors: Malformed, with the
// place.
[[nodiscard]] Result<core::Diagnosis> doctor_from_json(const nlohmann::json& json);
// One tick of a replay: {"now", "findings", "plan": {"actions", "refusals"}}.
[[nodiscard]] nlohmann::ordered_json tick_json(const core::Diagnosis& diagnosis,
                                               const core::Plan& plan);
[[nodiscard]] nlohmann::ordered_json trim_record_json(const core::TrimRecord& record);
[[nodiscard]] Result<core::TrimRecord> trim_record_from_json(const nlohmann::json& json);
// Before and after as rows of a table, first row the header.
[[nodiscard]] std::vector<std::vector<std::string>> effect_figures(const core::TrimEffect& effect);

struct MetricsInput {
    core::Diagnosis diagnosis;
    std::map<std::string, core::DiskCounters> counters; // by disk
    std::map<std::string, std::string> drive_identity;  // disk -> value of the `drive` label
    std::vector<core::TrimRecord> trims;
    std::map<std::string, nvme::SmartLog> smart; // by controller
    std::string version;
    std::map<std::string, core::DiskLatency> latency; // by disk, where a histogram is kept
};
// Prometheus text exposition format 0.0.4. A quantity that is unknown has no sample.
[[nodiscard]] std::string metrics_text(const MetricsInput& input);

// ---- people ----

struct Style {
    bool colour = false;
    int width = 80; // columns; tables never exceed it
};
[[nodiscard]] std::string doctor_text(const core::Diagnosis& diagnosis, const Style& style);
[[nodiscard]] std::string status_text(const core::Diagnosis& diagnosis, const std::string& mode,
                                      const std::vector<core::TrimRecord>& trims,
                                      const Style& style);
[[nodiscard]] std::string drives_text(const core::Diagnosis& diagnosis, const Style& style);
[[nodiscard]] std::string filesystems_text(const core::Diagnosis& diagnosis, const Style& style);
[[nodiscard]] std::string explain_text(const core::Diagnosis& diagnosis, const std::string& id,
                                       const Style& style);
[[nodiscard]] std::string trim_result_text(const core::TrimRecord& record, const Style& style);

// Columns sized to content. Where a line would be wider than the style, the last column and then
// the widest give way: their cells are wrapped, or with `cut` ended with "...".
struct Table {
    std::vector<std::string> header;
    std::vector<std::vector<std::string>> rows;
    std::vector<std::size_t> right_aligned = {}; // columns, from 0
    bool cut = false;
};
[[nodiscard]] std::string table_text(const Table& table, const Style& style);

// ---- HTML ----

struct PlotPoint {
    double t = 0; // seconds, of any zero; negative where that is the moment of the report
    double ms = 0;
};
struct PlotSpan {
    double from = 0, to = 0; // seconds
    std::string label;       // "trim", "stall"
};
struct DrivePlot {
    std::string title;            // "nvme0n1: VM SSD, client"
    std::vector<PlotPoint> flush; // mean flush time per second
    std::vector<PlotSpan> trims;
    std::vector<PlotSpan> stalls;
    std::vector<std::vector<std::string>> figures; // rows of a table, first row the header
    std::string verdict;
    std::optional<double> usual_ms = {}; // absent: the median of the points
};
struct HtmlReport {
    std::string title;
    std::string generated;          // RFC 3339
    std::vector<std::string> story; // paragraphs
    std::vector<DrivePlot> drives;
    std::optional<core::Diagnosis> diagnosis;
};
// One self-contained page: no script, no outside reference; plots are inline SVG, readable in dark
// and light.
[[nodiscard]] std::string html_report(const HtmlReport& report);

} // namespace nvmaint::report
