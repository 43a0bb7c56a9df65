#include "core/flush_truth.hpp"

#include "flush_series.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nvmaint::core {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using test::Bursts;
using test::Second;
using test::Series;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr WallTime kWall{hours{24 * 20000}};
constexpr char kDisk[] = "nvme0n1";

// One aged client drive below a filesystem that nothing trims.
struct Host {
    HostSnapshot snapshot;
    Memory memory;
    Policy policy;
    std::vector<FilesystemView> filesystems;

    Host() {
        snapshot.now = {kWall, seconds{1000}};
        snapshot.uptime = seconds{hours{960}};
        snapshot.kernel = std::string("6.1.0-57-amd64");
        BlockDevice disk;
        disk.name = kDisk;
        disk.nvme_controller = "nvme0";
        disk.queue.write_cache = std::string("write back");
        DiskCounters counters;
        counters.discards = DiskCounters::Discards{};
        counters.flushes = DiskCounters::Flushes{74497, 167343};
        disk.counters = counters;
        snapshot.block_devices = std::map<std::string, BlockDevice>{{kDisk, disk}};
        NvmeController controller;
        controller.name = "nvme0";
        controller.model = std::string("KXG60ZNV1T02");
        controller.serial = std::string("S1");
        controller.firmware = std::string("AGFA4103");
        controller.namespaces = {kDisk};
        nvme::IdentifyController identify;
        identify.model = "KXG60ZNV1T02";
        identify.serial = "S1";
        identify.firmware = "AGFA4103";
        identify.volatile_write_cache = 7;
        controller.identify = identify;
        snapshot.controllers = std::map<std::string, NvmeController>{{"nvme0", controller}};
        FilesystemView fs;
        fs.mount = "/var/lib/db";
        fs.mounts = {"/var/lib/db"};
        fs.type = "ext4";
        fs.stack = {kDisk};
        fs.disks = {kDisk};
        fs.trim = TrimState::NotCovered;
        fs.why = "not in /etc/fstab";
        filesystems = {fs};
    }
    BlockDevice& disk() { return snapshot.block_devices->at(kDisk); }
    NvmeController& controller() { return snapshot.controllers->at("nvme0"); }
    FlushWatch& watch() { return memory.flush[kDisk]; }

    std::vector<Finding> judge() {
        if (!watch().recent.empty()) {
            snapshot.now.boot = watch().recent.back().end;
            snapshot.now.wall = kWall + std::chrono::duration_cast<microseconds>(
                                            snapshot.now.boot - BootTime{seconds{1000}});
        }
        return judge_flush(snapshot, memory, policy, filesystems);
    }
    // As the service does after each tick.
    std::vector<Finding> tick() {
        const auto findings = judge();
        std::map<FindingKey, WallTime> since;
        for (const Finding& f : findings) {
            since[key_of(f)] = f.since.value_or(snapshot.now.wall);
        }
        memory.since = since;
        return findings;
    }
    void feed(Series& series, const Second& s, unsigned count) { series.feed(watch(), s, count); }
};

std::vector<std::string> ids(const std::vector<Finding>& findings) {
    std::vector<std::string> out;
    for (const Finding& f : findings) {
        out.push_back(f.id);
    }
    std::sort(out.begin(), out.end());
    return out;
}

const Finding& only(const std::vector<Finding>& findings, const std::string& id) {
    const auto found = std::find_if(findings.begin(), findings.end(),
                                    [&](const Finding& f) { return f.id == id; });
    if (found == findings.end()) {
        throw std::runtime_error("no " + id);
    }
    return *found;
}

Second flushes(double ms, double rate = 40) {
    Second s;
    s.flush_ms = ms;
    s.fsyncs = rate;
    return s;
}

TrimRecord trim_at(WallTime ended, std::uint64_t discarded = 1 << 30) {
    TrimRecord r;
    r.mount = "/var/lib/db";
    r.disks = {kDisk};
    r.started = ended - seconds{20};
    r.ended = ended;
    r.complete = true;
    r.outcome = "done";
    r.discarded_bytes = discarded;
    return r;
}

