// The first story in virtual time: a database on a simulated drive, the watch beside it, a paced
// trim, the verdict. The drive's own record of its collections is the judge.
#include "core/effect.hpp"
#include "core/flush_truth.hpp"
#include "core/pacing.hpp"
#include "drive.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace nvmaint::core {
namespace {

constexpr std::uint32_t kPages = 256 * 256; // 256 MiB
constexpr std::uint32_t kUsed = kPages / 2; // the database's half; the rest was freed
constexpr char kDisk[] = "nvme0n1";

double in_s(ssdsim::Time t) {
    return std::chrono::duration<double>(t).count();
}

// 60 transactions a second, each 8 KiB at random and a flush, on an aged drive.
class World {
  public:
    World(ssdsim::Mode mode, std::uint64_t seed) : drive_(config(mode, seed)), random_(seed) {
        snapshot_.uptime = seconds{std::chrono::hours{240}};
        BlockDevice disk;
        disk.name = kDisk;
        snapshot_.block_devices = std::map<std::string, BlockDevice>{{kDisk, disk}};
        FilesystemView fs;
        fs.mount = "/var/lib/db";
        fs.disks = {kDisk};
        fs.trim = TrimState::NotCovered;
        filesystems_ = {fs};
    }

    // Until the end of a second.
    void run_until(double end_s) {
        while (second_ < end_s) {
            transaction();
        }
    }
    // The freed half, as FITRIM would, in the pacer's ranges. Ends when the last one is done.
    void trim() {
        const std::uint64_t bytes = std::uint64_t{kPages} * ssdsim::kPageSize;
        const TrimGeometry g = trim_geometry("ext4", bytes, ssdsim::kPageSize);
        PaceState pace = pace_start(g, 0);
        trim_started_ = second_;
        while (const auto range = pace_range(g, pace)) {
            const auto from = static_cast<std::uint32_t>(range->start / ssdsim::kPageSize);
            const auto to = static_cast<std::uint32_t>(
                std::min(range->length / ssdsim::kPageSize + from, std::uint64_t{kPages}));
            const BootTime begun = now();
            nanoseconds took{};
            std::uint64_t trimmed = 0;
            if (to > kUsed) {
                const std::uint32_t first = std::max(from, kUsed);
                took = drive_.trim(time(), first, to - first).done - time();
                trimmed = std::uint64_t{to - first} * ssdsim::kPageSize;
            }
            discarded_ += trimmed;
            longest_ = std::max(longest_, took);
            pace = pace_next(
                g, pace, *range,
                {.took = took, .flush_suffered = watch().slow_since(begun), .trimmed = trimmed});
            ++ranges_;
            run_until(second_ + std::ceil(in_s(took + pace.rest)));
        }
        trim_ended_ = second_;
        TrimRecord record;
        record.mount = "/var/lib/db";
        record.disks = {kDisk};
        record.ended = wall();
        record.complete = true;
        record.discarded_bytes = discarded_;
        memory_.trims = {record};
    }

    [[nodiscard]] std::vector<Finding> findings() {
        snapshot_.now = {wall(), now()};
        DiskCounters counters;
        counters.flushes = DiskCounters::Flushes{};
        counters.discards = DiskCounters::Discards{.count = ranges_, .sectors = discarded_ / 512};
        snapshot_.block_devices->at(kDisk).counters = counters;
        return judge_flush(snapshot_, memory_, {}, filesystems_);
    }
    [[nodiscard]] bool says(const std::string& id) {
        const auto all = findings();
        return std::any_of(all.begin(), all.end(), [&](const Finding& f) { return f.id == id; });
    }
    FlushWatch& watch() { return memory_.flush[kDisk]; }
    [[nodiscard]] BootTime now() const {
        return nanoseconds{static_cast<std::int64_t>(second_ * 1e9)};
    }
    [[nodiscard]] WallTime wall() const {
        return WallTime{} + std::chrono::duration_cast<microseconds>(now());
    }
    [[nodiscard]] double second() const { return second_; }
    [[nodiscard]] double trim_started() const { return trim_started_; }
    [[nodiscard]] double trim_ended() const { return trim_ended_; }
    [[nodiscard]] unsigned ranges() const { return ranges_; }
    [[nodiscard]] nanoseconds longest_range() const { return longest_; }
    // Start times of the drive's own collections.
    [[nodiscard]] const std::vector<double>& episodes() const { return episodes_; }
    // Flushes over four times the usual 2 ms, each by itself: what the watch cannot see.
    [[nodiscard]] std::uint64_t slow_flushes() const { return slow_flushes_; }

