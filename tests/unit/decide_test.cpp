#include "core/decide.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nvmaint::core {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Monday 2026-11-30, 20:47:33 UTC.
const WallTime kNow = WallTime{seconds{1796071653}};

Finding finding(const char* id, const char* reason, SubjectKind kind, const char* name) {
    Finding f;
    f.id = id;
    f.reason = reason;
    f.severity = Severity::Warning;
    f.subject = {kind, name};
    f.evidence = {{"x", "x"}};
    return f;
}

BlockDevice block(const std::string& name) {
    BlockDevice d;
    d.name = name;
    d.read_only = std::uint64_t{0};
    d.queue.discard_max_bytes = std::uint64_t{2147483136};
    d.queue.zoned = std::string("none");
    DiskCounters counters;
    counters.discards = DiskCounters::Discards{};
    d.counters = counters;
    return d;
}

// A database on an ext4 that nothing trims, on a healthy client drive, mode maintain.
struct Host {
    HostSnapshot snapshot;
    Diagnosis diagnosis;
    Memory memory;
    Policy policy;

    Host() {
        snapshot.now.wall = kNow;
        snapshot.uptime = seconds{hours{960}};
        snapshot.utc_offset = seconds{0};
        snapshot.boot_id = std::string("boot-1");
        snapshot.block_devices = std::map<std::string, BlockDevice>{};
        snapshot.controllers = std::map<std::string, NvmeController>{};
        snapshot.mounts = std::vector<Mount>{};
        policy.mode = Mode::Maintain;
        add_drive("nvme1", "nvme1n1", "S1");
        add_filesystem("/var/lib/db", "nvme1n1", "u-db");
        diagnosis.findings = {
            finding("trim.not-covered", "not-in-fstab", SubjectKind::Filesystem, "/var/lib/db")};
    }
    void add_drive(const std::string& controller, const std::string& disk,
                   const std::string& serial) {
        BlockDevice d = block(disk);
        d.nvme_controller = controller;
        snapshot.block_devices->emplace(disk, d);
        NvmeController c;
        c.name = controller;
        c.transport = std::string("pcie");
        c.namespaces = {disk};
        snapshot.controllers->emplace(controller, c);
        DriveView view;
        view.name = controller;
        view.model = "KXG60ZNV1T02";
        view.serial = serial;
        view.disks = {disk};
        view.health = "ok";
        diagnosis.drives.push_back(view);
    }
    void add_filesystem(const std::string& mount, const std::string& disk,
                        const std::string& uuid) {
        FilesystemView fs;
        fs.mount = mount;
        fs.mounts = {mount};
        fs.type = "ext4";
        fs.uuid = uuid;
        fs.source = "/dev/" + disk;
        fs.stack = {disk};
        fs.disks = {disk};
        fs.trim = TrimState::NotCovered;
        fs.why = "not in /etc/fstab";
        diagnosis.filesystems.push_back(fs);
        Mount m;
        m.mount_point = mount;
        m.type = "ext4";
        m.options = {"rw", "relatime"};
        m.super_options = {"rw"};
        snapshot.mounts->push_back(m);
    }
    FilesystemView& fs() { return diagnosis.filesystems[0]; }
    BlockDevice& disk() { return snapshot.block_devices->at("nvme1n1"); }
    DriveView& drive() { return diagnosis.drives[0]; }
    Plan plan() const { return decide(snapshot, diagnosis, memory, policy); }
    std::optional<std::string> by_hand(const std::string& mount = "/var/lib/db") const {
        return refuse_trim(snapshot, diagnosis, memory, mount);
    }
    // The one refusal's reason; "" where the trim would start.
    std::string refusal() const {
        const Plan p = plan();
        EXPECT_EQ(p.actions.size() + p.refusals.size(), 1U);
        return p.refusals.empty() ? "" : p.refusals[0].reason;
    }
};

TrimRecord record(WallTime started, const char* outcome = "done") {
    TrimRecord r;
    r.mount = "/var/lib/db";
    r.fs_uuid = "u-db";
    r.disks = {"nvme1n1"};
    r.started = started;
    r.ended = started + seconds{60};
    r.complete = std::string(outcome) == "done";
    r.outcome = outcome;
    r.discarded_bytes = 1 << 30;
    return r;
}

// ---- wishes ----

