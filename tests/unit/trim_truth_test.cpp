#include "core/trim_truth.hpp"
#include "host_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nvmaint::core {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TrimTruth judge(const HostSnapshot& h, const Memory& memory = {}) {
    return judge_trim(h, memory, Policy{});
}
std::vector<std::string> lines(const HostSnapshot& h, const Memory& memory = {}) {
    return host::lines_of(judge(h, memory).findings);
}
const FilesystemView& view(const TrimTruth& truth, const std::string& mount) {
    for (const auto& filesystem : truth.filesystems) {
        if (filesystem.mount == mount) {
            return filesystem;
        }
    }
    ADD_FAILURE() << mount << " is not listed";
    static const FilesystemView none;
    return none;
}
TrimState state(const HostSnapshot& h, const std::string& mount, const Memory& memory = {}) {
    return view(judge(h, memory), mount).trim;
}

const char* const kDatabase = "warning trim.not-covered not-in-fstab filesystem /var/lib/db -";

// ---- coverage by the stock timer ----

TEST(TrimTruth, APlainHostHasNoFinding) {
    const auto truth = judge(host::plain());
    EXPECT_THAT(truth.findings, IsEmpty());
    ASSERT_EQ(truth.filesystems.size(), 2U);
    EXPECT_THAT(truth.filesystems, Each(Field(&FilesystemView::trim, TrimState::Covered)));
    EXPECT_THAT(view(truth, "/").stack, ElementsAre("nvme0n1p2", "nvme0n1"));
    EXPECT_THAT(view(truth, "/").disks, ElementsAre("nvme0n1"));
}

TEST(TrimTruth, AVolumeOutsideFstabIsNamedAndOnlyThat) {
    auto h = host::plain();
    host::add_database(h);
    EXPECT_THAT(lines(h), ElementsAre(kDatabase));
    const auto truth = judge(h);
    EXPECT_THAT(truth.findings[0].summary, HasSubstr("only the first list"));
    EXPECT_FALSE(truth.findings[0].fix.empty());
    EXPECT_EQ(state(h, "/"), TrimState::Covered);
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::NotCovered);
}

TEST(TrimTruth, AHostileMountPointIsQuotedInTheFix) {
    auto h = host::plain();
    host::add(h, host::disk("nvme1n1", {259, 8}));
    auto mount = host::mount("/media/a b$(reboot)\n", "ext4", {259, 8}, "/dev/nvme1n1");
    mount.options = {"rw", "nosuid"};
    host::add(h, mount);
    const auto fix = judge(h).findings.at(0).fix;
    EXPECT_THAT(fix[0], HasSubstr(R"(trim $'/media/a b$(reboot)\012')"));
    EXPECT_THAT(
        fix[1],
        HasSubstr(R"(echo '/dev/nvme1n1 /media/a\040b$(reboot)\012 ext4 nosuid,nofail 0 2')"));
}

TEST(TrimTruth, AnEmptyFstabHandsOverToTheKernelsTable) {
    auto h = host::plain();
    host::add_database(h);
    h.tables["/etc/fstab"]->clear();
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::Covered);
}

TEST(TrimTruth, WithoutFstabThereIsNoClaim) {
    auto h = host::plain();
    host::add_database(h);
    h.tables.clear();
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::Unknown);
}

TEST(TrimTruth, WhatWasNotReadIsUnknown) {
    auto h = host::plain();
    host::add_database(h);
    auto without = h;
    without.units = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_THAT(lines(without), IsEmpty());
    EXPECT_EQ(state(without, "/"), TrimState::Unknown);
    without = h;
    host::service(without).exec_start.clear();
    EXPECT_THAT(lines(without), IsEmpty());
    EXPECT_EQ(state(without, "/"), TrimState::Unknown);
    without = h;
    without.block_devices = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_THAT(lines(without), IsEmpty());
    EXPECT_EQ(state(without, "/"), TrimState::Unknown);
    without = h;
    without.block_devices->at("nvme1n1").queue.discard_granularity =
        Error::make(ErrorKind::NotRecorded, "");
    EXPECT_THAT(lines(without), IsEmpty());
    EXPECT_EQ(state(without, "/var/lib/db"), TrimState::Unknown);
    without = h;
    without.mounts = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_THAT(lines(without), IsEmpty());
    EXPECT_THAT(judge(without).filesystems, IsEmpty());
}

