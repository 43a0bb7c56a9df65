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

// What a histogram of the same interval adds to the counters.
struct FlushDistribution {
    LatencySource source = LatencySource::Module;
    HistogramShape shape;
    // Flushes that completed: bucket and number, ascending, none of them 0.
    std::vector<std::pair<std::uint16_t, std::uint32_t>> flushes;
    nanoseconds max{}; // of them
    // Writes that carried data, and all requests but flushes: at the device, no waiting for flushes
    // in it.
    std::uint64_t data_writes = 0;
    std::chrono::duration<double, std::milli> data_write_time{};
    std::chrono::duration<double, std::milli> other_time{};
    nanoseconds oldest{}; // age of the oldest flush that is out at the end; 0: none
    bool operator==(const FlushDistribution&) const = default;
};

// Of what was counted between two readings; nothing where it has no flush class.
[[nodiscard]] std::optional<FlushDistribution> flush_distribution(const DiskLatency& since);

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
    std::uint64_t in_flight = 0;                   // at the end
    milliseconds weighted_time{};                  // time x requests in flight over the interval
    std::optional<FlushDistribution> distribution; // absent: nobody keeps a histogram
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
    // Of the per-second means, weighted by flushes, which hide the single flush; of the flushes
    // themselves where all of the stretch has a distribution.
    double median_ms = 0;
    double p99_ms = 0;
    double worst_ms = 0;
    std::uint64_t stalled_flushes = 0; // in seconds whose mean exceeded 4 x the median
    unsigned episodes = 0;   // runs of stalled seconds, a single one not counted: noise makes those
    double calm_rate = 0;    // flushes a second outside stalled seconds; 0 = not known
    bool of_flushes = false; // which of the two the times are of
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
    std::string method; // "module", "bpf", "diskstats"
    bool operator==(const FlushBaseline&) const = default;
};

} // namespace nvmaint::core
