#include "core/trim_truth.hpp"
#include "host_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nvmaint::core {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// LVM on LUKS on a partition, all passing discards.
HostSnapshot layered() {
    auto h = host::plain();
    host::add(h, host::mapped("dm-0", {253, 0}, "luks", "CRYPT-LUKS2-x-luks",
                              "0 99 crypt aes-xts-plain64 00 0 259:2 32768 1 allow_discards",
                              {"nvme0n1p2"}));
    host::add(
        h, host::mapped("dm-1", {253, 1}, "vg-root", "LVM-x", "0 99 linear 253:0 2048", {"dm-0"}));
    return h;
}
BlockDevice& device(HostSnapshot& h, const std::string& name) {
    return h.block_devices->at(name);
}

TEST(Stack, WalksFromTheTopToTheDisk) {
    const auto h = layered();
    const auto walk = walk_stack(*h.block_devices, "dm-1");
    EXPECT_THAT(walk.devices, ElementsAre("dm-1", "dm-0", "nvme0n1p2", "nvme0n1"));
    EXPECT_THAT(walk.disks, ElementsAre("nvme0n1"));
    EXPECT_EQ(walk.problem, "");
}

TEST(Stack, NamesADiskOnceBelowTwoPartitions) {
    auto h = host::plain();
    auto md = host::disk("md0", {9, 0});
    md.md = MdArray{"raid1", {}};
    md.slaves = {"nvme0n1p1", "nvme0n1p2"};
    host::add(h, md);
    EXPECT_THAT(walk_stack(*h.block_devices, "md0").disks, ElementsAre("nvme0n1"));
}

TEST(Stack, SaysWhatIsMissingBelow) {
    auto h = layered();
    h.block_devices->erase("nvme0n1p2");
    EXPECT_THAT(walk_stack(*h.block_devices, "dm-1").problem, HasSubstr("nvme0n1p2"));
    device(h, "dm-0").slaves.clear();
    EXPECT_THAT(walk_stack(*h.block_devices, "dm-1").problem, HasSubstr("below dm-0"));
    EXPECT_THAT(walk_stack(*h.block_devices, "dm-9").problem, HasSubstr("dm-9"));
}

TEST(Stack, EndsOnACircle) {
    auto h = layered();
    device(h, "dm-0").slaves = {"dm-1"};
    const auto walk = walk_stack(*h.block_devices, "dm-1");
    EXPECT_THAT(walk.devices, ElementsAre("dm-1", "dm-0"));
    EXPECT_TRUE(blame_stack(h, "dm-1").blocked == false);
    host::no_discard(device(h, "dm-0"));
    host::no_discard(device(h, "dm-1"));
    EXPECT_TRUE(blame_stack(h, "dm-1").unknown);
}

TEST(Stack, WhatPassesDiscardsIsNotBlamed) {
    const auto h = layered();
    const auto blame = blame_stack(h, "dm-1");
    EXPECT_FALSE(blame.blocked);
    EXPECT_FALSE(blame.unknown);
}

TEST(Stack, BlamesTheLowestLayerThatLosesDiscard) {
    auto h = layered();
    host::no_discard(device(h, "dm-0"));
    host::no_discard(device(h, "dm-1"));
    device(h, "dm-0").dm->table = std::vector<std::string>{"0 99 crypt aes 00 0 259:2 32768"};
    const auto blame = blame_stack(h, "dm-1");
    EXPECT_TRUE(blame.blocked);
    EXPECT_EQ(blame.layer, "dm-0");
    EXPECT_EQ(blame.reason, "dm-crypt");
    EXPECT_THAT(blame.fix, Not(Contains(HasSubstr("issue_discards"))));
    EXPECT_THAT(blame.fix, Contains(HasSubstr("which blocks are unused"))) << "the trade-off";
}

TEST(Stack, CryptIsKnownByItsUuidWhereTheTableWasNotRead) {
    auto h = layered();
    host::no_discard(device(h, "dm-0"));
    device(h, "dm-0").dm->table = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_EQ(blame_stack(h, "dm-0").reason, "dm-crypt");
}

TEST(Stack, ConfiguredInCrypttabButNotActiveIsToldApart) {
    auto h = layered();
    host::no_discard(device(h, "dm-0"));
    device(h, "dm-0").dm->table = std::vector<std::string>{"0 99 crypt aes 00 0 259:2 32768"};
    h.crypttab = std::vector<CrypttabEntry>{{3, "luks", "UUID=x", {"luks", "discard"}}};
    const auto blame = blame_stack(h, "dm-0");
    EXPECT_THAT(blame.summary, HasSubstr("not active in the running mapping"));
    EXPECT_THAT(blame.fix, Not(Contains(HasSubstr("add discard"))));
    EXPECT_THAT(blame.fix, Contains(HasSubstr("update-initramfs")));
    h.crypttab->front().name = "other";
    EXPECT_THAT(blame_stack(h, "dm-0").fix, Contains(HasSubstr("add discard")));
}