TEST(TrimTruth, ATimerThatIsOffIsOneFinding) {
    auto h = host::plain();
    host::add_database(h);
    host::timer(h).unit_file_state = "disabled";
    host::timer(h).active_state = "inactive";
    EXPECT_THAT(lines(h), ElementsAre("warning trim.timer.disabled - unit fstrim.timer -"));
    EXPECT_EQ(state(h, "/"), TrimState::NotCovered);
}

TEST(TrimTruth, ATimerIsNotMissedWhereNothingCanBeTrimmed) {
    auto h = host::plain();
    host::timer(h).unit_file_state = "disabled";
    host::timer(h).active_state = "inactive";
    for (auto& mount : *h.mounts) {
        mount.super_options = {"ro"};
    }
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(state(h, "/"), TrimState::NotApplicable);
}

TEST(TrimTruth, ALateTimerDoesNotHideAVolumeLeftOut) {
    auto h = host::plain();
    host::add_database(h);
    host::timer(h).last_trigger = host::at("2026-11-16T01:00:00Z");
    EXPECT_THAT(lines(h),
                ElementsAre(kDatabase, "warning trim.timer.overdue - unit fstrim.timer -"));
}

TEST(TrimTruth, NamesWhatTheCommandLineLeavesOut) {
    auto h = host::plain();
    host::add_database(h);
    host::service(h).exec_start = {{"/sbin/fstrim", "-v", "/"}};
    EXPECT_THAT(lines(h),
                ElementsAre("warning trim.not-covered not-selected filesystem /boot/efi -",
                            "warning trim.not-covered not-selected filesystem /var/lib/db -"));
    host::service(h).exec_start = {{"fstrim", "-a", "-t", "ext4,vfat"}};
    EXPECT_THAT(lines(h),
                ElementsAre("warning trim.not-covered not-selected filesystem /var/lib/db -"));
    // Several lines add up.
    host::service(h).exec_start = {host::kStockCommand, {"/sbin/fstrim", "/var/lib/db"}};
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::Covered);
}

TEST(TrimTruth, ACommandThatCannotBeFollowedIsUnknown) {
    auto h = host::plain();
    host::service(h).exec_start = {{"/bin/sh", "-c", "fstrim -av"}};
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(state(h, "/"), TrimState::Unknown);
}

TEST(TrimTruth, TheSandboxOfTheUnitMayHideAVolume) {
    auto h = host::plain();
    host::add(h, host::disk("nvme1n1", {259, 8}));
    host::add(h, host::mount("/home", "xfs", {259, 8}, "/dev/nvme1n1"));
    host::list(h, "/dev/nvme1n1", "/home", "xfs");
    EXPECT_THAT(lines(h), IsEmpty());
    host::service(h).sandbox["ProtectHome"] = "read-only";
    EXPECT_THAT(lines(h),
                ElementsAre("warning trim.not-covered read-only-view filesystem /home -"));
}

TEST(TrimTruth, AnEntryThatSaysReadOnlyHidesAWritableVolume) {
    auto h = host::plain();
    host::add_database(h);
    host::list(h, "/dev/nvme1n1", "/var/lib/db", "xfs", {"ro"});
    EXPECT_THAT(lines(h),
                ElementsAre("warning trim.not-covered read-only-view filesystem /var/lib/db -"));
}

