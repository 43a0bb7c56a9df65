// How a second is judged, and what the counters can and cannot say.
//
// /proc/diskstats gives, per whole disk, the number of flushes and the sum of their times in whole
// milliseconds, so a second has a mean and nothing finer: with 40 flushes a resolution of 0.025 ms,
// with one flush of one millisecond. Hence every comparison asks for a factor *and* for some
// milliseconds more.
//
// The write counters contain flush time: block/blk-flush.c completes the submitter's own request
// after the flush it waited for, so an fsync of nothing counts as a write of 0 sectors that took as
// long as its wait, and a journal's commit block (PREFLUSH|FUA) as a write that took the wait and
// its own time. Flushes are merged: while one runs, all that arrive wait for the next one. Let
// `m` be the mean flush time and `s` the share of the writes that wait. A waiter waits for between
// one and two flushes, so
//
//     write_time >= s writes m                  which bounds s from above: s <= mean write / m
//     waits      <= flush_time + 2 m (s writes - flushes)
//
// (each flush has at least one waiter that waited all of it). In usual seconds the first line gives
// `wait_share`; in a judged second the second line gives what waiting may account for, and only
// what exceeds it is held against the data writes. Worked example: 40 fsyncs a second at 2 ms and
// 40 data writes at 0.05 ms: 80 writes, 82 ms, wait_share 0.51. In a stall of 20 ms, 27 flushes
// serve the 40 fsyncs, which wait 25 ms on average: 80 writes take 1002 ms, 12.5 ms in the mean.
// Waiting may account for 540 + 2 x 20 x (41 - 27) = 1100 ms: nothing is left, the data writes are
// not slow. Had they been, at 20 ms each, 800 ms more would have stood there.
#include "core/flush_watch.hpp"

#include <algorithm>
#include <cmath>

