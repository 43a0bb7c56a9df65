#include "core/trim_truth.hpp"
#include "host_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nvmaint::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Argv = std::vector<std::string>;

// ---- the command line ----

TEST(FstrimCommand, StockListedIn) {
    const auto command = parse_fstrim_command(host::kStockCommand);
    EXPECT_TRUE(command.understood);
    EXPECT_FALSE(command.all);
    EXPECT_THAT(command.listed_in, ElementsAre("/etc/fstab", "/proc/self/mountinfo"));
    EXPECT_TRUE(command.quiet_unsupported);
    EXPECT_TRUE(command.verbose);
    EXPECT_FALSE(command.dry_run);
}

struct CommandCase {
    Argv argv;
    FstrimCommand wanted;
};
class Command : public testing::TestWithParam<CommandCase> {};
TEST_P(Command, IsParsedAsGetoptDoes) {
    EXPECT_EQ(parse_fstrim_command(GetParam().argv), GetParam().wanted);
}
INSTANTIATE_TEST_SUITE_P(
    Lines, Command,
    testing::Values(
        CommandCase{{"/usr/sbin/fstrim", "--fstab", "--verbose", "--quiet"},
                    {.understood = true,
                     .listed_in = {"/etc/fstab"},
                     .quiet_unsupported = true,
                     .verbose = true}},
        CommandCase{{"fstrim", "-av"}, {.understood = true, .all = true, .verbose = true}},
        CommandCase{{"fstrim", "-A", "-n"},
                    {.understood = true, .listed_in = {"/etc/fstab"}, .dry_run = true}},
        CommandCase{{"fstrim", "-I", "/a:/b"}, {.understood = true, .listed_in = {"/a", "/b"}}},
        CommandCase{{"fstrim", "-vI/a"},
                    {.understood = true, .listed_in = {"/a"}, .verbose = true}},
        CommandCase{{"fstrim", "--listed-in=/a", "--types", "ext4,xfs"},
                    {.understood = true, .listed_in = {"/a"}, .types = {"ext4", "xfs"}}},
        CommandCase{{"fstrim", "/var/lib/db/"}, {.understood = true, .mounts = {"/var/lib/db"}}},
        CommandCase{{"fstrim", "-m", "1M", "--", "/srv"}, {.understood = true, .mounts = {"/srv"}}},
        CommandCase{{"fstrim", "--all", "--list=/x"},
                    {.understood = true, .all = true, .listed_in = {"/x"}}}));

class NotFollowed : public testing::TestWithParam<Argv> {};
TEST_P(NotFollowed, IsNotUnderstood) {
    EXPECT_FALSE(parse_fstrim_command(GetParam()).understood);
}
INSTANTIATE_TEST_SUITE_P(Lines, NotFollowed,
                         testing::Values(Argv{}, Argv{""}, Argv{"/bin/true"}, Argv{"fstrim"},
                                         Argv{"/bin/sh", "-c", "fstrim -av"},
                                         Argv{"fstrim", "--unheard-of"}, Argv{"fstrim", "-Z", "/"},
                                         Argv{"fstrim", "-I"}, Argv{"fstrim", "--listed-in"},
                                         Argv{"fstrim", "--version"}, Argv{"fstrim", "-a", "/"},
                                         Argv{"fstrim", "/a", "/b"}, Argv{"fstrim", "--l", "/a"}));

// ---- the lines it prints ----

struct LineCase {
    const char* text;
    TrimmedLine wanted;
};
class Line : public testing::TestWithParam<LineCase> {};
TEST_P(Line, IsParsed) {
    EXPECT_EQ(parse_trimmed_line(GetParam().text), GetParam().wanted) << GetParam().text;
}
INSTANTIATE_TEST_SUITE_P(
    Lines, Line,
    testing::Values(LineCase{"/mnt/d: 933.4 MiB (978735104 bytes) trimmed on /dev/nvme0n1",
                             {"/mnt/d", 978735104, "/dev/nvme0n1", false}},
                    LineCase{"/: 784.9 GiB (842729443328 bytes) trimmed",
                             {"/", 842729443328, "", false}},
                    LineCase{"/: 0 B (0 bytes) trimmed on /dev/sda2", {"/", 0, "/dev/sda2", false}},
                    LineCase{"/: 0 B (dry run) trimmed on /dev/sda2", {"/", 0, "/dev/sda2", true}},
                    LineCase{"/a: b (1 c): 1 KiB (1024 bytes) trimmed on /dev/x",
                             {"/a: b (1 c)", 1024, "/dev/x", false}},
                    LineCase{"/: 3,9 GiB (4157759488 Bytes) getrimmt auf /dev/vda",
                             {"/", 4157759488, "/dev/vda", false}}));