TEST(TrimTruth, AStaleTagInFstabIsSaid) {
    auto h = host::plain();
    host::add_database(h);
    host::list(h, "UUID=before-mkfs", "/var/lib/db", "xfs");
    EXPECT_THAT(lines(h), IsEmpty()) << "without udev's record the tag cannot be doubted";
    h.block_devices->at("nvme1n1").udev = {{"ID_FS_UUID", "after-mkfs"}};
    EXPECT_THAT(lines(h), ElementsAre(kDatabase));
    EXPECT_THAT(judge(h).findings[0].summary, HasSubstr("UUID=before-mkfs names no device"));
}

TEST(TrimTruth, TheLastRunMayContradictTheRule) {
    auto h = host::plain();
    host::log(h, "2026-11-30T01:12:00Z", "systemd", "Starting x");
    host::log(h, "2026-11-30T01:12:09Z", "fstrim", "/: 1 GiB (1073741824 bytes) trimmed on /dev/x");
    host::log(h, "2026-11-30T01:12:10Z", "systemd", "Finished x");
    EXPECT_EQ(state(h, "/"), TrimState::Covered);
    EXPECT_THAT(view(judge(h), "/").why, HasSubstr("requested by the filesystem"));
    EXPECT_EQ(state(h, "/boot/efi"), TrimState::Unknown);
    EXPECT_THAT(lines(h), IsEmpty());
    h.uptime = std::chrono::hours{2}; // that run was before this boot: the mount may be new
    EXPECT_EQ(state(h, "/boot/efi"), TrimState::Covered);
}

// ---- the service ----

TEST(TrimTruth, AFailureIsExplainedByItsStatus) {
    auto h = host::plain();
    auto& service = host::service(h);
    service.exec_start = {{"/usr/sbin/fstrim", "--fstab", "--verbose", "--quiet"}};
    service.result = "exit-code";
    service.exec_main_code = 1;
    service.exec_main_status = 32;
    h.tables["/etc/fstab"] = Error::system(2, "");
    EXPECT_THAT(lines(h), ElementsAre("warning trim.service.failed - unit fstrim.service -"));
    const auto finding = judge(h).findings[0];
    EXPECT_THAT(finding.summary, HasSubstr("every filesystem failed"));
    EXPECT_THAT(finding.summary, HasSubstr("no other table to fall back to"));
    EXPECT_EQ(state(h, "/"), TrimState::NotCovered);
}

TEST(TrimTruth, APartialFailureLeavesTheRestCovered) {
    auto h = host::plain();
    auto old = host::disk("sdb2", {8, 18});
    old.read_only = std::uint64_t{1};
    host::add(h, old);
    host::add(h, host::mount("/mnt/old", "ext4", {8, 18}, "/dev/sdb2"));
    host::list(h, "/dev/sdb2", "/mnt/old", "ext4");
    host::service(h).result = "exit-code";
    host::service(h).exec_main_status = 64;
    EXPECT_THAT(lines(h), ElementsAre("warning trim.service.failed - unit fstrim.service -"));
    EXPECT_THAT(judge(h).findings[0].summary, HasSubstr("/mnt/old is read-only"));
    EXPECT_EQ(state(h, "/"), TrimState::Covered);
    EXPECT_EQ(state(h, "/mnt/old"), TrimState::NotApplicable);
    EXPECT_THAT(view(judge(h), "/mnt/old").why, HasSubstr("read-only device"));
}

TEST(TrimTruth, AMountThatAPartialRunComplainsOfIsNotCovered) {
    auto h = host::plain();
    host::log(h, "2026-11-30T01:12:00Z", "systemd", "Starting x");
    host::log(h, "2026-11-30T01:12:01Z", "fstrim",
              "fstrim: /boot/efi: FITRIM ioctl failed: Input/output error");
    host::log(h, "2026-11-30T01:12:02Z", "systemd",
              "fstrim.service: Main process exited, code=exited, status=64/n/a");
    host::log(h, "2026-11-30T01:12:02Z", "systemd", "Failed to start x");
    EXPECT_THAT(lines(h), ElementsAre("warning trim.service.failed - unit fstrim.service -"));
    EXPECT_EQ(state(h, "/"), TrimState::Covered);
    EXPECT_EQ(state(h, "/boot/efi"), TrimState::NotCovered);
}