namespace nvmaint::core {

namespace {

using std::chrono::duration_cast;

// How much is kept.
constexpr nanoseconds kRecent = std::chrono::minutes{15};
constexpr nanoseconds kHistory = std::chrono::hours{24};
constexpr std::size_t kMostStalls = 1000;
constexpr std::size_t kMostSlow = 256;
constexpr std::size_t kMostRecent = 4096; // against a sampler gone mad; 15 minutes are 900

// Nothing is judged before so much was seen. Judgement: ten means put the median's standard error
// near 40 % of one second's scatter, and twenty flushes keep the millisecond's rounding below 5 %.
constexpr std::size_t kLearnSeconds = 10;
constexpr std::uint64_t kLearnFlushes = 20;
// How often the yardstick is measured anew: each second in the beginning, later less often, since a
// median over 15 minutes moves slowly.
constexpr unsigned kEachSampleUntil = 40;
constexpr unsigned kMeasureEvery = 10;
// A series that started within a stall takes the stall for usual until calm seconds have been seen;
// while it is young, a yardstick that fell by so much has all seconds judged anew.
constexpr unsigned kYoungSamples = 300;
constexpr double kFell = 0.7;

// Far over the usual: story of the 1 TB client drive: 2.3 to 17 ms; simulated ones 2 to 8-20 ms. A
// load step of factor two moves means by half. Judgement: 4 lies between.
constexpr double kFactor = 4;
// And by no less than this, or a drive that flushes in tens of microseconds would stall whenever
// the host's scheduler does (seen: 0.6 to 6 ms on an emulated processor that was short of time).
// Half of the 10 ms up to which etcd's documentation calls the log sync of a member healthy.
constexpr double kLeastRise = 5;

// The share of seconds from below that is trusted to be free of stalls: with 40 % stalled the
// lowest 40 % are calm, and so are they with 60 %.
constexpr double kAnchor = 0.4;
// In the first minute less calm is enough: who is started within a burst of 17 s (a simulated
// drive) knows it for one 6 s after its end, not 12. A load whose flushes are of two kinds by
// nature would pass for stalls earlier this way, so the long run keeps the higher share.
constexpr double kFirstAnchor = 0.25;
constexpr std::size_t kFirstSeconds = 60;

// Where each flush is known. Judgement: a drive that was stalled for half of a second was stalled
// in it; and of the flushes around a range of a trim one in ten, which no drive's own tail is (p99
// is one in a hundred).
constexpr double kStalledShare = 0.5;
constexpr double kSufferingShare = 0.1;
constexpr std::uint64_t kLeastSuffering = 2;

// Writes explain a slow flush when their mean rose by at least half the factor, and by at least a
// quarter of the milliseconds. Judgement: a congested write path delays both alike; writes that
// went from 0.05 to 0.4 ms do not explain 12 ms, and the waits cannot be taken out of the counters
// more exactly than that.
constexpr double kWriteShareOfFactor = 0.5;
constexpr double kWriteShareOfRise = 0.25;
// A queue explains it when at least 16 requests other than flushes are under way, and 4 times the
// usual. Judgement: consumer drives reach their full rate near depth 32; at 16 service times of
// writes at 10-100 us still sum to well below the 4 x median of a client drive.
constexpr double kDeep = 16;
constexpr double kDeepFactor = 4;
// Discards explain it when far more than usual is discarded: a disk mounted with `discard` sends
// some all the time.
constexpr double kDiscardFactor = 4;

// After so long without a flush (and without one pending) the first second is not judged: drives
// leave power states with exit latencies of tens of milliseconds (NVMe Base Specification, Power
// State Descriptor, EXLAT; Linux lets them enter after 50 times the sum of both latencies,
// drivers/nvme/host/core.c).
constexpr nanoseconds kIdle = std::chrono::seconds{10};
// A second with less than a quarter of the usual flushes, in which flushing took less than a
// quarter of the time, is light load and not waiting: each flush may wake the drive.
constexpr double kLightShare = 0.25;
// A single flush in a second stalls it only if it is twice as far out.
constexpr double kSingleFactor = 2;

// Calm seconds that may lie within one stall; the next one ends it.
constexpr unsigned kBridge = 2;
constexpr nanoseconds kGap = std::chrono::seconds{10};

// A stall needs two stalled seconds in a row, or three of five; more where lone stalled seconds are
// frequent, as in a guest whose host is busy. If a second is stalled by chance with probability p,
// n seconds contain n p^k runs of k in the mean: k is chosen to keep that below 1 in 100.
constexpr unsigned kShortestRun = 2;
constexpr unsigned kLongestRun = 6;
// Of one flush's pending time, counted into a run: enough for any.
constexpr nanoseconds::rep kMostCovered = 12;
constexpr double kChanceRuns = 0.01;
constexpr double kLeastSeconds = 60;

// Stalls that keep coming back. Closer together than five minutes they are a nuisance whatever
// their rhythm, and drives that collect by free space jitter with the load: a spread of 0.5, which
// uniform gaps of 20-60 s stay within. Further apart the rhythm itself is the evidence: of three
// random (exponential) distances' spread 5 % are below 0.2, of two 10 % below 0.1.
constexpr nanoseconds kShortPeriod = std::chrono::minutes{5};
constexpr double kShortSpread = 0.5;
constexpr double kLongSpread = 0.2;
constexpr double kLongSpreadOfTwo = 0.1;
constexpr std::size_t kFewestStalls = 3;
constexpr std::size_t kMostPeriodStalls = 12;

double to_ms(nanoseconds t) {
    return static_cast<double>(t.count()) / 1e6;
}

double quantile(std::vector<double>& values, double q) {
    if (values.empty()) {
        return 0;
    }
    const auto index =
        static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)));
    const auto nth = values.begin() + static_cast<std::ptrdiff_t>(index);
    std::nth_element(values.begin(), nth, values.end());
    return *nth;
}

double median(std::vector<double>& values) {
    return quantile(values, 0.5);
}

// Smallest value at which the weights reach the share `q`; `values` sorted by value.
double weighted_quantile(const std::vector<std::pair<double, std::uint64_t>>& values, double q) {
    double total = 0;
    for (const auto& [value, weight] : values) {
        total += static_cast<double>(weight);
    }
    double sum = 0;
    for (const auto& [value, weight] : values) {
        sum += static_cast<double>(weight);
        if (sum >= q * total) {
            return value;
        }
    }
    return values.empty() ? 0 : values.back().first;
}

std::optional<double> exact_write_mean(const FlushDistribution& counted) {
    if (counted.data_writes == 0) {
        return std::nullopt;
    }
    return counted.data_write_time.count() / static_cast<double>(counted.data_writes);
}