TEST(Decide, TrimsWhatNothingTrims) {
    const Host host;
    const Plan plan = host.plan();
    EXPECT_THAT(plan.refusals, IsEmpty());
    ASSERT_EQ(plan.actions.size(), 1U);
    EXPECT_EQ(plan.actions[0].kind, "trim");
    EXPECT_EQ(plan.actions[0].subject, (Subject{SubjectKind::Filesystem, "/var/lib/db"}));
    EXPECT_THAT(plan.actions[0].because, ElementsAre("trim.not-covered"));
    EXPECT_THAT(plan.actions[0].reason, HasSubstr("not in /etc/fstab"));
}

TEST(Decide, StartsNothingInModeObserve) {
    Host host;
    host.policy.mode = Mode::Observe;
    const Plan plan = host.plan();
    EXPECT_THAT(plan.actions, IsEmpty());
    ASSERT_EQ(plan.refusals.size(), 1U);
    EXPECT_EQ(plan.refusals[0].kind, "trim");
    EXPECT_EQ(plan.refusals[0].reason, "mode is observe");
    EXPECT_THAT(plan.refusals[0].because, ElementsAre("trim.not-covered"));
}

TEST(Decide, IsEmptyOnAnEmptyHost) {
    EXPECT_EQ(decide({}, {}, {}, {}), Plan{});
}

TEST(Decide, TrimsWhatABrokenTimerLeaves) {
    Host host;
    host.diagnosis.findings = {
        finding("trim.timer.disabled", "", SubjectKind::Unit, "fstrim.timer")};
    const Plan plan = host.plan();
    ASSERT_EQ(plan.actions.size(), 1U);
    EXPECT_THAT(plan.actions[0].because, ElementsAre("trim.timer.disabled"));
}

struct State {
    TrimState state;
    bool stalls;
    bool wish;
};
class DecideState : public testing::TestWithParam<State> {};
TEST_P(DecideState, WishesForTheUncoveredAndTheStalling) {
    Host host;
    host.fs().trim = GetParam().state;
    host.diagnosis.findings.clear();
    if (GetParam().stalls) {
        host.diagnosis.findings = {
            finding("flush.device-stall", "", SubjectKind::Namespace, "nvme1n1"),
            finding("flush.periodic-stall", "", SubjectKind::Namespace, "nvme1n1")};
    }
    const Plan plan = host.plan();
    EXPECT_EQ(plan.actions.size() + plan.refusals.size(), GetParam().wish ? 1U : 0U);
    if (GetParam().wish && GetParam().stalls && !plan.actions.empty()) {
        EXPECT_THAT(plan.actions[0].because,
                    ElementsAre("flush.device-stall", "flush.periodic-stall"));
    }
}
INSTANTIATE_TEST_SUITE_P(States, DecideState,
                         testing::Values(State{TrimState::NotCovered, false, true},
                                         State{TrimState::Covered, false, false},
                                         State{TrimState::Blocked, false, false},
                                         State{TrimState::OtherAgent, false, false},
                                         State{TrimState::NotApplicable, false, false},
                                         State{TrimState::Unknown, false, false},
                                         State{TrimState::NotCovered, true, true},
                                         State{TrimState::Covered, true, true},
                                         State{TrimState::Blocked, true, true}, // as a refusal
                                         State{TrimState::OtherAgent, true, true},
                                         State{TrimState::NotApplicable, true, false},
                                         State{TrimState::Unknown, true, true}));

TEST(Decide, WishesNothingForTheStallsOfATrimmedDrive) {
    Host host;
    host.fs().trim = TrimState::Covered;
    host.diagnosis.findings = {
        finding("flush.device-stall", "", SubjectKind::Namespace, "nvme1n1")};
    EXPECT_EQ(host.plan().actions.size(), 1U);
    Host discarded = host;
    discarded.disk().counters->discards->sectors = 8;
    EXPECT_EQ(discarded.plan(), Plan{});
    Host trimmed = host;
    trimmed.memory.trims = {record(kNow - hours{48})};
    EXPECT_EQ(trimmed.plan(), Plan{});
    Host in_vain = trimmed;
    in_vain.memory.trims[0].discarded_bytes = 0;
    EXPECT_EQ(in_vain.plan().actions.size(), 1U);
}

TEST(Decide, LeavesAloneTheStallsOfAnotherDrive) {
    Host host;
    host.fs().trim = TrimState::Covered;
    host.diagnosis.findings = {
        finding("flush.device-stall", "", SubjectKind::Namespace, "nvme0n1")};
    EXPECT_EQ(host.plan(), Plan{});
}