TEST(TrimTruth, AFailureThatALaterRunMadeGoodIsOver) {
    auto h = host::plain();
    host::log(h, "2026-11-23T01:12:00Z", "systemd", "Starting x");
    host::log(h, "2026-11-23T01:12:02Z", "systemd", "Failed to start x");
    EXPECT_THAT(lines(h), ElementsAre("warning trim.service.failed - unit fstrim.service -"));
    host::log(h, "2026-11-30T01:12:00Z", "systemd", "Starting x");
    host::log(h, "2026-11-30T01:12:01Z", "fstrim", "/: 0 B (0 bytes) trimmed on /dev/x");
    host::log(h, "2026-11-30T01:12:01Z", "fstrim", "/boot/efi: 0 B (0 bytes) trimmed on /dev/x");
    host::log(h, "2026-11-30T01:12:02Z", "systemd", "Finished x");
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(state(h, "/"), TrimState::Covered) << "0 bytes are no fault";
}

TEST(TrimTruth, AMaskedServiceCannotBeStarted) {
    auto h = host::plain();
    host::service(h).load_state = "masked";
    EXPECT_THAT(lines(h), ElementsAre("warning trim.service.failed - unit fstrim.service -"));
}

TEST(TrimTruth, AServiceThatDoesNothingIsNoop) {
    for (const auto& argv : std::vector<std::vector<std::string>>{
             {"/bin/true"}, {"/sbin/fstrim", "-av", "--dry-run"}}) {
        auto h = host::plain();
        host::add_database(h);
        host::service(h).exec_start = {argv};
        EXPECT_THAT(lines(h), ElementsAre("warning trim.service.noop - unit fstrim.service -"));
        EXPECT_EQ(state(h, "/"), TrimState::NotCovered);
    }
}

TEST(TrimTruth, ARunWithoutALineIsNoopOnlyWhereLinesAreDue) {
    auto h = host::plain();
    host::log(h, "2026-11-30T01:12:00Z", "systemd", "Starting x");
    host::log(h, "2026-11-30T01:12:02Z", "systemd", "Finished x");
    EXPECT_THAT(lines(h), ElementsAre("warning trim.service.noop - unit fstrim.service -"));
    host::service(h).exec_start = {{"/sbin/fstrim", "-a"}}; // prints nothing
    EXPECT_THAT(lines(h), IsEmpty());
}

TEST(TrimTruth, AServiceSkippedByItsConditionIsNamed) {
    auto h = host::plain();
    host::service(h).condition_result = false;
    host::service(h).conditions = {{"ConditionPathExists", false, false, "/etc/fstab", -1}};
    host::log(
        h, "2026-11-30T01:12:00Z", "systemd",
        "x was skipped because of an unmet condition check (ConditionPathExists=/etc/fstab).");
    EXPECT_THAT(lines(h), Contains("warning trim.timer.condition-unmet - unit fstrim.service -"));
}

TEST(TrimTruth, DamageIsCriticalAndOtherErrorsAreNot) {
    auto h = host::plain();
    FilesystemProbe probe;
    probe.fitrim_errno = 117;
    h.probes["/"] = probe;
    EXPECT_THAT(lines(h), ElementsAre("critical trim.failed.fs-error - filesystem / -"));
    EXPECT_THAT(judge(h).findings[0].fix, Contains(HasSubstr("back up")));
    for (const int harmless : {0, 1, 5, 95, 121}) {
        probe.fitrim_errno = harmless;
        h.probes["/"] = probe;
        EXPECT_THAT(lines(h), IsEmpty()) << harmless;
    }
}

// ---- filesystems ----

