#include "core/pacing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace nvmaint::core {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

struct Step {
    TrimRange range;
    milliseconds rest{};
};

// Runs a trim to its end on a drive that takes `took` for a range.
std::vector<Step> run(const TrimGeometry& g, const std::function<nanoseconds(std::uint64_t)>& took,
                      bool suffers = false, std::uint64_t resume_at = 0) {
    std::vector<Step> steps;
    PaceState state = pace_start(g, resume_at);
    while (const auto range = pace_range(g, state)) {
        const std::uint64_t real = std::min(range->length, g.span - range->start);
        state = pace_next(g, state, *range, {took(real), suffers});
        steps.push_back({*range, state.rest});
        if (steps.size() > 1'000'000) {
            ADD_FAILURE() << "does not end";
            break;
        }
    }
    return steps;
}

// Each byte once, in order, to an open end.
void expect_covers(const std::vector<Step>& steps, std::uint64_t from) {
    ASSERT_FALSE(steps.empty());
    std::uint64_t at = from;
    for (const Step& step : steps) {
        EXPECT_EQ(step.range.start, at);
        ASSERT_GT(step.range.length, 0U);
        at = step.range.start + step.range.length;
    }
    EXPECT_EQ(at, kNoEnd);
}

auto per_byte(double ns) {
    return [ns](std::uint64_t bytes) {
        return nanoseconds{static_cast<std::int64_t>(ns * static_cast<double>(bytes))};
    };
}

// ---- geometry ----

struct Kernel {
    std::string release;
    bool fine;
};
class PacingXfs : public testing::TestWithParam<Kernel> {};
TEST_P(PacingXfs, IsTrimmedInRangesSince610) {
    const TrimGeometry g = trim_geometry("xfs", 100 * kGiB, 512, GetParam().release);
    EXPECT_EQ(g.largest < g.span, GetParam().fine) << GetParam().release;
}
INSTANTIATE_TEST_SUITE_P(Kernels, PacingXfs,
                         testing::Values(Kernel{"", false}, Kernel{"6.1.0-57-amd64", false},
                                         Kernel{"6.9.99", false}, Kernel{"6.10.0", true},
                                         Kernel{"6.12.95+deb12-amd64", true}, Kernel{"7.3.4", true},
                                         Kernel{"10.0", true}, Kernel{"5.99", false},
                                         Kernel{"6", false}, Kernel{"6.", false},
                                         Kernel{"x.y", false},
                                         Kernel{"99999999999999999999.1", false}));

TEST(Pacing, TrimsBtrfsAndUnknownTypesInOneRange) {
    for (const char* type : {"btrfs", "xfs", "f2fs", "", "vfat"}) {
        const auto steps = run(trim_geometry(type, 785 * kGiB, 4096), per_byte(0.001));
        ASSERT_EQ(steps.size(), 1U) << type;
        expect_covers(steps, 0);
    }
}

TEST(Pacing, LeavesSmallExtentsOfLargeFilesystems) {
    EXPECT_EQ(trim_geometry("ext4", 16 * kGiB, 4096).minimum, kMiB);
    EXPECT_EQ(trim_geometry("ext4", 16 * kGiB, 2 * kMiB).minimum, 2 * kMiB);
    EXPECT_EQ(trim_geometry("ext4", 16 * kGiB - 1, 4096).minimum, 4096U);
    EXPECT_EQ(trim_geometry("ext4", 16 * kGiB - 1, 0).minimum, 0U);
}

// ---- ranges ----

TEST(Pacing, CoversEveryByteOnce) {
    for (const char* type : {"ext4", "xfs", "btrfs"}) {
        for (const std::uint64_t span : {std::uint64_t{1}, 16 * kMiB - 1, 16 * kMiB, 128 * kMiB,
                                         128 * kMiB + 1, 256 * kMiB, kGiB, 931 * kGiB + 12345}) {
            for (const double cost : {0.0, 0.001, 0.1, 1.0, 10.0}) {
                for (const bool suffers : {false, true}) {
                    expect_covers(
                        run(trim_geometry(type, span, 512, "6.12"), per_byte(cost), suffers), 0);
                }
            }
        }
    }
}

TEST(Pacing, HasNothingToDoOnAnEmptyFilesystem) {
    const TrimGeometry g = trim_geometry("ext4", 0, 512);
    EXPECT_FALSE(pace_range(g, pace_start(g, 0)));
}

