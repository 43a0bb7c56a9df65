// SPDX-License-Identifier: Apache-2.0
//
// The drive under a database's load, in virtual time: minutes of it in milliseconds.
#include "drive.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <ostream>
#include <vector>

namespace ssdsim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kPagesPerMib = 256;

DriveConfig aged_config(Mode mode, std::uint32_t mib) {
    DriveConfig config = default_config(mode, mib * kPagesPerMib);
    config.aged = true;
    return config;
}

struct Sample {
    Time at;
    Time length;
};

struct Burst {
    Time from;
    Time to;

    [[nodiscard]] Time length() const { return to - from; }
};

// What a database on ext4 does to a drive: commits at a fixed rate, each two random pages of its
// file, pages of the journal, a flush, and the commit record as a FUA write.
class DatabaseLoad {
  public:
    DatabaseLoad(Drive& drive, std::uint32_t database_mib, std::uint32_t journal_pages)
        : drive_(drive), random_(7), journal_pages_(journal_pages) {
        const std::uint32_t pages = drive.config().geometry.logical_pages;
        metadata_end_ = pages / 50;
        database_ = pages / 10;
        database_end_ = database_ + database_mib * kPagesPerMib;
        journal_ = pages / 2;
        journal_end_ = journal_ + pages / 32;
        journal_at_ = journal_;
    }

    // Writes the database's file once.
    void fill() {
        for (LogicalPage page = database_; page < database_end_; page += kPagesPerMib) {
            now_ = drive_.write(now_, page, kPagesPerMib, false).done;
        }
        now_ = drive_.flush(now_).done;
    }

    // Commits `rate` times a second; returns every flush.
    std::vector<Sample> run(Time span, int rate) {
        std::vector<Sample> flushes;
        const Time end = now_ + span;
        while (now_ < end) {
            const Time next = now_ + Time{1s} / rate;
            const std::uint32_t choices = (database_end_ - database_) / 2;
            now_ = drive_.write(now_, database_ + 2 * random_.below(choices), 2, false).done;
            for (std::uint32_t i = 0; i < journal_pages_; ++i) {
                now_ = drive_.write(now_, next_journal_page(), 1, false).done;
            }
            const Time done = drive_.flush(now_).done;
            flushes.push_back({.at = now_, .length = done - now_});
            now_ = drive_.write(done, next_journal_page(), 1, true).done;
            now_ = std::max(now_, next);
        }
        return flushes;
    }

    // Trims what the filesystem does not use, in pieces.
    void trim_free_space() {
        const std::uint32_t pages = drive_.config().geometry.logical_pages;
        trim(metadata_end_, database_);
        trim(database_end_, journal_);
        trim(journal_end_, pages);
    }

  private:
    LogicalPage next_journal_page() {
        const LogicalPage page = journal_at_;
        journal_at_ = journal_at_ + 1 == journal_end_ ? journal_ : journal_at_ + 1;
        return page;
    }

    void trim(LogicalPage first, LogicalPage end) {
        for (LogicalPage page = first; page < end; page += 16 * kPagesPerMib) {
            const std::uint32_t count = std::min(16 * kPagesPerMib, end - page);
            now_ = drive_.trim(now_, page, count).done;
        }
    }

    Drive& drive_;
    Random random_;
    std::uint32_t journal_pages_;
    LogicalPage metadata_end_ = 0;
    LogicalPage database_ = 0;
    LogicalPage database_end_ = 0;
    LogicalPage journal_ = 0;
    LogicalPage journal_end_ = 0;
    LogicalPage journal_at_ = 0;
    Time now_{};
};

Time median(std::vector<Sample> flushes) {
    const auto middle = flushes.begin() + static_cast<std::ptrdiff_t>(flushes.size() / 2);
    std::nth_element(
        flushes.begin(), middle, flushes.end(),
        [](const Sample& left, const Sample& right) { return left.length < right.length; });
    return middle->length;
}

std::vector<Sample> stalled(const std::vector<Sample>& flushes, Time usual) {
    std::vector<Sample> over;
    std::copy_if(flushes.begin(), flushes.end(), std::back_inserter(over),
                 [usual](const Sample& sample) { return sample.length > 4 * usual; });
    return over;
}