TEST(TrimTruth, BindMountsAreOneFilesystemWithItsShortestMount) {
    auto h = host::plain();
    host::add(h, host::disk("nvme1n1", {259, 8}));
    for (const std::string point : {"/etc/ssh", "/var/log", "/persist", "/var/lib/x"}) {
        const bool whole = point == "/persist";
        auto mount = host::mount(point, "ext4", {259, 8}, "/dev/nvme1n1");
        mount.root = whole ? "/" : point;
        host::add(h, mount);
        host::list(h, whole ? "/dev/nvme1n1" : "/persist" + point, point, "auto", {"bind"});
    }
    EXPECT_THAT(lines(h), ElementsAre("info trim.not-covered duplicate filesystem /persist -"));
    EXPECT_THAT(judge(h).findings[0].summary, HasSubstr("4 times"));
    EXPECT_EQ(state(h, "/persist"), TrimState::Covered);
    EXPECT_EQ(view(judge(h), "/persist").mounts.size(), 4U);
    EXPECT_EQ(judge(h).filesystems.size(), 3U);
}

TEST(TrimTruth, OneLineOfANewFstrimRefutesTheDuplicate) {
    auto h = host::plain();
    host::add(h, host::disk("nvme1n1", {259, 8}));
    host::add(h, host::mount("/a", "ext4", {259, 8}, "/dev/nvme1n1"));
    host::add(h, host::mount("/b", "ext4", {259, 8}, "/dev/nvme1n1"));
    host::list(h, "/dev/nvme1n1", "/a", "ext4");
    host::list(h, "/a/b", "/b", "auto", {"bind"});
    EXPECT_EQ(lines(h).size(), 1U);
    host::log(h, "2026-11-30T01:12:00Z", "systemd", "Starting x");
    for (const char* mount : {"/", "/boot/efi", "/a"}) {
        host::log(h, "2026-11-30T01:12:01Z", "fstrim",
                  std::string(mount) + ": 1 B (1 bytes) trimmed");
    }
    host::log(h, "2026-11-30T01:12:02Z", "systemd", "Finished x");
    EXPECT_THAT(lines(h), IsEmpty());
}

TEST(TrimTruth, SubvolumesOfBtrfsAreOneFilesystem) {
    auto h = host::plain();
    host::add(h, host::disk("nvme1n1", {259, 8}));
    host::add(h, host::mount("/srv", "btrfs", {0, 41}, "/dev/nvme1n1"));
    host::add(h, host::mount("/srv/data", "btrfs", {0, 42}, "/dev/nvme1n1"));
    host::list(h, "/dev/nvme1n1", "/srv", "btrfs", {"subvol=a"});
    host::list(h, "/dev/nvme1n1", "/srv/data", "btrfs", {"subvol=b"});
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(judge(h).filesystems.size(), 3U);
    EXPECT_THAT(view(judge(h), "/srv").mounts, ElementsAre("/srv", "/srv/data"));
    EXPECT_EQ(state(h, "/srv"), TrimState::Covered);
}

TEST(TrimTruth, AMultiDeviceBtrfsStandsOnAllItsDisks) {
    auto h = host::plain();
    for (const auto& [name, minor] : {std::pair{"nvme1n1", 8U}, std::pair{"nvme2n1", 16U}}) {
        auto device = host::disk(name, {259, minor});
        device.udev = {{"ID_FS_UUID", "u"}, {"ID_FS_TYPE", "btrfs"}};
        host::add(h, device);
    }
    host::add(h, host::mount("/srv", "btrfs", {0, 41}, "/dev/nvme1n1"));
    host::list(h, "UUID=u", "/srv", "btrfs");
    EXPECT_THAT(view(judge(h), "/srv").disks, ElementsAre("nvme1n1", "nvme2n1"));
    host::no_discard(h.block_devices->at("nvme2n1"));
    EXPECT_THAT(lines(h), ElementsAre("warning trim.blocked device filesystem /srv nvme2n1"));
}

