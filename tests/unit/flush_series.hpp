// Flush series as the kernel's counters would show them, in virtual time and by seed.
//
// What matters is kept: times are sums in whole milliseconds cut from a running total, a fsync
// appears once as a flush and once as a write that contains its wait, and flushes that would
// overlap wait for each other.
#pragma once

#include "core/flush_watch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

namespace nvmaint::test {

using core::BootTime;
using core::FlushSample;
using core::nanoseconds;
using core::seconds;

struct Second {
    double fsyncs = 40;     // asked for
    double flush_ms = 2;    // of one
    double noise = 0.15;    // relative scatter of a flush
    double writes = 40;     // data writes
    double write_ms = 0.05; // of one
    std::uint64_t in_flight = 0;
    double other_depth = 0; // mean number of other requests under way
    std::uint64_t discarded = 0;
    double length_s = 1;
    // Within this part of the second a flush takes slow_ms.
    double slow_from = 0;
    double slow_to = 0;
    double slow_ms = 0;
};

class Series {
  public:
    explicit Series(std::uint64_t seed = 1, seconds start = seconds{1000})
        : random_(seed), now_(start) {}

    [[nodiscard]] BootTime now() const { return now_; }
    std::mt19937_64& random() { return random_; }

    double uniform(double low, double high) {
        return std::uniform_real_distribution<double>(low, high)(random_);
    }

    FlushSample next(const Second& s) {
        now_ += nanoseconds{static_cast<std::int64_t>(s.length_s * 1e9)};
        FlushSample out;
        out.end = now_;
        out.length = nanoseconds{static_cast<std::int64_t>(s.length_s * 1e9)};
        out.has_flush_counters = true;
        // Flushes of a queue run one after the other: no more than fit, the others merge. Their sum
        // scatters as that of independent ones.
        const auto asked = poisson(s.fsyncs * s.length_s);
        const double n = static_cast<double>(asked);
        const double slow = std::round(n * (s.slow_to - s.slow_from));
        const double scatter = 1 + s.noise / std::sqrt(std::max(n, 1.0)) * normal_(random_);
        double used = std::max(0.1, scatter) * (slow * s.slow_ms + (n - slow) * s.flush_ms);
        const double room = 1000 * s.length_s + std::max(s.flush_ms, s.slow_ms);
        const double fit = used > room ? room / used : 1;
        out.flushes = static_cast<std::uint64_t>(std::ceil(n * fit));
        used *= fit;
        const double merged = static_cast<double>(asked - out.flushes);
        const auto data = poisson(s.writes * s.length_s);
        out.flush_time = grow(flush_ms_, used);
        out.writes = asked + data;
        out.write_time = grow(write_ms_, used + merged * 1.5 * s.flush_ms +
                                             static_cast<double>(data) * s.write_ms);
        out.written_bytes = data * 8192;
        out.in_flight = s.in_flight;
        out.discards = s.discarded == 0 ? 0 : 1;
        out.discarded_bytes = s.discarded;
        out.weighted_time =
            std::chrono::duration_cast<core::milliseconds>(out.flush_time) + out.write_time +
            core::milliseconds{static_cast<std::int64_t>(1000 * s.length_s * s.other_depth)};
        return out;
    }

    void feed(core::FlushWatch& watch, const Second& s, unsigned count = 1) {
        for (unsigned i = 0; i < count; ++i) {
            watch.add(next(s));
        }
    }

  private:
    std::uint64_t poisson(double mean) {
        return mean <= 0 ? 0 : std::poisson_distribution<std::uint64_t>(mean)(random_);
    }
    static core::milliseconds grow(double& total, double by) {
        const double before = std::floor(total);
        total += by;
        return core::milliseconds{static_cast<std::int64_t>(std::floor(total) - before)};
    }

    std::mt19937_64 random_;
    std::normal_distribution<double> normal_{0, 1};
    BootTime now_;
    double flush_ms_ = 0;
    double write_ms_ = 0;
};

// A client drive that was never trimmed: bursts of 3-10 s at 8-20 ms a flush every 20-60 s, which
// begin and end anywhere in a second.
class Bursts {
  public:
    explicit Bursts(Series& series, bool cured = false) : series_(series), cured_(cured) {
        plan(to_s(series.now()));
    }
    void cure() { cured_ = true; }
    // When the first one began; the far future before that.
    [[nodiscard]] double first_stall_s() const { return first_; }
    [[nodiscard]] unsigned started() const { return started_; }

    FlushSample next(Second s) {
        const double from = to_s(series_.now());
        const double to = from + s.length_s;
        if (from >= end_) {
            plan(end_);
        }
        if (begin_ < to && !cured_) {
            s.slow_from = std::max(0.0, (begin_ - from) / s.length_s);
            s.slow_to = std::min(1.0, (end_ - from) / s.length_s);
            s.slow_ms = depth_;
            first_ = std::min(first_, begin_);
            started_ += begin_ >= from ? 1 : 0;
        }
        return series_.next(s);
    }

  private:
    static double to_s(BootTime t) { return std::chrono::duration<double>(t).count(); }
    void plan(double after) {
        begin_ = after + series_.uniform(20, 60);
        end_ = begin_ + series_.uniform(3, 10);
        depth_ = series_.uniform(8, 20);
    }

    Series& series_;
    bool cured_;
    double begin_ = 0;
    double end_ = 0;
    double depth_ = 0;
    double first_ = 1e18;
    unsigned started_ = 0;
};

} // namespace nvmaint::test
