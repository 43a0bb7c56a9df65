#include "core/effect.hpp"

#include "core/flush_watch.hpp"
#include "flush_series.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>

namespace nvmaint::core {
namespace {

using test::Bursts;
using test::Second;
using test::Series;

// 40 flushes a second; an episode stalls 5 s of 20 flushes a second.
FlushSummary summary(int length_s, unsigned episodes) {
    FlushSummary s;
    s.length = seconds{length_s};
    s.stalled_flushes = episodes * 100;
    s.flushes = static_cast<std::uint64_t>(length_s) * 40 - episodes * 100;
    s.median_ms = 2;
    s.p99_ms = episodes == 0 ? 2.2 : 12;
    s.worst_ms = s.p99_ms;
    s.episodes = episodes;
    s.calm_rate = 40;
    return s;
}

struct Counts {
    int before_s;
    unsigned before;
    int after_s;
    unsigned after;
    EffectVerdict verdict;
    bool firm;
};
class EffectCounts : public testing::TestWithParam<Counts> {};
TEST_P(EffectCounts, AreJudgedAsPoissonRates) {
    const Counts c = GetParam();
    const TrimEffect effect =
        judge_effect(summary(c.before_s, c.before), summary(c.after_s, c.after));
    EXPECT_EQ(effect.verdict, c.verdict) << effect.why;
    EXPECT_EQ(effect_firm(effect), c.firm) << effect.why;
    EXPECT_FALSE(effect.why.empty());
    EXPECT_GE(effect.confidence, 0);
    EXPECT_LE(effect.confidence, 1);
}
constexpr auto kHelped = EffectVerdict::Helped;
constexpr auto kNoChange = EffectVerdict::NoChange;
constexpr auto kWorse = EffectVerdict::Worse;
constexpr auto kNot = EffectVerdict::NotComparable;
INSTANTIATE_TEST_SUITE_P(
    Tables, EffectCounts,
    testing::Values(
        // (3/5)^5 = 0.078 is not enough, (180/330)^5 = 0.048 is.
        Counts{180, 5, 120, 0, kNoChange, false}, Counts{180, 5, 140, 0, kNoChange, false},
        Counts{180, 5, 150, 0, kHelped, true}, Counts{300, 7, 160, 0, kNoChange, false},
        Counts{300, 7, 165, 0, kHelped, true}, Counts{300, 7, 600, 1, kHelped, true},
        // One before is no rate, whatever follows.
        Counts{60, 1, 600, 0, kNoChange, false}, Counts{30, 1, 600, 0, kNot, false},
        Counts{60, 2, 200, 0, kNoChange, false}, Counts{60, 2, 220, 0, kHelped, true},
        // As before.
        Counts{180, 5, 60, 2, kNoChange, false}, Counts{180, 5, 120, 3, kNoChange, true},
        Counts{180, 5, 300, 5, kNoChange, true}, Counts{180, 5, 300, 4, kNoChange, false},
        Counts{300, 8, 600, 16, kNoChange, true},
        // Nothing to cure.
        Counts{300, 0, 60, 0, kNoChange, true}, Counts{60, 0, 60, 0, kNoChange, true},
        Counts{300, 0, 65, 1, kNoChange, false},
        // Worse, the same the other way round.
        Counts{300, 0, 60, 1, kNoChange, false}, Counts{300, 0, 60, 2, kWorse, true},
        Counts{300, 1, 300, 4, kNoChange, false}, Counts{300, 1, 300, 7, kWorse, true},
        // Too short.
        Counts{59, 5, 300, 0, kNot, false}, Counts{180, 5, 59, 0, kNot, false},
        Counts{0, 0, 0, 0, kNot, false}));

TEST(Effect, IsNotComparableWithTooFewFlushes) {
    FlushSummary few = summary(180, 0);
    few.flushes = 59;
    EXPECT_EQ(judge_effect(few, summary(180, 0)).verdict, kNot);
    EXPECT_EQ(judge_effect(summary(180, 0), few).verdict, kNot);
    few.flushes = 60;
    EXPECT_EQ(judge_effect(few, few).verdict, kNoChange);
}

struct Load {
    double before;
    double after;
    bool comparable;
};
class EffectLoad : public testing::TestWithParam<Load> {};
TEST_P(EffectLoad, MayDifferByAFactorOfTwo) {
    FlushSummary before = summary(300, 7);
    FlushSummary after = summary(300, 0);
    before.calm_rate = GetParam().before;
    after.calm_rate = GetParam().after;
    EXPECT_EQ(judge_effect(before, after).verdict != kNot, GetParam().comparable);
}
INSTANTIATE_TEST_SUITE_P(Factors, EffectLoad,
                         testing::Values(Load{40, 40, true}, Load{40, 80, true},
                                         Load{40, 81, false}, Load{80, 40, true},
                                         Load{81, 40, false}));

TEST(Effect, ComparesTheLoadOutsideStalls) {
    // A closed loop that stalled half of the time: 21 flushes a second over all before, 40 after.
    FlushSummary before = summary(300, 7);
    before.flushes = 150 * 40 + 150 * 1;
    before.stalled_flushes = 150;
    FlushSummary after = summary(300, 0);
    after.calm_rate = 44;
    EXPECT_EQ(judge_effect(before, after).verdict, kHelped);
}

TEST(Effect, FallsBackToTheOverallRate) {
    FlushSummary before = summary(300, 0);
    FlushSummary after = summary(300, 0);
    before.calm_rate = after.calm_rate = 0; // an old record
    EXPECT_EQ(judge_effect(before, after).verdict, kNoChange);
    after.flushes *= 3;
    EXPECT_EQ(judge_effect(before, after).verdict, kNot);
}

TEST(Effect, NeedsTheShareToFallWithTheEpisodes) {
    const FlushSummary before = summary(300, 7);
    FlushSummary after = summary(300, 1);
    EXPECT_EQ(judge_effect(before, after).verdict, kHelped);
    after.stalled_flushes = before.stalled_flushes * 6 / 10; // one long stall
    EXPECT_EQ(judge_effect(before, after).verdict, kNoChange);
}

TEST(Effect, IgnoresStallsOfNextToNoFlushes) {
    FlushSummary before = summary(300, 7);
    before.stalled_flushes = before.flushes / 101;
    EXPECT_EQ(judge_effect(before, summary(300, 0)).verdict, kNoChange);
}

TEST(Effect, SaysWhatItComparedAndHowSureItIs) {
    const TrimEffect effect = judge_effect(summary(180, 5), summary(150, 0));
    EXPECT_NEAR(effect.confidence, 1 - 0.0483, 0.0005);
    EXPECT_NE(effect.why.find("5 stalls in 3 min before, 0 in 2 min 30 s after"), std::string::npos)
        << effect.why;
    EXPECT_EQ(effect.before, summary(180, 5));
    EXPECT_EQ(effect.after, summary(150, 0));
}

TEST(Effect, SurvivesHugeCounts) {
    FlushSummary before = summary(300, 7);
    before.episodes = 1'000'000;
    FlushSummary after = before;
    after.episodes = 900'000;
    const TrimEffect effect = judge_effect(before, after);
    EXPECT_GE(effect.confidence, 0);
    EXPECT_LE(effect.confidence, 1);
}

// ---- the experiment as the service runs it, in virtual time ----

using Next = std::function<FlushSample(bool after)>;

struct Outcome {
    TrimEffect effect;
    double watched_s = 0; // after the trim
};

// Watches for `before_s`, trims, and asks every few seconds until the verdict is firm. (The service
// asks each second; what lies between two looks hardly differs.)
Outcome experiment(Series& series, double before_s, const Next& next) {
    // Only summaries are asked for, which rest on the samples alone: add() would cost more than all
    // the rest.
    FlushWatch watch;
    const auto step = [&](bool after) { watch.recent.push_back(next(after)); };
    for (int i = 0; i < static_cast<int>(before_s); ++i) {
        step(false);
    }
    const double usual = watch.summary(seconds{0}, series.now()).median_ms;
    const FlushSummary before = watch.summary(seconds{0}, series.now(), usual);
    for (int i = 0; i < 5; ++i) {
        step(true);
    }
    const BootTime from = series.now();
    Outcome out;
    while (series.now() - from < kEffectLongest) {
        for (int i = 0; i < 5; ++i) {
            step(true);
        }
        const FlushSummary after = watch.summary(from, series.now(), usual);
        out.effect = judge_effect(before, after);
        if (effect_firm(out.effect)) {
            break;
        }
    }
    out.watched_s = std::chrono::duration<double>(series.now() - from).count();
    return out;
}

struct Tally {
    unsigned helped = 0, no_change = 0, worse = 0, not_comparable = 0;
    double watched_s = 0;
    void add(const Outcome& o) {
        watched_s += o.watched_s;
        switch (o.effect.verdict) {
        case EffectVerdict::Helped:
            ++helped;
            break;
        case EffectVerdict::NoChange:
            ++no_change;
            break;
        case EffectVerdict::Worse:
            ++worse;
            break;
        case EffectVerdict::NotComparable:
            ++not_comparable;
            break;
        }
    }
    void print(const char* what, unsigned runs) const {
        std::printf("%-42s helped %5.1f %%  no-change %5.1f %%  worse %5.1f %%  not-comparable "
                    "%4.1f %%  watched %3.0f s\n",
                    what, 100.0 * helped / runs, 100.0 * no_change / runs, 100.0 * worse / runs,
                    100.0 * not_comparable / runs, watched_s / runs);
    }
};

// The two rates that are promised are measured on many, the others on enough to see a fault.
constexpr unsigned kSeeds = 1000;
constexpr unsigned kFewSeeds = 200;

Tally bursts(unsigned seeds, double before_s, bool cures, double noise = 0) {
    Tally tally;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        Series series(seed);
        Bursts drive(series);
        Second calm;
        calm.fsyncs = series.uniform(20, 60);
        tally.add(experiment(series, before_s, [&](bool after) {
            if (after && cures) {
                drive.cure();
            }
            Second s = calm;
            if (series.uniform(0, 1) < noise) {
                s.flush_ms = 11;
            }
            return drive.next(s);
        }));
    }
    return tally;
}

TEST(EffectProperty, NeverHelpedOnADriveThatIgnoresTrims) {
    const Tally five_minutes = bursts(kSeeds, 300, false);
    five_minutes.print("ignores trims, 300 s before", kSeeds);
    const Tally two_minutes = bursts(kFewSeeds, 120, false);
    two_minutes.print("ignores trims, 120 s before", kFewSeeds);
    EXPECT_LE(five_minutes.helped, kSeeds / 100);
    EXPECT_LE(five_minutes.worse, kSeeds / 100);
    EXPECT_LE(two_minutes.helped, kFewSeeds / 100);
    EXPECT_LE(two_minutes.worse, kFewSeeds / 100);
}

TEST(EffectProperty, HelpedOnADriveThatATrimCures) {
    const Tally clean = bursts(kSeeds, 300, true);
    clean.print("cured, 300 s before", kSeeds);
    EXPECT_GE(clean.helped, kSeeds * 95 / 100);
    EXPECT_EQ(clean.worse, 0U);
    const Tally noisy = bursts(kFewSeeds, 300, true, 0.01);
    noisy.print("cured, 300 s before, 1 % noisy seconds", kFewSeeds);
    EXPECT_GE(noisy.helped, kFewSeeds * 95 / 100);
    const Tally short_before = bursts(kFewSeeds, 150, true);
    short_before.print("cured, 150 s before", kFewSeeds);
    EXPECT_GE(short_before.helped, kFewSeeds * 95 / 100);
}

TEST(EffectProperty, NoChangeOnAProtectedDrive) {
    for (const double noise : {0.0, 0.01, 0.03}) {
        Tally tally;
        for (std::uint64_t seed = 1; seed <= kFewSeeds; ++seed) {
            Series series(seed);
            Second calm;
            calm.flush_ms = 0.05;
            tally.add(experiment(series, 120, [&](bool) {
                Second s = calm;
                if (series.uniform(0, 1) < noise) {
                    s.flush_ms = 8;
                }
                return series.next(s);
            }));
        }
        tally.print(noise == 0.0    ? "protected, no noise"
                    : noise == 0.01 ? "protected, 1 % noisy seconds"
                                    : "protected, 3 % noisy seconds",
                    kFewSeeds);
        EXPECT_LE(tally.helped, kFewSeeds / 100);
        EXPECT_LE(tally.worse, kFewSeeds / 100);
    }
}

TEST(EffectProperty, CarefulWithStallsWithoutRhythm) {
    // Exponential gaps of 40 s in the mean: what the test assumes, and it looks up to 108 times.
    Tally tally;
    for (std::uint64_t seed = 1; seed <= kFewSeeds; ++seed) {
        Series series(seed);
        Second calm;
        double left = 0;
        tally.add(experiment(series, 300, [&](bool) {
            if (left < 1 && series.uniform(0, 1) < 1.0 / 40) {
                left = series.uniform(3, 10);
            }
            Second s = calm;
            if (left >= 1) {
                left -= 1;
                s.flush_ms = 14;
            }
            return series.next(s);
        }));
    }
    tally.print("unchanged, no rhythm", kFewSeeds);
    EXPECT_LE(tally.helped, kFewSeeds * 5 / 100);
    EXPECT_LE(tally.worse, kFewSeeds * 5 / 100);
}

} // namespace
} // namespace nvmaint::core
