#include "core/history.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

namespace nvmaint::core {
namespace {

constexpr BootTime kEnd = seconds{100};
constexpr nanoseconds kSecond = seconds{1};

// The line of a client drive at work (17 values of /sys/block/nvme0n1/stat).
DiskCounters counters() {
    DiskCounters c;
    c.reads = 7731414;
    c.reads_merged = 116833;
    c.read_sectors = 314007178;
    c.read_ms = 10514681;
    c.writes = 3532674;
    c.writes_merged = 2267531;
    c.write_sectors = 183863530;
    c.write_ms = 18134021;
    c.io_ms = 1271210;
    c.weighted_ms = 28816046;
    c.discards = DiskCounters::Discards{};
    c.flushes = DiskCounters::Flushes{74497, 167343};
    return c;
}

TEST(History, SampleIsTheDifference) {
    DiskCounters after = counters();
    after.reads += 3;
    after.read_sectors += 24;
    after.read_ms += 1;
    after.writes += 80;
    after.write_sectors += 640;
    after.write_ms += 84;
    after.weighted_ms += 165;
    after.in_flight = 2;
    after.discards->count += 1;
    after.discards->sectors += 2048;
    after.flushes->count += 40;
    after.flushes->ms += 80;
    const auto sample = sample_between(counters(), after, kEnd, kSecond);
    FlushSample expected;
    expected.end = kEnd;
    expected.length = kSecond;
    expected.has_flush_counters = true;
    expected.flushes = 40;
    expected.flush_time = milliseconds{80};
    expected.writes = 80;
    expected.write_time = milliseconds{84};
    expected.written_bytes = 327680;
    expected.reads = 3;
    expected.read_time = milliseconds{1};
    expected.read_bytes = 12288;
    expected.discards = 1;
    expected.discarded_bytes = 1 << 20;
    expected.in_flight = 2;
    expected.weighted_time = milliseconds{165};
    EXPECT_EQ(sample, expected);
}

TEST(History, MissingFlushFieldsAreNotZero) {
    DiskCounters before = counters();
    DiskCounters after = counters();
    after.flushes.reset();
    const auto sample = sample_between(before, after, kEnd, kSecond);
    ASSERT_TRUE(sample);
    EXPECT_FALSE(sample->has_flush_counters);
    before.flushes.reset();
    EXPECT_FALSE(sample_between(before, after, kEnd, kSecond)->has_flush_counters);
}

struct Backwards {
    std::string name;
    std::function<void(DiskCounters&)> change;
};
class HistoryBackwards : public testing::TestWithParam<Backwards> {};
TEST_P(HistoryBackwards, GivesNoSample) {
    DiskCounters after = counters();
    GetParam().change(after);
    EXPECT_FALSE(sample_between(counters(), after, kEnd, kSecond)) << GetParam().name;
}
INSTANTIATE_TEST_SUITE_P(
    Counters, HistoryBackwards,
    testing::Values(Backwards{"reads", [](DiskCounters& c) { --c.reads; }},
                    Backwards{"read sectors", [](DiskCounters& c) { --c.read_sectors; }},
                    Backwards{"read time", [](DiskCounters& c) { --c.read_ms; }},
                    Backwards{"writes", [](DiskCounters& c) { --c.writes; }},
                    Backwards{"write sectors", [](DiskCounters& c) { --c.write_sectors; }},
                    Backwards{"write time", [](DiskCounters& c) { --c.write_ms; }},
                    Backwards{"weighted time", [](DiskCounters& c) { --c.weighted_ms; }},
                    Backwards{"flushes", [](DiskCounters& c) { --c.flushes->count; }},
                    Backwards{"flush time", [](DiskCounters& c) { --c.flushes->ms; }},
                    Backwards{"another device", [](DiskCounters& c) {
                                  c = DiskCounters{};
                                  c.discards = DiskCounters::Discards{};
                                  c.flushes = DiskCounters::Flushes{};
                              }}));

TEST(History, DiscardsThatGoBackwardsGiveNoSample) {
    DiskCounters before = counters();
    before.discards->count = 1;
    before.discards->sectors = 8;
    EXPECT_FALSE(sample_between(before, counters(), kEnd, kSecond));
}

TEST(History, TimesMayWrapAsTheKernelPrintsThem) {
    DiskCounters before = counters();
    DiskCounters after = counters();
    before.weighted_ms = UINT32_MAX - 10;
    after.weighted_ms = 89;
    before.flushes->ms = UINT32_MAX;
    after.flushes->ms = 79;
    after.flushes->count += 40;
    const auto sample = sample_between(before, after, kEnd, kSecond);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->weighted_time, milliseconds{100});
    EXPECT_EQ(sample->flush_time, milliseconds{80});
}

TEST(History, SixtyFourBitTimesDoNotWrap) {
    DiskCounters before = counters();
    DiskCounters after = counters();
    before.write_ms = std::uint64_t{UINT32_MAX} + 10;
    after.write_ms = 5;
    EXPECT_FALSE(sample_between(before, after, kEnd, kSecond));
}

TEST(History, LengthMustBePositive) {
    EXPECT_FALSE(sample_between(counters(), counters(), kEnd, nanoseconds{0}));
    EXPECT_FALSE(sample_between(counters(), counters(), kEnd, nanoseconds{-1}));
    EXPECT_TRUE(sample_between(counters(), counters(), kEnd, nanoseconds{1}));
}

TEST(History, VerdictNamesAreTheContract) {
    EXPECT_EQ(to_string(EffectVerdict::Helped), "helped");
    EXPECT_EQ(to_string(EffectVerdict::NoChange), "no-change");
    EXPECT_EQ(to_string(EffectVerdict::Worse), "worse");
    EXPECT_EQ(to_string(EffectVerdict::NotComparable), "not-comparable");
}

DiskLatency counted() {
    DiskLatency out;
    for (auto& histogram : out.classes) {
        histogram.emplace().buckets.resize(out.shape.buckets());
    }
    const auto put = [&](LatencyClass kind, milliseconds each, std::uint64_t count) {
        auto& histogram = *out.of(kind);
        histogram.count += count;
        histogram.sum += each * static_cast<int>(count);
        histogram.max = std::max<nanoseconds>(histogram.max, each);
        histogram
            .buckets[out.shape.index_of(static_cast<std::uint64_t>(nanoseconds{each}.count()))] +=
            count;
    };
    put(LatencyClass::Flush, milliseconds{2}, 40);
    put(LatencyClass::Flush, milliseconds{20}, 3);
    put(LatencyClass::FlushWait, milliseconds{3}, 43);
    put(LatencyClass::FlushSequence, milliseconds{3}, 5);
    put(LatencyClass::Write, milliseconds{1}, 10);
    put(LatencyClass::FuaWrite, milliseconds{2}, 5);
    put(LatencyClass::Read, milliseconds{4}, 7);
    put(LatencyClass::Discard, milliseconds{8}, 1);
    return out;
}

TEST(History, ADistributionHasTheFlushesAndWhatElseTheDeviceDid) {
    DiskLatency latency = counted();
    latency.source = LatencySource::Bpf;
    latency.of(LatencyClass::Flush)->oldest = milliseconds{7};
    const auto d = flush_distribution(latency);
    ASSERT_TRUE(d);
    EXPECT_EQ(d->source, LatencySource::Bpf);
    const auto bucket = [&](std::uint64_t ns) {
        return static_cast<std::uint16_t>(d->shape.index_of(ns));
    };
    const std::vector<std::pair<std::uint16_t, std::uint32_t>> flushes{{bucket(2'000'000), 40U},
                                                                       {bucket(20'000'000), 3U}};
    EXPECT_EQ(d->flushes, flushes);
    EXPECT_EQ(d->max, milliseconds{20});
    EXPECT_EQ(d->oldest, milliseconds{7});
    EXPECT_EQ(d->data_writes, 15U);
    EXPECT_EQ(d->data_write_time, milliseconds{20}); // what waited for flushes is not in it
    EXPECT_EQ(d->other_time, milliseconds{56});
}

TEST(History, ADistributionIsAbsentWhereNoFlushIsCounted) {
    DiskLatency latency = counted();
    latency.write_through = true; // none sent is not none slow
    EXPECT_FALSE(flush_distribution(latency));
    latency = counted();
    latency.of(LatencyClass::Flush).reset();
    EXPECT_FALSE(flush_distribution(latency));
    latency = counted();
    latency.of(LatencyClass::Read).reset();
    EXPECT_EQ(flush_distribution(latency)->other_time, milliseconds{28}); // as far as it is counted
}

} // namespace
} // namespace nvmaint::core