TEST(Decide, WishesNothingForAFilesystemWithoutTrim) {
    Host host;
    host.diagnosis.findings = {finding("trim.not-covered", "unsupported-filesystem",
                                       SubjectKind::Filesystem, "/var/lib/db")};
    EXPECT_EQ(host.plan(), Plan{});
}

TEST(Decide, TakesOverWhatATimerCoversOnlyByPolicy) {
    Host host;
    host.fs().trim = TrimState::Covered;
    host.diagnosis.findings.clear();
    EXPECT_EQ(host.plan(), Plan{});
    host.policy.trim.takeover = true;
    EXPECT_EQ(host.plan().actions.size(), 1U);
}

// ---- permissions ----

struct Obstacle {
    std::string name;
    std::function<void(Host&)> change;
    std::string reason;   // "" = none: it starts
    bool by_hand = false; // holds for a trim by hand as well
};
void PrintTo(const Obstacle& o, std::ostream* out) {
    *out << o.name;
}
class DecideObstacle : public testing::TestWithParam<Obstacle> {};
TEST_P(DecideObstacle, IsTheReasonOfTheRefusal) {
    Host host;
    GetParam().change(host);
    const std::string why = host.refusal();
    if (GetParam().reason.empty()) {
        EXPECT_EQ(why, "");
    } else {
        EXPECT_THAT(why, HasSubstr(GetParam().reason));
    }
    const auto by_hand = host.by_hand();
    EXPECT_EQ(by_hand.has_value(), GetParam().by_hand) << by_hand.value_or("");
    if (by_hand && GetParam().by_hand) {
        EXPECT_THAT(*by_hand, HasSubstr(GetParam().reason));
    }
}

void put_on_md(Host& h, const char* level, std::optional<std::string> action) {
    BlockDevice md = block("md0");
    md.slaves = {"nvme1n1"};
    md.md = MdArray{};
    md.md->level = level;
    if (action) {
        md.md->sync_action = *action;
    }
    h.snapshot.block_devices->emplace("md0", md);
    h.fs().stack = {"md0", "nvme1n1"};
}

void put_on_dm(Host& h, const char* line) {
    BlockDevice dm = block("dm-0");
    dm.slaves = {"nvme1n1"};
    dm.dm = DeviceMapper{};
    dm.dm->table = std::vector<std::string>{line};
    h.snapshot.block_devices->emplace("dm-0", dm);
    h.fs().stack = {"dm-0", "nvme1n1"};
}

INSTANTIATE_TEST_SUITE_P(
    Stack, DecideObstacle,
    testing::Values(
        Obstacle{"stack unknown", [](Host& h) { h.fs().stack.clear(); }, "not known", true},
        Obstacle{"disks unknown", [](Host& h) { h.fs().disks.clear(); }, "not known", true},
        Obstacle{"a layer unknown",
                 [](Host& h) {
                     h.fs().stack = {"dm-3", "nvme1n1"};
                 },
                 "nothing is known of dm-3", true},
        Obstacle{"no devices read",
                 [](Host& h) { h.snapshot.block_devices = Error::make(ErrorKind::System, "x"); },
                 "nothing is known of nvme1n1", true},
        Obstacle{"no discard", [](Host& h) { h.disk().queue.discard_max_bytes = 0U; },
                 "passes no discards", true},
        Obstacle{"discard unknown",
                 [](Host& h) {
                     h.disk().queue.discard_max_bytes = Error::system(2, "discard_max_bytes");
                 },
                 "is not known", true},
        Obstacle{"zoned", [](Host& h) { h.disk().queue.zoned = std::string("host-managed"); },
                 "zoned", true},
        Obstacle{"a kernel without zones",
                 [](Host& h) { h.disk().queue.zoned = Error::system(2, "zoned"); }, ""},
        Obstacle{"dm-crypt that passes discards",
                 [](Host& h) {
                     put_on_dm(h, "0 2048 crypt aes-xts-plain64 0 0 259:3 0 1 allow_discards");
                 },
                 ""},
        Obstacle{"dm-raid",
                 [](Host& h) { put_on_dm(h, "0 2048 raid raid1 3 0 region_size 1024 2 - 259:0"); },
                 "dm-raid", true},
        Obstacle{"array at rest", [](Host& h) { put_on_md(h, "raid1", "idle"); }, ""},
        Obstacle{"array resyncing", [](Host& h) { put_on_md(h, "raid1", "resync"); },
                 "resync/rebuild in progress", true},
        Obstacle{"array recovering", [](Host& h) { put_on_md(h, "raid5", "recover"); },
                 "resync/rebuild in progress", true},
        Obstacle{"array checked", [](Host& h) { put_on_md(h, "raid1", "check"); },
                 "md0 is at \"check\"", true},
        Obstacle{"array unknown", [](Host& h) { put_on_md(h, "raid1", std::nullopt); },
                 "whether md0 is rebuilding is not known", true},
        Obstacle{"striped array", [](Host& h) { put_on_md(h, "raid0", std::nullopt); }, ""},
        Obstacle{"another array of the disk rebuilds",
                 [](Host& h) {
                     BlockDevice part = block("nvme1n1p2");
                     part.partition_of = "nvme1n1";
                     h.snapshot.block_devices->emplace("nvme1n1p2", part);
                     put_on_md(h, "raid1", "recover");
                     h.fs().stack = {"nvme1n1"};
                     h.snapshot.block_devices->at("md0").slaves = {"nvme1n1p2"};
                 },
                 "resync/rebuild in progress", true},
        Obstacle{"an array elsewhere rebuilds",
                 [](Host& h) {
                     put_on_md(h, "raid1", "recover");
                     h.fs().stack = {"nvme1n1"};
                     h.snapshot.block_devices->at("md0").slaves = {"sda"};
                 },
                 ""}));

