// How long requests to a disk took, as histograms. One format, whoever counted: the kernel module's
// snapshot is turned into it.
//
// Buckets are log-linear. Bucket 0 is below 2^min_exponent ns, the last from 2^max_exponent ns on,
// and between them each octave has 2^sub_bits of equal width:
//
//   sub_bits 4, min_exponent 10: 2 ms = 2 000 000 ns lies in octave 20, of which it is past 14
//   sixteenths: bucket 1 + (20 - 10) * 16 + 14 = 175, [1 966 080, 2 031 616) ns. Whatever is in
//   there is at most 1.7 % from its middle, and 3.2 % in the octave's first bucket.
#pragma once

#include "core/time.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::core {

struct HistogramShape {
    unsigned sub_bits = 4;      // 1..8
    unsigned min_exponent = 10; // >= sub_bits
    unsigned max_exponent = 36; // > min_exponent, < 63
    bool operator==(const HistogramShape&) const = default;

    // Those at both ends included.
    [[nodiscard]] std::size_t buckets() const;
    // First nanosecond of a bucket, and the first behind it; the last bucket has no end: its
    // beginning again. `index` < buckets().
    [[nodiscard]] std::uint64_t low_ns(std::size_t index) const;
    [[nodiscard]] std::uint64_t high_ns(std::size_t index) const;
    [[nodiscard]] std::size_t index_of(std::uint64_t ns) const;
    // The most that a value inside may be away from its bucket's middle, as a share of the value:
    // 1 / 2^(sub_bits + 1), 3.1 % for 4.
    [[nodiscard]] double relative_error() const;
};

// Requests of one kind; all since the counting began.
struct LatencyHistogram {
    std::uint64_t count = 0; // completed, those with an error included
    nanoseconds sum{};
    nanoseconds max{};
    std::uint64_t errors = 0;
    std::uint64_t requeues = 0;
    std::uint64_t in_flight = 0; // at the moment of reading
    nanoseconds oldest{};        // age of the oldest in flight; 0: none
    std::vector<std::uint64_t> buckets;
    bool operator==(const LatencyHistogram&) const = default;
};

// The middle of the bucket in which the q-th (0..1) of all values lies, capped by the maximum;
// absent where nothing was counted. Values beyond the last bucket's beginning: the maximum.
[[nodiscard]] std::optional<nanoseconds> quantile(const HistogramShape& shape,
                                                  const LatencyHistogram& histogram, double q);

// What was counted between two readings. Nothing where a counter fell (counted anew) or the numbers
// of buckets differ. The maximum is that of the highest bucket that grew (its end, capped by the
// maximum of all), since a maximum cannot be taken apart.
[[nodiscard]] std::optional<LatencyHistogram>
between(const HistogramShape& shape, const LatencyHistogram& before, const LatencyHistogram& after);

// All classes of one disk between two readings; a class that either lacks, or that fell, is absent.
// `slow`: the events that are new. Nothing where the counting began anew meanwhile.
struct DiskLatency;
[[nodiscard]] std::optional<DiskLatency> between(const DiskLatency& before,
                                                 const DiskLatency& after);

// Adds what a second disk counted, such as another path of the same one. The shapes are equal.
void add(LatencyHistogram& into, const LatencyHistogram& from);

enum class LatencyClass {
    Flush,     // the device's: from issue to completion
    FlushWait, // the submitter's, waiting for other flushes included
    FuaWrite,
    FlushSequence, // data with flushes around it, as its submitter saw it
    Write,
    Read,
    Discard,
    WriteZeroes,
    Other,
};
constexpr std::size_t kLatencyClasses = 9;
[[nodiscard]] std::string_view to_string(LatencyClass kind); // "flush", "flush_wait", ...

// A flush that was slower than asked for, or still is.
struct SlowFlush {
    std::uint64_t number = 0; // from 1; a gap: some were dropped
    nanoseconds start{};      // of CLOCK_MONOTONIC
    nanoseconds duration{};   // so far, where pending
    bool pending = false;
    int error = 0; // errno; 0: none
    bool operator==(const SlowFlush&) const = default;
};

enum class LatencySource { Module, Bpf };
[[nodiscard]] std::string_view to_string(LatencySource source); // "module", "bpf"

// One disk, one moment.
struct DiskLatency {
    LatencySource source = LatencySource::Module; // who counts
    std::string disk;                             // kernel name, of the path where it is one
    HistogramShape shape;
    nanoseconds now{};          // CLOCK_MONOTONIC
    nanoseconds attached{};     // likewise, when the counting began
    std::uint64_t diskseq = 0;  // 0: not known
    bool gone = false;          // the disk is
    bool write_through = false; // the kernel sends no flush: none counted is not 0 ms
    bool waits_unknown = false; // FlushWait and FlushSequence are not counted
    std::uint64_t unseen = 0;   // requests in no class
    std::array<std::optional<LatencyHistogram>, kLatencyClasses> classes; // absent: not counted
    std::uint64_t events = 0;
    std::vector<SlowFlush> slow; // the last ones, oldest first
    bool operator==(const DiskLatency&) const = default;

    [[nodiscard]] const std::optional<LatencyHistogram>& of(LatencyClass kind) const {
        return classes[static_cast<std::size_t>(kind)];
    }
    [[nodiscard]] std::optional<LatencyHistogram>& of(LatencyClass kind) {
        return classes[static_cast<std::size_t>(kind)];
    }
};

// The paths of one multipath disk as one: a class counts where every path counts it, and the disk
// is gone when all paths are. Nothing without a path, or where their shapes differ.
[[nodiscard]] std::optional<DiskLatency> joined(const std::string& disk,
                                                const std::vector<DiskLatency>& paths);

} // namespace nvmaint::core