TEST(Pacing, CrossesNoGroupWithASmallRangeAndEndsOnOneWithALarge) {
    std::mt19937_64 random(5);
    const TrimGeometry g = trim_geometry("ext4", 500 * kGiB + 17 * kMiB, 512);
    const auto steps = run(g, [&](std::uint64_t bytes) {
        return nanoseconds{static_cast<std::int64_t>(
            static_cast<double>(bytes) * std::uniform_real_distribution<>(0.01, 20)(random))};
    });
    expect_covers(steps, 0);
    for (const Step& step : steps) {
        if (step.range.length == kNoEnd - step.range.start) {
            continue;
        }
        const std::uint64_t end = step.range.start + step.range.length;
        if (step.range.length < g.alignment) {
            EXPECT_EQ(step.range.start / g.alignment, (end - 1) / g.alignment);
        } else {
            EXPECT_EQ(end % g.alignment, 0U);
        }
        EXPECT_LE(step.range.length, g.largest);
    }
}

TEST(Pacing, BeginsSmall) {
    const TrimGeometry large = trim_geometry("ext4", 931 * kGiB, 512);
    EXPECT_EQ(pace_range(large, pace_start(large, 0))->length, 128 * kMiB);
    const TrimGeometry small = trim_geometry("ext4", 256 * kMiB, 512);
    EXPECT_EQ(pace_range(small, pace_start(small, 0))->length, 16 * kMiB);
}

TEST(Pacing, ResumesAtTheGroupTheCursorIsIn) {
    const TrimGeometry g = trim_geometry("ext4", 100 * kGiB, 512);
    EXPECT_EQ(pace_start(g, 10 * kGiB + 5).next_start, 10 * kGiB);
    EXPECT_EQ(pace_start(g, 10 * kGiB + 129 * kMiB).next_start, 10 * kGiB + 128 * kMiB);
    EXPECT_FALSE(pace_range(g, pace_start(g, 100 * kGiB)));
    EXPECT_FALSE(pace_range(g, pace_start(g, kNoEnd)));
    expect_covers(run(g, per_byte(0.1), false, 50 * kGiB), 50 * kGiB);
}

TEST(Pacing, BeginsACoarseFilesystemAnewWhenCutOff) {
    const TrimGeometry g = trim_geometry("btrfs", 100 * kGiB, 512);
    EXPECT_EQ(pace_start(g, 50 * kGiB).next_start, 0U);
    EXPECT_FALSE(pace_range(g, pace_start(g, 100 * kGiB)));
}

TEST(Pacing, IsNotEmboldenedByRangesWithNothingToTrim) {
    // The first half holds data and takes no time; the second is free and costs 30 ms a MiB.
    for (const std::uint64_t span : {256 * kMiB, 64 * kGiB}) {
        const TrimGeometry g = trim_geometry("ext4", span, 512);
        PaceState state = pace_start(g, 0);
        const std::uint64_t pilot = state.range_bytes;
        double longest_s = 0;
        while (const auto range = pace_range(g, state)) {
            const std::uint64_t end = range->start + std::min(range->length, span - range->start);
            const std::uint64_t free = end > span / 2 ? end - std::max(range->start, span / 2) : 0;
            const double took = 0.030 * static_cast<double>(free) / static_cast<double>(kMiB);
            longest_s = std::max(longest_s, took);
            state = pace_next(g, state, *range,
                              {.took = nanoseconds{static_cast<std::int64_t>(took * 1e9)},
                               .flush_suffered = false,
                               .trimmed = free});
        }
        EXPECT_LE(longest_s, 0.031 * static_cast<double>(pilot) / static_cast<double>(kMiB));
        EXPECT_EQ(state.range_bytes, 16 * kMiB) << "it learned";
    }
}

TEST(Pacing, RemembersWhatAByteCostAcrossEmptyRanges) {
    const TrimGeometry g = trim_geometry("ext4", 931 * kGiB, 512);
    PaceState state = pace_start(g, 0);
    const auto step = [&](double ns_per_byte, double share) {
        const auto range = pace_range(g, state);
        const double trimmed = share * static_cast<double>(range->length);
        state = pace_next(g, state, *range,
                          {.took = nanoseconds{static_cast<std::int64_t>(ns_per_byte * trimmed)},
                           .flush_suffered = false,
                           .trimmed = static_cast<std::uint64_t>(trimmed)});
    };
    for (int i = 0; i < 10; ++i) {
        step(0.4, 1);
    }
    const std::uint64_t learned = state.range_bytes;
    EXPECT_EQ(learned, 128 * kMiB); // 100 ms at 0.4 ns a byte are 238 MiB: one whole group
    for (int i = 0; i < 10; ++i) {
        step(0.4, 0);
    }
    EXPECT_EQ(state.range_bytes, learned);
    for (int i = 0; i < 20; ++i) {
        step(0.1, 0.5);
    }
    EXPECT_EQ(state.range_bytes, 896 * kMiB); // 953 MiB, in whole groups
}

// ---- the law ----