// A bucket's flushes count as its middle, which is at most 3.2 % off.
double middle_ms(const HistogramShape& shape, std::size_t bucket, nanoseconds max) {
    const double middle =
        (static_cast<double>(shape.low_ns(bucket)) + static_cast<double>(shape.high_ns(bucket))) /
        2;
    return std::min(middle, std::max(static_cast<double>(max.count()),
                                     static_cast<double>(shape.low_ns(bucket)))) /
           1e6;
}

struct FarFlushes {
    std::uint64_t count = 0;
    double ms = 0; // sum
};

// Those that lie wholly above the limit.
FarFlushes far_flushes(const FlushDistribution& flushes, double usual_ms) {
    const double limit = far_limit_ms(usual_ms);
    FarFlushes out;
    for (const auto& [bucket, count] : flushes.flushes) {
        if (static_cast<double>(flushes.shape.low_ns(bucket)) / 1e6 >= limit) {
            out.count += count;
            out.ms += static_cast<double>(count) * middle_ms(flushes.shape, bucket, flushes.max);
        }
    }
    return out;
}

bool slow(const FlushSample& sample, double usual_ms) {
    const auto level = flush_level_ms(sample, usual_ms);
    return level && far_over(*level, usual_ms);
}

// Value and number, for weighted_quantile(): of the flushes where all of them are in histograms,
// else of the seconds' means.
struct FlushValues {
    std::vector<std::pair<double, std::uint64_t>> values; // ascending
    bool of_flushes = false;
};

FlushValues values_of(const std::vector<const FlushSample*>& samples) {
    FlushValues out;
    bool all = true;
    for (const FlushSample* s : samples) {
        all = all && (s->flushes == 0 || s->distribution);
        out.of_flushes = out.of_flushes || s->flushes > 0;
    }
    out.of_flushes = out.of_flushes && all;
    for (const FlushSample* s : samples) {
        if (out.of_flushes && s->distribution) {
            for (const auto& [bucket, count] : s->distribution->flushes) {
                out.values.emplace_back(
                    middle_ms(s->distribution->shape, bucket, s->distribution->max), count);
            }
        } else if (const auto mean = flush_mean_ms(*s)) {
            out.values.emplace_back(*mean, s->flushes);
        }
    }
    std::sort(out.values.begin(), out.values.end());
    return out;
}

// Of a data write, at most: as if no flush had had more than one waiter. Absent where all writes
// may have been waiters.
std::optional<double> write_mean_upper(const FlushSample& s) {
    if (s.distribution) {
        return exact_write_mean(*s.distribution);
    }
    if (s.writes <= s.flushes) {
        return std::nullopt;
    }
    const double own = static_cast<double>(s.write_time.count()) - s.flush_time.count();
    return std::max(0.0, own) / static_cast<double>(s.writes - s.flushes);
}

double wait_share_upper(const FlushSample& s) {
    if (s.writes == 0 || s.flush_time.count() == 0) {
        return 0;
    }
    const double write = static_cast<double>(s.write_time.count()) / static_cast<double>(s.writes);
    const double flush = s.flush_time.count() / static_cast<double>(s.flushes);
    return std::min(1.0, write / flush);
}

// Milliseconds that writes may have spent waiting for flushes, at most.
double waits_upper(const FlushSample& s, double wait_share) {
    if (s.flushes == 0) {
        return 0;
    }
    const double flush_time = s.flush_time.count();
    const double mean = flush_time / static_cast<double>(s.flushes);
    const double waiters = wait_share * static_cast<double>(s.writes);
    const double merged = std::max(0.0, waiters - static_cast<double>(s.flushes));
    return std::min(static_cast<double>(s.write_time.count()), flush_time + 2 * mean * merged);
}

// Of a data write, waits taken out: what is certainly its own.
std::optional<double> write_mean(const FlushSample& s, double wait_share) {
    if (s.distribution) {
        return exact_write_mean(*s.distribution);
    }
    const double writes = static_cast<double>(s.writes);
    const double waiters = std::max(static_cast<double>(s.flushes), wait_share * writes);
    if (writes - waiters < 1) {
        return std::nullopt;
    }
    return (static_cast<double>(s.write_time.count()) - waits_upper(s, wait_share)) /
           (writes - waiters);
}

