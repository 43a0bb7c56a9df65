// The continuous watch over one disk's flushes, from samples about a second apart. A plain value:
// copy it, compare it, feed it in virtual time.
//
// A second is *stalled* when its mean flush time is far over the running median of the seconds
// before it while neither the data writes nor the queue explain that. Adjacent stalled seconds
// (gaps of few seconds bridged) are one stall. Worked example: a client drive at 2 ms a flush, 40
// flushes a second; every 30 s four seconds of 12 ms. The median stays 2 ms (stalled seconds are
// left out of it), four seconds are 6 x the median: one stall of 4 s, depth 6.
//
// Where a histogram of the flushes is kept, a second is also stalled when at least half of it went
// by in flushes that were each far over the median. Such a second's mean may be usual: half of it
// at 2 ms are 250 flushes, half of it at 20 ms are 25, and the mean is 3.6 ms.
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
        0;               // how the mean of data writes moved against its own median; 1 = not at all
    double write_ms = 0; // mean of the data writes within it; waits for flushes taken out
    double usual_write_ms = 0; // their running median
    double depth = 0;          // mean number of requests under way that were not flushes
    unsigned seconds = 0;      // of it that were stalled
    bool operator==(const Stall&) const = default;
};

// Stalls that keep coming back, see periodicity().
struct Periodicity {
    nanoseconds period{};   // median distance between stall starts
    double spread = 0;      // standard deviation of those distances / their mean
    nanoseconds duration{}; // median length of a stall
    double depth = 0;       // median of peak / median
    unsigned stalls = 0;    // counted
    bool operator==(const Periodicity&) const = default;
};

// What is usual on this disk: medians over the recent seconds that were not stalled.
struct FlushYardstick {
    double flush_ms = 0;   // mean time of a flush
    double rate = 0;       // flushes in a second that had any
    double write_ms = 0;   // mean time of a data write, an upper bound
    double wait_share = 0; // share of the writes that waited for a flush, an upper bound, 0..1
    double depth = 0;      // requests under way that were not flushes
    double in_flight = 0;  // at the end of a second
    double discards_b = 0; // bytes discarded in a second
    nanoseconds length{};  // of a sample
    bool operator==(const FlushYardstick&) const = default;
};

// What a second was found to be.
enum class SecondKind {
    NoFlush,   // no flush completed: says nothing by itself
    Unjudged,  // too early, the sampler itself was late, the first after idleness, or a light load
    Usual,     // not far over the median
    Explained, // far over the median, and the writes, the queue or discards say why
    Stalled,   // far over the median, and nothing but the drive explains it
};

// One minute of flushes, kept for a day.
struct FlushMinute {
    BootTime end{};
    std::uint64_t flushes = 0;
    unsigned seconds = 0; // that had flushes
    unsigned stalled = 0; // of them
    double median_ms = 0; // as in FlushSummary
    double p99_ms = 0;
    bool of_flushes = false;
    bool operator==(const FlushMinute&) const = default;
};

struct FlushWatch {
    std::deque<FlushSample> recent;  // bounded: the last 15 minutes
    std::deque<SecondKind> kinds;    // of `recent`, index by index
    std::deque<FlushMinute> minutes; // ended ones; bounded: the last 24 hours
    std::vector<Stall> stalls;       // ended, bounded: the last 24 hours and 1000
    std::optional<Stall> ongoing;
    std::deque<SlowFlush> told; // one by one, start in boot time; bounded: 15 minutes and 256
    bool operator==(const FlushWatch&) const = default;

    // Samples come in order of time; one that does not is dropped. A gap of more than 10 s in time
    // ends an ongoing stall. O(samples kept).
    void add(const FlushSample& sample);

    // A flush that a source of events tells of. One that was told as pending and then as done
    // counts as done.
    void note(const SlowFlush& flush);
    // The slowest of those that overlap [from, to].
    [[nodiscard]] std::optional<SlowFlush> slowest_between(BootTime from, BootTime to) const;

    // Median of the per-second means of the recent seconds that were not stalled; absent below the
    // number of seconds and flushes that a judgement needs.
    [[nodiscard]] std::optional<double> usual_ms() const;
    // Mean of the last second that had flushes.
    [[nodiscard]] std::optional<double> last_ms() const;
    // Whether flushes were slow (4 x usual) in any second that ended after `from`, whatever the
    // cause: what a paced trim must know about its own effect.
    [[nodiscard]] bool slow_since(BootTime from) const;
    // Seconds since `from` in which the flushes could be judged.
    [[nodiscard]] unsigned judged_since(BootTime from) const;
    [[nodiscard]] std::optional<Periodicity> periodicity() const;
    // The last stall, ended or not.
    [[nodiscard]] std::optional<Stall> last_stall() const;
    // The flushes of [from, to), summarised. `usual` is the yardstick for stalled seconds (4 x
    // usual); absent: the stretch's own median, stalled seconds left out.
    [[nodiscard]] FlushSummary summary(BootTime from, BootTime to,
                                       std::optional<double> usual = {}) const;

    // Working state of add().
    std::optional<FlushYardstick> yardstick; // absent until enough was seen
    double judged_with = 0;          // flush_ms of the yardstick when all was judged anew last
    unsigned since_measured = 0;     // samples since the yardstick was measured
    unsigned samples = 0;            // of the series, saturating
    std::optional<Stall> forming;    // stalled seconds that are not a stall yet
    std::deque<BootTime> forming_at; // when its stalled seconds, and those of `ongoing`, ended
    unsigned calm = 0;               // usual seconds since the last stalled one
    std::deque<BootTime> noise;      // stalled seconds that remained alone, last 15 minutes
    std::optional<BootTime> minute_start;
};

// Mean flush time of a sample in milliseconds; absent without flushes.
[[nodiscard]] std::optional<double> flush_mean_ms(const FlushSample& sample);

// What the flushes of a sample are judged by: their mean, or, where half of the time went by in
// flushes that were far over the usual, the mean of those.
[[nodiscard]] std::optional<double> flush_level_ms(const FlushSample& sample, double usual_ms);

// Whether flushes suffer now, by what was counted during something that may be the cause: at least
// two flushes, and a tenth of all, were far over the usual, or one is out for that long. A single
// one is chance on any drive.
[[nodiscard]] bool flushes_suffer(const FlushDistribution& during, double usual_ms);

// Whether a per-second mean counts as far over the usual: more than 4 times, and by more than 5 ms.
[[nodiscard]] bool far_over(double mean_ms, double usual_ms);
// The largest that is not.
[[nodiscard]] double far_limit_ms(double usual_ms);

} // namespace nvmaint::core