// ---- without a series ----

TEST(FlushTruth, SaysNothingOfFlushesWithoutASeries) {
    Host host;
    EXPECT_THAT(host.judge(), IsEmpty());
}

TEST(FlushTruth, SaysNothingOfAHostThatCouldNotBeRead) {
    EXPECT_THAT(judge_flush({}, {}, {}, {}), IsEmpty());
}

TEST(FlushTruth, SaysNothingOfACalmDrive) {
    Host host;
    Series series;
    host.feed(series, flushes(2), 900);
    EXPECT_THAT(host.judge(), IsEmpty());
}

TEST(FlushTruth, SaysNothingOfADiskThatIsNotNvme) {
    Host host;
    Series series;
    BlockDevice vda = host.disk();
    vda.name = "vda";
    vda.nvme_controller.clear();
    vda.counters->flushes.reset();
    host.snapshot.block_devices = std::map<std::string, BlockDevice>{{"vda", vda}};
    series.feed(host.memory.flush["vda"], flushes(2), 100);
    series.feed(host.memory.flush["vda"], flushes(15), 5);
    EXPECT_THAT(host.judge(), IsEmpty());
}

// ---- stalls ----

TEST(FlushTruth, SaysADeviceStallWithItsEvidenceAndCure) {
    Host host;
    Series series;
    host.feed(series, flushes(2), 100);
    host.feed(series, flushes(15), 2);
    const auto findings = host.judge();
    ASSERT_THAT(ids(findings), ElementsAre("flush.device-stall"));
    const Finding& f = findings.front();
    EXPECT_EQ(f.severity, Severity::Warning);
    EXPECT_EQ(f.subject, (Subject{SubjectKind::Namespace, kDisk}));
    EXPECT_EQ(f.reason, "");
    EXPECT_THAT(f.fix, ElementsAre("nvmaintctl trim /var/lib/db"));
    const auto says = [](const std::string& text) {
        return Contains(Field(&Evidence::says, HasSubstr(text)));
    };
    EXPECT_THAT(f.evidence, says("running median 2"));
    EXPECT_THAT(f.evidence, says("(ongoing)"));
    EXPECT_THAT(f.evidence, says("data writes of nvme0n1 meanwhile no slower than usual"));
    EXPECT_THAT(f.evidence, says("nothing was discarded on nvme0n1 since boot 40 days ago"));
    EXPECT_THAT(f.evidence, says("trim: not-covered (not in /etc/fstab)"));
    EXPECT_THAT(f.evidence, says("likeliest cause: the drive keeps moving data"));
    EXPECT_THAT(f.evidence, says("confidence: possible")); // one stall is no rhythm yet
    EXPECT_EQ(f.since, host.snapshot.now.wall - seconds{2});
}

TEST(FlushTruth, SaysAPeriodicStallAfterThree) {
    Host host;
    Series series;
    host.feed(series, flushes(2), 100);
    for (int i = 0; i < 3; ++i) {
        EXPECT_THAT(ids(host.judge()), Not(Contains("flush.periodic-stall")));
        host.feed(series, flushes(15), 5);
        host.feed(series, flushes(2), 35);
    }
    const auto findings = host.judge();
    ASSERT_THAT(ids(findings), ElementsAre("flush.device-stall", "flush.periodic-stall"));
    const Finding& f = only(findings, "flush.periodic-stall");
    EXPECT_EQ(f.severity, Severity::Warning);
    EXPECT_THAT(f.evidence.front().says,
                AllOf(HasSubstr("3 stalls"), HasSubstr("period 40 s"), HasSubstr("duration 5 s"),
                      HasSubstr("depth 7."), HasSubstr("spread 0 %")));
    EXPECT_THAT(f.evidence, Contains(Field(&Evidence::says, HasSubstr("confidence: likely"))));
    EXPECT_THAT(f.fix, ElementsAre("nvmaintctl trim /var/lib/db"));
}

