// What is said of the flushes, and when it stops being said.
//
// Everything here clears by measurement. A stall is over when the flushes were watched for long
// enough without another: ten minutes, or two periods of a disk whose stalls come back. After a
// trim that followed the last stall three periods are proof enough, so that a drive that stalled
// every 40 s is said to be well after two minutes. Time in which nothing was flushed proves
// nothing.
//
// The cause is an inference, and is called so. From outside a drive one sees that flushes alone
// became slow (not the data writes, not for lack of room in the queue), which is what collecting
// free space within the drive looks like, and whether the host ever told it what is free.
#include "core/flush_truth.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace nvmaint::core {

namespace {

using std::chrono::minutes;

constexpr nanoseconds kQuiet = minutes{10};
constexpr int kQuietPeriods = 2;
constexpr int kQuietPeriodsAfterTrim = 3;
constexpr nanoseconds kQuietAfterTrim = minutes{1};
// Of the quiet time so many seconds must have had flushes (judgement: as many as an effect is
// measured on). A disk that flushes no more is let go after some hours: what stood there is
// history.
constexpr unsigned kQuietJudged = 60;
constexpr nanoseconds kForget = std::chrono::hours{6};
constexpr seconds kTrimRhythm = std::chrono::hours{7 * 24};

// Against the baseline. Judgement: the simulated and the published client drives keep their median
// within 20 % when nothing changes, thermal throttling doubles it; half a millisecond keeps drives
// with protected caches (flushes of tens of microseconds) from raising it by rounding.
constexpr double kDegraded = 1.5;
constexpr double kDegradedMs = 0.5;
constexpr double kRecovered = 1.25;
constexpr std::size_t kDegradedSeconds = 120;
constexpr std::size_t kDegradedFewest = 60;

// Against policy's target: in three of five minutes over it, until five minutes in a row are below
// four fifths of it. A figure that hovers round the target gives one finding, not one a minute.
constexpr std::size_t kTargetOf = 5;
constexpr std::size_t kTargetOver = 3;
constexpr double kTargetClear = 0.8;
constexpr std::uint64_t kTargetFewest = 10; // flushes in a minute, to count

// A baseline wants ten minutes with flushes in at least half of the seconds, without a stall.
constexpr nanoseconds kBaselineSpan = minutes{10};
constexpr std::size_t kBaselineSeconds = 300;
constexpr std::uint64_t kBaselineFlushes = 600;
// The two halves of it must agree: a drive that is just slowing down has no usual.
constexpr double kBaselineSteady = 1.25;

constexpr char kDiskstats[] = "proc/diskstats";
constexpr char kModule[] = "dev/nvmaint";

// A single flush that is out for so long is worth a word. Judgement: the longest that a client
// drive was seen to take for one while it collected is a third of a second.
constexpr nanoseconds kOutstanding = std::chrono::seconds{3};

bool contains(const std::vector<std::string>& list, const std::string& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
}

struct Disk {
    const std::string& name;
    const HostSnapshot& snapshot;
    const Memory& memory;
    const Policy& policy;
    const std::vector<FilesystemView>& filesystems;
    const BlockDevice* device = nullptr;        // null = not in the snapshot
    const NvmeController* controller = nullptr; // null = not known
};

WallTime wall_of(const Disk& disk, BootTime boot) {
    return disk.snapshot.now.wall -
           std::chrono::duration_cast<microseconds>(disk.snapshot.now.boot - boot);
}

std::string ms(double value) {
    return value < 10 ? fmt::format("{:.2f} ms", value) : fmt::format("{:.1f} ms", value);
}

Finding finding_on(const Disk& disk, const char* id, Severity severity) {
    Finding f;
    f.id = id;
    f.severity = severity;
    f.subject = {SubjectKind::Namespace, disk.name};
    return f;
}

// Since when: as remembered, or from `start`.
void set_since(Finding& finding, const Disk& disk, std::optional<WallTime> start) {
    const auto known = disk.memory.since.find(key_of(finding));
    finding.since =
        known != disk.memory.since.end() ? std::optional<WallTime>(known->second) : start;
}

bool stood(const Disk& disk, const char* id) {
    return disk.memory.since.contains({id, "", {SubjectKind::Namespace, disk.name}});
}

// ---- the stalls ----

// The last trim of something on this disk that ran to its end; null if there is none on record.
const TrimRecord* last_trim(const Disk& disk) {
    const TrimRecord* last = nullptr;
    for (const TrimRecord& trim : disk.memory.trims) {
        if (trim.complete && trim.ended && contains(trim.disks, disk.name) &&
            (last == nullptr || *trim.ended >= *last->ended)) {
            last = &trim;
        }
    }
    return last;
}

bool still_stands(const Disk& disk, const FlushWatch& watch, const Stall& last,
                  const std::optional<Periodicity>& period) {
    if (watch.ongoing) {
        return true;
    }
    const nanoseconds quiet = disk.snapshot.now.boot - last.end;
    const TrimRecord* trim = last_trim(disk);
    const bool trimmed_since = trim != nullptr && *trim->ended > wall_of(disk, last.end) &&
                               trim->discarded_bytes.value_or(0) > 0;
    nanoseconds wanted = kQuiet;
    if (period) {
        wanted = trimmed_since ? std::max(kQuietAfterTrim, kQuietPeriodsAfterTrim * period->period)
                               : std::max(kQuiet, kQuietPeriods * period->period);
    }
    if (quiet >= kForget && quiet >= wanted) {
        return false;
    }
    return quiet < wanted || watch.judged_since(last.end) < kQuietJudged;
}

std::optional<std::uint64_t> discarded_since_boot(const Disk& disk) {
    if (disk.device == nullptr || !disk.device->counters.has_value() ||
        !disk.device->counters->discards) {
        return std::nullopt;
    }
    return disk.device->counters->discards->sectors * 512;
}

std::vector<const FilesystemView*> filesystems_on(const Disk& disk) {
    std::vector<const FilesystemView*> out;
    for (const FilesystemView& fs : disk.filesystems) {
        if (contains(fs.disks, disk.name)) {
            out.push_back(&fs);
        }
    }
    return out;
}

// Whether a trim of ours reached this disk lately: within a week, the rhythm in which distributions
// trim (fstrim.timer, OnCalendar=weekly).
bool told_lately(const Disk& disk) {
    const TrimRecord* trim = last_trim(disk);
    return trim != nullptr && trim->discarded_bytes.value_or(0) > 0 &&
           disk.snapshot.now.wall - *trim->ended < kTrimRhythm;
}

struct Cause {
    std::string text;
    std::string confidence; // "likely", "possible", "weak"
};

// `rhythm`: the stalls keep coming back.
Cause likeliest_cause(const Disk& disk, bool rhythm) {
    const auto discarded = discarded_since_boot(disk);
    if (told_lately(disk)) {
        return {fmt::format("the drive's own housekeeping; freed space was told to it on {}, so "
                            "that is hardly the reason",
                            to_rfc3339(*last_trim(disk)->ended)),
                "weak"};
    }
    if (!discarded) {
        return {"the drive's own housekeeping; whether it was told what is free cannot be read "
                "here",
                "weak"};
    }
    if (*discarded > 0) {
        return {fmt::format("the drive's own housekeeping; {} were discarded since boot, which may "
                            "not be all that is free",
                            humane_bytes(*discarded)),
                "possible"};
    }
    // No discard since boot: as good as never where nothing would trim, or where a week has passed.
    const auto on_disk = filesystems_on(disk);
    const bool nothing_trims =
        std::any_of(on_disk.begin(), on_disk.end(), [](const FilesystemView* fs) {
            return fs->trim == TrimState::NotCovered || fs->trim == TrimState::Blocked;
        });
    const bool long_up = disk.snapshot.uptime.has_value() && *disk.snapshot.uptime >= kTrimRhythm;
    return {"the drive keeps moving data that was freed long ago, because it was not told so since "
            "boot",
            rhythm && (nothing_trims || long_up) ? "likely" : "possible"};
}

void add_stall_evidence(Finding& f, const Disk& disk, const FlushWatch& watch, const Stall& stall) {
    // What the counters show of the writes is what exceeds the waiting for flushes.
    const std::string writes =
        stall.write_ms <= stall.usual_write_ms + 0.1
            ? fmt::format("no slower than usual ({})", ms(stall.usual_write_ms))
            : fmt::format("{} (usually {})", ms(stall.write_ms), ms(stall.usual_write_ms));
    f.evidence.push_back(
        {kDiskstats,
         fmt::format("data writes of {} meanwhile {}, {:.1f} other requests under way in "
                     "the mean: they do not explain it",
                     disk.name, writes, stall.depth)});
    if (const auto slowest = watch.slowest_between(stall.start, stall.end)) {
        const double longest = static_cast<double>(slowest->duration.count()) / 1e6;
        f.evidence.push_back(
            {kModule, fmt::format("the slowest single flush took {}{}", ms(longest),
                                  slowest->pending ? " and is not back yet" : "")});
    }
    if (const auto discarded = discarded_since_boot(disk)) {
        const std::string up =
            disk.snapshot.uptime ? fmt::format(" {} ago", humane(*disk.snapshot.uptime)) : "";
        f.evidence.push_back(
            {kDiskstats, fmt::format("{} discarded on {} since boot{}",
                                     *discarded == 0 ? "nothing was" : humane_bytes(*discarded),
                                     disk.name, up)});
    }
    for (const FilesystemView* fs : filesystems_on(disk)) {
        f.evidence.push_back(
            {"filesystem " + fs->mount, fmt::format("trim: {}{}", to_string(fs->trim),
                                                    fs->why.empty() ? "" : " (" + fs->why + ")")});
    }
    if (const TrimRecord* trim = last_trim(disk)) {
        std::string says =
            fmt::format("{} trimmed to its end on {}", trim->mount, to_rfc3339(*trim->ended));
        if (trim->effect) {
            says += fmt::format(", effect: {}", to_string(trim->effect->verdict));
        }
        f.evidence.push_back({"trim history", std::move(says)});
    }
}

void add_cause_and_fix(Finding& f, const Disk& disk, bool rhythm) {
    const Cause cause = likeliest_cause(disk, rhythm);
    f.evidence.push_back({"judgement", fmt::format("likeliest cause: {}; confidence: {}",
                                                   cause.text, cause.confidence)});
    f.summary += fmt::format("; likeliest cause ({}): {}", cause.confidence, cause.text);
    const bool told = told_lately(disk);
    for (const FilesystemView* fs : filesystems_on(disk)) {
        switch (fs->trim) {
        case TrimState::NotCovered:
        case TrimState::Unknown:
        case TrimState::Covered:
        case TrimState::OtherAgent:
            if (!told) {
                f.fix.push_back("nvmaintctl trim " + fs->mount);
            }
            break;
        case TrimState::Blocked:
            f.fix.push_back(fmt::format("first let discards through below {}: see trim.blocked in "
                                        "nvmaintctl doctor",
                                        fs->mount));
            break;
        case TrimState::NotApplicable:
            break;
        }
    }
    if (f.fix.empty()) {
        f.fix.push_back(
            fmt::format("look at temperature, spare and firmware of the drive below {}: "
                        "nvmaintctl drives",
                        disk.name));
    }
}

void judge_stalls(const Disk& disk, const FlushWatch& watch, std::vector<Finding>& findings) {
    const auto last = watch.last_stall();
    if (!last) {
        return;
    }
    const auto period = watch.periodicity();
    if (!still_stands(disk, watch, *last, period)) {
        return;
    }
    const nanoseconds length = last->end - last->start;
    Finding stall = finding_on(disk, "flush.device-stall", Severity::Warning);
    stall.summary = fmt::format("flushes of {} {} {} instead of {} for {}", disk.name,
                                watch.ongoing ? "take" : "took", ms(last->peak_ms),
                                ms(last->median_ms), humane(length));
    stall.evidence.push_back(
        {kDiskstats,
         fmt::format("flush of {}: up to {} in the mean of a second, running median {}, for {} "
                     "from {}{}; {} flushes",
                     disk.name, ms(last->peak_ms), ms(last->median_ms), humane(length),
                     to_rfc3339(wall_of(disk, last->start)), watch.ongoing ? " (ongoing)" : "",
                     last->flushes)});
    add_stall_evidence(stall, disk, watch, *last);
    add_cause_and_fix(stall, disk, period.has_value());
    set_since(stall, disk, wall_of(disk, last->start));
    findings.push_back(std::move(stall));
    if (!period) {
        return;
    }
    Finding periodic = finding_on(disk, "flush.periodic-stall", Severity::Warning);
    periodic.summary = fmt::format(
        "flushes of {} stall every {} for {}, {:.1f} times their usual {}", disk.name,
        humane(period->period), humane(period->duration), period->depth, ms(last->median_ms));
    periodic.evidence.push_back(
        {kDiskstats,
         fmt::format("{} stalls of {}: period {} (median), spread {:.0f} %, duration {} (median), "
                     "depth {:.1f} (worst second over running median)",
                     period->stalls, disk.name, humane(period->period), 100 * period->spread,
                     humane(period->duration), period->depth)});
    add_stall_evidence(periodic, disk, watch, *last);
    add_cause_and_fix(periodic, disk, true);
    set_since(periodic, disk, wall_of(disk, last->start));
    findings.push_back(std::move(periodic));
}

// ---- slower than it was, or than it should be ----

// The baseline of the disk's drive, if it was learned on this firmware and by the same means.
const FlushBaseline* baseline_of(const Disk& disk) {
    if (disk.controller == nullptr) {
        return nullptr;
    }
    const NvmeController& c = *disk.controller;
    std::vector<std::pair<DriveView, std::string>> names; // identity, firmware
    const auto add = [&](const std::string& model, const std::string& serial,
                         const std::string& firmware) {
        DriveView view;
        view.model = model;
        view.serial = serial;
        names.emplace_back(view, firmware);
    };
    if (c.model && c.serial) {
        add(*c.model, *c.serial, c.firmware.value_or(""));
    }
    if (c.identify) {
        add(c.identify->model, c.identify->serial, c.identify->firmware);
    }
    for (const auto& [view, firmware] : names) {
        const std::string identity = drive_identity(view);
        const auto found = disk.memory.baselines.find(identity);
        if (!identity.empty() && found != disk.memory.baselines.end() &&
            found->second.firmware == firmware && found->second.method == "diskstats") {
            return &found->second;
        }
    }
    return nullptr;
}

// Median of the per-second means of the newest seconds with flushes.
std::optional<double> recent_median(const FlushWatch& watch) {
    std::vector<double> means;
    for (std::size_t i = watch.recent.size(); i > 0 && means.size() < kDegradedSeconds; --i) {
        if (const auto mean = flush_mean_ms(watch.recent[i - 1])) {
            means.push_back(*mean);
        }
    }
    if (means.size() < kDegradedFewest) {
        return std::nullopt;
    }
    const auto middle = means.begin() + static_cast<std::ptrdiff_t>(means.size() / 2);
    std::nth_element(means.begin(), middle, means.end());
    return *middle;
}

bool matches(const std::string& glob, const Reading<std::string>& text) {
    return glob.empty() || (text.has_value() && fnmatch(glob.c_str(), text->c_str(), 0) == 0);
}

std::optional<double> target_ms(const Disk& disk) {
    auto target = disk.policy.flush.target_p99;
    for (const Override& o : disk.policy.drives) {
        if (disk.controller != nullptr && o.flush.target_p99 &&
            matches(o.match_model, disk.controller->model) &&
            matches(o.match_serial, disk.controller->serial)) {
            target = o.flush.target_p99;
        }
    }
    return target ? std::optional<double>(static_cast<double>(target->count()) / 1e6)
                  : std::nullopt;
}

// Whether the target is missed now, told from all minutes kept so that the answer does not depend
// on when it is asked. Nothing = it is not.
std::optional<FlushMinute> over_target(const FlushWatch& watch, double target) {
    std::deque<bool> over; // of the last minutes that count
    std::size_t below = 0; // minutes in a row below the lower mark
    std::optional<FlushMinute> worst;
    bool missed = false;
    for (const FlushMinute& minute : watch.minutes) {
        if (minute.flushes < kTargetFewest) {
            continue;
        }
        over.push_back(minute.p99_ms > target);
        if (over.size() > kTargetOf) {
            over.pop_front();
        }
        below = minute.p99_ms < kTargetClear * target ? below + 1 : 0;
        const auto count = static_cast<std::size_t>(std::count(over.begin(), over.end(), true));
        if (!missed && count >= kTargetOver) {
            missed = true;
            worst = minute;
        } else if (missed && below >= kTargetOf) {
            missed = false;
            over.clear();
            worst.reset();
        }
        if (missed && minute.p99_ms > worst->p99_ms) {
            worst = minute;
        }
    }
    return worst;
}

void judge_degraded(const Disk& disk, const FlushWatch& watch, std::vector<Finding>& findings) {
    const FlushBaseline* baseline = baseline_of(disk);
    const auto median = recent_median(watch);
    const bool standing = stood(disk, "flush.degraded");
    const bool slower = baseline != nullptr && median &&
                        (standing ? *median >= kRecovered * baseline->median_ms
                                  : *median >= kDegraded * baseline->median_ms &&
                                        *median >= baseline->median_ms + kDegradedMs);
    const auto target = target_ms(disk);
    const auto missed = target ? over_target(watch, *target) : std::nullopt;
    if (!slower && !missed) {
        return;
    }
    Finding f = finding_on(disk, "flush.degraded", missed ? Severity::Critical : Severity::Warning);
    if (missed) {
        f.summary =
            fmt::format("flushes of {} miss policy's target: p99 of a minute's {} up to {}, target "
                        "{}",
                        disk.name, missed->of_flushes ? "flushes" : "per-second means",
                        ms(missed->p99_ms), ms(*target));
        f.evidence.push_back(
            {missed->of_flushes ? kModule : kDiskstats,
             fmt::format("p99 over {} in 3 of 5 minutes, not yet 5 in a row below {}; worst {} in "
                         "the minute to {} ({} flushes{})",
                         ms(*target), ms(kTargetClear * *target), ms(missed->p99_ms),
                         to_rfc3339(wall_of(disk, missed->end)), missed->flushes,
                         missed->of_flushes ? ", each counted"
                                            : "; means of a second hide the single flush, which "
                                              "may be worse")});
    } else {
        f.summary =
            fmt::format("flushes of {} take {}, {:.1f} times their baseline of {}", disk.name,
                        ms(*median), *median / baseline->median_ms, ms(baseline->median_ms));
    }
    if (slower) {
        f.evidence.push_back(
            {kDiskstats, fmt::format("median of the last two minutes with flushes {}, baseline {} "
                                     "(learned {} over {} flushes)",
                                     ms(*median), ms(baseline->median_ms),
                                     to_rfc3339(baseline->learned), baseline->flushes)});
    }
    if (const auto discarded = discarded_since_boot(disk)) {
        f.evidence.push_back(
            {kDiskstats,
             fmt::format("{} discarded on {} since boot",
                         *discarded == 0 ? "nothing was" : humane_bytes(*discarded), disk.name)});
    }
    add_cause_and_fix(f, disk, false);
    set_since(f, disk, disk.snapshot.now.wall);
    findings.push_back(std::move(f));
}

// ---- flushes that do not return, where the module sees them one by one ----

std::string seconds_text(nanoseconds time) {
    return fmt::format("{:.1f} s", std::chrono::duration<double>(time).count());
}

const DiskLatency* latency_of(const Disk& disk) {
    const auto found = disk.snapshot.latency.find(disk.name);
    return found == disk.snapshot.latency.end() || !found->second ? nullptr : &*found->second;
}

// Counters of completed flushes know nothing of one that is out. An ordinary stall is told by
// judge_stalls(), and once is enough.
void judge_outstanding(const Disk& disk, std::vector<Finding>& findings) {
    const DiskLatency* latency = latency_of(disk);
    if (latency == nullptr || !latency->of(LatencyClass::Flush) ||
        latency->of(LatencyClass::Flush)->oldest < kOutstanding) {
        return;
    }
    const nanoseconds age = latency->of(LatencyClass::Flush)->oldest;
    const std::string seen = fmt::format("a flush of {} was issued {} ago and has not completed",
                                         disk.name, seconds_text(age));
    for (Finding& told : findings) {
        if (told.id == "flush.device-stall" && told.subject.name == disk.name) {
            told.evidence.push_back({kModule, seen});
            return;
        }
    }
    Finding f = finding_on(disk, "flush.device-stall", Severity::Warning);
    f.summary = fmt::format("a flush of {} has been out for {}: every commit waits for it",
                            disk.name, seconds_text(age));
    f.evidence.push_back({kModule, seen});
    f.fix.push_back(fmt::format("look at the drive: journalctl -k -g nvme; nvme smart-log /dev/{}",
                                disk.controller == nullptr ? disk.name : disk.controller->name));
    set_since(f, disk, disk.snapshot.now.wall - std::chrono::duration_cast<microseconds>(age));
    findings.push_back(std::move(f));
}

// A flush that ran into the timeout of the NVMe driver was aborted by a reset. On a path of a
// multipath head it is then completed as if it had succeeded and never sent again: the flush has no
// bio to be failed over (drivers/nvme/host/multipath.c, nvme_failover_req(); seen on Linux 6.1 and
// 7.3). Elsewhere it is sent again; from here the two cannot be told apart.
void judge_durability(const Disk& disk, std::vector<Finding>& findings) {
    const DiskLatency* latency = latency_of(disk);
    const auto& timeout = disk.device->queue.io_timeout;
    if (latency == nullptr || !latency->of(LatencyClass::Flush) || !timeout || *timeout == 0) {
        return;
    }
    const LatencyHistogram& flushes = *latency->of(LatencyClass::Flush);
    const nanoseconds limit = milliseconds{static_cast<std::int64_t>(*timeout)};
    const nanoseconds longest = std::max(flushes.max, flushes.oldest);
    if (longest < limit) {
        return;
    }
    Finding f = finding_on(disk, "flush.durability-unknown", Severity::Critical);
    f.summary = fmt::format("a flush of {} took {}, as long as the driver waits before it resets "
                            "the drive: what was committed then may not be on it",
                            disk.name, seconds_text(longest));
    f.evidence.push_back({kModule, fmt::format("longest flush {}, {} requeues",
                                               seconds_text(longest), flushes.requeues)});
    f.evidence.push_back(
        {fmt::format("sys/block/{}/queue/io_timeout", disk.name), fmt::format("{} ms", *timeout)});
    f.fix.push_back("check the database against a replica or its own checksums; the kernel's log "
                    "has the reset: journalctl -k -g 'nvme.*timeout'");
    set_since(f, disk, disk.snapshot.now.wall);
    findings.push_back(std::move(f));
}

// ---- what the host itself gets wrong ----

void judge_telemetry(const Disk& disk, std::vector<Finding>& findings) {
    if (!disk.device->counters.has_value() || disk.device->counters->flushes) {
        return;
    }
    Finding f = finding_on(disk, "flush.telemetry-unavailable", Severity::Info);
    f.summary = fmt::format("this kernel does not count the flushes of {}", disk.name);
    f.evidence.push_back({kDiskstats, fmt::format("no flush fields on the line of {}{}", disk.name,
                                                  disk.snapshot.kernel.has_value()
                                                      ? "; kernel " + *disk.snapshot.kernel
                                                      : std::string())});
    f.fix.push_back("use Linux 5.5 or later, which counts flushes and their time per disk");
    findings.push_back(std::move(f));
}

void judge_suppressed(const Disk& disk, std::vector<Finding>& findings) {
    const auto& mode = disk.device->queue.write_cache;
    if (!mode.has_value() || *mode != "write through" || disk.controller == nullptr ||
        !disk.controller->identify.has_value() ||
        !disk.controller->identify->has_volatile_write_cache()) {
        return;
    }
    const std::string file = fmt::format("sys/block/{}/queue/write_cache", disk.name);
    Finding f = finding_on(disk, "flush.suppressed", Severity::Critical);
    f.summary = fmt::format("{} has a volatile write cache and the kernel was told to send it no "
                            "flushes: commits are lost with the power",
                            disk.name);
    f.evidence.push_back({file, "write through: flushes end in the block layer"});
    f.evidence.push_back({fmt::format("nvme/{}/id-ctrl", disk.controller->name),
                          fmt::format("VWC {:#04x}: a volatile write cache is present",
                                      disk.controller->identify->volatile_write_cache)});
    f.fix.push_back(fmt::format("echo 'write back' > /{}", file));
    f.fix.push_back("find the udev rule or script that wrote it; only a drive whose cache is "
                    "switched off (nvme get-feature -f 6) is safe without flushes");
    findings.push_back(std::move(f));
}

const NvmeController* controller_of(const HostSnapshot& snapshot, const BlockDevice* device,
                                    const std::string& disk) {
    if (!snapshot.controllers.has_value()) {
        return nullptr;
    }
    if (device != nullptr && !device->nvme_controller.empty()) {
        const auto found = snapshot.controllers->find(device->nvme_controller);
        return found == snapshot.controllers->end() ? nullptr : &found->second;
    }
    for (const auto& [name, controller] : *snapshot.controllers) {
        if (contains(controller.namespaces, disk)) {
            return &controller;
        }
    }
    return nullptr;
}

bool is_nvme_disk(const BlockDevice& device) {
    return device.partition_of.empty() &&
           (!device.nvme_controller.empty() || device.name.starts_with("nvme"));
}

} // namespace