INSTANTIATE_TEST_SUITE_P(
    Filesystem, DecideObstacle,
    testing::Values(
        Obstacle{"mounted read-only", [](Host& h) { h.snapshot.mounts->at(0).options = {"ro"}; },
                 "read-only", true},
        Obstacle{"superblock read-only",
                 [](Host& h) { h.snapshot.mounts->at(0).super_options = {"ro"}; }, "read-only",
                 true},
        Obstacle{"one of two mounts writable",
                 [](Host& h) {
                     Mount second = h.snapshot.mounts->at(0);
                     h.snapshot.mounts->at(0).options = {"ro"};
                     second.mount_point = "/srv";
                     h.snapshot.mounts->push_back(second);
                     h.fs().mounts = {"/srv", "/var/lib/db"};
                 },
                 ""},
        Obstacle{"mounts unknown",
                 [](Host& h) { h.snapshot.mounts = Error::make(ErrorKind::System, "x"); },
                 "mount table is not known", true},
        Obstacle{"device read-only", [](Host& h) { h.disk().read_only = 1U; },
                 "nvme1n1 is read-only", true},
        Obstacle{"blocked",
                 [](Host& h) {
                     h.fs().trim = TrimState::Blocked;
                     h.fs().why = "dm-0 has no allow_discards";
                     h.diagnosis.findings = {
                         finding("flush.device-stall", "", SubjectKind::Namespace, "nvme1n1")};
                 },
                 "dm-0 has no allow_discards", true},
        Obstacle{"opted out in fstab",
                 [](Host& h) {
                     h.snapshot.tables["/etc/fstab"] =
                         std::vector<FstabEntry>{{.line = 7,
                                                  .source = "UUID=u-db",
                                                  .file = "/var/lib/db",
                                                  .type = "ext4",
                                                  .options = {"defaults", "X-fstrim.notrim"}}};
                 },
                 "/etc/fstab:7"},
        Obstacle{"opted out by finding",
                 [](Host& h) {
                     h.diagnosis.findings = {finding("trim.not-covered", "opted-out",
                                                     SubjectKind::Filesystem, "/var/lib/db")};
                 },
                 "opted out"},
        Obstacle{"excluded by policy",
                 [](Host& h) {
                     Override o;
                     o.match_mount = "/var/*";
                     o.trim_exclude = true;
                     h.policy.filesystems = {o};
                 },
                 "excluded by policy (filesystem)"},
        Obstacle{"drive excluded by policy",
                 [](Host& h) {
                     Override o;
                     o.match_model = "KXG*";
                     o.trim_exclude = true;
                     h.policy.drives = {o};
                 },
                 "excluded by policy (drive nvme1)"},
        Obstacle{"drive excluded, filesystem not",
                 [](Host& h) {
                     Override drive;
                     drive.match_model = "KXG*";
                     drive.trim_exclude = true;
                     h.policy.drives = {drive};
                     Override fs;
                     fs.match_mount = "/var/lib/db";
                     fs.trim_exclude = false;
                     h.policy.filesystems = {fs};
                 },
                 ""},
        Obstacle{"another filesystem excluded",
                 [](Host& h) {
                     Override o;
                     o.match_mount = "/srv";
                     o.trim_exclude = true;
                     h.policy.filesystems = {o};
                 },
                 ""}));

