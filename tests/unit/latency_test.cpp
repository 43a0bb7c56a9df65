#include "core/latency.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace nvmaint::core {
namespace {

constexpr HistogramShape kShape{};

LatencyHistogram histogram_of(const std::vector<std::uint64_t>& values) {
    LatencyHistogram out;
    out.buckets.resize(kShape.buckets());
    for (const std::uint64_t ns : values) {
        ++out.count;
        out.sum += nanoseconds{static_cast<std::int64_t>(ns)};
        out.max = std::max(out.max, nanoseconds{static_cast<std::int64_t>(ns)});
        ++out.buckets[kShape.index_of(ns)];
    }
    return out;
}

struct Place {
    std::uint64_t ns;
    std::size_t bucket;
};
class HistogramPlace : public testing::TestWithParam<Place> {};
TEST_P(HistogramPlace, IsTheBucketThatHoldsTheValue) {
    EXPECT_EQ(kShape.index_of(GetParam().ns), GetParam().bucket);
}
INSTANTIATE_TEST_SUITE_P(Limits, HistogramPlace,
                         testing::Values(Place{0, 0}, Place{1023, 0}, Place{1024, 1},
                                         Place{1087, 1}, Place{1088, 2}, Place{2047, 16},
                                         Place{2048, 17}, Place{2'000'000, 175},
                                         Place{(1ULL << 36) - 1, 416}, Place{1ULL << 36, 417},
                                         Place{~0ULL, 417}));

TEST(Histogram, HasTheShapeOfTheModule) {
    EXPECT_EQ(kShape.buckets(), 418U);
}

TEST(Histogram, BucketsFollowOneAnotherWithoutGap) {
    for (std::size_t i = 0; i + 1 < kShape.buckets(); ++i) {
        EXPECT_EQ(kShape.high_ns(i), kShape.low_ns(i + 1)) << i;
        EXPECT_EQ(kShape.index_of(kShape.low_ns(i)), i);
        EXPECT_EQ(kShape.index_of(kShape.high_ns(i) - 1), i);
    }
}

TEST(Histogram, MiddlesAreWithinTheStatedError) {
    std::mt19937_64 random(1); // NOLINT: the same values each time
    std::uniform_real_distribution<double> exponent(10, 36);
    double worst = 0;
    for (int i = 0; i < 1'000'000; ++i) {
        const auto ns = static_cast<std::uint64_t>(std::exp2(exponent(random)));
        const std::size_t index = kShape.index_of(ns);
        const double middle = (static_cast<double>(kShape.low_ns(index)) +
                               static_cast<double>(kShape.high_ns(index))) /
                              2;
        worst =
            std::max(worst, std::abs(middle - static_cast<double>(ns)) / static_cast<double>(ns));
    }
    EXPECT_LE(worst, kShape.relative_error());
    EXPECT_LE(kShape.relative_error(), 0.032);
    EXPECT_GT(worst, 0.03); // the bound is no idle one
}

TEST(Quantile, KnowsNothingOfAnEmptyHistogram) {
    EXPECT_FALSE(quantile(kShape, histogram_of({}), 0.5));
}

TEST(Quantile, RefusesBucketsOfAnotherShape) {
    LatencyHistogram odd = histogram_of({5000});
    odd.buckets.pop_back();
    EXPECT_FALSE(quantile(kShape, odd, 0.5));
}

struct Asked {
    double q;
    double ms;
};
class QuantileOfThousand : public testing::TestWithParam<Asked> {};
TEST_P(QuantileOfThousand, IsTheValueAtThatPlace) {
    std::vector<std::uint64_t> values; // 990 flushes of 2 ms, 9 of 15 ms, one of 200 ms
    values.insert(values.end(), 990, 2'000'000);
    values.insert(values.end(), 9, 15'000'000);
    values.push_back(200'000'000);
    const auto got = quantile(kShape, histogram_of(values), GetParam().q);
    ASSERT_TRUE(got);
    EXPECT_NEAR(static_cast<double>(got->count()) / 1e6, GetParam().ms, GetParam().ms * 0.032);
}
INSTANTIATE_TEST_SUITE_P(Places, QuantileOfThousand,
                         testing::Values(Asked{0, 2}, Asked{0.5, 2}, Asked{0.99, 2},
                                         Asked{0.991, 15}, Asked{0.999, 15}, Asked{0.9995, 200},
                                         Asked{1, 200}, Asked{2, 200}));

TEST(Quantile, IsNeverOverTheMaximum) {
    EXPECT_EQ(quantile(kShape, histogram_of({1'966'081}), 1), nanoseconds{1'966'081});
}

TEST(Quantile, TakesTheMaximumBeyondTheLastBucket) {
    EXPECT_EQ(quantile(kShape, histogram_of({100'000'000'000}), 0.5), nanoseconds{100'000'000'000});
}

TEST(Between, LeavesWhatCameSince) {
    const LatencyHistogram before = histogram_of({200'000'000, 2'000'000});
    const LatencyHistogram after = histogram_of({200'000'000, 2'000'000, 15'000'000});
    const auto since = between(kShape, before, after);
    ASSERT_TRUE(since);
    EXPECT_EQ(since->count, 1U);
    EXPECT_EQ(since->sum, milliseconds{15});
    // The 200 ms were before; the end of the bucket of 15 ms is what is known.
    EXPECT_GE(since->max, milliseconds{15});
    EXPECT_LE(since->max, nanoseconds{15'990'000});
}

TEST(Between, IsNothingWhereACounterFell) {
    EXPECT_FALSE(between(kShape, histogram_of({2'000'000, 2'000'000}), histogram_of({2'000'000})));
    LatencyHistogram moved = histogram_of({2'000'000, 15'000'000, 15'000'000});
    EXPECT_FALSE(between(kShape, histogram_of({3'000'000, 2'000'000}), moved));
}

DiskLatency path(const std::vector<std::uint64_t>& flushes, nanoseconds attached) {
    DiskLatency out;
    out.disk = "nvme0c0n1";
    out.attached = attached;
    out.classes[static_cast<std::size_t>(LatencyClass::Flush)] = histogram_of(flushes);
    return out;
}

TEST(Joined, IsNothingWithoutAPath) {
    EXPECT_FALSE(joined("nvme0n1", {}));
}

TEST(Joined, AddsThePathsOfADisk) {
    auto second = path({40'000'000}, seconds{7});
    second.gone = true;
    const auto both = joined("nvme0n1", {path({2'000'000, 3'000'000}, seconds{5}), second});
    ASSERT_TRUE(both);
    EXPECT_EQ(both->disk, "nvme0n1");
    EXPECT_EQ(both->attached, seconds{7});
    EXPECT_FALSE(both->gone); // one is there
    EXPECT_EQ(both->of(LatencyClass::Flush), histogram_of({2'000'000, 3'000'000, 40'000'000}));
}

TEST(Joined, CountsWhatEveryPathCounts) {
    auto second = path({}, seconds{5});
    second.classes[static_cast<std::size_t>(LatencyClass::Flush)].reset();
    const auto both = joined("nvme0n1", {path({2'000'000}, seconds{5}), second});
    ASSERT_TRUE(both);
    EXPECT_FALSE(both->of(LatencyClass::Flush));
}

TEST(Joined, IsNothingWhereTheShapesDiffer) {
    auto second = path({}, seconds{5});
    second.shape.max_exponent = 37;
    EXPECT_FALSE(joined("nvme0n1", {path({}, seconds{5}), second}));
}

TEST(BetweenReadings, LeavesWhatIsNew) {
    auto before = path({2'000'000}, seconds{5});
    before.now = seconds{8};
    before.unseen = 3;
    before.events = 4;
    const SlowFlush old{.number = 4, .start = seconds{6}, .duration = milliseconds{30}};
    before.slow = {old};
    auto after = path({2'000'000, 30'000'000}, seconds{5});
    after.now = seconds{9};
    after.unseen = 5;
    after.events = 5;
    const SlowFlush news{.number = 5, .start = seconds{8}, .duration = milliseconds{30}};
    after.slow = {old, news};
    const auto since = between(before, after);
    ASSERT_TRUE(since);
    EXPECT_EQ(since->of(LatencyClass::Flush)->count, 1U);
    EXPECT_EQ(since->unseen, 2U);
    EXPECT_EQ(since->events, 1U);
    EXPECT_EQ(since->slow, std::vector{news});
    EXPECT_FALSE(since->of(LatencyClass::Read)); // in neither
}

TEST(BetweenReadings, IsNothingWhereTheCountingBeganAnew) {
    EXPECT_FALSE(between(path({2'000'000}, seconds{5}), path({2'000'000}, seconds{6})));
    auto other = path({2'000'000}, seconds{5});
    other.shape.sub_bits = 5;
    EXPECT_FALSE(between(path({}, seconds{5}), other));
    auto late = path({}, seconds{5});
    late.now = seconds{9};
    EXPECT_FALSE(between(late, path({}, seconds{5}))); // backwards
}

TEST(BetweenReadings, LeavesOutAClassThatFell) {
    const auto since =
        between(path({2'000'000, 2'000'000}, seconds{5}), path({2'000'000}, seconds{5}));
    ASSERT_TRUE(since);
    EXPECT_FALSE(since->of(LatencyClass::Flush));
}

} // namespace
} // namespace nvmaint::core