// Mean number of requests under way that are neither flushes nor waiting for one. The weighted time
// is the sum of all completed requests' times since Linux 5.0, flushes included (block/genhd.c).
double other_depth(const FlushSample& s, double wait_share) {
    if (s.distribution) {
        return s.distribution->other_time.count() / to_ms(s.length);
    }
    const double other = static_cast<double>(s.weighted_time.count()) - s.flush_time.count() -
                         waits_upper(s, wait_share);
    return std::max(0.0, other) / to_ms(s.length);
}

std::optional<FlushYardstick> measure(const FlushWatch& watch) {
    std::vector<double> means;
    std::uint64_t flushes = 0;
    for (std::size_t i = 0; i < watch.recent.size(); ++i) {
        if (const auto mean = flush_mean_ms(watch.recent[i])) {
            means.push_back(*mean);
            flushes += watch.recent[i].flushes;
        }
    }
    if (means.size() < kLearnSeconds || flushes < kLearnFlushes) {
        return std::nullopt;
    }
    const double anchor = quantile(means, means.size() < kFirstSeconds ? kFirstAnchor : kAnchor);
    std::vector<double> flush, rate, write, share, depth, in_flight, discards, length;
    for (const FlushSample& s : watch.recent) {
        length.push_back(static_cast<double>(s.length.count()));
        const auto mean = flush_mean_ms(s);
        if (!mean || slow(s, anchor)) {
            continue;
        }
        flush.push_back(*mean);
        rate.push_back(static_cast<double>(s.flushes) / (to_ms(s.length) / 1000));
        share.push_back(wait_share_upper(s));
        if (const auto own = write_mean_upper(s)) {
            write.push_back(*own);
        }
        in_flight.push_back(static_cast<double>(s.in_flight));
        discards.push_back(static_cast<double>(s.discarded_bytes));
    }
    FlushYardstick y;
    y.flush_ms = median(flush);
    y.rate = median(rate);
    y.write_ms = median(write);
    y.wait_share = median(share);
    y.in_flight = median(in_flight);
    y.discards_b = median(discards);
    y.length = nanoseconds{static_cast<nanoseconds::rep>(median(length))};
    for (const FlushSample& s : watch.recent) {
        if (s.flushes > 0 && !slow(s, anchor)) {
            depth.push_back(other_depth(s, y.wait_share));
        }
    }
    y.depth = median(depth);
    return y;
}

bool writes_explain(const FlushSample& s, double mean, const FlushYardstick& y) {
    const auto own = write_mean(s, y.wait_share);
    if (!own) {
        return false;
    }
    // A tenth of a millisecond on both sides: below it the ratio is one of rounding errors.
    const double factor = (*own + 0.1) / (y.write_ms + 0.1);
    const double flush_factor = mean / std::max(y.flush_ms, 0.1);
    return factor >= kWriteShareOfFactor * std::min(flush_factor, 2 * kFactor) &&
           *own - y.write_ms >= kWriteShareOfRise * (mean - y.flush_ms);
}

bool queue_explains(const FlushSample& s, const FlushYardstick& y) {
    const double in_flight = static_cast<double>(s.in_flight);
    const double depth = other_depth(s, y.wait_share);
    return (in_flight >= kDeep && in_flight >= kDeepFactor * y.in_flight) ||
           (depth >= kDeep && depth >= kDeepFactor * y.depth);
}

bool discards_explain(const FlushSample& s, const FlushYardstick& y) {
    return s.discarded_bytes > 0 &&
           static_cast<double>(s.discarded_bytes) >= kDiscardFactor * y.discards_b;
}

// The sample with flushes before index `i`; nothing where none is kept.
const FlushSample* flushed_before(const FlushWatch& watch, std::size_t i) {
    while (i > 0) {
        --i;
        if (watch.recent[i].flushes > 0) {
            return &watch.recent[i];
        }
    }
    return nullptr;
}

// When the oldest flush that completed in this sample can have begun: seconds in which nothing
// completed belong to the flush that was pending meanwhile. Flushes of one queue run one after the
// other (blk-flush.c), so the sum of their times reaches back from the end, though never before the
// end of the last sample with flushes.
BootTime pending_from(const FlushSample& s, const FlushSample* last) {
    const BootTime start = s.end - s.length;
    const BootTime reach = s.end - duration_cast<nanoseconds>(s.flush_time);
    if (reach >= start) {
        return start;
    }
    return last == nullptr ? start : std::max(reach, std::min(last->end, start));
}