TEST(Stack, AMappingOverSomethingUnknownIsNotBlamed) {
    auto h = layered();
    host::no_discard(device(h, "dm-1"));
    device(h, "dm-1").slaves.clear();
    EXPECT_TRUE(blame_stack(h, "dm-1").unknown);
    EXPECT_FALSE(blame_stack(h, "dm-1").blocked);
    device(h, "dm-1").slaves = {"?"};
    EXPECT_TRUE(blame_stack(h, "dm-1").unknown);
}

TEST(Stack, AnArrayWhoseKindWasNotReadIsNoDisk) {
    auto h = layered();
    auto& odd = device(h, "dm-1");
    odd.dm.reset();
    host::no_discard(odd);
    EXPECT_TRUE(blame_stack(h, "dm-1").unknown);
}

TEST(Stack, ADiskWithoutDiscardIsTheDevice) {
    auto h = layered();
    for (const char* name : {"nvme0n1", "nvme0n1p2", "dm-0", "dm-1"}) {
        host::no_discard(device(h, name));
    }
    const auto blame = blame_stack(h, "dm-1");
    EXPECT_EQ(blame.layer, "nvme0n1");
    EXPECT_EQ(blame.reason, "device");
}

TEST(Stack, ARotatingDiskHasNothingToTrim) {
    auto h = host::plain();
    host::no_discard(device(h, "nvme0n1"));
    device(h, "nvme0n1").queue.rotational = std::uint64_t{1};
    EXPECT_TRUE(blame_stack(h, "nvme0n1p2").rotating);
    device(h, "nvme0n1").queue.rotational = std::uint64_t{0};
    EXPECT_FALSE(blame_stack(h, "nvme0n1p2").rotating);
    EXPECT_TRUE(blame_stack(h, "nvme0n1p2").blocked);
    device(h, "nvme0n1").queue.rotational = Error::system(5, "");
    EXPECT_TRUE(blame_stack(h, "nvme0n1p2").unknown);
}

TEST(Stack, ALimitSetToZeroIsSoftware) {
    auto h = host::plain();
    device(h, "nvme0n1").queue.discard_max_bytes = std::uint64_t{0};
    auto blame = blame_stack(h, "nvme0n1p2");
    EXPECT_EQ(blame.reason, "software-limit");
    EXPECT_EQ(blame.layer, "nvme0n1");
    device(h, "nvme0n1").queue.discard_max_hw_bytes = std::uint64_t{0};
    EXPECT_EQ(blame_stack(h, "nvme0n1p2").reason, "device");
    device(h, "nvme0n1").queue.discard_max_hw_bytes = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_EQ(blame_stack(h, "nvme0n1p2").reason, "device");
}

TEST(Stack, ALimitSetToZeroOnAMappingIsSoftwareToo) {
    auto h = layered();
    device(h, "dm-1").queue.discard_max_bytes = std::uint64_t{0};
    const auto blame = blame_stack(h, "dm-1");
    EXPECT_EQ(blame.reason, "software-limit");
    EXPECT_EQ(blame.layer, "dm-1");
}

TEST(Stack, ADriveThatSupportsDeallocationIsNotBlamedForTheKernel) {
    auto h = host::plain();
    host::no_discard(device(h, "nvme0n1"));
    device(h, "nvme0n1").nvme_controller = "nvme0";
    h.controllers = std::map<std::string, NvmeController>{};
    auto& controller = (*h.controllers)["nvme0"];
    controller.name = "nvme0";
    nvme::IdentifyController identify;
    identify.optional_commands = 0x5f;
    controller.identify = identify;
    EXPECT_EQ(blame_stack(h, "nvme0n1p2").reason, "kernel");
    identify.optional_commands = 0x5b;
    controller.identify = identify;
    EXPECT_EQ(blame_stack(h, "nvme0n1p2").reason, "device");
}

TEST(Stack, UnreadAttributesAreUnknownNotBlocked) {
    auto h = host::plain();
    auto& queue = device(h, "nvme0n1").queue;
    queue.discard_granularity = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_TRUE(blame_stack(h, "nvme0n1p2").unknown);
    // A real disk without the attribute: nothing is known either.
    queue.discard_granularity = Error::system(2, "");
    queue.discard_max_bytes = Error::system(2, "");
    EXPECT_TRUE(blame_stack(h, "nvme0n1p2").unknown);
    queue.discard_granularity = Error::system(13, "");
    EXPECT_TRUE(blame_stack(h, "nvme0n1p2").unknown);
}