TEST(TrimTruth, WhatHasNoTrimIsNotAlarmedAbout) {
    auto h = host::plain();
    host::add(h, host::mount("/net", "nfs4", {0, 50}, "nas:/x"));
    host::add(h, host::mount("/tank", "zfs", {0, 51}, "tank"));
    host::add(h, host::mount("/run/user/1/doc", "fuse.portal", {0, 52}, "portal"));
    host::add(h, host::mount("/mnt/s3", "fuse.s3fs", {0, 53}, "s3fs"));
    auto snap = host::disk("loop0", {7, 0});
    host::no_discard(snap);
    host::add(h, snap);
    host::add(h, host::mount("/snap/core", "squashfs", {7, 0}, "/dev/loop0", {"ro"}));
    EXPECT_THAT(lines(h), IsEmpty());
    for (const char* mount : {"/net", "/tank", "/mnt/s3", "/snap/core"}) {
        EXPECT_EQ(state(h, mount), TrimState::NotApplicable) << mount;
    }
    EXPECT_EQ(judge(h).filesystems.size(), 6U) << "pseudo filesystems are left out";
}

TEST(TrimTruth, AFilesystemWithoutTrimIsInformation) {
    auto h = host::plain();
    host::add_database(h, "reiserfs");
    EXPECT_THAT(
        lines(h),
        ElementsAre("info trim.not-covered unsupported-filesystem filesystem /var/lib/db -"));
    h.mounts->front().type = "overlay";
    h.mounts->front().source = "overlay";
    h.mounts->front().device = {0, 60};
    EXPECT_THAT(lines(h), Contains("info trim.not-covered unsupported-filesystem filesystem / -"));
}

TEST(TrimTruth, AZonedDiskIsNotApplicable) {
    auto h = host::plain();
    host::add_database(h, "btrfs");
    auto& device = h.block_devices->at("nvme1n1");
    device.queue.zoned = std::string("host-managed");
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::NotApplicable);
    host::no_discard(device);
    EXPECT_THAT(lines(h), IsEmpty());
}

// ---- blocked ----

TEST(TrimTruth, ABlockedVolumeIsNotAlsoNotCovered) {
    auto h = host::plain();
    host::add_database(h);
    host::no_discard(h.block_devices->at("nvme1n1"));
    EXPECT_THAT(lines(h),
                ElementsAre("warning trim.blocked device filesystem /var/lib/db nvme1n1"));
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::Blocked);
}

TEST(TrimTruth, AVirtualDiskIsOneFindingForAllItsFilesystems) {
    auto h = host::plain();
    h.block_devices->clear();
    h.mounts->clear();
    auto xvda = host::disk("xvda", {202, 0});
    xvda.sysfs_path = "sys/devices/vbd-51712/block/xvda";
    host::no_discard(xvda);
    host::add(h, xvda);
    host::add(h, host::partition(xvda, "xvda1", {202, 1}));
    host::add(h, host::partition(xvda, "xvda2", {202, 2}));
    host::add(h, host::mount("/", "ext4", {202, 1}, "/dev/xvda1"));
    host::add(h, host::mount("/boot/efi", "vfat", {202, 2}, "/dev/xvda2"));
    FilesystemProbe probe;
    probe.fitrim_errno = 95;
    h.probes["/"] = probe;
    EXPECT_THAT(lines(h), ElementsAre("warning trim.blocked virtual-disk namespace xvda xvda"));
    EXPECT_EQ(state(h, "/boot/efi"), TrimState::Blocked);
    host::timer(h).unit_file_state = "disabled"; // would change nothing
    host::timer(h).active_state = "inactive";
    EXPECT_EQ(lines(h).size(), 1U);
}

TEST(TrimTruth, RefusalInAContainerIsNoVerdict) {
    auto h = host::plain();
    host::add_database(h);
    h.container = std::string("lxc");
    host::no_discard(h.block_devices->at("nvme1n1"));
    host::timer(h).active_state = "inactive";
    FilesystemProbe probe;
    probe.fitrim_errno = 1;
    h.probes["/"] = probe;
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(state(h, "/"), TrimState::NotApplicable);
    EXPECT_EQ(container_of(h), "lxc");
}