// Runs of stalled flushes without a pause of two seconds.
std::vector<Burst> bursts(const std::vector<Sample>& stalls) {
    std::vector<Burst> runs;
    for (const Sample& stall : stalls) {
        if (!runs.empty() && stall.at - runs.back().to <= 2s) {
            runs.back().to = stall.at + stall.length;
        } else {
            runs.push_back({.from = stall.at, .to = stall.at + stall.length});
        }
    }
    return runs;
}

double seconds_of(Time span) {
    return std::chrono::duration<double>(span).count();
}

struct Load {
    std::uint32_t drive_mib;
    std::uint32_t database_mib;
    int rate;
    std::uint32_t journal_pages;
};

std::ostream& operator<<(std::ostream& out, const Load& load) {
    return out << load.drive_mib << " MiB drive, " << load.database_mib << " MiB database, "
               << load.rate << " commits a second of " << load.journal_pages + 3 << " pages";
}

// The bursts that began and ended within the run, without the one that filling the database left.
std::vector<Burst> whole_bursts(const std::vector<Sample>& flushes, Time usual) {
    std::vector<Burst> runs = bursts(stalled(flushes, usual));
    if (!runs.empty() && runs.back().to > flushes.back().at - 2s) {
        runs.pop_back();
    }
    if (!runs.empty()) {
        runs.erase(runs.begin());
    }
    return runs;
}

class AgedDrive : public testing::TestWithParam<Load> {};

TEST_P(AgedDrive, StallsForSecondsEveryHalfMinuteOrSo) {
    const Load& load = GetParam();
    Drive drive(aged_config(Mode::Client, load.drive_mib));
    DatabaseLoad database(drive, load.database_mib, load.journal_pages);
    database.fill();
    const std::vector<Sample> flushes = database.run(300s, load.rate);
    const Time usual = median(flushes);
    EXPECT_GT(usual, 2ms);
    EXPECT_LT(usual, 2500us);
    const std::vector<Burst> runs = whole_bursts(flushes, usual);
    ASSERT_GE(runs.size(), 3U);
    for (std::size_t i = 0; i < runs.size(); ++i) {
        EXPECT_GE(runs[i].length(), 3s) << "burst at " << seconds_of(runs[i].from);
        if (i > 0) {
            EXPECT_GE(runs[i].from - runs[i - 1].from, 20s);
            EXPECT_LE(runs[i].from - runs[i - 1].from, 60s);
        }
    }
    Time in_stalls{};
    const std::vector<Sample> stalls = stalled(flushes, usual);
    for (const Sample& stall : stalls) {
        in_stalls += stall.length;
    }
    const double depth =
        seconds_of(in_stalls) / static_cast<double>(stalls.size()) / seconds_of(usual);
    EXPECT_GE(depth, 5.0);
    EXPECT_LE(depth, 10.0);
}

TEST_P(AgedDrive, IsCuredByATrimAndAsFastAsBefore) {
    const Load& load = GetParam();
    Drive drive(aged_config(Mode::Client, load.drive_mib));
    DatabaseLoad database(drive, load.database_mib, load.journal_pages);
    database.fill();
    const std::vector<Sample> before = database.run(200s, load.rate);
    database.trim_free_space();
    const std::vector<Sample> after = database.run(200s, load.rate);
    const std::size_t stalls = stalled(before, median(before)).size();
    ASSERT_GT(stalls, 100U);
    EXPECT_LE(stalled(after, median(before)).size(), stalls / 20);
    // The stalls go, the cost of a flush stays.
    EXPECT_NEAR(seconds_of(median(after)), seconds_of(median(before)), 50e-6);
}

INSTANTIATE_TEST_SUITE_P(Loads, AgedDrive,
                         testing::Values(Load{1024, 128, 15, 1}, Load{1024, 128, 15, 5},
                                         Load{1024, 128, 40, 3}, Load{1024, 256, 25, 2},
                                         Load{1024, 128, 60, 1}, Load{1024, 128, 60, 5},
                                         Load{512, 64, 15, 3}, Load{512, 64, 60, 3},
                                         Load{2048, 256, 40, 3}));