class NotALine : public testing::TestWithParam<const char*> {};
TEST_P(NotALine, GivesNothing) {
    EXPECT_EQ(parse_trimmed_line(GetParam()), std::nullopt);
}
INSTANTIATE_TEST_SUITE_P(
    Lines, NotALine,
    testing::Values("", "/", "/: ", " (", "/ (5 bytes)", "fstrim: /mnt: FITRIM ioctl failed: x",
                    "/x: 1 B (99999999999999999999999 bytes) trimmed", "/x: 5 (5bytes) trimmed",
                    "/mnt (1): the discard operation is not supported", "/x: 1 B (1 bytes",
                    "Starting fstrim.service - Discard unused blocks (5 x) ..."));

// ---- the selection ----

FstrimSelection select(const HostSnapshot& h, const Argv& argv = host::kStockCommand) {
    return select_fstrim(parse_fstrim_command(argv), h, &h.units->at("fstrim.service"));
}
std::vector<std::string> picks(const FstrimSelection& selection) {
    std::vector<std::string> mounts;
    for (const auto& entry : selection.entries) {
        if (entry.skip == FstrimSkip::None) {
            mounts.push_back(entry.mount);
        }
    }
    return mounts;
}
FstrimSkip skip_of(const FstrimSelection& selection, const std::string& mount) {
    for (const auto& entry : selection.entries) {
        if (entry.mount == mount) {
            return entry.skip;
        }
    }
    ADD_FAILURE() << mount << " has no entry";
    return FstrimSkip::None;
}

TEST(FstrimSelection, OnlyTheFirstTableWithAnEntryIsRead) {
    auto h = host::plain();
    host::add_database(h);
    auto selection = select(h);
    EXPECT_EQ(selection.table, "/etc/fstab");
    EXPECT_THAT(picks(selection), ElementsAre("/", "/boot/efi"));
    h.tables["/etc/fstab"]->clear();
    selection = select(h);
    EXPECT_EQ(selection.table, "/proc/self/mountinfo");
    EXPECT_THAT(picks(selection), ElementsAre("/", "/boot/efi", "/var/lib/db"));
    EXPECT_THAT(selection.passed_over, ElementsAre("/etc/fstab (has no entry)"));
    h.tables["/etc/fstab"] = Error::system(2, "");
    EXPECT_THAT(picks(select(h)), ElementsAre("/", "/boot/efi", "/var/lib/db"));
}

TEST(FstrimSelection, WithoutTheTableNothingIsClaimed) {
    auto h = host::plain();
    h.tables.clear();
    EXPECT_NE(select(h).problem, "");
    h.tables["/etc/fstab"] = Error::system(13, "");
    EXPECT_NE(select(h).problem, "");
    h = host::plain();
    h.mounts = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_NE(select(h).problem, "");
}

TEST(FstrimSelection, FstabWithoutAFallbackSelectsNothingWhereItIsMissing) {
    auto h = host::plain();
    h.tables["/etc/fstab"] = Error::system(2, "");
    const auto selection = select(h, {"fstrim", "--fstab"});
    EXPECT_EQ(selection.table, "");
    EXPECT_THAT(selection.entries, IsEmpty());
    EXPECT_THAT(selection.passed_over, ElementsAre("/etc/fstab (does not exist)"));
}

TEST(FstrimSelection, AddsTheRootThatFstabLacksByTheKernelsCommandLine) {
    auto h = host::plain();
    h.tables["/etc/fstab"]->erase(h.tables["/etc/fstab"]->begin());
    h.kernel_command_line = std::string("BOOT_IMAGE=/vmlinuz root=/dev/nvme0n1p2 ro quiet");
    EXPECT_TRUE(select(h).root_guessed);
    EXPECT_THAT(picks(select(h)), ElementsAre("/boot/efi", "/"));
    h.kernel_command_line = std::string("quiet");
    EXPECT_FALSE(select(h).root_guessed);
    EXPECT_THAT(picks(select(h)), ElementsAre("/boot/efi"));
    h.kernel_command_line = std::string("root=259:2");
    EXPECT_THAT(picks(select(h)), ElementsAre("/boot/efi", "/"));
}

TEST(FstrimSelection, OnlyEtcFstabGetsItsRootGuessed) {
    auto h = host::plain();
    h.tables["/etc/list"] = std::vector<FstabEntry>{{1, "/dev/nvme0n1p1", "/boot/efi", "vfat", {}}};
    const auto selection = select(h, {"fstrim", "-I", "/etc/list"});
    EXPECT_THAT(picks(selection), ElementsAre("/boot/efi"));
}