TEST(FlushTruth, StandsForTenMinutesAfterTheLastStall) {
    Host host;
    Series series;
    host.feed(series, flushes(2), 100);
    host.feed(series, flushes(15), 5);
    host.feed(series, flushes(2), 599);
    EXPECT_THAT(ids(host.judge()), ElementsAre("flush.device-stall"));
    host.feed(series, flushes(2), 2);
    EXPECT_THAT(host.judge(), IsEmpty());
}

TEST(FlushTruth, StandsForTwoPeriodsOfALongOne) {
    Host host;
    Series series;
    host.feed(series, flushes(2), 600);
    for (int i = 0; i < 3; ++i) {
        host.feed(series, flushes(15), 5);
        host.feed(series, flushes(2), 1195);
        // Between two stalls it does not come and go.
        EXPECT_THAT(ids(host.judge()).size(), i < 2 ? 0U : 2U) << i;
    }
    host.feed(series, flushes(2), 1150);
    EXPECT_THAT(ids(host.judge()), ElementsAre("flush.device-stall", "flush.periodic-stall"));
    host.feed(series, flushes(2), 60);
    EXPECT_THAT(host.judge(), IsEmpty());
}

TEST(FlushTruth, DoesNotTakeIdlenessForACure) {
    Host host;
    Series series;
    host.feed(series, flushes(2), 100);
    host.feed(series, flushes(15), 5);
    host.feed(series, flushes(2), 30);
    host.feed(series, flushes(2, 0), 3600);
    EXPECT_THAT(ids(host.judge()), ElementsAre("flush.device-stall"));
    host.feed(series, flushes(2), 59); // the first after idleness is not judged
    EXPECT_THAT(ids(host.judge()), ElementsAre("flush.device-stall"));
    host.feed(series, flushes(2), 3);
    EXPECT_THAT(host.judge(), IsEmpty());
}

TEST(FlushTruth, LetsADiskGoThatIsUsedNoMore) {
    Host host;
    Series series;
    host.feed(series, flushes(2), 100);
    host.feed(series, flushes(15), 5);
    host.feed(series, flushes(2, 0), 6 * 3600 + 10);
    EXPECT_THAT(host.judge(), IsEmpty());
}

// Three stalls 40 s apart, then quiet for `quiet`; a trim of `discarded` ends 10 s into the quiet.
std::vector<std::string> after_trim(unsigned quiet, std::optional<std::uint64_t> discarded) {
    Host host;
    Series series;
    host.feed(series, flushes(2), 100);
    for (int i = 0; i < 3; ++i) {
        host.feed(series, flushes(15), 5);
        host.feed(series, flushes(2), 35);
    }
    const auto into = std::chrono::duration_cast<seconds>(series.now() - BootTime{seconds{1000}});
    host.feed(series, flushes(2), quiet - 35);
    if (discarded) {
        host.memory.trims = {trim_at(kWall + into - seconds{25}, *discarded)};
    }
    return ids(host.judge());
}

TEST(FlushTruth, ClearsThreePeriodsAfterATrim) {
    EXPECT_THAT(after_trim(119, 1 << 30),
                ElementsAre("flush.device-stall", "flush.periodic-stall"));
    EXPECT_THAT(after_trim(121, 1 << 30), IsEmpty());
    EXPECT_THAT(after_trim(121, std::nullopt),
                ElementsAre("flush.device-stall", "flush.periodic-stall"));
    EXPECT_THAT(after_trim(121, 0), // the drive's counter did not move
                ElementsAre("flush.device-stall", "flush.periodic-stall"));
    EXPECT_THAT(after_trim(601, std::nullopt), IsEmpty());
}