SecondKind judge(const FlushWatch& watch, std::size_t i, const FlushYardstick& y) {
    const FlushSample& s = watch.recent[i];
    const auto level = flush_level_ms(s, y.flush_ms);
    if (!level) {
        return SecondKind::NoFlush;
    }
    const FlushSample* last = flushed_before(watch, i);
    const BootTime begun = pending_from(s, last);
    const bool after_idle = last == nullptr ? i > 0 : begun - last->end >= kIdle;
    // A sampler that came late was not alone: whatever kept it from running (a paused guest, a
    // starved host) delayed the flushes' completion as well.
    const bool late = 2 * s.length > 5 * std::max(y.length, nanoseconds{std::chrono::seconds{1}});
    if (after_idle || late) {
        return SecondKind::Unjudged;
    }
    if (!far_over(*level, y.flush_ms)) {
        return SecondKind::Usual;
    }
    const double seconds_long = to_ms(s.length) / 1000;
    const double busy = s.flush_time.count() / to_ms(s.end - begun);
    if (static_cast<double>(s.flushes) / seconds_long < kLightShare * y.rate &&
        busy < kLightShare) {
        return SecondKind::Unjudged;
    }
    if (s.flushes < 2 && !far_over(*level, kSingleFactor * y.flush_ms)) {
        return SecondKind::Unjudged;
    }
    if (writes_explain(s, *level, y) || queue_explains(s, y) || discards_explain(s, y)) {
        return SecondKind::Explained;
    }
    return SecondKind::Stalled;
}

bool is_judged(SecondKind kind) {
    return kind == SecondKind::Usual || kind == SecondKind::Explained ||
           kind == SecondKind::Stalled;
}

// Stalled seconds in a row that make a stall, by how often lone ones occur.
unsigned run_needed(const FlushWatch& watch) {
    double seconds = 0;
    for (const SecondKind kind : watch.kinds) {
        seconds += is_judged(kind) ? 1 : 0;
    }
    seconds = std::max(seconds, kLeastSeconds);
    // Of independent stalled seconds p (1 - p)^2 remain alone; p / (1 - 2p) undoes that closely.
    const double alone = static_cast<double>(watch.noise.size()) / seconds;
    const double p = alone < 0.25 ? alone / (1 - 2 * alone) : 0.5;
    unsigned run = kShortestRun;
    double runs = seconds * p * p;
    while (run < kLongestRun && runs > kChanceRuns) {
        ++run;
        runs *= p;
    }
    return run;
}

// `run` stalled seconds in a row, or one more within a stretch of three more.
bool makes_stall(const std::deque<BootTime>& at, unsigned run, nanoseconds length) {
    const auto within = [&](std::size_t count, double span) {
        for (std::size_t i = 0; i + count <= at.size(); ++i) {
            if (static_cast<double>((at[i + count - 1] - at[i]).count()) <=
                span * static_cast<double>(length.count())) {
                return true;
            }
        }
        return false;
    };
    // Ends of k seconds in a row lie k - 1 lengths apart; half a length for the sampler's jitter.
    return within(run, run - 0.5) || within(run + 1, run + 2.5);
}

void end_stall(FlushWatch& w) {
    if (w.ongoing) {
        w.stalls.push_back(*w.ongoing);
        if (w.stalls.size() > kMostStalls) {
            w.stalls.erase(w.stalls.begin());
        }
    } else if (w.forming && w.forming_at.size() == 1) {
        w.noise.push_back(w.forming_at.front());
    }
    w.ongoing.reset();
    w.forming.reset();
    w.forming_at.clear();
    w.calm = 0;
}

