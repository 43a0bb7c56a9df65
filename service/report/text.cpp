#include "report.hpp"

#include "catalogue.hpp"
#include "escape.hpp"
#include "layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace nvmaint::report {

namespace {

using core::Diagnosis;
using core::Finding;
using core::Severity;

constexpr std::array severities{Severity::Critical, Severity::Warning, Severity::Notice,
                                Severity::Info};

// status_text() fits a terminal of 25 lines with its prompt.
constexpr std::size_t status_lines = 24;

std::string ms_text(double ms) {
    if (!std::isfinite(ms)) {
        return "-";
    }
    const int decimals = ms < 10 ? 2 : ms < 100 ? 1 : 0;
    return fmt::format("{:.{}f} ms", ms, decimals);
}
std::string ms_text(const std::optional<double>& ms) {
    return ms ? ms_text(*ms) : "-";
}

std::string counted(std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Times may come from a file; a century either way bounds the arithmetic.
std::string lapse_text(core::WallTime from, core::WallTime to) {
    constexpr std::chrono::hours century{100 * 366 * 24};
    const double hours = (static_cast<double>(to.time_since_epoch().count()) -
                          static_cast<double>(from.time_since_epoch().count())) /
                         3.6e9;
    return std::fabs(hours) > static_cast<double>(century.count()) ? "a very long time"
                                                                   : core::humane(to - from);
}

std::string name_of(const Finding& finding) {
    return finding.reason.empty() ? finding.id : finding.id + "/" + finding.reason;
}

std::string subject_text(const core::Subject& subject) {
    return subject.kind == core::SubjectKind::Host
               ? std::string("this host")
               : fmt::format("{} {}", core::to_string(subject.kind), printable(subject.name));
}

std::size_t count_of(const Diagnosis& diagnosis, Severity severity) {
    return static_cast<std::size_t>(
        std::count_if(diagnosis.findings.begin(), diagnosis.findings.end(),
                      [&](const Finding& finding) { return finding.severity == severity; }));
}

// "2 warnings, 1 notice"; "no findings".
std::string tally(const Diagnosis& diagnosis) {
    constexpr std::array<std::string_view, 4> nouns{"critical", "warning", "notice", "info"};
    std::string out;
    for (std::size_t i = 0; i < severities.size(); ++i) {
        if (const std::size_t count = count_of(diagnosis, severities.at(i)); count != 0) {
            const bool plural =
                severities.at(i) == Severity::Warning || severities.at(i) == Severity::Notice;
            out += out.empty() ? "" : ", ";
            out += plural ? counted(count, nouns.at(i)) : fmt::format("{} {}", count, nouns.at(i));
        }
    }
    return out.empty() ? "no findings" : out;
}

std::string verdict_text(const Diagnosis& diagnosis, const Style& style) {
    const std::string_view verdict = core::to_string(diagnosis.verdict);
    const Ink ink = ink_of(verdict) == Ink::Dim ? Ink::Bold : ink_of(verdict);
    return inked(verdict, ink, style);
}

std::string heading(std::string_view text, const Style& style) {
    return "\n" + inked(text, Ink::Bold, style) + "\n";
}

// Whether a text begins with a program that fixes call, or with a path.
bool begins_with_command(std::string_view text) {
    constexpr std::array<std::string_view, 27> programs{"apt",        "blkid",
                                                        "cat",        "cryptsetup",
                                                        "dmesg",      "dmsetup",
                                                        "echo",       "findmnt",
                                                        "fsck",       "fstrim",
                                                        "grep",       "journalctl",
                                                        "ls",         "lsblk",
                                                        "lvchange",   "mdadm",
                                                        "modprobe",   "mount",
                                                        "nvmaintctl", "nvme",
                                                        "reboot",     "sg_vpd",
                                                        "sysctl",     "systemctl",
                                                        "umount",     "update-initramfs",
                                                        "xfs_repair"};
    const std::string_view word = text.substr(0, text.find(' '));
    return text.starts_with('/') ||
           std::find(programs.begin(), programs.end(), word) != programs.end();
}

// One line of a fix: "prose: command   # comment", each part of which may be missing. Where it is
// too long, the parts go on lines of their own: prose and comment are wrapped, the command, which
// is to be pasted, never is.
std::string fix_line_text(std::string_view line, const std::string& indent, const Style& style) {
    const std::string clean = printable(line);
    if (static_cast<int>(indent.size()) + columns(clean) <= text_width(style)) {
        return indent + clean + "\n";
    }
    std::size_t command = std::string::npos;
    if (begins_with_command(clean)) {
        command = 0;
    } else {
        for (std::size_t colon = clean.find(": "); colon != std::string::npos;
             colon = clean.find(": ", colon + 1)) {
            if (begins_with_command(std::string_view(clean).substr(colon + 2))) {
                command = colon + 2;
            }
        }
    }
    if (command == std::string::npos) {
        return paragraph(indent, indent, clean, style);
    }
    std::string out;
    std::string inner = indent;
    if (command != 0) {
        out += paragraph(indent, indent, std::string_view(clean).substr(0, command - 1), style);
        inner += "  ";
    }
    const std::size_t comment = clean.find("   # ", command);
    out += inner + clean.substr(command, comment - command) + "\n";
    if (comment != std::string::npos) {
        out += paragraph(inner + "# ", inner + "# ", std::string_view(clean).substr(comment + 5),
                         style);
    }
    return out;
}

std::string fix_text(const std::vector<std::string>& fix, const std::string& indent,
                     const Style& style) {
    std::string out;
    for (const std::string& line : fix) {
        out += fix_line_text(line, indent, style);
    }
    return out;
}

// One finding in full, its heading at the left edge.
std::string finding_text(const Finding& finding, const Diagnosis& diagnosis, const Style& style) {
    std::string out = fmt::format(
        "{} {}\n",
        inked(printable(name_of(finding)), ink_of(core::to_string(finding.severity)), style),
        subject_text(finding.subject));
    out += paragraph("  ", "  ", finding.summary, style);
    if (!finding.layer.empty()) {
        out += paragraph("  at layer: ", "            ", finding.layer, style);
    }
    // One that was first seen in this very judgement has no past to tell.
    if (finding.since && *finding.since != diagnosis.now) {
        out += fmt::format("  since:    {} ({})\n", core::to_rfc3339(*finding.since),
                           lapse_text(*finding.since, diagnosis.now));
    }
    std::string_view label = "  seen in:  ";
    for (const core::Evidence& evidence : finding.evidence) {
        out += paragraph(label, "            ",
                         fmt::format("{}: {}", evidence.source, evidence.says), style);
        label = "            ";
    }
    if (!finding.fix.empty()) {
        out += "  to fix:\n" + fix_text(finding.fix, "    ", style);
    }
    return out;
}

// "2 filesystems (1 covered, 1 not-covered)".
std::string filesystems_seen(const Diagnosis& diagnosis) {
    std::string states;
    for (core::TrimState state :
         {core::TrimState::Covered, core::TrimState::NotCovered, core::TrimState::Blocked,
          core::TrimState::OtherAgent, core::TrimState::NotApplicable, core::TrimState::Unknown}) {
        const auto count =
            std::count_if(diagnosis.filesystems.begin(), diagnosis.filesystems.end(),
                          [&](const auto& filesystem) { return filesystem.trim == state; });
        if (count != 0) {
            states +=
                fmt::format("{}{} {}", states.empty() ? "" : ", ", count, core::to_string(state));
        }
    }
    return counted(diagnosis.filesystems.size(), "filesystem") +
           (states.empty() ? "" : fmt::format(" (trim: {})", states));
}

std::string drive_name(const core::DriveView& drive) {
    std::string disks;
    for (const std::string& disk : drive.disks) {
        disks += (disks.empty() ? "" : " ") + disk;
    }
    return disks.empty() ? drive.name : disks;
}

// A table in at most `room` lines, heading included; the last one then says how much is missing.
std::string table_within(Table table, std::size_t room, std::string_view more, const Style& style) {
    std::string tail;
    const std::size_t rows = room > 1 ? room - 1 : 0;
    if (table.rows.size() > rows && rows > 0) {
        tail = fmt::format("(and {} more: {})\n", table.rows.size() - (rows - 1), more);
        table.rows.resize(rows - 1);
    }
    return table_text(table, style) + tail;
}

Table status_drives(const Diagnosis& diagnosis) {
    Table table{.header = {"DRIVE", "MODEL", "CLASS", "FLUSH NOW", "USUAL", "SOURCE", "HEALTH"},
                .rows = {},
                .right_aligned = {3, 4},
                .cut = true};
    for (const core::DriveView& drive : diagnosis.drives) {
        table.rows.push_back({drive.name, drive.model, drive.drive_class,
                              ms_text(drive.flush_last_ms), ms_text(drive.flush_median_ms),
                              drive.flush_source, drive.health});
    }
    return table;
}

Table status_filesystems(const Diagnosis& diagnosis) {
    Table table{.header = {"FILESYSTEM", "TYPE", "TRIM", "WHY"},
                .rows = {},
                .right_aligned = {},
                .cut = true};
    for (const core::FilesystemView& filesystem : diagnosis.filesystems) {
        table.rows.push_back({filesystem.mount, filesystem.type,
                              std::string(core::to_string(filesystem.trim)), filesystem.why});
    }
    return table;
}

// The last trim of each filesystem, newest first.
Table status_trims(const std::vector<core::TrimRecord>& trims) {
    Table table{.header = {"LAST TRIM", "STARTED", "OUTCOME", "REQUESTED", "DISCARDED", "EFFECT"},
                .rows = {},
                .right_aligned = {3, 4},
                .cut = true};
    std::vector<std::string> seen;
    for (auto record = trims.rbegin(); record != trims.rend(); ++record) {
        if (std::find(seen.begin(), seen.end(), record->mount) != seen.end()) {
            continue;
        }
        seen.push_back(record->mount);
        table.rows.push_back(
            {record->mount, core::to_rfc3339(record->started),
             record->outcome.empty() ? "running" : record->outcome,
             core::humane_bytes(record->requested_bytes),
             record->discarded_bytes ? core::humane_bytes(*record->discarded_bytes) : "unknown",
             record->effect ? std::string(core::to_string(record->effect->verdict)) : "-"});
    }
    return table;
}

Table status_findings(const Diagnosis& diagnosis) {
    Table table{.header = {"SEVERITY", "FINDING", "SUBJECT", "SUMMARY"},
                .rows = {},
                .right_aligned = {},
                .cut = true};
    for (const Finding& finding : diagnosis.findings) {
        table.rows.push_back({std::string(core::to_string(finding.severity)), name_of(finding),
                              finding.subject.name, finding.summary});
    }
    return table;
}

std::string catalogue_text(const CatalogueEntry& entry, const Style& style) {
    std::string out = paragraph("  ", "  ", entry.meaning, style);
    if (!entry.remedy.empty()) {
        out += "  what helps:\n" + paragraph("    ", "    ", entry.remedy, style);
    }
    return out;
}

} // namespace

std::string doctor_text(const Diagnosis& diagnosis, const Style& style) {
    std::string out =
        fmt::format("Verdict: {} - {}\n", verdict_text(diagnosis, style), tally(diagnosis));
    out += paragraph("", "",
                     fmt::format("Judged {}: {}, {}.", core::to_rfc3339(diagnosis.now),
                                 filesystems_seen(diagnosis),
                                 counted(diagnosis.drives.size(), "drive")),
                     style);
    constexpr std::array<std::string_view, 4> titles{
        "CRITICAL - data or the drive at risk, or commits failing their target",
        "WARNING - will hurt if nobody acts", "NOTICE - worth knowing",
        "INFO - explains something"};
    for (std::size_t i = 0; i < severities.size(); ++i) {
        if (count_of(diagnosis, severities.at(i)) == 0) {
            continue;
        }
        out += heading(titles.at(i), style);
        for (const Finding& finding : diagnosis.findings) {
            if (finding.severity == severities.at(i)) {
                out += "\n" + finding_text(finding, diagnosis, style);
            }
        }
    }
    return out;
}

std::string status_text(const Diagnosis& diagnosis, const std::string& mode,
                        const std::vector<core::TrimRecord>& trims, const Style& style) {
    std::vector<std::pair<Table, std::string_view>> parts{
        {status_drives(diagnosis), "nvmaintctl drives"},
        {status_filesystems(diagnosis), "nvmaintctl filesystems"},
        {status_trims(trims), "nvmaintctl status --json"},
        {status_findings(diagnosis), "nvmaintctl doctor"}};
    parts.erase(std::remove_if(parts.begin(), parts.end(),
                               [](const auto& part) { return part.first.rows.empty(); }),
                parts.end());
    // Each part takes an empty line and its heading. Lines are dealt out one by one, so that no
    // long part takes what a short one needs.
    std::vector<std::size_t> room(parts.size(), 0);
    std::size_t left = status_lines - 1;
    for (bool dealt = true; dealt && left != 0;) {
        dealt = false;
        for (std::size_t i = 0; i < parts.size() && left != 0; ++i) {
            if (room[i] < parts[i].first.rows.size() + 2) {
                ++room[i];
                --left;
                dealt = true;
            }
        }
    }
    std::string out =
        cut_to(fmt::format("nvmaint: {} - {}; mode {}; {}", core::to_string(diagnosis.verdict),
                           tally(diagnosis), printable(mode), core::to_rfc3339(diagnosis.now)),
               text_width(style));
    const std::string_view verdict = core::to_string(diagnosis.verdict);
    constexpr std::size_t name_end = std::string_view("nvmaint: ").size();
    if (out.compare(name_end, verdict.size(), verdict) == 0) {
        out.replace(name_end, verdict.size(), verdict_text(diagnosis, style));
    }
    out += "\n";
    for (std::size_t i = 0; i < parts.size(); ++i) {
        out += "\n" + table_within(parts[i].first, room[i] - 1, parts[i].second, style);
    }
    return out;
}

std::string drives_text(const Diagnosis& diagnosis, const Style& style) {
    if (diagnosis.drives.empty()) {
        return "No NVMe drive was found.\n";
    }
    Table table{.header = {"DRIVE", "DISK", "MODEL", "FIRMWARE", "SERIAL", "CLASS", "HEALTH"},
                .rows = {}};
    Table flushes{.header = {"DRIVE", "FLUSH NOW", "USUAL", "SOURCE", "WHY THIS SOURCE"},
                  .rows = {},
                  .right_aligned = {1, 2}};
    for (const core::DriveView& drive : diagnosis.drives) {
        table.rows.push_back({drive.name, drive_name(drive), drive.model, drive.firmware,
                              drive.serial, drive.drive_class, drive.health});
        flushes.rows.push_back({drive.name, ms_text(drive.flush_last_ms),
                                ms_text(drive.flush_median_ms), drive.flush_source,
                                drive.flush_source_why});
    }
    return table_text(table, style) + "\n" + table_text(flushes, style);
}

std::string filesystems_text(const Diagnosis& diagnosis, const Style& style) {
    if (diagnosis.filesystems.empty()) {
        return "No filesystem on a block device was found.\n";
    }
    Table table{.header = {"MOUNT", "SOURCE", "TYPE", "STACK", "TRIM", "TIER", "WHY"},
                .rows = {},
                .right_aligned = {5}};
    for (const core::FilesystemView& filesystem : diagnosis.filesystems) {
        std::string stack;
        for (const std::string& layer : filesystem.stack) {
            stack += (stack.empty() ? "" : " > ") + layer;
        }
        table.rows.push_back({filesystem.mount, filesystem.source, filesystem.type, stack,
                              std::string(core::to_string(filesystem.trim)),
                              fmt::format("{}", filesystem.tier), filesystem.why});
    }
    return table_text(table, style);
}

std::string explain_text(const Diagnosis& diagnosis, const std::string& id, const Style& style) {
    const std::string wanted = id.substr(0, id.find('/'));
    const CatalogueEntry* entry = catalogue_entry(wanted);
    std::string active;
    for (const Finding& finding : diagnosis.findings) {
        if (finding.id == wanted && (id == wanted || name_of(finding) == id)) {
            active += "\n" + finding_text(finding, diagnosis, style);
        }
    }
    if (entry == nullptr && active.empty()) {
        return {};
    }
    std::string out = inked(printable(wanted), Ink::Bold, style) + "\n";
    if (entry != nullptr) {
        out += catalogue_text(*entry, style);
    }
    return out + (active.empty() ? "\nIt does not stand on this host now.\n" : active);
}

std::vector<std::vector<std::string>> effect_figures(const core::TrimEffect& effect) {
    const auto share = [](const core::FlushSummary& summary) {
        return summary.flushes == 0
                   ? std::string("-")
                   : fmt::format("{} ({:.1f} %)", summary.stalled_flushes,
                                 100 * static_cast<double>(summary.stalled_flushes) /
                                     static_cast<double>(summary.flushes));
    };
    // Without a flush there is no time of a flush: a zero would be one.
    const auto ms = [](double core::FlushSummary::*field) {
        return [field](const core::FlushSummary& summary) {
            return summary.flushes == 0 ? std::string("-") : ms_text(summary.*field);
        };
    };
    const auto row = [&](const char* name, auto value) {
        return std::vector<std::string>{name, value(effect.before), value(effect.after)};
    };
    using Summary = core::FlushSummary;
    return {
        {"Flushes", "before", "after"},
        row("watched for", [](const Summary& s) { return core::humane(s.length); }),
        row("flushes", [](const Summary& s) { return fmt::format("{}", s.flushes); }),
        row("times are of",
            [](const Summary& s) {
                return std::string(s.flushes == 0 ? "-" : s.of_flushes ? "each flush" : "seconds");
            }),
        row("median", ms(&Summary::median_ms)),
        row("99th percentile", ms(&Summary::p99_ms)),
        row(effect.before.of_flushes && effect.after.of_flushes     ? "worst flush"
            : !effect.before.of_flushes && !effect.after.of_flushes ? "worst second"
                                                                    : "worst",
            ms(&Summary::worst_ms)),
        row("stalled flushes", share),
        row("stalls", [](const Summary& s) { return fmt::format("{}", s.episodes); })};
}

std::string trim_result_text(const core::TrimRecord& record, const Style& style) {
    std::string disks;
    for (const std::string& disk : record.disks) {
        disks += (disks.empty() ? "" : ", ") + disk;
    }
    std::string what =
        fmt::format("Trim of {}{}: {}", record.mount, disks.empty() ? "" : " on " + disks,
                    record.outcome.empty() ? "running" : record.outcome);
    if (record.ended) {
        what += " after " + lapse_text(record.started, *record.ended);
    }
    if (!record.complete && record.ended) {
        what += "; not all of it was trimmed";
    }
    std::string out = paragraph("", "  ", what, style);
    const Table amounts{
        .header = {},
        .rows = {{"  requested by the filesystem", core::humane_bytes(record.requested_bytes)},
                 {"  discarded at the drive", record.discarded_bytes
                                                  ? core::humane_bytes(*record.discarded_bytes)
                                                  : "unknown: no discard counter"}},
        .right_aligned = {}};
    out += table_text(amounts, style);
    if (!record.effect) {
        return out;
    }
    std::vector<std::vector<std::string>> figures = effect_figures(*record.effect);
    Table table{.header = figures.front(), .rows = {}, .right_aligned = {1, 2}};
    table.rows.assign(figures.begin() + 1, figures.end());
    const std::string_view verdict = core::to_string(record.effect->verdict);
    out += "\n" + table_text(table, style) + "\n";
    out += fmt::format("Verdict: {}", inked(verdict, ink_of(verdict), style));
    if (record.effect->verdict != core::EffectVerdict::NotComparable) {
        out += fmt::format(" (confidence {:.1f} %)", 100 * record.effect->confidence);
    }
    return out + "\n" + paragraph("  ", "  ", record.effect->why, style);
}

} // namespace nvmaint::report