// ---- others ----

TEST(TrimTruth, OptedOutAndAsyncDiscardAreInformation) {
    auto h = host::plain();
    host::add_database(h, "btrfs");
    h.mounts->back().device = {0, 44};
    h.mounts->back().super_options = {"rw", "ssd", "discard=async"};
    host::list(h, "/dev/nvme1n1", "/var/lib/db", "btrfs", {"X-fstrim.notrim"});
    EXPECT_THAT(lines(h), ElementsAre("info trim.not-covered opted-out filesystem /var/lib/db -",
                                      "info trim.other-agent - filesystem /var/lib/db -"));
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::OtherAgent);
    h.mounts->back().super_options = {"rw"};
    EXPECT_THAT(lines(h), ElementsAre("info trim.not-covered opted-out filesystem /var/lib/db -"));
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::NotCovered);
}

TEST(TrimTruth, OnlineDiscardIsANoticeAndCounts) {
    auto h = host::plain();
    host::add_database(h);
    h.mounts->back().super_options = {"rw", "discard"};
    EXPECT_THAT(lines(h), ElementsAre("notice trim.online-discard - filesystem /var/lib/db -"));
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::OtherAgent);
    host::list(h, "/dev/nvme1n1", "/var/lib/db", "xfs");
    EXPECT_THAT(lines(h), ElementsAre("notice trim.online-discard - filesystem /var/lib/db -"));
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::Covered);
    h.mounts->back().super_options = {"rw", "nodiscard"};
    EXPECT_THAT(lines(h), IsEmpty());
}

HostSnapshot vendor() {
    auto h = host::plain();
    host::add_database(h);
    (*h.units)["db-fstrim.timer"] = host::weekly_timer("db-fstrim");
    Unit unit;
    unit.name = "db-fstrim.service";
    unit.load_state = "loaded";
    unit.result = "success";
    unit.exec_start = {{"/usr/sbin/fstrim", "/var/lib/db"}};
    unit.exec_main_start = host::at("2026-11-30T01:00:00Z");
    unit.exec_main_exit = host::at("2026-11-30T01:00:40Z");
    unit.exec_main_status = 0;
    (*h.units)["db-fstrim.service"] = unit;
    return h;
}

TEST(TrimTruth, AVendorsTimerThatRanIsAnotherAgent) {
    auto h = vendor();
    EXPECT_THAT(lines(h), ElementsAre("info trim.other-agent - filesystem /var/lib/db -"));
    EXPECT_EQ(state(h, "/var/lib/db"), TrimState::OtherAgent);
}

TEST(TrimTruth, AVendorsTimerThatNeverRanTrimsNothing) {
    auto h = vendor();
    auto& unit = h.units->at("db-fstrim.service");
    unit.exec_main_start.reset();
    unit.exec_main_exit.reset();
    EXPECT_THAT(lines(h), ElementsAre(kDatabase));
    h = vendor();
    h.units->at("db-fstrim.timer").active_state = "inactive";
    EXPECT_THAT(lines(h), ElementsAre(kDatabase));
    h = vendor();
    h.units->at("db-fstrim.service").exec_main_status = 1;
    EXPECT_THAT(lines(h), ElementsAre(kDatabase));
}

TEST(TrimTruth, TheStockTimerIsNotMissedWhereOthersTrimAll) {
    auto h = vendor();
    host::timer(h).unit_file_state = "disabled";
    host::timer(h).active_state = "inactive";
    EXPECT_THAT(lines(h), Contains(HasSubstr("trim.timer.disabled"))) << "/ is left";
    h.units->at("db-fstrim.service").exec_start = {{"/usr/sbin/fstrim", "-av"}};
    EXPECT_THAT(lines(h), Each(HasSubstr("info trim.other-agent")));
}

// ---- our own trims ----