TrimMarker marker() {
    TrimMarker m;
    m.mount = "/mnt/other";
    m.fs_uuid = "u-other";
    m.boot_id = "boot-0";
    m.started = kNow - hours{5};
    return m;
}

INSTANTIATE_TEST_SUITE_P(
    Drive, DecideObstacle,
    testing::Values(
        Obstacle{"critical", [](Host& h) { h.drive().health = "critical"; },
                 "health of nvme1 is critical"},
        Obstacle{"warning", [](Host& h) { h.drive().health = "warning"; }, ""},
        Obstacle{"health unknown", [](Host& h) { h.drive().health = "unknown"; },
                 "health of nvme1 is not known"},
        Obstacle{"drive unknown", [](Host& h) { h.diagnosis.drives.clear(); },
                 "nothing is known of the drive"},
        Obstacle{"no NVMe drive", [](Host& h) { h.disk().nvme_controller.clear(); },
                 "not known to be an NVMe drive"},
        Obstacle{"controllers unread",
                 [](Host& h) { h.snapshot.controllers = Error::make(ErrorKind::System, "x"); },
                 "not known to be an NVMe drive"},
        Obstacle{
            "over the network",
            [](Host& h) { h.snapshot.controllers->at("nvme1").transport = std::string("tcp"); },
            "reached over tcp"},
        Obstacle{"transport unknown",
                 [](Host& h) {
                     h.snapshot.controllers->at("nvme1").transport = Error::system(2, "transport");
                 },
                 "how nvme1n1 is attached is not known"},
        Obstacle{"transport told by the path",
                 [](Host& h) {
                     h.snapshot.controllers->at("nvme1").transport = Error::system(2, "transport");
                     h.disk().sysfs_path =
                         "/sys/devices/pci0000:00/0000:00:04.0/nvme/nvme1/nvme1n1";
                 },
                 ""},
        Obstacle{"marker of another boot, same disk",
                 [](Host& h) {
                     h.memory.marker = marker();
                     h.memory.marker->disks = {"nvme1n1"};
                 },
                 "quarantined"},
        Obstacle{"marker of another boot, same serial under another name",
                 [](Host& h) {
                     h.memory.marker = marker();
                     h.memory.marker->disks = {"nvme7n1"};
                     h.memory.marker->serials = {"S1"};
                 },
                 "quarantined"},
        Obstacle{"marker of another boot, same filesystem",
                 [](Host& h) {
                     h.memory.marker = marker();
                     h.memory.marker->fs_uuid = "u-db";
                 },
                 "quarantined"},
        Obstacle{"marker of another boot and drive",
                 [](Host& h) {
                     h.memory.marker = marker();
                     h.memory.marker->disks = {"nvme7n1"};
                     h.memory.marker->serials = {"S7"};
                 },
                 "nobody has lifted that yet", true},
        Obstacle{"marker of this boot and another drive",
                 [](Host& h) {
                     h.memory.marker = marker();
                     h.memory.marker->disks = {"nvme7n1"};
                     h.memory.marker->serials = {"S7"};
                     h.memory.marker->boot_id = "boot-1";
                 },
                 ""},
        Obstacle{"a marker that cannot be read", [](Host& h) { h.memory.marker_lost = true; },
                 "which drive it was on"},
        Obstacle{"marker of this boot",
                 [](Host& h) {
                     h.memory.marker = marker();
                     h.memory.marker->disks = {"nvme1n1"};
                     h.memory.marker->boot_id = "boot-1";
                 },
                 ""},
        Obstacle{"marker, and this boot is unknown",
                 [](Host& h) {
                     h.memory.marker = marker();
                     h.memory.marker->disks = {"nvme1n1"};
                     h.memory.marker->boot_id = "boot-1";
                     h.snapshot.boot_id = Error::system(2, "boot_id");
                 },
                 "quarantined"},
        Obstacle{"marker without a boot",
                 [](Host& h) {
                     h.memory.marker = marker();
                     h.memory.marker->disks = {"nvme1n1"};
                     h.memory.marker->boot_id = "";
                     h.snapshot.boot_id = std::string();
                 },
                 "quarantined"}));