TEST(FlushTruth, RaisesAnewOnADriveThatIgnoredTheTrim) {
    Host host;
    Series series;
    Bursts bursts(series);
    for (int i = 0; i < 400; ++i) {
        host.watch().add(bursts.next(flushes(2)));
    }
    (void)host.judge(); // only for the time
    host.memory.trims = {trim_at(host.snapshot.now.wall)};
    unsigned stood = 0;
    for (int i = 0; i < 600; ++i) {
        host.watch().add(bursts.next(flushes(2)));
        stood += ids(host.tick()).empty() ? 0 : 1;
    }
    EXPECT_GE(stood, 570U);
    const auto findings = host.judge();
    const Finding& f = only(findings, "flush.device-stall");
    EXPECT_THAT(f.evidence, Contains(Field(&Evidence::says, HasSubstr("confidence: weak"))));
    EXPECT_THAT(f.fix, ElementsAre(HasSubstr("nvmaintctl drives")));
}

TEST(FlushTruth, RaisesOnceNotOncePerStall) {
    // One finding from the first stall to the end, however many stalls come.
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Host host;
        Series series(seed);
        Bursts bursts(series);
        unsigned raised = 0;
        bool stands = false;
        for (int i = 0; i < 1500; ++i) {
            host.watch().add(bursts.next(flushes(2)));
            const auto now = ids(host.tick());
            const bool stood = stands;
            stands = std::find(now.begin(), now.end(), "flush.device-stall") != now.end();
            raised += stands && !stood ? 1 : 0;
        }
        EXPECT_EQ(raised, 1U) << "seed " << seed;
    }
}

struct CauseCase {
    std::string name;
    std::function<void(Host&)> change;
    std::string text;
    std::string confidence;
    std::string fix;
};
class FlushTruthCause : public testing::TestWithParam<CauseCase> {};
TEST_P(FlushTruthCause, IsNamedWithItsConfidence) {
    Host host;
    Series series;
    host.feed(series, flushes(2), 100);
    for (int i = 0; i < 3; ++i) {
        host.feed(series, flushes(15), 5);
        host.feed(series, flushes(2), 35);
    }
    GetParam().change(host);
    const auto findings = host.judge();
    const Finding& f = only(findings, "flush.periodic-stall");
    EXPECT_THAT(f.summary, HasSubstr(GetParam().text));
    EXPECT_THAT(f.evidence, Contains(Field(&Evidence::says,
                                           HasSubstr("confidence: " + GetParam().confidence))));
    ASSERT_FALSE(f.fix.empty());
    EXPECT_THAT(f.fix.front(), HasSubstr(GetParam().fix));
}
INSTANTIATE_TEST_SUITE_P(
    Cases, FlushTruthCause,
    testing::Values(
        CauseCase{"nothing discarded in 40 days, nothing trims it", [](Host&) {},
                  "was not told so since boot", "likely", "nvmaintctl trim /var/lib/db"},
        CauseCase{"up for an hour, but nothing trims it",
                  [](Host& h) { h.snapshot.uptime = seconds{3600}; }, "was not told so since boot",
                  "likely", "nvmaintctl trim /var/lib/db"},
        CauseCase{"up for an hour, covered",
                  [](Host& h) {
                      h.snapshot.uptime = seconds{3600};
                      h.filesystems[0].trim = TrimState::Covered;
                  },
                  "was not told so since boot", "possible", "nvmaintctl trim /var/lib/db"},
        CauseCase{"blocked", [](Host& h) { h.filesystems[0].trim = TrimState::Blocked; },
                  "was not told so since boot", "likely", "first let discards through"},
        CauseCase{"some discarded", [](Host& h) { h.disk().counters->discards->sectors = 1 << 21; },
                  "1.0 GiB were discarded since boot", "possible", "nvmaintctl trim"},
        CauseCase{"no discard counters", [](Host& h) { h.disk().counters->discards.reset(); },
                  "cannot be read", "weak", "nvmaintctl trim"},
        CauseCase{"counters unreadable",
                  [](Host& h) { h.disk().counters = Error::make(ErrorKind::System, "x"); },
                  "cannot be read", "weak", "nvmaintctl trim"},
        CauseCase{"trimmed yesterday",
                  [](Host& h) { h.memory.trims = {trim_at(kWall - hours{24})}; },
                  "freed space was told to it on", "weak", "nvmaintctl drives"},
        CauseCase{"trimmed a month ago",
                  [](Host& h) { h.memory.trims = {trim_at(kWall - hours{24 * 30})}; },
                  "was not told so since boot", "likely", "nvmaintctl trim"},
        CauseCase{"a trim that was broken off",
                  [](Host& h) {
                      h.memory.trims = {trim_at(kWall - hours{24})};
                      h.memory.trims[0].complete = false;
                  },
                  "was not told so since boot", "likely", "nvmaintctl trim"},
        CauseCase{"no filesystem on it", [](Host& h) { h.filesystems.clear(); },
                  "was not told so since boot", "likely", "nvmaintctl drives"}));

