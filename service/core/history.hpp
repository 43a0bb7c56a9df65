// What the service remembers from tick to tick, as values.
#pragma once

#include "core/finding.hpp"
#include "core/snapshot.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nvmaint::core {

// What one disk did between two readings of its counters, about a second apart.
struct FlushSample {
    BootTime end{};       // of the interval
    nanoseconds length{}; // of the interval
    bool has_flush_counters = false;
    std::uint64_t flushes = 0;
    // Sum over the flushes that completed: of whole milliseconds from the kernel's counters, exact
    // from a histogram.
    std::chrono::duration<double, std::milli> flush_time{};
    std::uint64_t writes = 0;  // block-layer writes, the empty ones that stand for a flush included
    milliseconds write_time{}; // sum; contains the wait of writes that needed a flush first
    std::uint64_t written_bytes = 0;
    std::uint64_t reads = 0;
    milliseconds read_time{};
    std::uint64_t read_bytes = 0;
    std::uint64_t discards = 0;
    std::uint64_t discarded_bytes = 0;
    std::uint64_t in_flight = 0;  // at the end
    milliseconds weighted_time{}; // time x requests in flight over the interval
    bool operator==(const FlushSample&) const = default;
};

// Nothing where a counter went backwards (replaced or reset device) or `length` is not positive.
[[nodiscard]] std::optional<FlushSample> sample_between(const DiskCounters& before,
                                                        const DiskCounters& after, BootTime end,
                                                        nanoseconds length);

// Summary of the flushes of one stretch of time, for before and after.
struct FlushSummary {
    nanoseconds length{};
    std::uint64_t flushes = 0;
    double median_ms = 0; // of the per-second means, weighted by flushes
    double p99_ms = 0;    // of the per-second means likewise: means hide the single flush
    double worst_ms = 0;  // worst per-second mean
    std::uint64_t stalled_flushes = 0; // in seconds whose mean exceeded 4 x the median
    unsigned episodes = 0; // runs of stalled seconds, a single one not counted: noise makes those
    double calm_rate = 0;  // flushes a second outside stalled seconds; 0 = not known
    bool operator==(const FlushSummary&) const = default;
};

enum class EffectVerdict { Helped, NoChange, Worse, NotComparable };
[[nodiscard]] std::string_view to_string(EffectVerdict verdict); // "helped", "no-change", ...

struct TrimEffect {
    EffectVerdict verdict = EffectVerdict::NotComparable;
    FlushSummary before;
    FlushSummary after;
    double confidence = 0; // 0..1: 1 - p of the test named in `why`
    std::string why;       // one line
    bool operator==(const TrimEffect&) const = default;
};

// One trim of one filesystem, ended or broken off.
struct TrimRecord {
    std::string mount;
    std::string fs_uuid;            // may be empty
    std::vector<std::string> disks; // kernel names of the physical disks below
    WallTime started{};
    std::optional<WallTime> ended;
    bool complete = false;             // every range was done
    std::string outcome;               // "done", "cancelled", "failed: ...", "interrupted"
    std::uint64_t requested_bytes = 0; // what FITRIM reported: what the filesystem asked for
    // Bytes by which the discard counters of the physical disks moved meanwhile; absent = not
    // readable.
    std::optional<std::uint64_t> discarded_bytes;
    std::optional<TrimEffect> effect; // present when the experiment has ended
    bool operator==(const TrimRecord&) const = default;
};

// Written durably before the first range of a trim, removed after the last: one that is found at
// start says that a trim was cut off, and by what (same boot: the service; other boot: the host).
struct TrimMarker {
    std::string mount;
    std::string fs_uuid;
    std::vector<std::string> disks;
    std::vector<std::string> serials;
    std::string boot_id;
    WallTime started{};
    std::uint64_t next_start = 0; // byte offset where the next range begins, when last written
    bool operator==(const TrimMarker&) const = default;
};

// How long a flush usually takes on a drive, learned while it was judged fine.
struct FlushBaseline {
    double median_ms = 0;
    std::uint64_t flushes = 0;
    WallTime learned{};
    std::string firmware;
    std::string method; // "diskstats"
    bool operator==(const FlushBaseline&) const = default;
};

} // namespace nvmaint::core
