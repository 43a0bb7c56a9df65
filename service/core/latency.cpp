#include "core/latency.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nvmaint::core {

std::size_t HistogramShape::buckets() const {
    return ((static_cast<std::size_t>(max_exponent) - min_exponent) << sub_bits) + 2;
}

std::uint64_t HistogramShape::low_ns(std::size_t index) const {
    if (index == 0) {
        return 0;
    }
    // The last bucket begins where the next octave's first one would.
    const std::uint64_t octave = (index - 1) >> sub_bits;
    const std::uint64_t sub = (index - 1) & ((std::uint64_t{1} << sub_bits) - 1);
    return ((std::uint64_t{1} << sub_bits) + sub) << (octave + min_exponent - sub_bits);
}

std::uint64_t HistogramShape::high_ns(std::size_t index) const {
    return low_ns(std::min(index + 1, buckets() - 1));
}

std::size_t HistogramShape::index_of(std::uint64_t ns) const {
    if (ns < std::uint64_t{1} << min_exponent) {
        return 0;
    }
    if (ns >= std::uint64_t{1} << max_exponent) {
        return buckets() - 1;
    }
    const auto octave = static_cast<unsigned>(std::bit_width(ns)) - 1;
    const std::uint64_t sub = (ns >> (octave - sub_bits)) & ((std::uint64_t{1} << sub_bits) - 1);
    return 1 + ((static_cast<std::size_t>(octave) - min_exponent) << sub_bits) + sub;
}

double HistogramShape::relative_error() const {
    return 1.0 / static_cast<double>(std::uint64_t{2} << sub_bits);
}

std::optional<nanoseconds> quantile(const HistogramShape& shape, const LatencyHistogram& histogram,
                                    double q) {
    std::uint64_t all = 0;
    for (const std::uint64_t count : histogram.buckets) {
        all += count;
    }
    if (all == 0 || histogram.buckets.size() != shape.buckets()) {
        return std::nullopt;
    }
    // The smallest value that at least q of all are not above: at least the first one.
    const double wanted =
        std::max(1.0, std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(all)));
    std::uint64_t seen = 0;
    std::size_t index = 0;
    for (; index < histogram.buckets.size(); ++index) {
        seen += histogram.buckets[index];
        if (static_cast<double>(seen) >= wanted) {
            break;
        }
    }
    if (index + 1 >= histogram.buckets.size()) {
        return std::max(histogram.max,
                        nanoseconds{static_cast<std::int64_t>(shape.low_ns(shape.buckets() - 1))});
    }
    const nanoseconds middle{
        static_cast<std::int64_t>((shape.low_ns(index) + shape.high_ns(index)) / 2)};
    return histogram.max > nanoseconds::zero() ? std::min(middle, histogram.max) : middle;
}

std::optional<LatencyHistogram> between(const HistogramShape& shape, const LatencyHistogram& before,
                                        const LatencyHistogram& after) {
    if (before.buckets.size() != after.buckets.size() || after.buckets.size() != shape.buckets() ||
        after.count < before.count || after.sum < before.sum || after.errors < before.errors ||
        after.requeues < before.requeues) {
        return std::nullopt;
    }
    LatencyHistogram out{.count = after.count - before.count,
                         .sum = after.sum - before.sum,
                         .errors = after.errors - before.errors,
                         .requeues = after.requeues - before.requeues,
                         .in_flight = after.in_flight,
                         .oldest = after.oldest,
                         .buckets = after.buckets};
    for (std::size_t i = 0; i < out.buckets.size(); ++i) {
        if (out.buckets[i] < before.buckets[i]) {
            return std::nullopt;
        }
        out.buckets[i] -= before.buckets[i];
        if (out.buckets[i] > 0) {
            const nanoseconds end{static_cast<std::int64_t>(shape.high_ns(i))};
            out.max = i + 1 == out.buckets.size() ? after.max : std::min(end, after.max);
        }
    }
    return out;
}

std::optional<DiskLatency> between(const DiskLatency& before, const DiskLatency& after) {
    if (before.shape != after.shape || before.attached != after.attached ||
        after.now < before.now) {
        return std::nullopt;
    }
    DiskLatency out = after;
    for (std::size_t kind = 0; kind < kLatencyClasses; ++kind) {
        const auto& old = before.classes[kind];
        const auto& now = after.classes[kind];
        out.classes[kind] = old && now ? between(after.shape, *old, *now) : std::nullopt;
    }
    out.unseen = after.unseen < before.unseen ? 0 : after.unseen - before.unseen;
    out.events = after.events < before.events ? 0 : after.events - before.events;
    std::erase_if(out.slow, [&](const SlowFlush& slow) {
        return std::find(before.slow.begin(), before.slow.end(), slow) != before.slow.end();
    });
    return out;
}

void add(LatencyHistogram& into, const LatencyHistogram& from) {
    into.count += from.count;
    into.sum += from.sum;
    into.max = std::max(into.max, from.max);
    into.errors += from.errors;
    into.requeues += from.requeues;
    into.in_flight += from.in_flight;
    into.oldest = std::max(into.oldest, from.oldest);
    for (std::size_t i = 0; i < into.buckets.size() && i < from.buckets.size(); ++i) {
        into.buckets[i] += from.buckets[i];
    }
}

std::optional<DiskLatency> joined(const std::string& disk, const std::vector<DiskLatency>& paths) {
    if (paths.empty()) {
        return std::nullopt;
    }
    DiskLatency out = paths.front();
    out.disk = disk;
    for (std::size_t i = 1; i < paths.size(); ++i) {
        const DiskLatency& path = paths[i];
        if (path.shape != out.shape) {
            return std::nullopt;
        }
        out.now = std::max(out.now, path.now);
        out.attached = std::max(out.attached, path.attached); // all count since then
        out.diskseq = 0;                                      // of no single one
        out.gone = out.gone && path.gone;
        out.write_through = out.write_through || path.write_through;
        out.waits_unknown = out.waits_unknown || path.waits_unknown;
        out.unseen += path.unseen;
        out.events += path.events;
        out.slow.insert(out.slow.end(), path.slow.begin(), path.slow.end());
        for (std::size_t kind = 0; kind < kLatencyClasses; ++kind) {
            if (out.classes[kind] && path.classes[kind]) {
                add(*out.classes[kind], *path.classes[kind]);
            } else {
                out.classes[kind].reset();
            }
        }
    }
    std::sort(out.slow.begin(), out.slow.end(),
              [](const SlowFlush& a, const SlowFlush& b) { return a.start < b.start; });
    return out;
}

std::string_view to_string(LatencySource source) {
    return source == LatencySource::Bpf ? "bpf" : "module";
}

std::string_view to_string(LatencyClass kind) {
    switch (kind) {
    case LatencyClass::Flush:
        return "flush";
    case LatencyClass::FlushWait:
        return "flush_wait";
    case LatencyClass::FuaWrite:
        return "fua_write";
    case LatencyClass::FlushSequence:
        return "flush_sequence";
    case LatencyClass::Write:
        return "write";
    case LatencyClass::Read:
        return "read";
    case LatencyClass::Discard:
        return "discard";
    case LatencyClass::WriteZeroes:
        return "write_zeroes";
    case LatencyClass::Other:
        return "other";
    }
    return "other";
}

} // namespace nvmaint::core