struct Law {
    milliseconds took;
    bool suffered;
    std::uint64_t next_mib;
    milliseconds rest;
};
class PacingLaw : public testing::TestWithParam<Law> {};
TEST_P(PacingLaw, AimsAtATenthOfASecondAndAFifthOfTheTime) {
    const TrimGeometry g = trim_geometry("ext4", 100 * kGiB, 512);
    PaceState state = pace_start(g, 0);
    state.range_bytes = 512 * kMiB;
    const TrimRange done{0, 512 * kMiB, 0};
    const PaceState next = pace_next(g, state, done, {GetParam().took, GetParam().suffered});
    EXPECT_EQ(next.next_start, 512 * kMiB);
    EXPECT_EQ(next.range_bytes, GetParam().next_mib * kMiB);
    EXPECT_EQ(next.rest, GetParam().rest);
}
INSTANTIATE_TEST_SUITE_P(
    Limits, PacingLaw,
    testing::Values(Law{milliseconds{0}, false, 1024, milliseconds{50}},
                    Law{milliseconds{12}, false, 1024, milliseconds{50}},
                    Law{milliseconds{13}, false, 1024, milliseconds{52}},
                    Law{milliseconds{50}, false, 1024, milliseconds{200}},
                    Law{milliseconds{80}, false, 640, milliseconds{320}},
                    Law{milliseconds{100}, false, 512, milliseconds{400}},
                    Law{milliseconds{160}, false, 256, milliseconds{640}}, // 320, whole groups
                    Law{milliseconds{200}, false, 256, milliseconds{800}},
                    Law{milliseconds{5000}, false, 256, milliseconds{20000}},
                    Law{milliseconds{100}, true, 256, milliseconds{1000}},
                    Law{milliseconds{10}, true, 256, milliseconds{1000}},
                    Law{milliseconds{200}, true, 256, milliseconds{1600}},
                    Law{milliseconds{120'000}, true, 256, milliseconds{60'000}},
                    Law{milliseconds{-5}, false, 1024, milliseconds{50}}));

TEST(Pacing, GoesDownToSixteenMebibytesUnderSufferingAndUpToFourGibibytes) {
    const TrimGeometry g = trim_geometry("ext4", 931 * kGiB, 512);
    std::uint64_t smallest = kNoEnd;
    for (const Step& step : run(g, per_byte(1), true)) {
        smallest = std::min(smallest, step.range.length);
    }
    EXPECT_EQ(smallest, 16 * kMiB);
    std::uint64_t largest = 0;
    const auto quick = run(g, per_byte(0));
    for (const Step& step : quick) {
        if (step.range.length < kNoEnd / 2) {
            largest = std::max(largest, step.range.length);
        }
    }
    EXPECT_EQ(largest, 4 * kGiB);
    EXPECT_LT(quick.size(), 250U);
}

TEST(Pacing, WorksAFifthOfTheTimeAtMost) {
    // 74 GiB in 27 s is 0.34 ns a byte; a slow drive takes tens of milliseconds a MiB.
    for (const double cost : {0.05, 0.34, 2.0, 40.0}) {
        const TrimGeometry g = trim_geometry("ext4", 64 * kGiB, 512);
        double worked = 0, rested = 0, longest = 0;
        for (const Step& step : run(g, per_byte(cost))) {
            const double took =
                cost * static_cast<double>(std::min(step.range.length, g.span - step.range.start));
            worked += took;
            longest = std::max(longest, took);
            rested += static_cast<double>(step.rest.count()) * 1e6;
        }
        EXPECT_LE(worked / (worked + rested), 0.205) << cost;
        if (cost <= 2) {
            EXPECT_LE(longest, 300e6) << cost; // ns
        }
    }
}

struct Yield {
    std::uint64_t range_mib;
    milliseconds rest;
    std::uint64_t then_mib;
    milliseconds then_rest;
};
class PacingYield : public testing::TestWithParam<Yield> {};
TEST_P(PacingYield, DoublesTheRestAndHalvesTheRange) {
    const TrimGeometry g = trim_geometry("ext4", 64 * kGiB, 512);
    PaceState state = pace_start(g, 0);
    state.next_start = 3 * kGiB;
    state.range_bytes = GetParam().range_mib * kMiB;
    state.rest = GetParam().rest;
    const PaceState next = pace_yield(g, state);
    EXPECT_EQ(next.range_bytes, GetParam().then_mib * kMiB);
    EXPECT_EQ(next.rest, GetParam().then_rest);
    EXPECT_EQ(next.next_start, state.next_start); // nothing was trimmed meanwhile
}
INSTANTIATE_TEST_SUITE_P(Limits, PacingYield,
                         testing::Values(Yield{512, milliseconds{400}, 256, milliseconds{1000}},
                                         Yield{512, milliseconds{600}, 256, milliseconds{1200}},
                                         Yield{16, milliseconds{50}, 16, milliseconds{1000}},
                                         Yield{256, milliseconds{60'000}, 128,
                                               milliseconds{60'000}}));

} // namespace
} // namespace nvmaint::core
