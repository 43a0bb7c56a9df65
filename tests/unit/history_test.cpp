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

} // namespace
} // namespace nvmaint::core
