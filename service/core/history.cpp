#include "core/history.hpp"

namespace nvmaint::core {

namespace {

// Growth of a counter of events; nothing if it went backwards.
std::optional<std::uint64_t> grown(std::uint64_t before, std::uint64_t after) {
    if (after < before) {
        return std::nullopt;
    }
    return after - before;
}

// Growth of a sum of milliseconds. The kernel prints these as unsigned int (block/genhd.c,
// diskstats_show()), so they start again from zero after 49.7 days of accumulated time: the
// weighted time of a busy disk does within a day. A step of less than half the range is taken for
// that, any other step back for a device that was reset.
std::optional<milliseconds> grown_ms(std::uint64_t before, std::uint64_t after) {
    constexpr std::uint64_t kRange = std::uint64_t{1} << 32;
    if (after < before && before < kRange) {
        after += kRange;
    }
    const auto growth = grown(before, after);
    if (!growth || *growth >= kRange / 2) {
        return std::nullopt;
    }
    return milliseconds{static_cast<milliseconds::rep>(*growth)};
}

constexpr std::uint64_t kSectorBytes = 512; // Documentation/admin-guide/iostats.rst

} // namespace

std::optional<FlushDistribution> flush_distribution(const DiskLatency& since) {
    const auto& flushes = since.of(LatencyClass::Flush);
    if (!flushes || since.write_through) {
        return std::nullopt;
    }
    FlushDistribution out{.source = since.source,
                          .shape = since.shape,
                          .max = flushes->max,
                          .oldest = flushes->oldest};
    for (std::size_t i = 0; i < flushes->buckets.size(); ++i) {
        if (flushes->buckets[i] > 0) {
            out.flushes.emplace_back(static_cast<std::uint16_t>(i),
                                     static_cast<std::uint32_t>(flushes->buckets[i]));
        }
    }
    for (const LatencyClass kind :
         {LatencyClass::Write, LatencyClass::FuaWrite, LatencyClass::WriteZeroes,
          LatencyClass::Read, LatencyClass::Discard, LatencyClass::Other}) {
        const auto& histogram = since.of(kind);
        if (!histogram) {
            continue;
        }
        out.other_time += histogram->sum;
        if (kind == LatencyClass::Write || kind == LatencyClass::FuaWrite) {
            out.data_writes += histogram->count;
            out.data_write_time += histogram->sum;
        }
    }
    return out;
}

std::optional<FlushSample> sample_between(const DiskCounters& before, const DiskCounters& after,
                                          BootTime end, nanoseconds length) {
    if (length <= nanoseconds::zero()) {
        return std::nullopt;
    }
    FlushSample sample;
    sample.end = end;
    sample.length = length;
    sample.in_flight = after.in_flight;
    const auto reads = grown(before.reads, after.reads);
    const auto read_sectors = grown(before.read_sectors, after.read_sectors);
    const auto read_time = grown_ms(before.read_ms, after.read_ms);
    const auto writes = grown(before.writes, after.writes);
    const auto write_sectors = grown(before.write_sectors, after.write_sectors);
    const auto write_time = grown_ms(before.write_ms, after.write_ms);
    const auto weighted = grown_ms(before.weighted_ms, after.weighted_ms);
    if (!reads || !read_sectors || !read_time || !writes || !write_sectors || !write_time ||
        !weighted) {
        return std::nullopt;
    }
    sample.reads = *reads;
    sample.read_bytes = *read_sectors * kSectorBytes;
    sample.read_time = *read_time;
    sample.writes = *writes;
    sample.written_bytes = *write_sectors * kSectorBytes;
    sample.write_time = *write_time;
    sample.weighted_time = *weighted;
    if (before.discards && after.discards) {
        const auto count = grown(before.discards->count, after.discards->count);
        const auto sectors = grown(before.discards->sectors, after.discards->sectors);
        if (!count || !sectors) {
            return std::nullopt;
        }
        sample.discards = *count;
        sample.discarded_bytes = *sectors * kSectorBytes;
    }
    if (before.flushes && after.flushes) {
        const auto count = grown(before.flushes->count, after.flushes->count);
        const auto time = grown_ms(before.flushes->ms, after.flushes->ms);
        if (!count || !time) {
            return std::nullopt;
        }
        sample.has_flush_counters = true;
        sample.flushes = *count;
        sample.flush_time = *time;
    }
    return sample;
}

std::string_view to_string(EffectVerdict verdict) {
    switch (verdict) {
    case EffectVerdict::Helped:
        return "helped";
    case EffectVerdict::NoChange:
        return "no-change";
    case EffectVerdict::Worse:
        return "worse";
    case EffectVerdict::NotComparable:
        return "not-comparable";
    }
    return "not-comparable";
}

} // namespace nvmaint::core