INSTANTIATE_TEST_SUITE_P(
    Time, DecideObstacle,
    testing::Values(
        Obstacle{"up for just under ten minutes", [](Host& h) { h.snapshot.uptime = seconds{599}; },
                 "up for 9 min 59 s only"},
        Obstacle{"up for ten minutes", [](Host& h) { h.snapshot.uptime = seconds{600}; }, ""},
        Obstacle{"uptime unknown",
                 [](Host& h) { h.snapshot.uptime = Error::system(2, "proc/uptime"); },
                 "has been up is not known"},
        Obstacle{"trimmed an hour ago", [](Host& h) { h.memory.trims = {record(kNow - hours{1})}; },
                 "policy wants 1 day between two"},
        Obstacle{"just within the spacing",
                 [](Host& h) { h.memory.trims = {record(kNow - hours{24} - seconds{59})}; },
                 "policy wants"},
        Obstacle{"just past the spacing",
                 [](Host& h) { h.memory.trims = {record(kNow - hours{24} - seconds{60})}; }, ""},
        Obstacle{"failed an hour ago",
                 [](Host& h) { h.memory.trims = {record(kNow - hours{1}, "failed: x")}; },
                 "failed: x"},
        Obstacle{"cancelled an hour ago",
                 [](Host& h) { h.memory.trims = {record(kNow - hours{1}, "cancelled")}; },
                 "cancelled"},
        Obstacle{"interrupted nine minutes ago",
                 [](Host& h) {
                     h.memory.trims = {record(kNow - minutes{9}, "interrupted")};
                     h.memory.trims[0].ended.reset();
                 },
                 "interrupted"},
        Obstacle{"interrupted ten minutes ago",
                 [](Host& h) {
                     h.memory.trims = {record(kNow - minutes{10}, "interrupted")};
                     h.memory.trims[0].ended.reset();
                 },
                 ""},
        Obstacle{"under way",
                 [](Host& h) {
                     h.memory.trims = {record(kNow - hours{50}, "running")};
                     h.memory.trims[0].ended.reset();
                 },
                 "has not ended"},
        Obstacle{"another filesystem at the same mount",
                 [](Host& h) {
                     h.memory.trims = {record(kNow - hours{1})};
                     h.memory.trims[0].fs_uuid = "u-before";
                 },
                 ""},
        Obstacle{"same mount, no uuid on record",
                 [](Host& h) {
                     h.memory.trims = {record(kNow - hours{1})};
                     h.memory.trims[0].fs_uuid.clear();
                 },
                 "policy wants"},
        Obstacle{"the clock was set back a year",
                 [](Host& h) { h.memory.trims = {record(kNow + hours{24 * 365})}; }, ""}));

// ---- windows; now is Monday 20:47 UTC ----

TrimWindow window(std::vector<Weekday> days, int from_h, int to_h, const char* zone = "") {
    return {std::move(days), minutes{60 * from_h}, minutes{60 * to_h}, zone};
}