// ---- against the baseline ----

FlushBaseline baseline(double median_ms) {
    FlushBaseline b;
    b.median_ms = median_ms;
    b.flushes = 24000;
    b.learned = kWall - hours{48};
    b.firmware = "AGFA4103";
    b.method = "diskstats";
    return b;
}
constexpr char kIdentity[] = "KXG60ZNV1T02 S1";

TEST(FlushTruth, SaysNothingOfSlownessWithoutABaseline) {
    Host host;
    Series series;
    host.feed(series, flushes(30), 600);
    EXPECT_THAT(host.judge(), IsEmpty());
}

struct Against {
    double baseline_ms;
    double now_ms;
    bool stood;
    bool degraded;
};
class FlushTruthBaseline : public testing::TestWithParam<Against> {};
TEST_P(FlushTruthBaseline, RisesAtOneAndAHalfAndClearsBelowOneAndAQuarter) {
    Host host;
    Series series;
    host.memory.baselines[kIdentity] = baseline(GetParam().baseline_ms);
    Second s = flushes(GetParam().now_ms, 100);
    s.noise = 0;
    host.feed(series, s, 200);
    if (GetParam().stood) {
        host.memory.since[{"flush.degraded", "", {SubjectKind::Namespace, kDisk}}] =
            kWall - hours{1};
    }
    const auto findings = host.judge();
    EXPECT_THAT(ids(findings),
                GetParam().degraded
                    ? testing::Matcher<std::vector<std::string>>(ElementsAre("flush.degraded"))
                    : testing::Matcher<std::vector<std::string>>(IsEmpty()));
    if (GetParam().degraded) {
        EXPECT_EQ(findings[0].severity, Severity::Warning);
        EXPECT_EQ(findings[0].since, GetParam().stood ? kWall - hours{1} : host.snapshot.now.wall);
    }
}
INSTANTIATE_TEST_SUITE_P(
    Limits, FlushTruthBaseline,
    testing::Values(Against{2, 2.9, false, false}, Against{2, 3.1, false, true},
                    Against{2, 2.6, true, true}, Against{2, 2.4, true, false},
                    Against{2, 2.6, false, false},
                    // half a millisecond at least
                    Against{0.05, 0.5, false, false}, Against{0.05, 0.6, false, true},
                    Against{0.5, 0.9, false, false}, Against{0.5, 1.1, false, true}));

TEST(FlushTruth, ComparesWithABaselineOfThisFirmwareAndMethodOnly) {
    for (const auto& change : std::vector<std::function<void(Host&)>>{
             [](Host& h) { h.memory.baselines[kIdentity].firmware = "OLD"; },
             [](Host& h) { h.memory.baselines[kIdentity].method = "module"; },
             [](Host& h) {
                 h.memory.baselines = {{"KXG60ZNV1T02 S2", baseline(2)}};
             },
             [](Host& h) { h.snapshot.controllers = Error::make(ErrorKind::System, "x"); }}) {
        Host host;
        Series series;
        host.memory.baselines[kIdentity] = baseline(2);
        host.feed(series, flushes(6), 200);
        EXPECT_THAT(ids(host.judge()), ElementsAre("flush.degraded"));
        change(host);
        EXPECT_THAT(host.judge(), IsEmpty());
    }
}