  private:
    static ssdsim::DriveConfig config(ssdsim::Mode mode, std::uint64_t seed) {
        ssdsim::DriveConfig c = ssdsim::default_config(mode, kPages);
        c.aged = true;
        c.seed = seed;
        return c;
    }
    [[nodiscard]] ssdsim::Time time() const {
        return ssdsim::Time{static_cast<std::int64_t>(at_ * 1e9)};
    }

    void transaction() {
        due_ += std::exponential_distribution<>(60)(random_);
        at_ = std::max(at_, due_);
        const ssdsim::Time start = time();
        const auto page = static_cast<std::uint32_t>(random_() % (kUsed - 2));
        const ssdsim::Receipt write = drive_.write(start, page, 2, false);
        const ssdsim::Receipt flush = drive_.flush(write.done);
        if (write.episode_started || flush.episode_started) {
            episodes_.push_back(at_);
        }
        slow_flushes_ += flush.done - write.done > std::chrono::milliseconds{8} ? 1 : 0;
        at_ = in_s(flush.done);
        while (at_ >= second_ + 1) {
            end_second();
        }
        ++flushes_;
        flush_ms_ += in_s(flush.done - write.done) * 1e3;
        // The fsync's own empty write waits as long as the flush.
        write_ms_ += in_s(flush.done - start) * 1e3;
    }
    void end_second() {
        second_ += 1;
        FlushSample s;
        s.end = now();
        s.length = seconds{1};
        s.has_flush_counters = true;
        s.flushes = flushes_;
        s.flush_time = milliseconds{
            static_cast<std::int64_t>(std::floor(flush_ms_) - std::floor(flush_told_))};
        s.writes = 2 * flushes_;
        s.write_time = milliseconds{
            static_cast<std::int64_t>(std::floor(write_ms_) - std::floor(write_told_))};
        s.weighted_time = std::chrono::duration_cast<milliseconds>(s.flush_time) + s.write_time;
        flushes_ = 0;
        flush_told_ = flush_ms_;
        write_told_ = write_ms_;
        watch().add(s);
    }

