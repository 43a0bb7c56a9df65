// The continuous watch over one disk's flushes, from samples about a second apart. A plain value:
// copy it, compare it, feed it in virtual time.
//
// A second is *stalled* when its mean flush time is far over the running median of the seconds
// before it while neither the data writes nor the queue explain that. Adjacent stalled seconds
// (gaps of few seconds bridged) are one stall. Worked example: a client drive at 2 ms a flush, 40
// flushes a second; every 30 s four seconds of 12 ms. The median stays 2 ms (stalled seconds are
// left out of it), four seconds are 6 x the median: one stall of 4 s, depth 6.
#pragma once

#include "core/history.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace nvmaint::core {

struct Stall {
    BootTime start{};
    BootTime end{};            // of its last stalled second
    double peak_ms = 0;        // worst per-second mean
    double median_ms = 0;      // the running median it is measured against
    std::uint64_t flushes = 0; // that completed within it
    double write_ratio =
        0; // how the mean of data writes moved against its own median; 1 = not at all
    bool operator==(const Stall&) const = default;
};

// Stalls that come back: found once three intervals between stall starts agree... see
// flush_watch.cpp.
struct Periodicity {
    nanoseconds period{};   // median distance between stall starts
    double spread = 0;      // relative spread of those distances
    nanoseconds duration{}; // median length of a stall
    double depth = 0;       // median of peak / median
    unsigned stalls = 0;    // counted
    bool operator==(const Periodicity&) const = default;
};

struct FlushWatch {
    std::deque<FlushSample> recent; // bounded: the last 15 minutes
    std::vector<Stall> stalls;      // ended, bounded: the last 24 hours
    std::optional<Stall> ongoing;
    bool operator==(const FlushWatch&) const = default;

    // Samples come in order of time. A gap of more than 10 s in time ends an ongoing stall.
    void add(const FlushSample& sample);

    // Median of the per-second means of the recent seconds that were not stalled; absent below the
    // number of seconds and flushes that a judgement needs.
    [[nodiscard]] std::optional<double> usual_ms() const;
    // Mean of the last second that had flushes.
    [[nodiscard]] std::optional<double> last_ms() const;
    [[nodiscard]] std::optional<Periodicity> periodicity() const;
    // The flushes of [from, to), summarised. `usual` is the yardstick for stalled seconds (4 x
    // usual); absent: the stretch's own median.
    [[nodiscard]] FlushSummary summary(BootTime from, BootTime to,
                                       std::optional<double> usual = {}) const;
};

} // namespace nvmaint::core