TEST(Stack, AVirtualDiskWithoutTheAttributeIsBlocked) {
    auto h = host::plain();
    auto vdb = host::disk("vdb", {254, 16});
    vdb.sysfs_path = "sys/devices/pci0000:00/0000:00:05.0/virtio2/block/vdb";
    vdb.queue.discard_granularity = Error::system(2, "");
    vdb.queue.discard_max_bytes = Error::system(2, "");
    host::add(h, vdb);
    EXPECT_EQ(blame_stack(h, "vdb").reason, "virtual-disk");
    device(h, "vdb").queue.discard_granularity = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_TRUE(blame_stack(h, "vdb").unknown);
}

TEST(Stack, AUsbBridgeGetsNoAdviceWithoutItsRisk) {
    auto h = host::plain();
    auto sdb = host::disk("sdb", {8, 16});
    sdb.sysfs_path = "sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/block";
    sdb.scsi_provisioning_mode = std::string("full");
    host::no_discard(sdb);
    host::add(h, sdb);
    const auto blame = blame_stack(h, "sdb");
    EXPECT_EQ(blame.reason, "usb-bridge");
    EXPECT_THAT(blame.fix, Contains(HasSubstr("loses data")));
}

HostSnapshot array(const std::string& level) {
    auto h = host::plain();
    host::add(h, host::disk("nvme1n1", {259, 8}));
    auto md = host::disk("md0", {9, 0});
    md.md = MdArray{level, {}};
    md.slaves = {"nvme0n1", "nvme1n1"};
    host::no_discard(md);
    host::add(h, md);
    return h;
}

TEST(Stack, AnArrayIsBlamedWithItsModuleParameterOnlyWhereThatExists) {
    auto h = array("raid0");
    EXPECT_EQ(blame_stack(h, "md0").reason, "md");
    EXPECT_THAT(blame_stack(h, "md0").summary, Not(HasSubstr("devices_discard_performance")));
    h.module_parameters["raid0/devices_discard_performance"] = "N";
    EXPECT_THAT(blame_stack(h, "md0").summary, HasSubstr("devices_discard_performance"));
    EXPECT_THAT(blame_stack(h, "md0").fix, Contains(HasSubstr("Small chunks")));
    h.module_parameters["raid0/devices_discard_performance"] = "Y";
    EXPECT_THAT(blame_stack(h, "md0").summary, HasSubstr("before they did"));
}

TEST(Stack, ParityRaidAdviceNamesTheDanger) {
    auto h = array("raid5");
    h.module_parameters["raid456/devices_handle_discard_safely"] = "N";
    EXPECT_THAT(blame_stack(h, "md0").fix, Contains(HasSubstr("loses data")));
}

TEST(Stack, OneUnableMemberIsBlamedNotItsArray) {
    auto h = array("raid0");
    host::no_discard(device(h, "nvme1n1"));
    EXPECT_EQ(blame_stack(h, "md0").layer, "nvme1n1");
}

TEST(Stack, AMappingOfAnotherKindIsUnknown) {
    auto h = host::plain();
    auto dm = host::mapped("dm-5", {253, 5}, "odd", "", "0 99 vdo 259:2", {"nvme0n1p2"});
    host::no_discard(dm);
    host::add(h, dm);
    EXPECT_TRUE(blame_stack(h, "dm-5").unknown);
    EXPECT_FALSE(blame_stack(h, "dm-5").blocked);
}

TEST(Stack, AThinVolumeAndALogicalVolumeHaveTheirOwnReasons) {
    auto h = host::plain();
    auto thin =
        host::mapped("dm-5", {253, 5}, "vg-thin", "LVM-x", "0 99 thin 253:3 1", {"nvme0n1p2"});
    host::no_discard(thin);
    host::add(h, thin);
    EXPECT_EQ(blame_stack(h, "dm-5").reason, "thin");
    device(h, "dm-5").dm->table = std::vector<std::string>{"0 99 mirror core 1 1024 2"};
    EXPECT_EQ(blame_stack(h, "dm-5").reason, "lvm");
}

TEST(Stack, MalformedTablesAreHarmless) {
    auto h = host::plain();
    auto dm = host::mapped("dm-5", {253, 5}, "x", "", "", {"nvme0n1p2"});
    host::no_discard(dm);
    for (const char* table : {"", " ", "0", "0 1", "0 1 ", "\xff\xff"}) {
        dm.dm->table = std::vector<std::string>{table};
        host::add(h, dm);
        EXPECT_TRUE(blame_stack(h, "dm-5").unknown) << table;
    }
}

} // namespace
} // namespace nvmaint::core