Memory trimmed(const char* ended, std::uint64_t requested, std::optional<std::uint64_t> discarded,
               bool complete = true) {
    Memory memory;
    TrimRecord record;
    record.mount = "/var/lib/db";
    record.started = host::at(ended) - std::chrono::minutes{5};
    record.ended = host::at(ended);
    record.complete = complete;
    record.requested_bytes = requested;
    record.discarded_bytes = discarded;
    memory.trims = {record};
    return memory;
}

TEST(TrimTruth, AProvenTrimOfOursCoversForEightDays) {
    auto h = host::plain();
    host::add_database(h);
    EXPECT_THAT(lines(h, trimmed("2026-11-22T20:47:33Z", 1000, 950)), IsEmpty());
    EXPECT_EQ(state(h, "/var/lib/db", trimmed("2026-11-22T20:47:33Z", 1000, 950)),
              TrimState::Covered);
    EXPECT_THAT(lines(h, trimmed("2026-11-22T20:47:32Z", 1000, 1000)), ElementsAre(kDatabase));
    EXPECT_THAT(lines(h, trimmed("2026-11-30T20:00:00Z", 1000, 949)), ElementsAre(kDatabase));
    EXPECT_THAT(lines(h, trimmed("2026-11-30T20:00:00Z", 1000, {})), ElementsAre(kDatabase));
    EXPECT_THAT(lines(h, trimmed("2026-11-30T20:00:00Z", 0, 0)), ElementsAre(kDatabase));
    EXPECT_THAT(lines(h, trimmed("2026-11-30T20:00:00Z", 1000, 1000, false)),
                ElementsAre(kDatabase));
}

TEST(TrimTruth, NothingLeftToTrimAfterAProvenTrimIsCoveredToo) {
    auto h = host::plain();
    host::add_database(h);
    auto memory = trimmed("2026-11-01T20:00:00Z", 1000, 1000);
    memory.trims.push_back(trimmed("2026-11-30T20:00:00Z", 0, 0).trims[0]);
    EXPECT_THAT(lines(h, memory), IsEmpty());
}

TEST(TrimTruth, ARecordOfAnotherFilesystemAtThatMountDoesNotCount) {
    auto h = host::plain();
    host::add_database(h);
    h.block_devices->at("nvme1n1").udev = {{"ID_FS_UUID", "new"}};
    auto memory = trimmed("2026-11-30T20:00:00Z", 1000, 1000);
    memory.trims[0].fs_uuid = "old";
    EXPECT_THAT(lines(h, memory), ElementsAre(kDatabase));
    memory.trims[0].fs_uuid = "new";
    memory.trims[0].mount = "/elsewhere";
    EXPECT_THAT(lines(h, memory), IsEmpty());
}

TEST(TrimTruth, AMarkerTellsWhatCutTheTrimOff) {
    auto h = host::plain();
    Memory memory;
    memory.marker = TrimMarker{.mount = "/", .boot_id = "b1"};
    EXPECT_THAT(lines(h, memory), ElementsAre("info trim.deferred - filesystem / -"));
    memory.marker->boot_id = "b0";
    EXPECT_THAT(lines(h, memory), ElementsAre("warning trim.quarantined - filesystem / -"));
    h.boot_id = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_THAT(lines(h, memory), IsEmpty());
}

TEST(TrimTruth, EveryFindingHasEvidenceAndEveryAlarmAFix) {
    auto h = vendor();
    host::no_discard(h.block_devices->at("nvme0n1p2"));
    host::no_discard(h.block_devices->at("nvme0n1"));
    Memory memory;
    memory.marker = TrimMarker{.mount = "/", .boot_id = "b0"};
    for (const auto& finding : judge(h, memory).findings) {
        EXPECT_FALSE(finding.evidence.empty()) << finding.id;
        EXPECT_FALSE(finding.summary.empty()) << finding.id;
        if (finding.severity <= Severity::Warning) {
            EXPECT_FALSE(finding.fix.empty()) << finding.id;
        }
    }
}

} // namespace
} // namespace nvmaint::core
