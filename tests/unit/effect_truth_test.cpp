#include "core/effect_truth.hpp"

#include <gtest/gtest.h>

namespace nvmaint::core {
namespace {

using namespace std::chrono_literals;

const WallTime kNow{std::chrono::hours(24 * 365 * 56)};

TrimRecord trimmed(const std::string& mount, EffectVerdict verdict, WallTime ended) {
    TrimRecord record;
    record.mount = mount;
    record.disks = {"nvme0n1"};
    record.started = ended - 60s;
    record.ended = ended;
    record.complete = true;
    record.requested_bytes = 1 << 30;
    record.discarded_bytes = 1 << 30;
    record.effect =
        TrimEffect{.verdict = verdict, .before = {}, .after = {}, .confidence = 0.9, .why = "why"};
    return record;
}

TEST(EffectTruth, TellsTheLastJudgedTrimOfEachMount) {
    Memory memory;
    memory.trims = {trimmed("/a", EffectVerdict::Helped, kNow - 2h),
                    trimmed("/a", EffectVerdict::NoChange, kNow - 1h),
                    trimmed("/b", EffectVerdict::Helped, kNow - 3h)};
    const std::vector<Finding> findings = judge_effects(memory, kNow);
    ASSERT_EQ(findings.size(), 2U);
    EXPECT_EQ(findings[0].reason, "no-change");
    EXPECT_EQ(findings[0].subject.name, "/a");
    EXPECT_EQ(findings[1].reason, "helped");
    EXPECT_FALSE(findings[1].evidence.empty());
    EXPECT_EQ(findings[1].severity, Severity::Info);
}

TEST(EffectTruth, SaysNothingOfTrimsThatWereNotFinishedOrNotJudged) {
    Memory memory;
    memory.trims = {trimmed("/a", EffectVerdict::Helped, kNow),
                    trimmed("/b", EffectVerdict::Helped, kNow)};
    memory.trims[0].complete = false;
    memory.trims[1].effect.reset();
    EXPECT_TRUE(judge_effects(memory, kNow).empty());
}

TEST(EffectTruth, LeavesOutTheBytesThatWereNotMeasured) {
    Memory memory;
    memory.trims = {trimmed("/a", EffectVerdict::Helped, kNow)};
    memory.trims[0].discarded_bytes.reset();
    const std::vector<Finding> findings = judge_effects(memory, kNow);
    ASSERT_EQ(findings.size(), 1U);
    for (const Evidence& evidence : findings[0].evidence) {
        EXPECT_EQ(evidence.source.find("discard counters"), std::string::npos);
    }
}

TEST(EffectTruth, ForgetsAfterAWeek) {
    Memory memory;
    memory.trims = {trimmed("/a", EffectVerdict::Helped, kNow - 7 * 24h)};
    EXPECT_EQ(judge_effects(memory, kNow).size(), 1U);
    EXPECT_TRUE(judge_effects(memory, kNow + 1s).empty());
}

} // namespace
} // namespace nvmaint::core