void extend_stall(FlushWatch& w, std::size_t i, const FlushYardstick& y) {
    const FlushSample& s = w.recent[i];
    const double level = flush_level_ms(s, y.flush_ms).value_or(0);
    const BootTime begun = pending_from(s, flushed_before(w, i));
    if (!w.ongoing && !w.forming) {
        w.forming = Stall{};
        w.forming->start = begun;
        w.forming->median_ms = y.flush_ms;
        w.forming->usual_write_ms = y.write_ms;
    }
    Stall& stall = w.ongoing ? *w.ongoing : *w.forming;
    const auto covered = std::max<nanoseconds::rep>(1, (s.end - begun + y.length / 2) / y.length);
    stall.end = s.end;
    stall.peak_ms = std::max(stall.peak_ms, level);
    stall.flushes += s.flushes;
    const double n = static_cast<double>(stall.seconds);
    const double own = write_mean(s, y.wait_share).value_or(stall.usual_write_ms);
    stall.write_ms = (stall.write_ms * n + own) / (n + 1);
    stall.write_ratio = (stall.write_ms + 0.1) / (stall.usual_write_ms + 0.1);
    stall.depth = (stall.depth * n + other_depth(s, y.wait_share)) / (n + 1);
    stall.seconds += static_cast<unsigned>(std::min<nanoseconds::rep>(covered, 86400));
    w.calm = 0;
    if (w.ongoing) {
        return;
    }
    for (nanoseconds::rep k = std::min(covered, kMostCovered); k > 0; --k) {
        w.forming_at.push_back(s.end - (k - 1) * y.length);
    }
    if (makes_stall(w.forming_at, run_needed(w), y.length)) {
        w.ongoing = w.forming;
        w.forming.reset();
        w.forming_at.clear();
    }
}

// Puts the sample at index `i`, judged, into the run of stalls.
void follow(FlushWatch& w, std::size_t i, const FlushYardstick& y) {
    const SecondKind kind = judge(w, i, y);
    w.kinds[i] = kind;
    const Stall* open = w.ongoing ? &*w.ongoing : w.forming ? &*w.forming : nullptr;
    if (kind == SecondKind::Stalled) {
        // A flush pending since before the gap bridges it.
        if (open != nullptr && pending_from(w.recent[i], flushed_before(w, i)) - open->end > kGap) {
            end_stall(w);
        }
        extend_stall(w, i, y);
        return;
    }
    if (open == nullptr) {
        return;
    }
    if (kind == SecondKind::Usual || kind == SecondKind::Explained) {
        ++w.calm;
    }
    if (w.calm > kBridge || w.recent[i].end - open->end > kGap) {
        end_stall(w);
    }
}

void judge_anew(FlushWatch& w) {
    w.stalls.clear();
    w.ongoing.reset();
    w.forming.reset();
    w.forming_at.clear();
    w.noise.clear();
    w.calm = 0;
    for (std::size_t i = 0; i < w.recent.size(); ++i) {
        follow(w, i, *w.yardstick);
    }
    w.judged_with = w.yardstick->flush_ms;
}

template <class Times>
void drop_before(Times& times, BootTime limit) {
    while (!times.empty() && times.front() < limit) {
        times.pop_front();
    }
}

void forget(FlushWatch& w, BootTime now) {
    while (!w.recent.empty() &&
           (w.recent.front().end < now - kRecent || w.recent.size() > kMostRecent)) {
        w.recent.pop_front();
        w.kinds.pop_front();
    }
    while (!w.minutes.empty() && w.minutes.front().end < now - kHistory) {
        w.minutes.pop_front();
    }
    const auto old = std::find_if(w.stalls.begin(), w.stalls.end(),
                                  [&](const Stall& s) { return s.end >= now - kHistory; });
    w.stalls.erase(w.stalls.begin(), old);
    drop_before(w.noise, now - kRecent);
}

void close_minute(FlushWatch& w, BootTime end) {
    FlushMinute minute;
    minute.end = end;
    std::vector<const FlushSample*> chosen;
    for (std::size_t i = w.recent.size(); i > 0 && w.recent[i - 1].end > *w.minute_start; --i) {
        const FlushSample& s = w.recent[i - 1];
        if (flush_mean_ms(s)) {
            chosen.push_back(&s);
            minute.flushes += s.flushes;
            ++minute.seconds;
            minute.stalled += w.kinds[i - 1] == SecondKind::Stalled ? 1 : 0;
        }
    }
    const FlushValues values = values_of(chosen);
    minute.median_ms = weighted_quantile(values.values, 0.5);
    minute.p99_ms = weighted_quantile(values.values, 0.99);
    minute.of_flushes = values.of_flushes;
    w.minutes.push_back(minute);
    w.minute_start = end;
}