TEST(FlushTruth, WantsAMinuteOfFlushesForTheBaseline) {
    Host host;
    Series series;
    host.memory.baselines[kIdentity] = baseline(2);
    host.feed(series, flushes(6), 59);
    EXPECT_THAT(host.judge(), IsEmpty());
    host.feed(series, flushes(6), 1);
    EXPECT_THAT(ids(host.judge()), ElementsAre("flush.degraded"));
}

TEST(FlushTruth, DoesNotTakeABurstForLastingSlowness) {
    Host host;
    Series series;
    host.memory.baselines[kIdentity] = baseline(2);
    host.feed(series, flushes(2), 300);
    host.feed(series, flushes(15), 50);
    host.feed(series, flushes(2), 5);
    EXPECT_THAT(ids(host.judge()), ElementsAre("flush.device-stall"));
}

// ---- against policy's target ----

TEST(FlushTruth, HoveringAtTheTargetIsOneFindingNotOneAMinute) {
    // p99 of each minute against a target of 10 ms.
    const std::vector<double> minutes_ms{9.6, 10.4, 13, 15, 9.8, 13, 14, 15, 13, 9.9, 13, 12, 9.7,
                                         9.9, 9.8,  11, 9,  9,   9,  9,  9,  13, 12,  9,  9};
    Host host;
    host.policy.flush.target_p99 = milliseconds{10};
    Series series;
    unsigned raised = 0, cleared = 0;
    bool stands = false;
    for (const double ms : minutes_ms) {
        Second s = flushes(ms);
        s.noise = 0;
        for (int i = 0; i < 60; ++i) {
            host.feed(series, s, 1);
            const auto findings = host.tick();
            const bool now = !findings.empty();
            raised += now && !stands ? 1 : 0;
            cleared += !now && stands ? 1 : 0;
            stands = now;
            if (now) {
                EXPECT_EQ(findings[0].id, "flush.degraded");
                EXPECT_EQ(findings[0].severity, Severity::Critical);
            }
        }
    }
    EXPECT_EQ(raised, 1U);
    EXPECT_EQ(cleared, 0U);
    // Five minutes in a row below four fifths clear it.
    host.feed(series, flushes(7), 5 * 60 + 60);
    EXPECT_THAT(host.judge(), IsEmpty());
}

TEST(FlushTruth, TwoMinutesOverTheTargetAreNotYetMissedCommits) {
    Host host;
    host.policy.flush.target_p99 = milliseconds{10};
    Series series;
    Second s = flushes(12);
    s.noise = 0;
    host.feed(series, s, 120);
    EXPECT_THAT(host.judge(), IsEmpty());
    host.feed(series, s, 60);
    EXPECT_THAT(ids(host.judge()), ElementsAre("flush.degraded"));
}

TEST(FlushTruth, TargetOfTheDriveGoesBeforeTheGeneralOne) {
    Host host;
    host.policy.flush.target_p99 = milliseconds{50};
    Series series;
    host.feed(series, flushes(12), 300);
    EXPECT_THAT(host.judge(), IsEmpty());
    Override drive;
    drive.match_model = "KXG60*";
    drive.flush.target_p99 = milliseconds{10};
    host.policy.drives = {drive};
    EXPECT_THAT(ids(host.judge()), ElementsAre("flush.degraded"));
    host.policy.drives[0].match_serial = "S2";
    EXPECT_THAT(host.judge(), IsEmpty());
    host.policy.drives[0].match_serial = "S?";
    EXPECT_THAT(ids(host.judge()), ElementsAre("flush.degraded"));
    host.policy.drives[0].match_model = "SAMSUNG*";
    EXPECT_THAT(host.judge(), IsEmpty());
}

// ---- the host's own doing ----

