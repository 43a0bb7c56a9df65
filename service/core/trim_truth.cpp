// Which filesystems are trimmed, by whom, and what keeps the others from it. The order of the
// questions, for each filesystem: is trimming any matter of this host's at all; can its stack pass
// discards; did the service itself trim it lately, with the drive's counters as proof; does the
// stock timer reach it; does somebody else. The first that fails names the fault, so that one cause
// gives one finding.
#include "core/trim_truth.hpp"

#include "core/shell_quote.hpp"
#include "core/timer_truth.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

namespace nvmaint::core {
namespace {

constexpr const char* kTimer = "fstrim.timer";

// A trim of ours covers a filesystem for the stock period of a week and a day of slack: judgement.
constexpr std::chrono::hours kOwnTrimCovers{8 * 24};
// The discard counters moved by what FITRIM reported, but for what alignment takes: judgement.
constexpr double kProvenShare = 0.95;

bool has_option(const std::vector<std::string>& options, std::string_view wanted) {
    return std::find(options.begin(), options.end(), wanted) != options.end();
}

const Unit* find_unit(const HostSnapshot& snapshot, const std::string& name) {
    if (!snapshot.units) {
        return nullptr;
    }
    const auto found = snapshot.units->find(name);
    return found == snapshot.units->end() ? nullptr : &found->second;
}

// As one would type it.
std::string text_of(const std::vector<std::string>& argv) {
    std::string text;
    for (const auto& word : argv) {
        text += (text.empty() ? "" : " ") + shell_quoted(word);
    }
    return text;
}

// ---- filesystems ----

// A superblock with all that mounts it.
struct Group {
    FilesystemView view;
    std::vector<const Mount*> mounts;
    std::vector<std::string> tops; // block devices it lives on directly
    std::string problem;           // of the walk
    const Mount* named_by = nullptr;
    bool read_only = false; // no mount of it is writable
    bool capable = false;   // its stack is known to take discards
    bool opted_out = false;
};

// Filesystems whose drivers implement FITRIM (Linux fs/*/ioctl.c and the like). ext2 and ext3 by
// the ext4 driver.
bool supports_fitrim(const std::string& type) {
    constexpr std::array<std::string_view, 18> kTypes{
        "bcachefs", "btrfs", "exfat", "ext2",  "ext3",   "ext4",  "f2fs",  "fat",  "fuseblk",
        "gfs2",     "hpfs",  "jfs",   "msdos", "nilfs2", "ntfs3", "ocfs2", "vfat", "xfs"};
    return std::binary_search(kTypes.begin(), kTypes.end(), type);
}

bool is_foreign_storage(const std::string& type) {
    return is_network_filesystem(type) || type == "zfs" ||
           (type.starts_with("fuse.") && !is_pseudo_filesystem(type));
}

bool is_listed(const Mount& mount) {
    if (mount.type == "overlay" && mount.mount_point == "/") {
        return true; // the root of a container host or live system: people ask about it
    }
    return !is_pseudo_filesystem(mount.type);
}

std::string device_of_mount(const std::map<std::string, BlockDevice>& devices, const Mount& mount) {
    if (mount.device.major != 0) {
        for (const auto& [name, device] : devices) {
            if (device.number == mount.device) {
                return name;
            }
        }
    }
    return find_device(devices, mount.source);
}

// Mounts of one superblock share st_dev; those of btrfs have anonymous ones per subvolume, so that
// their source device decides.
std::string superblock_key(const Mount& mount, const std::string& device) {
    if (!device.empty()) {
        return "device " + device;
    }
    if (mount.type == "btrfs" && mount.source.starts_with('/')) {
        return "source " + mount.source;
    }
    return fmt::format("number {}:{}", mount.device.major, mount.device.minor);
}

// Whether to name a filesystem after this mount rather than that one: the shorter, of equals the
// one that shows its root, else the earlier.
bool names_better(const Mount& mount, const Mount& than) {
    return mount.mount_point.size() != than.mount_point.size()
               ? mount.mount_point.size() < than.mount_point.size()
               : mount.root == "/" && than.root != "/";
}

bool is_read_only(const Mount& mount) {
    return has_option(mount.options, "ro") || has_option(mount.super_options, "ro");
}

// The members of a multi-device btrfs share its UUID.
std::vector<std::string> tops_of(const std::map<std::string, BlockDevice>& devices,
                                 const std::string& device, const std::string& type) {
    std::vector<std::string> tops{device};
    const auto& own = devices.at(device).udev;
    const auto uuid = own.find("ID_FS_UUID");
    if (type != "btrfs" || uuid == own.end() || uuid->second.empty()) {
        return tops;
    }
    for (const auto& [name, other] : devices) {
        const auto its = other.udev.find("ID_FS_UUID");
        const auto kind = other.udev.find("ID_FS_TYPE");
        if (name != device && its != other.udev.end() && its->second == uuid->second &&
            kind != other.udev.end() && kind->second == "btrfs") {
            tops.push_back(name);
        }
    }
    return tops;
}

void walk_group(Group& group, const std::map<std::string, BlockDevice>& devices) {
    for (const auto& top : group.tops) {
        const auto walk = walk_stack(devices, top);
        for (const auto& name : walk.devices) {
            if (!has_option(group.view.stack, name)) {
                group.view.stack.push_back(name);
            }
        }
        for (const auto& name : walk.disks) {
            if (!has_option(group.view.disks, name)) {
                group.view.disks.push_back(name);
            }
        }
        if (group.problem.empty()) {
            group.problem = walk.problem;
        }
    }
}

std::vector<Group> group_filesystems(const HostSnapshot& snapshot) {
    std::vector<Group> groups;
    if (!snapshot.mounts) {
        return groups;
    }
    static const std::map<std::string, BlockDevice> none;
    const auto& devices = snapshot.block_devices ? *snapshot.block_devices : none;
    std::map<std::string, std::size_t> index;
    for (const auto& mount : *snapshot.mounts) {
        if (!is_listed(mount)) {
            continue;
        }
        const std::string device = device_of_mount(devices, mount);
        const auto [at, is_new] = index.try_emplace(superblock_key(mount, device), groups.size());
        if (is_new) {
            Group group;
            group.view.type = mount.type;
            group.view.source = mount.source;
            group.named_by = &mount;
            group.read_only = true;
            if (!device.empty()) {
                group.tops = tops_of(devices, device, mount.type);
                const auto& udev = devices.at(device).udev;
                const auto uuid = udev.find("ID_FS_UUID");
                group.view.uuid = uuid == udev.end() ? "" : uuid->second;
                walk_group(group, devices);
            }
            groups.push_back(std::move(group));
        }
        auto& group = groups[at->second];
        group.mounts.push_back(&mount);
        group.read_only = group.read_only && is_read_only(mount);
        if (!has_option(group.view.mounts, mount.mount_point)) {
            group.view.mounts.push_back(mount.mount_point);
        }
        if (names_better(mount, *group.named_by)) {
            group.named_by = &mount;
        }
    }
    for (auto& group : groups) {
        group.view.mount = group.named_by->mount_point;
        std::sort(group.view.mounts.begin(), group.view.mounts.end());
    }
    std::sort(groups.begin(), groups.end(),
              [](const auto& a, const auto& b) { return a.view.mount < b.view.mount; });
    return groups;
}

void set(Group& group, TrimState state, std::string why) {
    group.view.trim = state;
    group.view.why = std::move(why);
}

bool is_open(const Group& group) {
    return group.view.why.empty();
}

Subject subject_of(const Group& group) {
    return {SubjectKind::Filesystem, group.view.mount};
}

const Group* group_at(const std::vector<Group>& groups, const std::string& mount_point) {
    for (const auto& group : groups) {
        if (has_option(group.view.mounts, mount_point)) {
            return &group;
        }
    }
    return nullptr;
}

Evidence mount_evidence(const Group& group) {
    const auto& mount = *group.mounts.front();
    return {"proc/1/mountinfo",
            fmt::format("{} is {} on {}", mount.mount_point, mount.type, mount.source)};
}

// Tried and not read, which is neither a value nor a known absence.
template <class T>
bool is_gap(const Reading<T>& reading) {
    return !reading.has_value() && !reading.is_not_recorded() && !reading.is_known_absent();
}

// ---- is it a matter of trimming at all, and can its stack discard? ----

std::optional<std::string> zoned_disk(const HostSnapshot& snapshot, const Group& group) {
    for (const auto& name : group.view.stack) {
        const auto& zoned = snapshot.block_devices->at(name).queue.zoned;
        if (zoned && *zoned == "host-managed") {
            return name;
        }
    }
    return std::nullopt;
}

std::optional<std::string> read_only_device(const HostSnapshot& snapshot, const Group& group) {
    for (const auto& name : group.tops) {
        const auto& read_only = snapshot.block_devices->at(name).read_only;
        if (read_only && *read_only != 0) {
            return name;
        }
    }
    return std::nullopt;
}

void judge_applicability(const HostSnapshot& snapshot, Group& group,
                         std::vector<Finding>& findings) {
    const auto& type = group.view.type;
    if (type == "zfs") {
        return set(group, TrimState::NotApplicable,
                   "ZFS trims by itself (zpool trim, autotrim); fstrim does not apply");
    }
    if (is_foreign_storage(type)) {
        return set(group, TrimState::NotApplicable, type + " has no block device of this host");
    }
    if (type == "overlay") {
        findings.push_back(
            {.id = "trim.not-covered",
             .reason = "unsupported-filesystem",
             .severity = Severity::Info,
             .subject = subject_of(group),
             .summary =
                 "an overlay cannot be trimmed; the filesystem that holds its upper layer can",
             .evidence = {mount_evidence(group)}});
        return set(group, TrimState::NotApplicable, "an overlay is not trimmed itself");
    }
    if (group.tops.empty()) {
        return set(group, TrimState::Unknown,
                   "its source " + group.view.source + " is no block device known here");
    }
    if (const auto device = read_only_device(snapshot, group)) {
        return set(group, TrimState::NotApplicable, "read-only device " + *device + ", skipped");
    }
    if (group.read_only) {
        return set(group, TrimState::NotApplicable, "mounted read-only: nothing to trim");
    }
    for (const auto& name : group.view.stack) {
        const auto& device = snapshot.block_devices->at(name);
        if (is_gap(device.queue.zoned) || is_gap(device.read_only)) {
            return set(group, TrimState::Unknown, "attributes of " + name + " could not be read");
        }
    }
    if (const auto disk = zoned_disk(snapshot, group)) {
        return set(group, TrimState::NotApplicable,
                   *disk + " is zoned: zones are reset, discards do not apply");
    }
}

Finding blocked_finding(const HostSnapshot& snapshot, const Group& group, const StackBlame& blame) {
    Finding finding{.id = "trim.blocked",
                    .reason = blame.reason,
                    .severity = Severity::Warning,
                    .subject = subject_of(group),
                    .layer = blame.layer,
                    .summary =
                        fmt::format("{} cannot be trimmed: {}", group.view.mount, blame.summary),
                    .evidence = blame.evidence,
                    .fix = blame.fix};
    for (const auto& mount : group.view.mounts) {
        const auto probe = snapshot.probes.find(mount);
        if (probe != snapshot.probes.end() && probe->second && probe->second->fitrim_errno &&
            *probe->second->fitrim_errno != 0) {
            finding.evidence.push_back(
                {"FITRIM", fmt::format("{}: errno {}", mount, *probe->second->fitrim_errno)});
        }
    }
    // The whole disk is at fault and nothing on this host cures it: told once.
    if (blame.reason == "virtual-disk" || blame.reason == "usb-bridge") {
        finding.subject = {SubjectKind::Namespace, blame.layer};
        finding.summary = blame.summary;
    }
    return finding;
}

void judge_stack(const HostSnapshot& snapshot, Group& group, std::vector<Finding>& findings) {
    for (const auto& top : group.tops) {
        const auto blame = blame_stack(snapshot, top);
        if (blame.rotating) {
            return set(group, TrimState::NotApplicable, blame.summary);
        }
        if (blame.blocked) {
            auto finding = blocked_finding(snapshot, group, blame);
            const bool told = std::any_of(findings.begin(), findings.end(), [&](const auto& other) {
                return key_of(other) == key_of(finding);
            });
            if (!told) {
                findings.push_back(std::move(finding));
            }
            return set(group, TrimState::Blocked, blame.summary);
        }
        if (blame.unknown) {
            return set(group, TrimState::Unknown, blame.summary);
        }
    }
    if (!group.problem.empty()) {
        return set(group, TrimState::Unknown, group.problem);
    }
    group.capable = true;
    if (!supports_fitrim(group.view.type)) {
        findings.push_back({.id = "trim.not-covered",
                            .reason = "unsupported-filesystem",
                            .severity = Severity::Info,
                            .subject = subject_of(group),
                            .summary = fmt::format("{} has no trim of its own: {} is never trimmed",
                                                   group.view.type, group.view.mount),
                            .evidence = {mount_evidence(group)}});
        set(group, TrimState::NotCovered, group.view.type + " cannot be trimmed");
    }
}

// ---- our own trims ----

bool is_of(const Group& group, const std::string& mount, const std::string& uuid) {
    return !uuid.empty() && !group.view.uuid.empty() ? uuid == group.view.uuid
                                                     : has_option(group.view.mounts, mount);
}

bool is_proven(const TrimRecord& record) {
    return record.complete && record.requested_bytes > 0 && record.discarded_bytes &&
           static_cast<double>(*record.discarded_bytes) >=
               kProvenShare * static_cast<double>(record.requested_bytes);
}

void judge_own_trims(const HostSnapshot& snapshot, const Memory& memory, Group& group) {
    std::optional<WallTime> covered;
    bool proven_before = false;
    for (const auto& record : memory.trims) {
        if (!is_of(group, record.mount, record.fs_uuid) || !record.complete || !record.ended) {
            continue;
        }
        // ext4 asks for nothing where nothing was freed since the last trim.
        const bool nothing_left = record.requested_bytes == 0 && proven_before;
        proven_before = proven_before || is_proven(record);
        if (is_proven(record) || nothing_left) {
            covered = record.ended;
        }
    }
    if (covered && snapshot.now.wall - *covered <= kOwnTrimCovers) {
        set(group, TrimState::Covered,
            fmt::format("trimmed by nvmaint, ended {}, discards seen at the drive",
                        to_rfc3339(*covered)));
    }
}

std::vector<Finding> judge_marker(const HostSnapshot& snapshot, const Memory& memory) {
    if (memory.marker_lost) {
        Finding lost{.subject = {SubjectKind::Service, "nvmaintd.service"}};
        lost.id = "trim.quarantined";
        lost.severity = Severity::Warning;
        lost.summary = "a trim was cut off and its marker cannot be read: nothing is trimmed by "
                       "itself until somebody has "
                       "looked";
        lost.evidence.push_back(
            {"var/lib/nvmaint/trim-marker.json", "there, and not readable as a marker"});
        lost.fix = {"journalctl -b -1 -k -e   # did a drive or its driver hang?",
                    "if not, trim a filesystem by hand to lift this: nvmaintctl trim MOUNT"};
        return {lost};
    }
    if (!memory.marker) {
        return {};
    }
    const auto& marker = *memory.marker;
    Finding finding{.subject = {SubjectKind::Filesystem, marker.mount}};
    finding.evidence.push_back(
        {"var/lib/nvmaint",
         fmt::format("a trim of {} began {} and did not end; next range at {}", marker.mount,
                     to_rfc3339(marker.started), humane_bytes(marker.next_start))});
    if (!snapshot.boot_id) {
        return {}; // by what it was cut off cannot be told
    }
    if (*snapshot.boot_id == marker.boot_id) {
        finding.id = "trim.deferred";
        finding.severity = Severity::Info;
        finding.summary =
            fmt::format("the trim of {} was cut off with the service; its next trim goes on where "
                        "it stopped",
                        marker.mount);
        return {finding};
    }
    finding.id = "trim.quarantined";
    finding.severity = Severity::Warning;
    finding.summary = fmt::format("the host went down in the middle of a trim of {}: it is not "
                                  "trimmed again by itself",
                                  marker.mount);
    finding.evidence.push_back({"boot", "another boot than the one of that trim"});
    finding.fix = {
        "journalctl -b -1 -k -e   # did the drive or its driver hang?",
        fmt::format("if not, trim it by hand to lift this: nvmaintctl trim {}", marker.mount)};
    return {finding};
}

// ---- the stock service ----

enum class ServiceState { Working, Partial, Failing, Noop, Unknown };

struct ServiceTruth {
    std::string name;
    const Unit* unit = nullptr;
    std::vector<ServiceRun> runs;
    std::string command; // as text
    FstrimSelection selection;
    bool verbose = false; // its command prints what it trims
    ServiceState state = ServiceState::Unknown;
    std::string why;
    std::vector<std::string> failed_mounts; // that its last run complained of
};

const ServiceRun* last_attempt(const std::vector<ServiceRun>& runs) {
    const auto found =
        std::find_if(runs.rbegin(), runs.rend(), [](const auto& run) { return !run.skipped; });
    return found == runs.rend() ? nullptr : &*found;
}

bool does_nothing(const std::vector<std::string>& argv) {
    const auto slash = argv.front().rfind('/');
    const std::string program =
        slash == std::string::npos ? argv.front() : argv.front().substr(slash + 1);
    return program == "true" || program == ":" || program == "echo";
}

// Selections of several ExecStart= lines add up.
void merge(FstrimSelection& whole, FstrimSelection part) {
    if (whole.problem.empty()) {
        whole.problem = part.problem;
    }
    if (whole.table.empty()) {
        whole.table = part.table;
        whole.kernel_table = part.kernel_table;
    }
    whole.root_guessed = whole.root_guessed || part.root_guessed;
    whole.passed_over.insert(whole.passed_over.end(), part.passed_over.begin(),
                             part.passed_over.end());
    whole.entries.insert(whole.entries.end(), part.entries.begin(), part.entries.end());
}

ServiceTruth read_service(const HostSnapshot& snapshot, const std::string& name) {
    ServiceTruth service{.name = name};
    service.unit = find_unit(snapshot, name);
    service.runs = service_runs(snapshot, name);
    if (service.unit == nullptr || service.unit->exec_start.empty()) {
        service.why = "the command line of " + name + " is not known";
        service.selection.problem = service.why;
        return service;
    }
    bool idle = true;
    for (const auto& argv : service.unit->exec_start) {
        if (argv.empty()) {
            continue;
        }
        service.command += (service.command.empty() ? "" : "; ") + text_of(argv);
        const auto command = parse_fstrim_command(argv);
        if (does_nothing(argv) || (command.understood && command.dry_run)) {
            continue;
        }
        idle = false;
        service.verbose = service.verbose || command.verbose;
        merge(service.selection, select_fstrim(command, snapshot, service.unit));
    }
    if (idle) {
        service.state = ServiceState::Noop;
        service.why = fmt::format("{} trims nothing: {}", name, service.command);
    }
    return service;
}

std::string status_text(int status) {
    switch (status) {
    case 32:
        return "exit status 32: every filesystem failed";
    case 64:
        return "exit status 64: some filesystems were trimmed, some failed";
    default:
        return fmt::format("exit status {}", status);
    }
}

// The mount point that a complaint of fstrim is about: "fstrim: /mnt/old: FITRIM ioctl failed: ..."
std::string complained_mount(const std::string& line) {
    const std::string_view prefix = "fstrim: ";
    const std::size_t from = line.starts_with(prefix) ? prefix.size() : 0;
    const auto end = line.find(": FITRIM");
    return end == std::string::npos || line.size() <= from || line[from] != '/'
               ? std::string()
               : line.substr(from, end - from);
}

struct ServiceFailure {
    bool failed = false;
    std::optional<int> status;
    const ServiceRun* run = nullptr;
};

ServiceFailure failure_of(const ServiceTruth& service) {
    const auto* last = last_attempt(service.runs);
    const auto* unit = service.unit;
    ServiceFailure failure{.run = last};
    const bool bad_result = unit != nullptr && !unit->result.empty() && unit->result != "success" &&
                            unit->result != "exec-condition";
    if (last != nullptr && last->failed) {
        failure.failed = true;
        failure.status = last->status;
    }
    if (bad_result || (unit != nullptr && unit->active_state == "failed")) {
        failure.failed = true;
    }
    if (failure.failed && !failure.status && unit != nullptr && unit->exec_main_status &&
        *unit->exec_main_status != 0 && !was_killed(*unit)) {
        failure.status = unit->exec_main_status;
    }
    return failure;
}

// Entries of the table that are on read-only devices or mounted read-only: an fstrim before 2.35
// tries them, and the drive's refusal is no fault of the drive.
std::vector<const FstrimEntry*> read_only_listed(const ServiceTruth& service,
                                                 const std::vector<Group>& groups) {
    std::vector<const FstrimEntry*> entries;
    for (const auto& entry : service.selection.entries) {
        if (group_at(groups, entry.mount) != nullptr &&
            (entry.skip == FstrimSkip::ReadOnlyDevice || entry.skip == FstrimSkip::ReadOnly)) {
            entries.push_back(&entry);
        }
    }
    return entries;
}

std::optional<Finding> judge_service_failure(ServiceTruth& service,
                                             const std::vector<Group>& groups) {
    const auto failure = failure_of(service);
    const auto* unit = service.unit;
    // A timer does not start without the unit that it triggers (systemd src/core/timer.c,
    // timer_start()): "not-found" beside a timer that runs says only that nobody looked.
    const bool unloadable = unit != nullptr && !unit->load_state.empty() &&
                            unit->load_state != "loaded" && unit->load_state != "not-found";
    if (!failure.failed && !unloadable) {
        return std::nullopt;
    }
    Finding finding{.id = "trim.service.failed",
                    .severity = Severity::Warning,
                    .subject = {SubjectKind::Unit, service.name}};
    if (unloadable) {
        service.state = ServiceState::Failing;
        finding.summary =
            fmt::format("{} cannot be started: it is {}", service.name, unit->load_state);
        finding.evidence = {{"systemd: " + service.name, "LoadState=" + unit->load_state}};
        finding.fix = {
            unit->load_state == "masked"
                ? "systemctl unmask " + service.name
                : "apt install --reinstall util-linux   # or your distribution's package"};
        service.why = finding.summary;
        return finding;
    }
    std::string how = failure.status ? status_text(*failure.status) : "";
    if (unit != nullptr && !unit->result.empty() && unit->result != "success") {
        how = fmt::format("Result={}{}{}", unit->result, how.empty() ? "" : ", ", how);
    }
    if (how.empty()) {
        how = "its last run failed";
    }
    service.state = failure.status == 64 ? ServiceState::Partial : ServiceState::Failing;
    finding.evidence.push_back({failure.run != nullptr && failure.run->from_journal
                                    ? "journal: " + service.name
                                    : "systemd: " + service.name,
                                how});
    if (failure.run != nullptr) {
        for (const auto& line : failure.run->complaints) {
            if (finding.evidence.size() < 5) {
                finding.evidence.push_back({"journal: " + service.name, line});
            }
            if (auto mount = complained_mount(line); !mount.empty()) {
                service.failed_mounts.push_back(std::move(mount));
            }
        }
    }
    finding.summary = fmt::format("{} failed: {}", service.name, how);
    const auto& selection = service.selection;
    const bool no_table =
        selection.problem.empty() && selection.table.empty() && !selection.passed_over.empty();
    if (no_table) {
        for (const auto& file : selection.passed_over) {
            finding.evidence.push_back({"file", file});
        }
        finding.evidence.push_back({"systemd: " + service.name, "ExecStart=" + service.command});
        finding.summary += fmt::format("; it reads {} and names no other table to fall back to",
                                       selection.passed_over.front());
        finding.fix = {
            fmt::format("systemctl edit {}   # add under [Service] the two lines: ExecStart= and "
                        "ExecStart=/sbin/fstrim --listed-in /etc/fstab:/proc/self/mountinfo "
                        "--verbose --quiet-unsupported",
                        service.name),
            "systemctl start " + service.name};
        service.why = finding.summary;
        return finding;
    }
    for (const auto* entry : read_only_listed(service, groups)) {
        const auto& mount = entry->mount;
        const bool complained = has_option(service.failed_mounts, mount);
        if (service.state == ServiceState::Partial || complained) {
            finding.summary += fmt::format("; {} is read-only and cannot be trimmed, which says "
                                           "nothing about the health of its drive",
                                           mount);
            finding.evidence.push_back(
                {entry->skip == FstrimSkip::ReadOnlyDevice ? "sys/class/block" : "proc/1/mountinfo",
                 fmt::format("{}: {}", mount, entry->detail)});
            finding.fix.push_back(fmt::format("add ro, or X-fstrim.notrim (util-linux 2.38 and "
                                              "later), to the options of {} in /etc/fstab",
                                              fstab_field(mount)));
        }
    }
    finding.fix.push_back(fmt::format("journalctl -u {} -e", service.name));
    service.why = finding.summary;
    return finding;
}

bool picks_something(const FstrimSelection& selection) {
    return std::any_of(selection.entries.begin(), selection.entries.end(), [](const auto& entry) {
        return entry.skip == FstrimSkip::None && !entry.uncertain;
    });
}

std::optional<Finding> judge_service_noop(ServiceTruth& service) {
    Finding finding{.id = "trim.service.noop",
                    .severity = Severity::Warning,
                    .subject = {SubjectKind::Unit, service.name},
                    .fix = {"systemctl cat " + service.name + "   # which drop-in sets ExecStart=?",
                            "systemctl revert " + service.name}};
    if (service.state == ServiceState::Noop) {
        finding.summary = service.why;
        finding.evidence = {{"systemd: " + service.name, "ExecStart=" + service.command}};
        for (const auto& path : service.unit->drop_in_paths) {
            finding.evidence.push_back({path, "drop-in of " + service.name});
        }
        return finding;
    }
    const auto* last = last_attempt(service.runs);
    const bool silent = last != nullptr && last->from_journal && last->started && last->finished &&
                        last->trimmed.empty();
    if (service.state != ServiceState::Unknown || !silent || !service.verbose ||
        !service.selection.problem.empty() || !picks_something(service.selection)) {
        return std::nullopt;
    }
    service.state = ServiceState::Noop;
    service.why =
        fmt::format("{} ran at {} and trimmed nothing", service.name, to_rfc3339(last->time));
    finding.summary = service.why + ", though filesystems of its table can be trimmed";
    finding.evidence = {
        {"journal: " + service.name,
         fmt::format("run of {} without one line of a trimmed filesystem", to_rfc3339(last->time))},
        {"systemd: " + service.name, "ExecStart=" + service.command}};
    finding.fix = {fmt::format("{}   # by hand: does it say why?", service.command),
                   fmt::format("systemctl show {} -p ProtectSystem,ProtectHome,PrivateDevices,"
                               "PrivateUsers,CapabilityBoundingSet",
                               service.name)};
    return finding;
}

// systemd tests the conditions of a service each time its timer starts it.
std::optional<Finding> judge_service_condition(ServiceTruth& service) {
    if (service.unit == nullptr || service.state == ServiceState::Failing ||
        service.unit->condition_result.value_or(true)) {
        return std::nullopt;
    }
    for (const auto& condition : service.unit->conditions) {
        if (condition.state >= 0) {
            continue; // held, or was not tested
        }
        const auto text = fmt::format("{}={}{}{}", condition.name, condition.trigger ? "|" : "",
                                      condition.negate ? "!" : "", condition.parameter);
        service.state = ServiceState::Failing;
        service.why = fmt::format("{} is started by its timer but skipped: {} does not hold",
                                  service.name, text);
        Finding finding{.id = "trim.timer.condition-unmet",
                        .severity = Severity::Warning,
                        .subject = {SubjectKind::Unit, service.name},
                        .summary = service.why,
                        .evidence = {{"systemd: " + service.name, text + " did not hold"}},
                        .fix = {fmt::format("systemctl edit {}   # add under [Unit] the line: {}=",
                                            service.name, condition.name)}};
        if (!service.runs.empty() && service.runs.back().skipped) {
            finding.evidence.push_back(
                {"journal: " + service.name, "skipped at " + to_rfc3339(service.runs.back().time)});
        }
        return finding;
    }
    return std::nullopt;
}

// EUCLEAN and EBADMSG are what ext4 and XFS return for a damaged filesystem (EFSCORRUPTED,
// EFSBADCRC). Other errors of FITRIM have innocent causes.
constexpr std::array<std::pair<int, std::string_view>, 2> kDamage{{
    {EUCLEAN, "Structure needs cleaning"},
    {EBADMSG, "Bad message"},
}};

void judge_damage(const HostSnapshot& snapshot, const ServiceTruth& service, const Group& group,
                  std::vector<Finding>& findings) {
    std::vector<Evidence> evidence;
    for (const auto& [code, text] : kDamage) {
        for (const auto& mount : group.view.mounts) {
            const auto probe = snapshot.probes.find(mount);
            if (probe != snapshot.probes.end() && probe->second &&
                probe->second->fitrim_errno == code) {
                evidence.push_back({"FITRIM", fmt::format("{}: {}", mount, text)});
            }
        }
        const auto* last = last_attempt(service.runs);
        if (last == nullptr) {
            continue;
        }
        for (const auto& line : last->complaints) {
            if (has_option(group.view.mounts, complained_mount(line)) &&
                line.find(text) != std::string::npos) {
                evidence.push_back({"journal: " + service.name, line});
            }
        }
    }
    if (evidence.empty()) {
        return;
    }
    findings.push_back(
        {.id = "trim.failed.fs-error",
         .severity = Severity::Critical,
         .subject = subject_of(group),
         .summary = fmt::format("the filesystem on {} is damaged: trimming it fails on its own "
                                "metadata",
                                group.view.mount),
         .evidence = evidence,
         .fix = {"back up what matters first: a repair may lose data",
                 "journalctl -k -g " + shell_quoted(group.view.type),
                 fmt::format("umount {}, then check without changing anything: {} {}",
                             shell_quoted(group.view.mount),
                             group.view.type == "xfs" ? "xfs_repair -n" : "fsck -n",
                             shell_quoted(group.view.source))}});
}

// ---- what the stock timer does for one filesystem ----

// The entry of the table that decides for a filesystem: one that is trimmed, else the one whose
// skip says most.
const FstrimEntry* deciding_entry(const FstrimSelection& selection, const Group& group) {
    constexpr std::array kOrder{FstrimSkip::None,           FstrimSkip::Duplicate,
                                FstrimSkip::OptedOut,       FstrimSkip::ReadOnlyView,
                                FstrimSkip::ListedReadOnly, FstrimSkip::OtherType,
                                FstrimSkip::UnknownSource,  FstrimSkip::NoDiscard,
                                FstrimSkip::ReadOnlyDevice, FstrimSkip::ReadOnly};
    for (const auto skip : kOrder) {
        for (const auto& entry : selection.entries) {
            if (entry.skip == skip && has_option(group.view.mounts, entry.mount)) {
                return &entry;
            }
        }
    }
    return nullptr;
}

std::size_t picks_of(const FstrimSelection& selection, const Group& group) {
    return static_cast<std::size_t>(
        std::count_if(selection.entries.begin(), selection.entries.end(), [&](const auto& entry) {
            return entry.skip == FstrimSkip::None && has_option(group.view.mounts, entry.mount);
        }));
}

std::string entry_place(const FstrimSelection& selection, const FstrimEntry& entry) {
    return entry.line > 0 ? fmt::format("{} line {}", selection.table, entry.line)
                          : selection.table;
}

std::string without_slash(const std::string& path) {
    return path.starts_with('/') ? path.substr(1) : path;
}

// The line of fstab that would list it, with the options that its mount has now.
std::string fstab_line(const Group& group) {
    std::string options;
    for (const auto& option : group.named_by->options) {
        if (option != "rw" && option != "relatime") {
            options += option + ",";
        }
    }
    const auto& type = group.view.type;
    return fmt::format(
        "{} {} {} {}nofail 0 {}",
        fstab_field(group.view.uuid.empty() ? group.view.source : "UUID=" + group.view.uuid),
        fstab_field(group.view.mount), type, options, type.starts_with("ext") ? 2 : 0);
}

std::vector<std::string> not_listed_fix(const Group& group, const FstrimSelection& selection) {
    std::vector<std::string> fix{fmt::format(
        "let nvmaint trim it: mode = \"maintain\" in /etc/nvmaint/policy.toml, or once: "
        "nvmaintctl trim {}",
        shell_quoted(group.view.mount))};
    if (selection.table == "/etc/fstab") {
        fix.push_back(fmt::format("or list it: echo {} >> /etc/fstab; findmnt --verify",
                                  shell_quoted(fstab_line(group))));
    }
    fix.push_back("or make fstrim read the kernel's table only: systemctl edit fstrim.service   # "
                  "under [Service]: ExecStart= and then ExecStart=/sbin/fstrim --listed-in "
                  "/proc/self/mountinfo --verbose --quiet-unsupported");
    return fix;
}

Finding not_covered(const Group& group, const ServiceTruth& service, std::string reason,
                    std::string summary, std::vector<std::string> fix) {
    Finding finding{.id = "trim.not-covered",
                    .reason = std::move(reason),
                    .severity = Severity::Warning,
                    .subject = subject_of(group),
                    .summary = std::move(summary),
                    .evidence = {mount_evidence(group)},
                    .fix = std::move(fix)};
    finding.evidence.push_back({"systemd: " + service.name, "ExecStart=" + service.command});
    return finding;
}

// Why the table leaves the filesystem out. The list of findings stays as it is where another
// finding tells already.
std::optional<Finding> left_out(const Group& group, const ServiceTruth& service,
                                const FstrimEntry* entry) {
    const auto& selection = service.selection;
    const auto& mount = group.view.mount;
    const auto skip = entry == nullptr ? FstrimSkip::NotMounted : entry->skip;
    switch (skip) {
    case FstrimSkip::ReadOnlyView:
    case FstrimSkip::ListedReadOnly: {
        auto finding = not_covered(
            group, service, "read-only-view",
            skip == FstrimSkip::ReadOnlyView
                ? fmt::format("{} sees {} read-only ({}) and skips it", service.name, mount,
                              entry->detail)
                : fmt::format("{} lists {} read-only, so that fstrim skips it, but it is mounted "
                              "read-write",
                              selection.table, mount),
            skip == FstrimSkip::ReadOnlyView
                ? std::vector<std::string>{fmt::format(
                      "systemctl edit {}   # under [Service]: {}=no", service.name,
                      entry->detail.substr(0, entry->detail.find('=')))}
                : std::vector<std::string>{fmt::format("take ro out of the options of {} in {}",
                                                       fstab_field(mount), selection.table)});
        finding.evidence.push_back(skip == FstrimSkip::ReadOnlyView
                                       ? Evidence{"systemd: " + service.name, entry->detail}
                                       : Evidence{without_slash(selection.table),
                                                  entry_place(selection, *entry) + ": ro"});
        return finding;
    }
    case FstrimSkip::OtherType: {
        auto finding =
            not_covered(group, service, "not-selected",
                        fmt::format("{} leaves {} out: {}", service.name, mount, entry->detail),
                        {"systemctl edit " + service.name + "   # widen --types in ExecStart="});
        return finding;
    }
    case FstrimSkip::UnknownSource: {
        auto finding =
            not_covered(group, service, "not-in-fstab",
                        fmt::format("the entry of {} in {} is of no use to fstrim: {}", mount,
                                    selection.table, entry->detail),
                        {fmt::format("blkid {}; then correct {}", shell_quoted(group.view.source),
                                     entry_place(selection, *entry))});
        finding.evidence.push_back({without_slash(selection.table),
                                    entry_place(selection, *entry) + ": " + entry->detail});
        return finding;
    }
    case FstrimSkip::Pseudo:
    case FstrimSkip::NotMounted: {
        if (selection.table.empty()) {
            return not_covered(group, service, "not-selected",
                               fmt::format("{} trims only what its command line names, and not {}",
                                           service.name, mount),
                               not_listed_fix(group, selection));
        }
        auto finding = not_covered(
            group, service, "not-in-fstab",
            fmt::format("fstrim never trims {}: it is not in {}, and only the first list that has "
                        "an entry is read",
                        mount, selection.table),
            not_listed_fix(group, selection));
        finding.evidence.push_back(
            {without_slash(selection.table),
             fmt::format("{} entries, none for {}; what follows it in --listed-in is not read",
                         selection.entries.size() - (selection.root_guessed ? 1 : 0), mount)});
        return finding;
    }
    case FstrimSkip::OptedOut:       // told apart from the timer
    case FstrimSkip::NoDiscard:      // trim.blocked tells
    case FstrimSkip::ReadOnly:       // nothing to trim
    case FstrimSkip::ReadOnlyDevice: // nothing to trim
    case FstrimSkip::None:
    case FstrimSkip::Duplicate:
        return std::nullopt;
    }
    return std::nullopt;
}

// Whether the lines of the last run contradict that a filesystem is trimmed. Only a run of this
// boot counts: before it the mount may not have been there.
bool last_run_left_out(const HostSnapshot& snapshot, const ServiceTruth& service,
                       const Group& group) {
    const auto* last = last_attempt(service.runs);
    if (last == nullptr || last->trimmed.empty() || !last->finished || !service.verbose ||
        !snapshot.uptime || last->time < snapshot.now.wall - *snapshot.uptime) {
        return false;
    }
    return std::none_of(last->trimmed.begin(), last->trimmed.end(), [&](const auto& line) {
        return has_option(group.view.mounts, line.mount);
    });
}

std::string covered_why(const HostSnapshot& snapshot, const ServiceTruth& service,
                        const Group& group) {
    std::string why = fmt::format("{} trims it", service.name);
    for (const auto& run : service.runs) {
        for (const auto& line : run.trimmed) {
            if (has_option(group.view.mounts, line.mount) && !line.dry_run) {
                why = fmt::format("{} trims it, last {} ({} requested by the filesystem: no proof "
                                  "of what the drive discarded)",
                                  service.name, to_rfc3339(run.time), humane_bytes(line.bytes));
            }
        }
    }
    if (group.view.mount == "/" && service.selection.root_guessed &&
        !snapshot.kernel_command_line) {
        why += "; fstab does not list it, so this needs root= on the kernel's command line, which "
               "was not read";
    }
    const auto probe = snapshot.probes.find(group.view.mount);
    if (probe != snapshot.probes.end() && probe->second && probe->second->size_bytes &&
        probe->second->free_bytes && *probe->second->free_bytes < *probe->second->size_bytes / 10) {
        why += "; less than a tenth of it is free, and what is free inside files no trim can see";
    }
    return why;
}

void judge_coverage(const HostSnapshot& snapshot, const TimerTruth& timer,
                    const ServiceTruth& service, Group& group) {
    if (timer.state == TimerState::Broken) {
        return set(group, TrimState::NotCovered, timer.why);
    }
    if (service.state == ServiceState::Noop || service.state == ServiceState::Failing) {
        return set(group, TrimState::NotCovered, service.why);
    }
    if (timer.state == TimerState::Unknown) {
        return set(group, TrimState::Unknown, timer.why);
    }
    if (!service.selection.problem.empty()) {
        return set(group, TrimState::Unknown, service.selection.problem);
    }
    const auto* entry = deciding_entry(service.selection, group);
    if (entry != nullptr && entry->uncertain) {
        return set(group, TrimState::Unknown, entry->detail);
    }
    if (entry == nullptr ||
        (entry->skip != FstrimSkip::None && entry->skip != FstrimSkip::Duplicate)) {
        return set(group, TrimState::NotCovered,
                   entry == nullptr ? service.name + " does not select it"
                                    : service.name + " skips it: " + entry->detail);
    }
    if (timer.state == TimerState::Late) {
        return set(group, TrimState::NotCovered, timer.why);
    }
    for (const auto& mount : service.failed_mounts) {
        if (has_option(group.view.mounts, mount)) {
            return set(group, TrimState::NotCovered, service.name + " fails on it");
        }
    }
    if (last_run_left_out(snapshot, service, group)) {
        return set(group, TrimState::Unknown,
                   "fstrim should select it, but its last run did not list it");
    }
    set(group, TrimState::Covered, covered_why(snapshot, service, group));
}

void judge_duplicates(const ServiceTruth& service, const Group& group,
                      std::vector<Finding>& findings) {
    auto times = picks_of(service.selection, group);
    bool seen = false;
    if (const auto* last = last_attempt(service.runs); last != nullptr && !last->trimmed.empty()) {
        seen = true;
        times = static_cast<std::size_t>(
            std::count_if(last->trimmed.begin(), last->trimmed.end(), [&](const auto& line) {
                return has_option(group.view.mounts, line.mount);
            }));
    }
    if (times < 2) {
        return;
    }
    findings.push_back(
        {.id = "trim.not-covered",
         .reason = "duplicate",
         .severity = Severity::Info,
         .subject = subject_of(group),
         .summary = fmt::format("each run of {} trims this filesystem {} times: {} gives so many "
                                "sources for it",
                                service.name, times, service.selection.table),
         .evidence = {mount_evidence(group),
                      seen ? Evidence{"journal: " + service.name,
                                      fmt::format("{} lines for it in the last run", times)}
                           : Evidence{without_slash(service.selection.table),
                                      fmt::format("{} entries whose sources differ as text",
                                                  times)}},
         .fix = {fmt::format("add X-fstrim.notrim to the options of all but one of its entries in "
                             "{} (util-linux 2.38 and later)",
                             service.selection.table)}});
}

// The entry of fstab that says X-fstrim.notrim for a filesystem.
const FstabEntry* opt_out_entry(const HostSnapshot& snapshot, const Group& group) {
    const auto table = snapshot.tables.find("/etc/fstab");
    if (table == snapshot.tables.end() || !table->second) {
        return nullptr;
    }
    const FstabEntry* found = nullptr;
    for (const auto& entry : *table->second) {
        if (!has_option(group.view.mounts, entry.file)) {
            continue;
        }
        if (!has_option(entry.options, "X-fstrim.notrim")) {
            return nullptr; // one that is not opted out trims the whole filesystem
        }
        found = &entry;
    }
    return found;
}

void judge_opt_out(const HostSnapshot& snapshot, const ServiceTruth& service, Group& group,
                   std::vector<Finding>& findings) {
    const auto* entry = opt_out_entry(snapshot, group);
    if (entry == nullptr) {
        return;
    }
    group.opted_out = true;
    findings.push_back(
        {.id = "trim.not-covered",
         .reason = "opted-out",
         .severity = Severity::Info,
         .subject = subject_of(group),
         .summary =
             service.selection.kernel_table
                 ? fmt::format("{} asks not to be trimmed (X-fstrim.notrim), but {} reads the "
                               "kernel's table, which does not have that option",
                               group.view.mount, service.name)
                 : fmt::format("{} asks not to be trimmed (X-fstrim.notrim)", group.view.mount),
         .evidence = {{"etc/fstab", fmt::format("line {}: X-fstrim.notrim", entry->line)}}});
}

// ---- others that trim ----

struct OtherAgent {
    std::string timer;
    std::string service;
    ServiceTruth truth;
    std::vector<Evidence> evidence; // that it ran
};

bool is_trim_timer(const std::string& name) {
    return name.ends_with(".timer") && name != kTimer && name.find("trim") != std::string::npos;
}

std::vector<OtherAgent> find_other_agents(const HostSnapshot& snapshot) {
    std::vector<OtherAgent> agents;
    if (!snapshot.units) {
        return agents;
    }
    for (const auto& [name, unit] : *snapshot.units) {
        if (!is_trim_timer(name)) {
            continue;
        }
        OtherAgent agent{.timer = name,
                         .service = unit.triggers_unit.empty()
                                        ? name.substr(0, name.rfind('.')) + ".service"
                                        : unit.triggers_unit};
        agent.truth = read_service(snapshot, agent.service);
        const auto timer = judge_timer(snapshot, name, agent.truth.runs);
        const auto* last = last_attempt(agent.truth.runs);
        const bool off = timer.state == TimerState::Broken || timer.state == TimerState::Late;
        if (off || agent.truth.state == ServiceState::Noop || failure_of(agent.truth).failed) {
            continue;
        }
        if (last != nullptr) {
            agent.evidence.push_back(
                {last->from_journal ? "journal: " + agent.service : "systemd: " + agent.service,
                 "ran at " + to_rfc3339(last->time)});
        } else if (unit.last_trigger && unit.active_enter &&
                   *unit.last_trigger > *unit.active_enter) {
            agent.evidence.push_back({"systemd: " + name, "last trigger " +
                                                              to_rfc3339(*unit.last_trigger) +
                                                              " (a hint, no proof of a run)"});
        } else {
            continue; // no sign that it ever ran
        }
        agents.push_back(std::move(agent));
    }
    return agents;
}

bool trims(const OtherAgent& agent, const Group& group) {
    for (const auto& run : agent.truth.runs) {
        for (const auto& line : run.trimmed) {
            if (!line.dry_run && has_option(group.view.mounts, line.mount)) {
                return true;
            }
        }
    }
    return agent.truth.selection.problem.empty() && picks_of(agent.truth.selection, group) > 0;
}

enum class OnlineDiscard { None, Synchronous, Asynchronous };

OnlineDiscard online_discard(const Group& group) {
    auto found = OnlineDiscard::None;
    for (const auto* mount : group.mounts) {
        for (const auto& option : mount->super_options) {
            if (option == "discard=async") {
                return OnlineDiscard::Asynchronous;
            }
            if (option == "discard" || option == "discard=sync") {
                found = OnlineDiscard::Synchronous;
            }
        }
    }
    return found;
}

void judge_online_discard(Group& group, std::vector<Finding>& findings) {
    if (online_discard(group) != OnlineDiscard::Synchronous) {
        return;
    }
    findings.push_back(
        {.id = "trim.online-discard",
         .severity = Severity::Notice,
         .subject = subject_of(group),
         .summary = fmt::format("{} is mounted with discard: each deletion sends discards at once, "
                                "in the way of reads and flushes",
                                group.view.mount),
         .evidence = {{"proc/1/mountinfo", group.view.mount + ": option discard"}},
         .fix = {fmt::format("prefer trims at quiet times: mount -o remount,nodiscard {}, and take "
                             "discard out of its options in /etc/fstab or its mount unit",
                             shell_quoted(group.view.mount))}});
    if (group.view.trim == TrimState::NotCovered) {
        set(group, TrimState::OtherAgent, "discards with each deletion (mount option discard)");
    }
}

void judge_other_agents(const std::vector<OtherAgent>& agents, Group& group,
                        std::vector<Finding>& findings) {
    if (group.view.trim != TrimState::NotCovered && group.view.trim != TrimState::Unknown) {
        return;
    }
    Finding finding{
        .id = "trim.other-agent", .severity = Severity::Info, .subject = subject_of(group)};
    if (online_discard(group) == OnlineDiscard::Asynchronous) {
        finding.summary = fmt::format("{} discards by itself in the background ({} discard=async)",
                                      group.view.mount, group.view.type);
        finding.evidence = {{"proc/1/mountinfo", group.view.mount + ": option discard=async"}};
    }
    for (const auto& agent : agents) {
        if (finding.evidence.empty() && trims(agent, group)) {
            finding.summary = fmt::format("{} is trimmed by {}", group.view.mount, agent.timer);
            finding.evidence = agent.evidence;
            finding.evidence.push_back(
                {"systemd: " + agent.service, "ExecStart=" + agent.truth.command});
        }
    }
    if (finding.evidence.empty()) {
        return;
    }
    set(group, TrimState::OtherAgent, finding.summary);
    findings.push_back(std::move(finding));
}

// ---- together ----

std::optional<Finding> timer_finding(const TimerTruth& timer) {
    if (timer.id.empty()) {
        return std::nullopt;
    }
    Finding finding{.id = timer.id,
                    .severity = Severity::Warning,
                    .subject = {SubjectKind::Unit, timer.subject},
                    .summary = timer.summary,
                    .evidence = timer.evidence,
                    .fix = timer.fix,
                    .since = timer.since};
    return finding;
}

// A timer that does not trim is no fault on a host where nothing is left for it to do.
bool is_needed(const HostSnapshot& snapshot, const std::vector<Group>& groups) {
    return !snapshot.mounts || std::any_of(groups.begin(), groups.end(), [](const auto& group) {
        return group.view.trim == TrimState::Unknown ||
               (group.view.trim == TrimState::NotCovered && group.capable && !group.opted_out &&
                supports_fitrim(group.view.type));
    });
}

void judge_group(const HostSnapshot& snapshot, const TimerTruth& timer, const ServiceTruth& service,
                 const std::vector<OtherAgent>& agents, Group& group,
                 std::vector<Finding>& findings) {
    judge_opt_out(snapshot, service, group, findings);
    judge_damage(snapshot, service, group, findings);
    const bool ours = !is_open(group);
    if (!ours) {
        judge_coverage(snapshot, timer, service, group);
    }
    const bool table_counts =
        (timer.state == TimerState::Working || timer.state == TimerState::Late) &&
        service.selection.problem.empty() && service.state != ServiceState::Noop &&
        service.state != ServiceState::Failing;
    if (table_counts && !ours) {
        judge_duplicates(service, group, findings);
    }
    const auto* entry = deciding_entry(service.selection, group);
    std::optional<Finding> gap;
    if (table_counts && group.view.trim == TrimState::NotCovered && !group.opted_out) {
        gap = left_out(group, service, entry);
    }
    judge_online_discard(group, findings);
    judge_other_agents(agents, group, findings);
    if (gap && group.view.trim == TrimState::NotCovered) {
        findings.push_back(std::move(*gap));
    }
}

} // namespace

std::string container_of(const HostSnapshot& snapshot) {
    if (snapshot.container) {
        return *snapshot.container;
    }
    const auto* timer = find_unit(snapshot, kTimer);
    if (timer != nullptr) {
        for (const auto& condition : timer->conditions) {
            if (condition.state < 0 && condition.name == "ConditionVirtualization" &&
                condition.parameter == "container" && condition.negate) {
                return "container";
            }
        }
    }
    return {};
}

TrimTruth judge_trim(const HostSnapshot& snapshot, const Memory& memory, const Policy& policy) {
    (void)policy; // what the operator wants is for the plan; this says what is
    TrimTruth truth;
    auto groups = group_filesystems(snapshot);
    const bool contained = !container_of(snapshot).empty();
    if (contained) {
        for (auto& group : groups) {
            set(group, TrimState::NotApplicable, "in a container the host trims");
        }
    } else {
        const auto* timer_unit = find_unit(snapshot, kTimer);
        auto service =
            read_service(snapshot, timer_unit == nullptr || timer_unit->triggers_unit.empty()
                                       ? "fstrim.service"
                                       : timer_unit->triggers_unit);
        const auto timer = judge_timer(snapshot, kTimer, service.runs);
        for (auto& group : groups) {
            judge_applicability(snapshot, group, truth.findings);
            if (is_open(group)) {
                judge_stack(snapshot, group, truth.findings);
            }
            if (is_open(group)) {
                judge_own_trims(snapshot, memory, group);
            }
        }
        const auto failed = judge_service_failure(service, groups);
        const auto noop = judge_service_noop(service);
        const auto skipped = judge_service_condition(service);
        if (service.state == ServiceState::Unknown && service.selection.problem.empty()) {
            service.state = ServiceState::Working;
        }
        const auto agents = find_other_agents(snapshot);
        for (auto& group : groups) {
            if (group.capable && supports_fitrim(group.view.type)) {
                judge_group(snapshot, timer, service, agents, group, truth.findings);
            }
        }
        if (is_needed(snapshot, groups)) {
            for (const auto& finding : {timer_finding(timer), noop, skipped}) {
                if (finding) {
                    truth.findings.push_back(*finding);
                }
            }
        }
        if (failed && timer.state != TimerState::Broken) {
            truth.findings.push_back(*failed);
        }
        for (auto& finding : judge_marker(snapshot, memory)) {
            truth.findings.push_back(std::move(finding));
        }
    }
    for (auto& group : groups) {
        truth.filesystems.push_back(std::move(group.view));
    }
    return truth;
}

} // namespace nvmaint::core