TEST(ProtectedDrive, NeverStallsAndStillCollects) {
    Drive drive(aged_config(Mode::Plp, 1024));
    DatabaseLoad database(drive, 128, 3);
    database.fill();
    const std::vector<Sample> flushes = database.run(200s, 60);
    for (const Sample& flush : flushes) {
        ASSERT_GE(flush.length, 30us);
        ASSERT_LE(flush.length, 50us);
    }
    EXPECT_GT(drive.episode().work.erased, 0U);
    EXPECT_TRUE(stalled(flushes, median(flushes)).empty());
}

TEST(LyingDrive, AcknowledgesATrimAndStallsAsBefore) {
    Drive drive(aged_config(Mode::Liar, 1024));
    DatabaseLoad database(drive, 128, 3);
    database.fill();
    const std::vector<Sample> before = database.run(200s, 40);
    const std::uint32_t mapped = drive.ftl().mapped_pages();
    database.trim_free_space();
    EXPECT_EQ(drive.ftl().mapped_pages(), mapped);
    const std::vector<Sample> after = database.run(200s, 40);
    const std::size_t stalls = stalled(before, median(before)).size();
    EXPECT_GT(stalled(after, median(before)).size(), stalls / 2);
}

TEST(SlowTrimDrive, MakesFlushesWaitForATrim) {
    Drive drive(aged_config(Mode::SlowTrim, 512));
    const Receipt trim = drive.trim(1s, 0, 100 * kPagesPerMib);
    EXPECT_GE(trim.done, 4s);
    EXPECT_LE(trim.done, 4100ms);
    EXPECT_EQ(trim.pages, 100U * kPagesPerMib);
    EXPECT_FALSE(drive.has_data(0));
    EXPECT_GT(drive.flush(1100ms).done, trim.done);
}

TEST(ClientDrive, TrimsQuicklyWithoutHoldingUpFlushes) {
    Drive drive(aged_config(Mode::Client, 512));
    const Receipt trim = drive.trim(1s, 0, 100 * kPagesPerMib);
    EXPECT_LE(trim.done - 1s, 3ms);
    EXPECT_LE(drive.flush(1s).done - 1s, 2100us);
}

DriveConfig fresh_config() {
    return default_config(Mode::Client, 64 * kPagesPerMib);
}

TEST(ClientDrive, TakesWritesFromTheCacheWhileAFlushRuns) {
    Drive drive(fresh_config());
    (void)drive.write(0s, 0, 1000, false);
    const Receipt flush = drive.flush(1ms);
    EXPECT_EQ(flush.pages, 1000U);
    EXPECT_EQ(flush.work, (FlashWork{.programmed = 1000}));
    EXPECT_EQ(flush.done, 1ms + 2ms + 1000 * 15us);
    EXPECT_LE(drive.write(2ms, 5000, 2, false).done, 2ms + 20us);
    // The second flush has to wait for the first.
    EXPECT_EQ(drive.flush(3ms).done, flush.done + 2ms + 2 * 15us);
}

TEST(ClientDrive, MakesWritesWaitOnlyWhenTheCacheIsFull) {
    Drive drive(fresh_config());
    Time now{};
    Time longest{};
    for (LogicalPage page = 0; page < 16000; page += 64) {
        const Time done = drive.write(now, page, 64, false).done;
        if (page < 4096) {
            EXPECT_LE(done - now, 200us) << page;
        }
        longest = std::max(longest, done - now);
        now = done;
    }
    EXPECT_GT(longest, 500us);
    // In the long run the flash sets the pace.
    EXPECT_GT(now, (16000 - 4096) * 15us);
}

TEST(ClientDrive, WritesAPageOnceHoweverOftenItWasWrittenIntoTheCache) {
    Drive drive(fresh_config());
    for (int i = 0; i < 10; ++i) {
        (void)drive.write(0s, 7, 1, false);
    }
    EXPECT_EQ(drive.dirty_pages(), 1U);
    EXPECT_EQ(drive.flush(0s).work, (FlashWork{.programmed = 1}));
    EXPECT_EQ(drive.flush(1s).pages, 0U);
}