TEST(FstrimSelection, SkipsWhatTheTableAsksToSkip) {
    auto h = host::plain();
    host::add_database(h);
    host::list(h, "/dev/nvme1n1", "/var/lib/db", "xfs", {"noatime", "X-fstrim.notrim"});
    EXPECT_EQ(skip_of(select(h), "/var/lib/db"), FstrimSkip::OptedOut);
    h.tables["/etc/fstab"]->back().options = {"ro"};
    EXPECT_EQ(skip_of(select(h), "/var/lib/db"), FstrimSkip::ListedReadOnly);
    h.tables["/etc/fstab"]->back().options = {"defaults"};
    EXPECT_EQ(skip_of(select(h), "/var/lib/db"), FstrimSkip::None);
    EXPECT_EQ(skip_of(select(h, {"fstrim", "-A", "-t", "ext4,vfat"}), "/var/lib/db"),
              FstrimSkip::OtherType);
    EXPECT_EQ(skip_of(select(h, {"fstrim", "-A", "-t", "noxfs,btrfs"}), "/var/lib/db"),
              FstrimSkip::OtherType);
    EXPECT_EQ(skip_of(select(h, {"fstrim", "-A", "-t", "noext4"}), "/var/lib/db"),
              FstrimSkip::None);
}

TEST(FstrimSelection, TheKernelsTableKnowsNoOptOut) {
    auto h = host::plain();
    host::add_database(h);
    host::list(h, "/dev/nvme1n1", "/var/lib/db", "xfs", {"X-fstrim.notrim"});
    EXPECT_EQ(skip_of(select(h, {"fstrim", "-a"}), "/var/lib/db"), FstrimSkip::None);
}

TEST(FstrimSelection, SkipsSwapPseudoAndNetwork) {
    auto h = host::plain();
    host::list(h, "/dev/nvme0n1p1", "none", "swap");
    host::list(h, "tmpfs", "/tmp", "tmpfs");
    host::list(h, "nas:/x", "/net", "nfs4");
    host::list(h, "/", "/bound", "none", {"bind"});
    for (const char* mount : {"none", "/tmp", "/net", "/bound"}) {
        EXPECT_EQ(skip_of(select(h), mount), FstrimSkip::Pseudo) << mount;
    }
    EXPECT_EQ(skip_of(select(h, {"fstrim", "-a"}), "/proc"), FstrimSkip::Pseudo);
}

TEST(FstrimSelection, SkipsWhatIsNotMountedOrReadOnly) {
    auto h = host::plain();
    host::list(h, "/dev/nvme0n1p1", "/later", "ext4", {"noauto"});
    EXPECT_EQ(skip_of(select(h), "/later"), FstrimSkip::NotMounted);
    h.mounts->front().super_options = {"ro"};
    EXPECT_EQ(skip_of(select(h), "/"), FstrimSkip::ReadOnly);
    EXPECT_EQ(skip_of(select(h, {"fstrim", "-a"}), "/"), FstrimSkip::ListedReadOnly);
}

TEST(FstrimSelection, ABindOntoItsOwnFilesystemIsNoMountPointToFstrim) {
    auto h = host::plain();
    auto bound = host::mount("/srv", "ext4", {259, 2}, "/dev/nvme0n1p2");
    bound.parent = h.mounts->front().id;
    host::add(h, bound);
    host::list(h, "/data", "/srv", "auto", {"bind"});
    EXPECT_EQ(skip_of(select(h), "/srv"), FstrimSkip::NotMounted);
}

TEST(FstrimSelection, AsksTheWholeDiskForItsGranularityAndTheDeviceForReadOnly) {
    auto h = host::plain();
    auto& root = h.block_devices->at("nvme0n1p2");
    root.read_only = std::uint64_t{1};
    EXPECT_EQ(skip_of(select(h), "/"), FstrimSkip::ReadOnlyDevice);
    root.read_only = std::uint64_t{0};
    root.queue.discard_granularity = std::uint64_t{0};
    EXPECT_EQ(skip_of(select(h), "/"), FstrimSkip::NoDiscard);
    root.queue.discard_granularity = Error::system(2, "");
    EXPECT_EQ(skip_of(select(h), "/"), FstrimSkip::NoDiscard);
    root.queue.discard_granularity = Error::make(ErrorKind::NotRecorded, "");
    const auto selection = select(h);
    EXPECT_TRUE(selection.entries[0].uncertain);
}

TEST(FstrimSelection, ResolvesTagsThroughUdev) {
    auto h = host::plain();
    h.block_devices->at("nvme0n1p2").udev = {{"ID_FS_UUID", "aaaa"}, {"ID_FS_LABEL", "root"}};
    EXPECT_EQ(select(h).entries[0].source, "/dev/nvme0n1p2");
    h.tables["/etc/fstab"]->front().source = "LABEL=\"root\"";
    EXPECT_EQ(select(h).entries[0].source, "/dev/nvme0n1p2");
    h.tables["/etc/fstab"]->front().source = "UUID=old";
    EXPECT_EQ(skip_of(select(h), "/"), FstrimSkip::UnknownSource);
}