    ssdsim::Drive drive_;
    std::mt19937_64 random_;
    HostSnapshot snapshot_;
    Memory memory_;
    std::vector<FilesystemView> filesystems_;
    double at_ = 0;     // of the drive, in seconds
    double due_ = 0;    // of the next transaction
    double second_ = 0; // seconds that have ended
    std::uint64_t flushes_ = 0;
    double flush_ms_ = 0, flush_told_ = 0, write_ms_ = 0, write_told_ = 0;
    std::vector<double> episodes_;
    std::uint64_t slow_flushes_ = 0;
    double trim_started_ = 0, trim_ended_ = 0;
    std::uint64_t discarded_ = 0;
    unsigned ranges_ = 0;
    nanoseconds longest_{};
};

struct Told {
    double device_stall_s = 1e9;
    double periodic_stall_s = 1e9;
    TrimEffect effect;
    double verdict_s = 0; // after the trim
};

// 300 s as it is, trim, watch until the verdict is firm.
Told tell(World& world) {
    Told told;
    while (world.second() < 300) {
        world.run_until(world.second() + 1);
        if (told.device_stall_s > 1e8 && world.says("flush.device-stall")) {
            told.device_stall_s = world.second();
        }
        if (told.periodic_stall_s > 1e8 && world.says("flush.periodic-stall")) {
            told.periodic_stall_s = world.second();
        }
    }
    const auto usual = world.watch().usual_ms();
    const FlushSummary before = world.watch().summary(seconds{0}, world.now(), usual);
    world.trim();
    world.run_until(world.second() + 5);
    const BootTime from = world.now();
    do {
        world.run_until(world.second() + 1);
        told.effect = judge_effect(before, world.watch().summary(from, world.now(), usual));
    } while (!effect_firm(told.effect) && world.now() - from < kEffectLongest);
    told.verdict_s = world.second() - world.trim_ended();
    return told;
}

TEST(Story, AnAgedDriveIsSeenNamedTrimmedAndCured) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        World world(ssdsim::Mode::Client, seed);
        const Told told = tell(world);
        ASSERT_GE(world.episodes().size(), 3U);
        const double first = world.episodes()[0];
        const double third = world.episodes()[2];
        std::printf("aged drive, seed %u: first collection %.0f s, device-stall %.0f s, third "
                    "%.0f s, periodic-stall %.0f s, %u ranges in %.0f s, %s after %.0f s: %s\n",
                    static_cast<unsigned>(seed), first, told.device_stall_s, third,
                    told.periodic_stall_s, world.ranges(),
                    world.trim_ended() - world.trim_started(),
                    std::string(to_string(told.effect.verdict)).c_str(), told.verdict_s,
                    told.effect.why.c_str());
        EXPECT_LE(told.device_stall_s, first + 30);
        EXPECT_LE(told.periodic_stall_s, third + 30);
        EXPECT_GT(told.periodic_stall_s, world.episodes()[1]);
        EXPECT_EQ(told.effect.verdict, EffectVerdict::Helped);

        // Flush by flush, over as long after as before: four fifths fewer at least.
        World untrimmed(ssdsim::Mode::Client, seed);
        untrimmed.run_until(300);
        world.run_until(world.trim_ended() + 5);
        const std::uint64_t at_end = world.slow_flushes();
        const double watched = world.second();
        world.run_until(watched + 300);
        EXPECT_LE(5 * (world.slow_flushes() - at_end), untrimmed.slow_flushes());
        EXPECT_TRUE(world.findings().empty()) << "cleared by measurement";
    }
}

TEST(Story, ADriveThatIgnoresTrimsIsNotSaidToBeHelped) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        World world(ssdsim::Mode::Liar, seed);
        const Told told = tell(world);
        std::printf("ignores trims, seed %u: %s after %.0f s: %s\n", static_cast<unsigned>(seed),
                    std::string(to_string(told.effect.verdict)).c_str(), told.verdict_s,
                    told.effect.why.c_str());
        EXPECT_EQ(told.effect.verdict, EffectVerdict::NoChange);
        EXPECT_TRUE(world.says("flush.device-stall"));
    }
}

TEST(Story, AProtectedDriveHasNothingToCure) {
    World world(ssdsim::Mode::Plp, 1);
    const Told told = tell(world);
    EXPECT_GT(told.device_stall_s, 1e8);
    EXPECT_GT(told.periodic_stall_s, 1e8);
    EXPECT_EQ(told.effect.verdict, EffectVerdict::NoChange) << told.effect.why;
    EXPECT_TRUE(effect_firm(told.effect));
}

TEST(Story, ADriveSlowAtTrimsIsHeldUpForHalfASecondAtMost) {
    World world(ssdsim::Mode::SlowTrim, 1); // 30 ms a MiB: 3.8 s for the freed half
    const Told told = tell(world);
    EXPECT_LE(world.longest_range(), std::chrono::milliseconds{500});
    EXPECT_EQ(told.effect.verdict, EffectVerdict::Helped) << told.effect.why;
}

} // namespace
} // namespace nvmaint::core