TEST(ClientDrive, ProgramsAFuaWriteAtOnceAndNothingElse) {
    Drive drive(fresh_config());
    (void)drive.write(0s, 0, 10, false);
    const Receipt fua = drive.write(1s, 5, 10, true);
    EXPECT_EQ(fua.pages, 10U);
    EXPECT_EQ(fua.done, 1s + 300us + 10 * 15us);
    EXPECT_EQ(drive.dirty_pages(), 5U);
    EXPECT_TRUE(drive.has_data(14));
}

TEST(ClientDrive, LetsFuaWritesPayTheirShareOfCollection) {
    Drive drive(aged_config(Mode::Client, 512));
    Random random(5);
    Time now{};
    FlashWork work;
    for (int i = 0; i < 20000; ++i) {
        const Receipt receipt = drive.write(now, random.below(100000), 1, true);
        work += receipt.work;
        now = receipt.done;
    }
    EXPECT_EQ(work.programmed, 20000U);
    EXPECT_GT(work.moved, 20000U);
    EXPECT_GT(now, 20000 * 315us + static_cast<std::int64_t>(work.moved) * 60us);
}

TEST(ClientDrive, ReadsMappedPagesFromFlashAndTheRestAtOnce) {
    Drive drive(fresh_config());
    (void)drive.write(0s, 0, 4, false);
    EXPECT_EQ(drive.read(1s, 0, 4).done, 1s) << "still in the cache";
    (void)drive.flush(1s);
    EXPECT_EQ(drive.read(2s, 0, 4).done, 2s + 80us + 3 * 5us);
    EXPECT_EQ(drive.read(2s, 100, 4).done, 2s);
    EXPECT_EQ(drive.read(2s, 3, 4).pages, 1U);
}

TEST(ClientDrive, DropsTrimmedPagesFromTheCache) {
    Drive drive(fresh_config());
    (void)drive.write(0s, 0, 4, false);
    EXPECT_EQ(drive.trim(0s, 2, 10).pages, 2U);
    EXPECT_FALSE(drive.has_data(2));
    EXPECT_TRUE(drive.has_data(1));
    EXPECT_EQ(drive.flush(0s).pages, 2U);
}

TEST(ClientDrive, AnswersFlushesAtOnceIfDishonest) {
    DriveConfig config = fresh_config();
    config.dishonest = true;
    Drive drive(config);
    (void)drive.write(0s, 0, 100, false);
    EXPECT_LE(drive.flush(0s).done, 50us);
    EXPECT_EQ(drive.dirty_pages(), 100U);
    EXPECT_LE(drive.write(0s, 0, 1, true).done, 50us);
}

TEST(ClientDrive, KeepsHouseInTimeOnlyIfAskedTo) {
    DriveConfig config = aged_config(Mode::Client, 512);
    const auto housekeeping_at = [](Drive& drive) -> std::optional<Time> {
        for (Time now = 1s; now < 120s; now += 1s) {
            (void)drive.write(now, 0, 1, false);
            if (drive.flush(now).episode_started) {
                return now;
            }
        }
        return std::nullopt;
    };
    Drive drive(config);
    EXPECT_EQ(housekeeping_at(drive), 35s);
    config.gc_interval = 0s;
    Drive without(config);
    EXPECT_EQ(housekeeping_at(without), std::nullopt);
}

TEST(ClientDrive, DoesTheSameForTheSameSeed) {
    const auto total = [](std::uint64_t seed) {
        DriveConfig config = aged_config(Mode::Client, 512);
        config.seed = seed;
        Drive drive(config);
        DatabaseLoad database(drive, 64, 3);
        database.fill();
        Time sum{};
        for (const Sample& flush : database.run(60s, 40)) {
            sum += flush.length;
        }
        return sum;
    };
    EXPECT_EQ(total(1), total(1));
    EXPECT_NE(total(1), total(2));
}

} // namespace
} // namespace ssdsim