DiskLatency latency_with(nanoseconds longest, nanoseconds oldest) {
    DiskLatency latency;
    LatencyHistogram flush;
    flush.count = 10;
    flush.max = longest;
    flush.oldest = oldest;
    flush.in_flight = oldest > nanoseconds::zero() ? 1 : 0;
    flush.buckets.resize(latency.shape.buckets());
    latency.classes[static_cast<std::size_t>(LatencyClass::Flush)] = flush;
    return latency;
}

struct Outstanding {
    milliseconds oldest;
    bool told;
};
class FlushTruthOutstanding : public testing::TestWithParam<Outstanding> {};
TEST_P(FlushTruthOutstanding, IsToldFromThreeSecondsOn) {
    Host host;
    host.snapshot.latency[kDisk] = latency_with(milliseconds{2}, GetParam().oldest);
    EXPECT_EQ(ids(host.judge()), GetParam().told ? std::vector<std::string>{"flush.device-stall"}
                                                 : std::vector<std::string>{});
}
INSTANTIATE_TEST_SUITE_P(Limits, FlushTruthOutstanding,
                         testing::Values(Outstanding{milliseconds{0}, false},
                                         Outstanding{milliseconds{2999}, false},
                                         Outstanding{milliseconds{3000}, true},
                                         Outstanding{milliseconds{29000}, true}));

TEST(FlushTruth, AnOutstandingFlushHasItsAgeAndBeginning) {
    Host host;
    host.snapshot.latency[kDisk] = latency_with(milliseconds{2}, seconds{20});
    const auto findings = host.judge();
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_THAT(findings[0].summary, HasSubstr("20.0 s"));
    EXPECT_EQ(findings[0].since, kWall - seconds{20});
    EXPECT_FALSE(findings[0].fix.empty());
}

struct Lasted {
    seconds longest;
    seconds oldest;
    std::optional<std::uint64_t> timeout_ms;
    bool told;
};
class FlushTruthDurability : public testing::TestWithParam<Lasted> {};
TEST_P(FlushTruthDurability, IsUnknownFromTheDriversTimeoutOn) {
    Host host;
    if (GetParam().timeout_ms) {
        host.disk().queue.io_timeout = *GetParam().timeout_ms;
    }
    host.snapshot.latency[kDisk] = latency_with(GetParam().longest, GetParam().oldest);
    const auto told = ids(host.judge());
    EXPECT_EQ(std::count(told.begin(), told.end(), "flush.durability-unknown"),
              GetParam().told ? 1 : 0);
}
INSTANTIATE_TEST_SUITE_P(Limits, FlushTruthDurability,
                         testing::Values(Lasted{seconds{29}, seconds{0}, 30000, false},
                                         Lasted{seconds{30}, seconds{0}, 30000, true},
                                         Lasted{seconds{31}, seconds{0}, 30000, true},
                                         Lasted{seconds{1}, seconds{30}, 30000, true},
                                         // As long as a cloud's guide to its volumes says.
                                         Lasted{seconds{31}, seconds{0}, 4294967295, false},
                                         Lasted{seconds{31}, seconds{0}, std::nullopt, false},
                                         Lasted{seconds{31}, seconds{0}, 0, false}));

TEST(FlushTruth, SaysThatTheKernelDoesNotCountFlushes) {
    Host host;
    host.disk().counters->flushes.reset();
    const auto findings = host.judge();
    ASSERT_THAT(ids(findings), ElementsAre("flush.telemetry-unavailable"));
    EXPECT_EQ(findings[0].severity, Severity::Info);
    EXPECT_THAT(findings[0].evidence.front().says, HasSubstr("6.1.0-57-amd64"));
}

TEST(FlushTruth, UnreadableCountersAreNotMissingOnes) {
    Host host;
    host.disk().counters = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_THAT(host.judge(), IsEmpty());
}

TEST(FlushTruth, AsksWholeDisksForCountersNotPartitions) {
    Host host;
    BlockDevice part = host.disk();
    part.name = "nvme0n1p1";
    part.partition_of = kDisk;
    part.counters->flushes.reset();
    part.queue.write_cache = std::string("write through");
    host.snapshot.block_devices->emplace("nvme0n1p1", part);
    EXPECT_THAT(host.judge(), IsEmpty());
}