std::vector<Finding> judge_flush(const HostSnapshot& snapshot, const Memory& memory,
                                 const Policy& policy,
                                 const std::vector<FilesystemView>& filesystems) {
    std::vector<Finding> findings;
    if (!snapshot.block_devices.has_value()) {
        return findings;
    }
    for (const auto& [name, device] : *snapshot.block_devices) {
        if (!is_nvme_disk(device)) {
            continue;
        }
        const Disk disk{name,
                        snapshot,
                        memory,
                        policy,
                        filesystems,
                        &device,
                        controller_of(snapshot, &device, name)};
        judge_telemetry(disk, findings);
        judge_suppressed(disk, findings);
        const auto watch = memory.flush.find(name);
        if (watch != memory.flush.end()) {
            judge_stalls(disk, watch->second, findings);
            judge_degraded(disk, watch->second, findings);
        }
        judge_outstanding(disk, findings);
        judge_durability(disk, findings);
    }
    return findings;
}

std::optional<FlushBaseline> baseline_candidate(const FlushWatch& watch, WallTime now,
                                                const std::string& firmware) {
    const auto usual = watch.usual_ms();
    if (!usual || watch.ongoing || watch.recent.empty()) {
        return std::nullopt;
    }
    const BootTime end = watch.recent.back().end;
    const BootTime from = end - kBaselineSpan;
    if (watch.recent.front().end - watch.recent.front().length > from ||
        (!watch.stalls.empty() && watch.stalls.back().end > from)) {
        return std::nullopt;
    }
    std::vector<double> early, late;
    std::uint64_t flushes = 0;
    for (const FlushSample& s : watch.recent) {
        const auto mean = flush_mean_ms(s);
        if (mean && s.end > from) {
            (s.end <= from + kBaselineSpan / 2 ? early : late).push_back(*mean);
            flushes += s.flushes;
        }
    }
    if (early.size() + late.size() < kBaselineSeconds || early.size() < kBaselineSeconds / 4 ||
        late.size() < kBaselineSeconds / 4 || flushes < kBaselineFlushes) {
        return std::nullopt;
    }
    const auto median = [](std::vector<double>& values) {
        const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
        std::nth_element(values.begin(), middle, values.end());
        return *middle;
    };
    const double first = median(early);
    const double second = median(late);
    if (std::max(first, second) > kBaselineSteady * std::min(first, second) + 0.1) {
        return std::nullopt;
    }
    FlushBaseline baseline;
    early.insert(early.end(), late.begin(), late.end());
    baseline.median_ms = median(early);
    baseline.flushes = flushes;
    baseline.learned = now;
    baseline.firmware = firmware;
    const auto& newest = watch.recent.back().distribution;
    baseline.method = newest ? std::string(to_string(newest->source)) : "diskstats";
    return baseline;
}

} // namespace nvmaint::core
