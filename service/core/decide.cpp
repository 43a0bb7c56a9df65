// Wishes come from findings, permission from evidence. A wish that lacks one permission becomes a
// refusal with the first reason that stands in its way; nothing that is merely not known lets a
// trim start by itself.
#include "core/decide.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>
#include <string_view>

namespace nvmaint::core {

namespace {

using std::chrono::minutes;
using Why = std::optional<std::string>; // why not; nothing = permitted

// After a boot, databases warm their caches and arrays assemble: judgement.
constexpr seconds kSettledUptime{600};
// After a run that the service's own end cut off; anything that failed or was cancelled waits for
// the usual spacing.
constexpr seconds kAfterInterruption{600};

bool contains(const std::vector<std::string>& list, const std::string& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
}

bool any_of(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    return std::any_of(a.begin(), a.end(), [&](const std::string& x) { return contains(b, x); });
}

struct Question {
    const HostSnapshot& snapshot;
    const Diagnosis& diagnosis;
    const Memory& memory;
    const FilesystemView& fs;
};

const BlockDevice* device_of(const Question& q, const std::string& name) {
    if (!q.snapshot.block_devices.has_value()) {
        return nullptr;
    }
    const auto found = q.snapshot.block_devices->find(name);
    return found == q.snapshot.block_devices->end() ? nullptr : &found->second;
}

// ---- what must hold for any trim, by hand or not ----

Why not_applicable(const Question& q) {
    switch (q.fs.trim) {
    case TrimState::NotApplicable:
        return fmt::format("trim does not apply to {}: {}", q.fs.mount,
                           q.fs.why.empty() ? q.fs.type : q.fs.why);
    case TrimState::Blocked:
        return fmt::format("the stack does not pass discards: {}",
                           q.fs.why.empty() ? "see trim.blocked" : q.fs.why);
    case TrimState::Covered:
    case TrimState::NotCovered:
    case TrimState::OtherAgent:
    case TrimState::Unknown:
        break;
    }
    return std::nullopt;
}

Why stack_unknown(const Question& q) {
    if (q.fs.stack.empty() || q.fs.disks.empty()) {
        return "the devices below it are not known";
    }
    for (const std::vector<std::string>* names : {&q.fs.stack, &q.fs.disks}) {
        for (const std::string& name : *names) {
            if (device_of(q, name) == nullptr) {
                return fmt::format("nothing is known of {} below it", name);
            }
        }
    }
    return std::nullopt;
}

Why read_only(const Question& q) {
    if (!q.snapshot.mounts.has_value()) {
        return "the mount table is not known";
    }
    bool writable = false;
    for (const Mount& mount : *q.snapshot.mounts) {
        writable =
            writable || (contains(q.fs.mounts, mount.mount_point) &&
                         !contains(mount.options, "ro") && !contains(mount.super_options, "ro"));
    }
    if (!writable) {
        return "it is mounted read-only";
    }
    for (const std::string& name : q.fs.stack) {
        const auto& ro = device_of(q, name)->read_only;
        if (ro.has_value() && *ro != 0) {
            return fmt::format("{} is read-only", name);
        }
    }
    return std::nullopt;
}

Why discards_stop(const Question& q) {
    for (const std::string& name : q.fs.stack) {
        const QueueAttributes& queue = device_of(q, name)->queue;
        // A kernel without zoned block devices has no such attribute, so its absence is no gap.
        if (queue.zoned.has_value() && *queue.zoned != "none") {
            return fmt::format("{} is zoned ({}): space is reclaimed by zone resets", name,
                               *queue.zoned);
        }
        if (!queue.discard_max_bytes.has_value()) {
            return fmt::format("whether {} passes discards is not known", name);
        }
        if (*queue.discard_max_bytes == 0) {
            return fmt::format("{} passes no discards", name);
        }
    }
    return std::nullopt;
}

// The disk an array's member is on: itself, or the disk it is a partition of.
std::string whole_disk(const Question& q, const std::string& name) {
    const BlockDevice* device = device_of(q, name);
    return device == nullptr || device->partition_of.empty() ? name : device->partition_of;
}

Why array_busy(const Question& q) {
    for (const std::string& name : q.fs.stack) {
        const BlockDevice& device = *device_of(q, name);
        if (device.md && device.md->level != "raid0" && device.md->level != "linear" &&
            !device.md->sync_action.has_value()) {
            return fmt::format("whether {} is rebuilding is not known", name);
        }
        if (!device.dm) {
            continue;
        }
        if (!device.dm->table.has_value()) {
            continue; // what passes discards was asked of its queue
        }
        for (const std::string& line : *device.dm->table) {
            std::istringstream words(line);
            std::string start, length, target;
            words >> start >> length >> target;
            if (target == "raid") {
                return fmt::format("whether {} (dm-raid) is rebuilding is not known", name);
            }
        }
    }
    // An array elsewhere on the same disks counts as well: its rebuild is what a trim would delay.
    for (const auto& [name, device] : *q.snapshot.block_devices) {
        if (!device.md || !device.md->sync_action.has_value() ||
            *device.md->sync_action == "idle") {
            continue;
        }
        const bool below = contains(q.fs.stack, name);
        const bool beside =
            std::any_of(device.slaves.begin(), device.slaves.end(), [&](const std::string& slave) {
                return contains(q.fs.disks, whole_disk(q, slave));
            });
        if (below || beside) {
            return fmt::format("resync/rebuild in progress: {} is at \"{}\"", name,
                               *device.md->sync_action);
        }
    }
    return std::nullopt;
}

// ---- what must hold besides for one that nobody asked for ----

const NvmeController* controller_of(const Question& q, const std::string& disk) {
    const BlockDevice* device = device_of(q, disk);
    if (device == nullptr || !q.snapshot.controllers.has_value()) {
        return nullptr;
    }
    const auto found = q.snapshot.controllers->find(device->nvme_controller);
    return found == q.snapshot.controllers->end() ? nullptr : &found->second;
}

// Networked storage is left to those who run it: a trim can keep an array busy until its paths are
// given up.
Why not_a_local_drive(const Question& q, const std::string& disk) {
    const NvmeController* controller = controller_of(q, disk);
    if (controller == nullptr) {
        return fmt::format("{} is not known to be an NVMe drive", disk);
    }
    if (controller->transport.has_value()) {
        if (*controller->transport != "pcie") {
            return fmt::format("{} is reached over {}: trim it by hand or from where it is", disk,
                               *controller->transport);
        }
    } else if (device_of(q, disk)->sysfs_path.find("/pci") == std::string::npos) {
        return fmt::format("how {} is attached is not known", disk);
    }
    return std::nullopt;
}

Why drive_unwell(const Question& q, const std::string& disk) {
    for (const DriveView& drive : q.diagnosis.drives) {
        if (!contains(drive.disks, disk)) {
            continue;
        }
        if (drive.health == "critical") {
            return fmt::format("the health of {} is critical", drive.name);
        }
        if (drive.health == "unknown" || drive.health.empty()) {
            return fmt::format("the health of {} is not known", drive.name);
        }
        return std::nullopt;
    }
    return fmt::format("nothing is known of the drive behind {}", disk);
}

// In the same boot it was only the service that ended.
bool cut_off_in_this_boot(const Question& q) {
    const TrimMarker& marker = *q.memory.marker;
    return q.snapshot.boot_id.has_value() && !marker.boot_id.empty() &&
           *q.snapshot.boot_id == marker.boot_id;
}

// Whether the trim that was cut off was of this filesystem or of a drive below it.
bool concerns_marker(const Question& q) {
    const TrimMarker& marker = *q.memory.marker;
    bool same =
        marker.mount == q.fs.mount || (!marker.fs_uuid.empty() && marker.fs_uuid == q.fs.uuid);
    for (const std::string& disk : q.fs.disks) {
        same = same || contains(marker.disks, disk);
        for (const DriveView& drive : q.diagnosis.drives) {
            same = same || (contains(drive.disks, disk) && !drive.serial.empty() &&
                            contains(marker.serials, drive.serial));
        }
    }
    return same;
}

// The host did not survive the last trim of this drive, or of this filesystem: never again by
// itself.
Why quarantined(const Question& q) {
    if (q.memory.marker_lost) {
        return "quarantined: a trim was cut off and its marker cannot be read, so which drive it "
               "was on is not known; a "
               "trim by hand lifts this";
    }
    if (!q.memory.marker || cut_off_in_this_boot(q) || !concerns_marker(q)) {
        return std::nullopt;
    }
    const TrimMarker& marker = *q.memory.marker;
    return fmt::format(
        "quarantined: the host went down during the trim of {} that began {}; a trim "
        "by hand lifts this",
        marker.mount, to_rfc3339(marker.started));
}

bool glob(const std::string& pattern, const std::string& text) {
    return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

Why excluded(const Question& q, const Policy& policy) {
    for (const Finding& finding : q.diagnosis.findings) {
        if (finding.id == "trim.not-covered" && finding.reason == "opted-out" &&
            finding.subject == Subject{SubjectKind::Filesystem, q.fs.mount}) {
            return "opted out in fstab (X-fstrim.notrim)";
        }
    }
    for (const auto& [path, entries] : q.snapshot.tables) {
        if (!entries.has_value()) {
            continue;
        }
        for (const FstabEntry& entry : *entries) {
            if (contains(q.fs.mounts, entry.file) && contains(entry.options, "X-fstrim.notrim")) {
                return fmt::format("opted out in {}:{} (X-fstrim.notrim)", path, entry.line);
            }
        }
    }
    std::optional<bool> exclude;
    for (const Override& o : policy.filesystems) {
        if (o.trim_exclude &&
            std::any_of(q.fs.mounts.begin(), q.fs.mounts.end(),
                        [&](const std::string& mount) { return glob(o.match_mount, mount); })) {
            exclude = o.trim_exclude;
        }
    }
    if (exclude) {
        return *exclude ? Why("excluded by policy (filesystem)") : std::nullopt;
    }
    for (const std::string& disk : q.fs.disks) {
        for (const DriveView& drive : q.diagnosis.drives) {
            std::optional<bool> by_drive;
            for (const Override& o : policy.drives) {
                if (contains(drive.disks, disk) && o.trim_exclude &&
                    (o.match_model.empty() || glob(o.match_model, drive.model)) &&
                    (o.match_serial.empty() || glob(o.match_serial, drive.serial))) {
                    by_drive = o.trim_exclude;
                }
            }
            if (by_drive.value_or(false)) {
                return fmt::format("excluded by policy (drive {})", drive.name);
            }
        }
    }
    return std::nullopt;
}

Why too_early(const Question& q) {
    if (!q.snapshot.uptime.has_value()) {
        return "how long the host has been up is not known";
    }
    if (*q.snapshot.uptime < kSettledUptime) {
        return fmt::format("the host has been up for {} only", humane(*q.snapshot.uptime));
    }
    return std::nullopt;
}

bool same_filesystem(const TrimRecord& record, const FilesystemView& fs) {
    if (!record.fs_uuid.empty() && !fs.uuid.empty()) {
        return record.fs_uuid == fs.uuid;
    }
    return contains(fs.mounts, record.mount);
}

Why too_soon(const Question& q, const Policy& policy) {
    const WallTime now = q.snapshot.now.wall;
    for (const TrimRecord& record : q.memory.trims) {
        if (!same_filesystem(record, q.fs)) {
            continue;
        }
        const bool interrupted = record.outcome == "interrupted";
        if (!record.ended && !interrupted) {
            return fmt::format("its trim of {} has not ended", to_rfc3339(record.started));
        }
        const seconds spacing = interrupted
                                    ? std::min(kAfterInterruption, policy.trim.minimum_spacing)
                                    : policy.trim.minimum_spacing;
        const WallTime last = std::max(record.started, record.ended.value_or(record.started));
        // A record from the future (the clock was set back) must not block for longer than that.
        if (now - last < spacing && last - now < spacing) {
            return fmt::format("its last trim was on {} ({}), policy wants {} between two",
                               to_rfc3339(last), record.outcome, humane(spacing));
        }
    }
    return std::nullopt;
}

// ---- windows ----

bool on_day(const TrimWindow& window, unsigned monday_based) {
    return window.days.empty() ||
           std::any_of(window.days.begin(), window.days.end(),
                       [&](Weekday day) { return static_cast<unsigned>(day) == monday_based; });
}

// The day of a window that runs past midnight is the one it begins on. `from` equal to `to` is the
// whole day.
bool is_open(const TrimWindow& window, WallTime utc, seconds offset) {
    const auto local = utc + offset;
    const auto midnight = std::chrono::floor<std::chrono::days>(local);
    const auto minute = std::chrono::floor<minutes>(local - midnight);
    const unsigned today = std::chrono::weekday{midnight}.iso_encoding() - 1;
    const unsigned yesterday = (today + 6) % 7;
    if (window.from == window.to) {
        return on_day(window, today);
    }
    if (window.from < window.to) {
        return on_day(window, today) && minute >= window.from && minute < window.to;
    }
    return (on_day(window, today) && minute >= window.from) ||
           (on_day(window, yesterday) && minute < window.to);
}

Why window_closed(const Question& q, const Policy& policy) {
    if (policy.trim.windows.empty()) {
        return std::nullopt;
    }
    std::string unknown;
    for (const TrimWindow& window : policy.trim.windows) {
        if (window.timezone == "UTC") {
            if (is_open(window, q.snapshot.now.wall, seconds{0})) {
                return std::nullopt;
            }
        } else if (!window.timezone.empty() && window.timezone != "local") {
            unknown = fmt::format("the timezone {} of a trim window is not known", window.timezone);
        } else if (!q.snapshot.utc_offset.has_value()) {
            unknown = "the host's local time is not known";
        } else if (is_open(window, q.snapshot.now.wall, *q.snapshot.utc_offset)) {
            return std::nullopt;
        }
    }
    return unknown.empty() ? "no trim window is open" : unknown;
}

// There is one marker for the whole host, since one trim runs at a time. While it stands for a
// drive that may have brought the host down, a trim of another filesystem would write over it, and
// the quarantine would be gone.
Why marker_taken(const Question& q) {
    if (!q.memory.marker || cut_off_in_this_boot(q) || concerns_marker(q)) {
        return std::nullopt;
    }
    const TrimMarker& marker = *q.memory.marker;
    return fmt::format("the host went down during the trim of {} that began {}, and nobody has "
                       "lifted that yet: trim it by "
                       "hand, or where it is gone for good remove trim-marker.json from the state "
                       "directory and restart "
                       "nvmaintd",
                       marker.mount, to_rfc3339(marker.started));
}

Why refuse_any(const Question& q) {
    for (const auto& check :
         {not_applicable, stack_unknown, read_only, discards_stop, array_busy, marker_taken}) {
        if (Why why = check(q)) {
            return why;
        }
    }
    return std::nullopt;
}

Why refuse_automatic(const Question& q, const Policy& policy) {
    if (policy.mode == Mode::Observe) {
        return "mode is observe";
    }
    // What lasts comes before what passes: whoever reads the reason wants to know what to change.
    if (Why why = excluded(q, policy)) {
        return why;
    }
    if (Why why = refuse_any(q)) {
        return why;
    }
    for (const std::string& disk : q.fs.disks) {
        if (Why why = not_a_local_drive(q, disk)) {
            return why;
        }
    }
    if (Why why = quarantined(q)) {
        return why;
    }
    for (const std::string& disk : q.fs.disks) {
        if (Why why = drive_unwell(q, disk)) {
            return why;
        }
    }
    if (Why why = too_early(q)) {
        return why;
    }
    if (Why why = too_soon(q, policy)) {
        return why;
    }
    return window_closed(q, policy);
}

// ---- wishes ----

struct Wish {
    const FilesystemView* fs = nullptr;
    bool urgent = false; // its drive stalls
    std::string reason;
    std::vector<std::string> because;
};

bool is_stall(const Finding& finding) {
    return finding.id == "flush.device-stall" || finding.id == "flush.periodic-stall";
}

// Whether something shows that freed space was told to this disk: a trim of ours that its counter
// confirmed, or discards since boot.
bool proven_trim(const Question& q, const std::string& disk) {
    const BlockDevice* device = device_of(q, disk);
    if (device != nullptr && device->counters.has_value() && device->counters->discards &&
        device->counters->discards->sectors > 0) {
        return true;
    }
    return std::any_of(q.memory.trims.begin(), q.memory.trims.end(), [&](const TrimRecord& trim) {
        return trim.complete && trim.discarded_bytes.value_or(0) > 0 && contains(trim.disks, disk);
    });
}

// Reasons for which a filesystem is left alone on purpose, or cannot be trimmed at all.
bool uncovered_by_nature(const Question& q) {
    return std::any_of(q.diagnosis.findings.begin(), q.diagnosis.findings.end(),
                       [&](const Finding& f) {
                           return f.id == "trim.not-covered" &&
                                  f.subject == Subject{SubjectKind::Filesystem, q.fs.mount} &&
                                  f.reason == "unsupported-filesystem";
                       });
}

// Ids of the findings that concern this filesystem's coverage: its own, or those of timer and
// service where it has none.
std::vector<std::string> coverage_findings(const Question& q) {
    std::set<std::string> own, shared;
    for (const Finding& f : q.diagnosis.findings) {
        if (f.id == "trim.not-covered" && f.reason != "duplicate" &&
            f.subject == Subject{SubjectKind::Filesystem, q.fs.mount}) {
            own.insert(f.id);
        } else if (f.id.starts_with("trim.timer.") || f.id.starts_with("trim.service.")) {
            shared.insert(f.id);
        }
    }
    const std::set<std::string>& chosen = own.empty() ? shared : own;
    return {chosen.begin(), chosen.end()};
}

std::optional<Wish> wish_for(const Question& q, const Policy& policy) {
    if (q.fs.trim == TrimState::NotApplicable || uncovered_by_nature(q)) {
        return std::nullopt;
    }
    Wish wish{&q.fs, false, {}, {}};
    std::set<std::string> stalls;
    bool proven = !q.fs.disks.empty();
    for (const Finding& finding : q.diagnosis.findings) {
        if (is_stall(finding) && contains(q.fs.disks, finding.subject.name)) {
            stalls.insert(finding.id);
            proven = proven && proven_trim(q, finding.subject.name);
        }
    }
    const bool stalls_untrimmed = !stalls.empty() && !proven;
    const bool interrupted = q.memory.marker && !q.memory.marker->fs_uuid.empty() &&
                             q.memory.marker->fs_uuid == q.fs.uuid;
    if (q.fs.trim == TrimState::NotCovered) {
        wish.reason = q.fs.why.empty() ? "nothing trims it" : "nothing trims it: " + q.fs.why;
        wish.because = coverage_findings(q);
    } else if (stalls_untrimmed) {
        wish.reason = "its drive stalls and no trim of it is proven";
    } else if (interrupted && q.fs.trim != TrimState::Blocked) {
        wish.reason = "its last trim was cut off";
        for (const Finding& finding : q.diagnosis.findings) {
            if (finding.id == "trim.deferred" &&
                finding.subject == Subject{SubjectKind::Filesystem, q.fs.mount}) {
                wish.because = {finding.id};
            }
        }
    } else if (policy.trim.takeover && q.fs.trim == TrimState::Covered) {
        wish.reason = "policy takes the trim over";
    } else {
        return std::nullopt;
    }
    if (!stalls.empty()) {
        wish.urgent = stalls_untrimmed;
        wish.because.insert(wish.because.end(), stalls.begin(), stalls.end());
        if (q.fs.trim == TrimState::NotCovered) {
            wish.reason += "; its drive stalls";
        }
    }
    return wish;
}

} // namespace

Plan decide(const HostSnapshot& snapshot, const Diagnosis& diagnosis, const Memory& memory,
            const Policy& policy) {
    std::vector<Wish> wishes;
    for (const FilesystemView& fs : diagnosis.filesystems) {
        if (auto wish = wish_for({snapshot, diagnosis, memory, fs}, policy)) {
            wishes.push_back(std::move(*wish));
        }
    }
    std::stable_sort(wishes.begin(), wishes.end(),
                     [](const Wish& a, const Wish& b) { return a.urgent && !b.urgent; });
    Plan plan;
    std::vector<std::string> busy; // disks of the actions so far
    for (Wish& wish : wishes) {
        const FilesystemView& fs = *wish.fs;
        const Subject subject{SubjectKind::Filesystem, fs.mount};
        Why why = refuse_automatic({snapshot, diagnosis, memory, fs}, policy);
        if (!why && any_of(fs.disks, busy)) {
            why = "one trim at a time on a drive: another filesystem on it comes first";
        }
        if (why) {
            plan.refusals.push_back({"trim", subject, std::move(*why), std::move(wish.because)});
            continue;
        }
        busy.insert(busy.end(), fs.disks.begin(), fs.disks.end());
        plan.actions.push_back({"trim", subject, std::move(wish.reason), std::move(wish.because)});
    }
    return plan;
}

std::optional<std::string> refuse_trim(const HostSnapshot& snapshot, const Diagnosis& diagnosis,
                                       const Memory& memory, const std::string& mount) {
    for (const FilesystemView& fs : diagnosis.filesystems) {
        if (fs.mount == mount || contains(fs.mounts, mount)) {
            return refuse_any({snapshot, diagnosis, memory, fs});
        }
    }
    return fmt::format("no filesystem is known at {}", mount);
}

} // namespace nvmaint::core