TEST(FstrimSelection, DoesNotTakeARaidMemberForTheFilesystem) {
    auto h = host::plain();
    auto md = host::disk("md0", {9, 0});
    md.udev = {{"ID_FS_UUID", "u"}, {"ID_FS_TYPE", "ext4"}};
    host::add(h, md);
    auto member = host::disk("a0", {8, 0});
    member.udev = {{"ID_FS_UUID", "u"}, {"ID_FS_TYPE", "linux_raid_member"}};
    host::add(h, member);
    EXPECT_EQ(find_device(*h.block_devices, "UUID=u"), "md0");
}

TEST(FstrimSelection, DropsALaterEntryOfTheSameSourceOnly) {
    auto h = host::plain();
    host::add(h, host::disk("nvme1n1", {259, 8}));
    for (const char* point : {"/a", "/b", "/c"}) {
        host::add(h, host::mount(point, "btrfs", {0, 40}, "/dev/nvme1n1"));
    }
    host::list(h, "/dev/nvme1n1", "/a", "btrfs", {"subvol=a"});
    host::list(h, "/dev/nvme1n1", "/b", "btrfs", {"subvol=b"});
    host::list(h, "/a/c", "/c", "auto", {"bind"});
    const auto selection = select(h);
    EXPECT_EQ(skip_of(selection, "/b"), FstrimSkip::Duplicate);
    EXPECT_EQ(skip_of(selection, "/c"), FstrimSkip::None) << "its source differs as text";
}

TEST(FstrimSelection, TheLastEntryOfAMountPointCounts) {
    auto h = host::plain();
    host::list(h, "/dev/nvme0n1p2", "/", "ext4", {"X-fstrim.notrim"});
    const auto selection = select(h);
    EXPECT_EQ(selection.entries.size(), 2U);
    EXPECT_EQ(skip_of(selection, "/"), FstrimSkip::OptedOut);
}

TEST(FstrimSelection, TakesDevRootOfTheKernelByItsNumber) {
    auto h = host::plain();
    h.mounts->front().source = "/dev/root";
    EXPECT_EQ(select(h, {"fstrim", "-a"}).entries[0].source, "/dev/nvme0n1p2");
}

TEST(FstrimSelection, ANamedFolderStandsForTheFilesystemThatHoldsIt) {
    auto h = host::plain();
    host::add_database(h);
    EXPECT_THAT(picks(select(h, {"fstrim", "/var/lib/db/data"})), ElementsAre("/var/lib/db"));
    EXPECT_THAT(picks(select(h, {"fstrim", "/var/lib/dbx"})), ElementsAre("/"));
}

struct SandboxCase {
    const char* key;
    const char* value;
    const char* mount;
    bool hidden;
};
class Sandbox : public testing::TestWithParam<SandboxCase> {};
TEST_P(Sandbox, HidesWhatTheManualSays) {
    const auto& c = GetParam();
    Unit unit;
    unit.sandbox[c.key] = c.value;
    EXPECT_EQ(sandbox_hides(unit, c.mount).has_value(), c.hidden);
    if (c.hidden) {
        EXPECT_EQ(*sandbox_hides(unit, c.mount), std::string(c.key) + "=" + c.value);
        unit.sandbox["ReadWritePaths"] = std::string("-") + c.mount;
        EXPECT_EQ(sandbox_hides(unit, c.mount).has_value(), false);
    }
}
INSTANTIATE_TEST_SUITE_P(
    Settings, Sandbox,
    testing::Values(SandboxCase{"ProtectHome", "yes", "/home", true},
                    SandboxCase{"ProtectHome", "read-only", "/home/db", true},
                    SandboxCase{"ProtectHome", "no", "/home", false},
                    SandboxCase{"ProtectHome", "yes", "/homework", false},
                    SandboxCase{"ProtectSystem", "strict", "/var/lib/db", true},
                    SandboxCase{"ProtectSystem", "full", "/var/lib/db", false},
                    SandboxCase{"ProtectSystem", "full", "/boot/efi", true},
                    SandboxCase{"ProtectSystem", "yes", "/etc", false},
                    SandboxCase{"ProtectSystem", "no", "/usr", false},
                    SandboxCase{"ReadOnlyPaths", "/srv -/var/lib", "/var/lib/db", true},
                    SandboxCase{"InaccessiblePaths", "/srv", "/var", false}));

} // namespace
} // namespace nvmaint::core