struct Cache {
    std::string name;
    std::function<void(Host&)> change;
    bool suppressed;
};
class FlushTruthCache : public testing::TestWithParam<Cache> {};
TEST_P(FlushTruthCache, IsSuppressedOnlyWithBothPiecesOfEvidence) {
    Host host;
    host.disk().queue.write_cache = std::string("write through");
    GetParam().change(host);
    const auto findings = host.judge();
    ASSERT_EQ(!findings.empty(), GetParam().suppressed) << GetParam().name;
    if (GetParam().suppressed) {
        EXPECT_EQ(findings[0].id, "flush.suppressed");
        EXPECT_EQ(findings[0].severity, Severity::Critical);
        EXPECT_EQ(findings[0].evidence.size(), 2U);
        EXPECT_THAT(findings[0].fix,
                    Contains("echo 'write back' > /sys/block/nvme0n1/queue/write_cache"));
    }
}
INSTANTIATE_TEST_SUITE_P(
    Cases, FlushTruthCache,
    testing::Values(
        Cache{"write through over a volatile cache", [](Host&) {}, true},
        Cache{"no volatile cache",
              [](Host& h) { h.controller().identify->volatile_write_cache = 6; }, false},
        Cache{"write back", [](Host& h) { h.disk().queue.write_cache = std::string("write back"); },
              false},
        Cache{"mode unknown",
              [](Host& h) { h.disk().queue.write_cache = Error::make(ErrorKind::System, "x"); },
              false},
        Cache{"no Identify",
              [](Host& h) { h.controller().identify = Error::make(ErrorKind::Timeout, "x"); },
              false},
        Cache{"no controllers",
              [](Host& h) { h.snapshot.controllers = Error::make(ErrorKind::System, "x"); }, false},
        Cache{"controller found by its namespace",
              [](Host& h) { h.disk().nvme_controller.clear(); }, true}));

// ---- learning a baseline ----

TEST(FlushTruth, LearnsABaselineFromTenFineMinutes) {
    Series series;
    FlushWatch watch;
    series.feed(watch, flushes(2), 599);
    EXPECT_FALSE(baseline_candidate(watch, kWall, "F"));
    series.feed(watch, flushes(2), 1);
    const auto b = baseline_candidate(watch, kWall, "F");
    ASSERT_TRUE(b);
    EXPECT_NEAR(b->median_ms, 2, 0.1);
    EXPECT_NEAR(static_cast<double>(b->flushes), 24000, 600);
    EXPECT_EQ(b->learned, kWall);
    EXPECT_EQ(b->firmware, "F");
    EXPECT_EQ(b->method, "diskstats");
}

TEST(FlushTruth, LearnsNoBaselineWithinTenMinutesOfAStall) {
    Series series;
    FlushWatch watch;
    series.feed(watch, flushes(2), 600);
    series.feed(watch, flushes(15), 4);
    EXPECT_FALSE(baseline_candidate(watch, kWall, "F")) << "ongoing";
    series.feed(watch, flushes(2), 599);
    EXPECT_FALSE(baseline_candidate(watch, kWall, "F"));
    series.feed(watch, flushes(2), 2);
    EXPECT_TRUE(baseline_candidate(watch, kWall, "F"));
}

TEST(FlushTruth, LearnsNoBaselineFromFewFlushesOrADrift) {
    Series series;
    FlushWatch idle;
    series.feed(idle, flushes(2, 0), 500);
    series.feed(idle, flushes(2), 150);
    EXPECT_FALSE(baseline_candidate(idle, kWall, "F"));
    FlushWatch drift;
    series.feed(drift, flushes(2), 350);
    series.feed(drift, flushes(3), 300);
    EXPECT_FALSE(baseline_candidate(drift, kWall, "F"));
    EXPECT_FALSE(baseline_candidate(FlushWatch{}, kWall, "F"));
}

} // namespace
} // namespace nvmaint::core
