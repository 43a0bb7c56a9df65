// SPDX-License-Identifier: Apache-2.0
#include "ftl.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace ssdsim {
namespace {

// 64 blocks of 32 pages seen by the host, 8 spare.
FtlGeometry small_geometry() {
    return {.logical_pages = 64 * 32,
            .pages_per_block = 32,
            .spare = 0.0,
            .extra_blocks = 8,
            .gc_start = 2,
            .gc_stop = 4};
}

void fill(Ftl& ftl) {
    for (LogicalPage page = 0; page < ftl.geometry().logical_pages; ++page) {
        (void)ftl.write(page);
    }
}

TEST(FtlGeometry, CountsSpareAsShareOfTheSizePlusExtraBlocks) {
    const FtlGeometry geometry{.logical_pages = 262144};
    EXPECT_EQ(geometry.logical_blocks(), 1024U);
    EXPECT_EQ(geometry.spare_blocks(), 72U + 8U);
    EXPECT_EQ(geometry.physical_blocks(), 1104U);
}

TEST(FtlGeometry, RefusesWhatCollectionCouldNotLiveOn) {
    FtlGeometry geometry = small_geometry();
    EXPECT_EQ(geometry.problem(), std::nullopt);
    geometry.gc_stop = 6;
    EXPECT_EQ(geometry.problem(), std::nullopt);
    geometry.gc_stop = 7;
    EXPECT_NE(geometry.problem(), std::nullopt);
    geometry = small_geometry();
    geometry.gc_start = 1;
    EXPECT_NE(geometry.problem(), std::nullopt);
    geometry = small_geometry();
    geometry.gc_stop = geometry.gc_start;
    EXPECT_NE(geometry.problem(), std::nullopt);
    geometry = small_geometry();
    geometry.logical_pages = 0;
    EXPECT_NE(geometry.problem(), std::nullopt);
    geometry = small_geometry();
    geometry.spare = std::nan("");
    EXPECT_NE(geometry.problem(), std::nullopt);
}

TEST(Ftl, MapsWhatIsWrittenAndForgetsWhatIsTrimmed) {
    Ftl ftl(small_geometry());
    EXPECT_FALSE(ftl.mapped(5));
    EXPECT_EQ(ftl.write(5), (FlashWork{.programmed = 1}));
    EXPECT_TRUE(ftl.mapped(5));
    EXPECT_TRUE(ftl.trim(5));
    EXPECT_FALSE(ftl.mapped(5));
    EXPECT_FALSE(ftl.trim(5));
    EXPECT_EQ(ftl.mapped_pages(), 0U);
    EXPECT_EQ(ftl.inconsistency(), std::nullopt);
}

TEST(Ftl, CollectsFromTheStartLevelToTheStopLevel) {
    Ftl ftl(small_geometry());
    fill(ftl);
    EXPECT_EQ(ftl.free_blocks(), 8U);
    EXPECT_FALSE(ftl.collecting());
    LogicalPage page = 0;
    while (ftl.free_blocks() > 3) {
        (void)ftl.write(page++);
    }
    EXPECT_FALSE(ftl.collecting());
    while (ftl.free_blocks() > 2) {
        (void)ftl.write(page++);
    }
    EXPECT_TRUE(ftl.collecting());
    // The first blocks were overwritten completely: they cost an erase each and no move.
    EXPECT_EQ(ftl.collect_victim(), (FlashWork{.erased = 1}));
    EXPECT_TRUE(ftl.collecting());
    EXPECT_EQ(ftl.collect_victim(), (FlashWork{.erased = 1}));
    EXPECT_EQ(ftl.free_blocks(), 4U);
    EXPECT_FALSE(ftl.collecting());
    EXPECT_EQ(ftl.inconsistency(), std::nullopt);
}

TEST(Ftl, TakesTheBlockWithTheFewestValidPages) {
    Ftl ftl(small_geometry());
    fill(ftl);
    for (LogicalPage page = 3 * 32; page < 3 * 32 + 20; ++page) {
        EXPECT_TRUE(ftl.trim(page));
    }
    for (LogicalPage page = 9 * 32; page < 9 * 32 + 21; ++page) {
        EXPECT_TRUE(ftl.trim(page));
    }
    EXPECT_EQ(ftl.next_victim_valid(), 11U);
    EXPECT_EQ(ftl.collect_victim(), (FlashWork{.moved = 11, .erased = 1}));
    EXPECT_EQ(ftl.next_victim_valid(), 12U);
    EXPECT_TRUE(ftl.mapped(9 * 32 + 21));
    EXPECT_EQ(ftl.inconsistency(), std::nullopt);
}

TEST(Ftl, HasNothingToCollectWhereEveryPageIsValid) {
    Ftl ftl(small_geometry());
    fill(ftl);
    ftl.start_collecting();
    EXPECT_FALSE(ftl.collecting()) << "above the stop level";
    EXPECT_EQ(ftl.collect_victim(), FlashWork{});
    EXPECT_EQ(ftl.free_blocks(), 8U);
}

TEST(Ftl, CollectsByItselfRatherThanGiveAwayTheLastFreeBlock) {
    Ftl ftl(small_geometry());
    fill(ftl);
    Random random(3);
    FlashWork work;
    for (int i = 0; i < 20000; ++i) {
        work += ftl.write(random.below(64 * 32));
        ASSERT_GE(ftl.free_pages(), 1U);
    }
    EXPECT_EQ(work.programmed, 20000U);
    EXPECT_GT(work.moved, 0U);
    EXPECT_EQ(ftl.mapped_pages(), 64U * 32U);
    EXPECT_EQ(ftl.inconsistency(), std::nullopt);
}

TEST(Ftl, KeepsEveryPageThroughAnyMixOfCommands) {
    Ftl ftl(small_geometry());
    std::vector<bool> expected(ftl.geometry().logical_pages, false);
    Random random(17);
    for (int i = 0; i < 50000; ++i) {
        const LogicalPage page = random.below(64 * 32);
        switch (random.below(8)) {
        case 0:
            EXPECT_EQ(ftl.trim(page), expected[page]);
            expected[page] = false;
            break;
        case 1:
            (void)ftl.collect_victim();
            break;
        default:
            (void)ftl.write(page);
            expected[page] = true;
        }
        if (i % 5000 == 0) {
            ASSERT_EQ(ftl.inconsistency(), std::nullopt);
        }
    }
    for (LogicalPage page = 0; page < 64 * 32; ++page) {
        ASSERT_EQ(ftl.mapped(page), expected[page]);
    }
}

TEST(Ftl, AgesTheSameWayForTheSameSeedOnly) {
    const auto aged = [](std::uint64_t seed) {
        Ftl ftl(small_geometry());
        ftl.age(seed, 3.0);
        EXPECT_EQ(ftl.mapped_pages(), 64U * 32U);
        EXPECT_EQ(ftl.inconsistency(), std::nullopt);
        FlashWork work;
        for (LogicalPage page = 0; page < 2048; page += 3) {
            work += ftl.write(page);
        }
        return work;
    };
    EXPECT_EQ(aged(1), aged(1));
    EXPECT_NE(aged(1), aged(2));
}

// The principal branch of Lambert's W, by Halley's iteration. For -1/e <= x.
double lambert_w(double x) {
    double w = x > 0.0 ? std::log1p(x) : x;
    for (int i = 0; i < 100; ++i) {
        const double e = std::exp(w);
        const double f = w * e - x;
        w -= f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
    }
    return w;
}

// Write amplification of greedy collection under uniform random writes, for large drives: X. Luojie
// and B. M. Kurkoski, "An Improved Analytic Expression for Write Amplification in NAND Flash",
// ICNC 2012, arXiv:1110.4245. `rho` is spare over logical space.
double expected_amplification(double rho) {
    const double a = 1.0 + rho;
    return a / (a + lambert_w(-a * std::exp(-a)));
}

TEST(WriteAmplification, FormulaGivesThePublishedFigure) {
    EXPECT_NEAR(expected_amplification(0.3), 2.36, 0.005);
}

struct Point {
    double spare;
    std::uint32_t pages_per_block;
    std::uint32_t gc_start;
    std::uint32_t gc_stop;
};

std::ostream& operator<<(std::ostream& out, const Point& point) {
    return out << point.spare << " spare, " << point.pages_per_block << " pages a block, levels "
               << point.gc_start << " and " << point.gc_stop;
}

class WriteAmplification : public testing::TestWithParam<Point> {};

// What is free does not absorb overwrites, so the factor that counts is the spare area without the
// mean free level.
TEST_P(WriteAmplification, AgreesWithTheClosedForm) {
    const Point& point = GetParam();
    const FtlGeometry geometry{.logical_pages = 1U << 19U,
                               .pages_per_block = point.pages_per_block,
                               .spare = point.spare,
                               .extra_blocks = 8,
                               .gc_start = point.gc_start,
                               .gc_stop = point.gc_stop};
    ASSERT_EQ(geometry.problem(), std::nullopt);
    Ftl ftl(geometry);
    ftl.age(11, 4.0);

    Random random(12);
    FlashWork work;
    double free_total = 0.0;
    const std::uint64_t writes = 2 * std::uint64_t{geometry.logical_pages};
    for (std::uint64_t i = 0; i < writes; ++i) {
        work += ftl.write(random.below(geometry.logical_pages));
        while (ftl.collecting()) {
            work += ftl.collect_victim();
        }
        free_total += static_cast<double>(ftl.free_pages());
    }
    const double logical = geometry.logical_pages;
    const double flash = static_cast<double>(geometry.physical_blocks()) * point.pages_per_block;
    const double mean_free = free_total / static_cast<double>(writes);
    const double rho = (flash - mean_free) / logical - 1.0;
    const double measured =
        static_cast<double>(work.programmed + work.moved) / static_cast<double>(work.programmed);
    const double expected = expected_amplification(rho);
    RecordProperty("effective_spare", std::to_string(rho));
    RecordProperty("measured", std::to_string(measured));
    RecordProperty("expected", std::to_string(expected));
    std::printf("effective spare %.4f: measured %.3f, closed form %.3f (%+.1f %%)\n", rho, measured,
                expected, 100.0 * (measured / expected - 1.0));
    EXPECT_NEAR(measured, expected, 0.1 * expected);
}

INSTANTIATE_TEST_SUITE_P(Spare, WriteAmplification,
                         testing::Values(Point{0.07, 256, 4, 12}, Point{0.07, 256, 4, 44},
                                         Point{0.15, 256, 4, 12}, Point{0.28, 256, 4, 44}));

} // namespace
} // namespace ssdsim
