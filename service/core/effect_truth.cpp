#include "core/effect_truth.hpp"

#include <fmt/format.h>

#include <map>
#include <string>

namespace nvmaint::core {
namespace {

// As long as the stock timer's period: by then there is, or should be, a newer trim. Judgement.
constexpr seconds kShown{7 * 24 * 3600};

std::string figures(const FlushSummary& summary) {
    return fmt::format(
        "{} flushes in {}: usual {:.1f} ms, worst second {:.1f} ms, {} stalled in {} stalls",
        summary.flushes, humane(summary.length), summary.median_ms, summary.worst_ms,
        summary.stalled_flushes, summary.episodes);
}

std::string summary_of(const TrimRecord& record) {
    switch (record.effect->verdict) {
    case EffectVerdict::Helped:
        return fmt::format("The trim of {} helped: {}", record.mount, record.effect->why);
    case EffectVerdict::NoChange:
        return fmt::format("The trim of {} changed nothing: {}", record.mount, record.effect->why);
    case EffectVerdict::Worse:
        return fmt::format("Flushes stall more since the trim of {}: {}", record.mount,
                           record.effect->why);
    case EffectVerdict::NotComparable:
        break;
    }
    return fmt::format("Whether the trim of {} helped cannot be told: {}", record.mount,
                       record.effect->why);
}

} // namespace

std::vector<Finding> judge_effects(const Memory& memory, WallTime now) {
    std::map<std::string, const TrimRecord*> last;
    for (const TrimRecord& record : memory.trims) {
        if (record.complete && record.effect && record.ended && now - *record.ended <= kShown) {
            last[record.mount] = &record;
        }
    }
    std::vector<Finding> findings;
    for (const auto& [mount, record] : last) {
        Finding finding;
        finding.id = "trim.effect";
        finding.reason = to_string(record->effect->verdict);
        finding.severity = Severity::Info;
        finding.subject = {SubjectKind::Filesystem, mount};
        finding.summary = summary_of(*record);
        finding.evidence = {
            {"flushes before", figures(record->effect->before)},
            {"flushes after", figures(record->effect->after)},
            {"FITRIM", fmt::format("the filesystem asked for {} (an upper bound)",
                                   humane_bytes(record->requested_bytes))},
        };
        if (record->discarded_bytes) {
            std::string disks;
            for (const std::string& disk : record->disks) {
                disks += (disks.empty() ? "" : ", ") + disk;
            }
            finding.evidence.push_back({"discard counters of " + disks,
                                        "moved by " + humane_bytes(*record->discarded_bytes)});
        }
        finding.since = record->ended;
        findings.push_back(std::move(finding));
    }
    return findings;
}

} // namespace nvmaint::core