struct WindowCase {
    std::string name;
    std::vector<TrimWindow> windows;
    std::optional<seconds> utc_offset;
    std::string reason; // "" = open
};
void PrintTo(const WindowCase& o, std::ostream* out) {
    *out << o.name;
}
class DecideWindow : public testing::TestWithParam<WindowCase> {};
TEST_P(DecideWindow, OpensInItsTimezoneOnItsDays) {
    Host host;
    host.policy.trim.windows = GetParam().windows;
    if (GetParam().utc_offset) {
        host.snapshot.utc_offset = *GetParam().utc_offset;
    } else {
        host.snapshot.utc_offset = Error::system(2, "etc/localtime");
    }
    EXPECT_EQ(host.refusal(), GetParam().reason);
    EXPECT_FALSE(host.by_hand());
}
constexpr char kClosed[] = "no trim window is open";
constexpr char kNoLocal[] = "the host's local time is not known";
constexpr seconds kUtc{0};
INSTANTIATE_TEST_SUITE_P(
    Windows, DecideWindow,
    testing::Values(
        WindowCase{"none", {}, kUtc, ""}, WindowCase{"none, offset unknown", {}, {}, ""},
        WindowCase{"every day, within", {window({}, 20, 21)}, kUtc, ""},
        WindowCase{"every day, before", {window({}, 21, 22)}, kUtc, kClosed},
        WindowCase{"every day, after", {window({}, 19, 20)}, kUtc, kClosed},
        WindowCase{"Monday", {window({Weekday::Mon}, 20, 21)}, kUtc, ""},
        WindowCase{"Tuesday", {window({Weekday::Tue}, 20, 21)}, kUtc, kClosed},
        WindowCase{"two windows", {window({}, 1, 2), window({}, 20, 21)}, kUtc, ""},
        WindowCase{"whole day", {window({Weekday::Mon}, 3, 3)}, kUtc, ""},
        WindowCase{"whole other day", {window({Weekday::Sun}, 3, 3)}, kUtc, kClosed},
        WindowCase{"past midnight, begun", {window({Weekday::Mon}, 20, 4)}, kUtc, ""},
        WindowCase{"past midnight, begins later", {window({Weekday::Mon}, 22, 4)}, kUtc, kClosed},
        WindowCase{"begun yesterday", {window({Weekday::Sun}, 22, 21)}, kUtc, ""},
        WindowCase{
            "begun on the day before yesterday", {window({Weekday::Sat}, 22, 21)}, kUtc, kClosed},
        // 01:47 on Tuesday five hours to the east.
        WindowCase{"local, east", {window({Weekday::Tue}, 1, 2)}, seconds{hours{5}}, ""},
        WindowCase{"local by name", {window({Weekday::Tue}, 1, 2, "local")}, seconds{hours{5}}, ""},
        WindowCase{"UTC, east", {window({Weekday::Mon}, 20, 21, "UTC")}, seconds{hours{5}}, ""},
        WindowCase{"local, west", {window({Weekday::Mon}, 12, 13)}, -seconds{hours{8}}, ""},
        WindowCase{"offset unknown", {window({}, 20, 21)}, {}, kNoLocal},
        WindowCase{"offset unknown, UTC", {window({}, 20, 21, "UTC")}, {}, ""},
        WindowCase{"a zone by name",
                   {window({}, 0, 0, "Europe/Berlin")},
                   kUtc,
                   "the timezone Europe/Berlin of a trim window is not known"},
        WindowCase{"a zone by name beside an open one",
                   {window({}, 0, 0, "Europe/Berlin"), window({}, 20, 21)},
                   kUtc,
                   ""}));

TEST(Decide, OpensAtItsFirstMinuteAndClosesAtItsLast) {
    Host host;
    host.policy.trim.windows = {{{}, minutes{20 * 60 + 47}, minutes{20 * 60 + 48}, "UTC"}};
    EXPECT_EQ(host.refusal(), "");
    host.policy.trim.windows = {{{}, minutes{20 * 60 + 46}, minutes{20 * 60 + 47}, "UTC"}};
    EXPECT_EQ(host.refusal(), kClosed);
}

// ---- several filesystems ----

TEST(Decide, TrimsOneAtATimeOnADrive) {
    Host host;
    host.add_filesystem("/srv", "nvme1n1", "u-srv");
    host.add_drive("nvme2", "nvme2n1", "S2");
    host.add_filesystem("/mnt/logs", "nvme2n1", "u-logs");
    const Plan plan = host.plan();
    ASSERT_EQ(plan.actions.size(), 2U);
    EXPECT_EQ(plan.actions[0].subject.name, "/var/lib/db");
    EXPECT_EQ(plan.actions[1].subject.name, "/mnt/logs");
    ASSERT_EQ(plan.refusals.size(), 1U);
    EXPECT_EQ(plan.refusals[0].subject.name, "/srv");
    EXPECT_THAT(plan.refusals[0].reason, HasSubstr("one trim at a time"));
}

TEST(Decide, TrimsTheStallingDriveFirst) {
    Host host;
    host.add_drive("nvme2", "nvme2n1", "S2");
    host.add_filesystem("/zzz", "nvme2n1", "u-zzz");
    host.diagnosis.findings.push_back(
        finding("flush.device-stall", "", SubjectKind::Namespace, "nvme2n1"));
    const Plan plan = host.plan();
    ASSERT_EQ(plan.actions.size(), 2U);
    EXPECT_EQ(plan.actions[0].subject.name, "/zzz");
    EXPECT_THAT(plan.actions[0].because, testing::Contains("flush.device-stall"));
}