std::optional<Periodicity> regular(const std::vector<Stall>& stalls) {
    std::vector<double> gaps, lengths, depths;
    double sum = 0;
    for (std::size_t i = 0; i < stalls.size(); ++i) {
        if (i > 0) {
            gaps.push_back(static_cast<double>((stalls[i].start - stalls[i - 1].start).count()));
            sum += gaps.back();
        }
        lengths.push_back(static_cast<double>((stalls[i].end - stalls[i].start).count()));
        depths.push_back(stalls[i].peak_ms / std::max(stalls[i].median_ms, 0.1));
    }
    const double mean = sum / static_cast<double>(gaps.size());
    double squares = 0;
    for (const double gap : gaps) {
        squares += (gap - mean) * (gap - mean);
    }
    Periodicity p;
    p.spread = mean > 0 ? std::sqrt(squares / static_cast<double>(gaps.size())) / mean : 1;
    p.period = nanoseconds{static_cast<nanoseconds::rep>(median(gaps))};
    p.duration = nanoseconds{static_cast<nanoseconds::rep>(median(lengths))};
    p.depth = median(depths);
    p.stalls = static_cast<unsigned>(stalls.size());
    const double limit = p.period <= kShortPeriod ? kShortSpread
                         : gaps.size() == 2       ? kLongSpreadOfTwo
                                                  : kLongSpread;
    if (p.spread > limit) {
        return std::nullopt;
    }
    return p;
}

} // namespace

std::optional<double> flush_mean_ms(const FlushSample& sample) {
    if (!sample.has_flush_counters || sample.flushes == 0) {
        return std::nullopt;
    }
    return sample.flush_time.count() / static_cast<double>(sample.flushes);
}

std::optional<double> flush_level_ms(const FlushSample& sample, double usual_ms) {
    const auto mean = flush_mean_ms(sample);
    if (!mean || !sample.distribution || far_over(*mean, usual_ms)) {
        return mean;
    }
    const FarFlushes far = far_flushes(*sample.distribution, usual_ms);
    return far.count > 0 && far.ms >= kStalledShare * to_ms(sample.length)
               ? far.ms / static_cast<double>(far.count)
               : *mean;
}

bool flushes_suffer(const FlushDistribution& during, double usual_ms) {
    if (far_over(to_ms(during.oldest), usual_ms)) {
        return true;
    }
    std::uint64_t all = 0;
    for (const auto& [bucket, count] : during.flushes) {
        all += count;
    }
    const FarFlushes far = far_flushes(during, usual_ms);
    return far.count >= kLeastSuffering &&
           static_cast<double>(far.count) >= kSufferingShare * static_cast<double>(all);
}

bool far_over(double mean_ms, double usual_ms) {
    return mean_ms > far_limit_ms(usual_ms);
}

double far_limit_ms(double usual_ms) {
    return std::max(kFactor * usual_ms, usual_ms + kLeastRise);
}

void FlushWatch::add(const FlushSample& sample) {
    if (sample.length <= nanoseconds::zero() ||
        (!recent.empty() && sample.end <= recent.back().end)) {
        return;
    }
    if (!recent.empty() && sample.end - sample.length - recent.back().end > kGap) {
        end_stall(*this);
        minute_start.reset();
    }
    recent.push_back(sample);
    kinds.push_back(SecondKind::Unjudged);
    forget(*this, sample.end);
    samples = std::min(samples + 1, kYoungSamples);
    ++since_measured;
    if (!yardstick || samples < kEachSampleUntil || since_measured >= kMeasureEvery) {
        if (const auto measured = measure(*this)) {
            yardstick = measured;
        }
        since_measured = 0;
    }
    if (!yardstick) {
        kinds.back() = flush_mean_ms(sample) ? SecondKind::Unjudged : SecondKind::NoFlush;
    } else if (judged_with == 0 ||
               (samples < kYoungSamples && yardstick->flush_ms < kFell * judged_with)) {
        judge_anew(*this);
    } else {
        follow(*this, recent.size() - 1, *yardstick);
    }
    if (!minute_start) {
        minute_start = sample.end - sample.length;
    }
    if (sample.end - *minute_start >= std::chrono::minutes{1}) {
        close_minute(*this, sample.end);
    }
}

void FlushWatch::note(const SlowFlush& flush) {
    std::erase_if(told, [&](const SlowFlush& old) {
        return (old.pending && old.start == flush.start) ||
               old.start + old.duration < flush.start - kRecent;
    });
    told.push_back(flush);
    if (told.size() > kMostSlow) {
        told.pop_front();
    }
}