TEST(Decide, ARefusedFilesystemDoesNotHoldItsDrive) {
    Host host;
    host.snapshot.mounts->at(0).options = {"ro"};
    host.add_filesystem("/zzz", "nvme1n1", "u-zzz");
    const Plan plan = host.plan();
    ASSERT_EQ(plan.actions.size(), 1U);
    EXPECT_EQ(plan.actions[0].subject.name, "/zzz");
}

TEST(Decide, WithoutAnyEvidenceStartsNothing) {
    // Each reading failed in turn: never an action more than before.
    const std::vector<std::function<void(Host&)>> failures{[](Host& h) { h.snapshot.block_devices = Error{}; },
                                                           [](Host& h) { h.snapshot.mounts = Error{}; },
                                                           [](Host& h) { h.snapshot.controllers = Error{}; },
                                                           [](Host& h) { h.snapshot.uptime = Error{}; },
                                                           [](Host& h) { h.disk().queue = QueueAttributes{}; },
                                                           [](Host& h) { h.diagnosis.drives.clear(); }};
    for (std::size_t i = 0; i < failures.size(); ++i) {
        Host host;
        failures[i](host);
        EXPECT_THAT(host.plan().actions, IsEmpty()) << i;
        EXPECT_EQ(host.plan().refusals.size(), 1U) << i;
    }
}

// ---- a trim cut off ----

TEST(Decide, ContinuesATrimThatTheServicesEndCutOff) {
    Host host;
    host.fs().trim = TrimState::Covered;
    host.diagnosis.findings = {
        finding("trim.deferred", "", SubjectKind::Filesystem, "/var/lib/db")};
    host.memory.marker = marker();
    host.memory.marker->fs_uuid = "u-db";
    host.memory.marker->boot_id = "boot-1";
    const Plan plan = host.plan();
    ASSERT_EQ(plan.actions.size(), 1U);
    EXPECT_EQ(plan.actions[0].reason, "its last trim was cut off");
    EXPECT_THAT(plan.actions[0].because, ElementsAre("trim.deferred"));
}

// ---- by hand ----

TEST(Decide, LetsPeopleTrimWhatAutomationLeavesAlone) {
    Host host;
    host.policy.mode = Mode::Observe;
    host.snapshot.uptime = seconds{10};
    host.memory.trims = {record(kNow - hours{1})};
    host.memory.marker = marker();
    host.memory.marker->disks = {"nvme1n1"};
    host.drive().health = "critical";
    for (const TrimState state :
         {TrimState::Covered, TrimState::NotCovered, TrimState::OtherAgent, TrimState::Unknown}) {
        host.fs().trim = state;
        EXPECT_FALSE(host.by_hand());
    }
}

// One marker holds one trim: writing another over it would lift the quarantine of a drive that
// nobody has looked at.
TEST(Decide, RefusesByHandWhatWouldWriteOverAnotherDrivesQuarantine) {
    Host host;
    host.memory.marker = marker();
    host.memory.marker->disks = {"nvme7n1"};
    host.memory.marker->serials = {"S7"};
    EXPECT_THAT(host.by_hand().value_or(""), HasSubstr("nobody has lifted that yet"));
    host.memory.marker->boot_id = "boot-1";
    EXPECT_FALSE(host.by_hand()) << "in this boot it was only the service that ended";
}

TEST(Decide, LetsAPersonLiftALostMarker) {
    Host host;
    host.memory.marker_lost = true;
    EXPECT_FALSE(host.by_hand());
}

TEST(Decide, RefusesAMountThatIsNotKnown) {
    const Host host;
    EXPECT_THAT(host.by_hand("/nowhere").value_or(""), HasSubstr("no filesystem is known"));
    EXPECT_THAT(host.by_hand("").value_or(""), HasSubstr("no filesystem is known"));
}

TEST(Decide, FindsAFilesystemByAnyOfItsMounts) {
    Host host;
    host.fs().mounts = {"/var/lib/db", "/srv/db"};
    EXPECT_FALSE(host.by_hand("/srv/db"));
}

TEST(Decide, RefusesWhatTrimDoesNotApplyTo) {
    Host host;
    host.fs().trim = TrimState::NotApplicable;
    host.fs().why = "zoned";
    EXPECT_THAT(host.by_hand().value_or(""), HasSubstr("does not apply"));
}

} // namespace
} // namespace nvmaint::core