std::optional<SlowFlush> FlushWatch::slowest_between(BootTime from, BootTime to) const {
    std::optional<SlowFlush> slowest;
    for (const SlowFlush& flush : told) {
        if (flush.start <= to && flush.start + flush.duration >= from &&
            (!slowest || flush.duration > slowest->duration)) {
            slowest = flush;
        }
    }
    return slowest;
}

std::optional<double> FlushWatch::usual_ms() const {
    return yardstick ? std::optional<double>(yardstick->flush_ms) : std::nullopt;
}

std::optional<double> FlushWatch::last_ms() const {
    for (std::size_t i = recent.size(); i > 0; --i) {
        if (const auto mean = flush_mean_ms(recent[i - 1])) {
            return mean;
        }
    }
    return std::nullopt;
}

bool FlushWatch::slow_since(BootTime from) const {
    if (!yardstick) {
        return false;
    }
    for (std::size_t i = recent.size(); i > 0 && recent[i - 1].end > from; --i) {
        if (slow(recent[i - 1], yardstick->flush_ms)) {
            return true;
        }
    }
    return false;
}

unsigned FlushWatch::judged_since(BootTime from) const {
    unsigned count = 0;
    for (std::size_t i = recent.size(); i > 0 && recent[i - 1].end > from; --i) {
        count += is_judged(kinds[i - 1]) ? 1 : 0;
    }
    return count;
}

std::optional<Stall> FlushWatch::last_stall() const {
    if (ongoing) {
        return ongoing;
    }
    return stalls.empty() ? std::nullopt : std::optional<Stall>(stalls.back());
}

std::optional<Periodicity> FlushWatch::periodicity() const {
    std::vector<Stall> all = stalls;
    if (ongoing) {
        all.push_back(*ongoing);
    }
    // The longest stretch of stalls up to the last one that agrees: what was before a load change
    // or a pause need not.
    for (std::size_t n = std::min(all.size(), kMostPeriodStalls); n >= kFewestStalls; --n) {
        if (const auto p = regular({all.end() - static_cast<std::ptrdiff_t>(n), all.end()})) {
            return p;
        }
    }
    return std::nullopt;
}

FlushSummary FlushWatch::summary(BootTime from, BootTime to, std::optional<double> usual) const {
    std::vector<const FlushSample*> chosen;
    std::vector<double> means;
    FlushSummary out;
    for (const FlushSample& s : recent) {
        // A sample belongs where its middle lies.
        const BootTime middle = s.end - s.length / 2;
        if (middle < from || middle >= to) {
            continue;
        }
        out.length += s.length;
        chosen.push_back(&s);
        if (const auto mean = flush_mean_ms(s)) {
            out.flushes += s.flushes;
            means.push_back(*mean);
        }
    }
    const FlushValues found = values_of(chosen);
    out.median_ms = weighted_quantile(found.values, 0.5);
    out.p99_ms = weighted_quantile(found.values, 0.99);
    out.worst_ms = weighted_quantile(found.values, 1);
    out.of_flushes = found.of_flushes;
    if (!usual && !means.empty()) {
        std::vector<double> values = means;
        const double anchor = quantile(values, kAnchor);
        std::erase_if(values, [&](double mean) { return far_over(mean, anchor); });
        usual = median(values);
    }
    std::vector<double> rates;
    unsigned run = 0;  // stalled seconds of the episode
    unsigned calm = 0; // seconds with flushes since its last one
    for (const FlushSample* s : chosen) {
        if (s->flushes == 0) {
            continue;
        }
        if (!slow(*s, *usual)) {
            rates.push_back(static_cast<double>(s->flushes) / (to_ms(s->length) / 1000));
            run = ++calm > kBridge ? 0 : run;
            continue;
        }
        out.stalled_flushes += s->flushes;
        calm = 0;
        // A single stalled second is noise as likely as not; a flush of two seconds is not.
        const unsigned before = run;
        run += s->flush_time >= 2 * s->length ? 2 : 1;
        out.episodes += before < kShortestRun && run >= kShortestRun ? 1 : 0;
    }
    out.calm_rate = median(rates);
    return out;
}

} // namespace nvmaint::core
