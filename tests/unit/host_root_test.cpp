#include "collect/host_root.hpp"

#include "folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace nvmaint::collect {
namespace {

using test::Folder;
using testing::ElementsAre;
using testing::HasSubstr;

HostRoot open_recording(const Folder& folder) {
    Result<HostRoot> root = HostRoot::recording(folder.path());
    EXPECT_TRUE(root) << root.error().text();
    return std::move(*root);
}

TEST(RelativePath, IsNormal) {
    EXPECT_EQ(relative_path("/a//b/"), "a/b");
    EXPECT_EQ(relative_path("./a/./b"), "a/b");
    EXPECT_EQ(relative_path("/"), "");
    EXPECT_EQ(relative_path("a/..b"), "a/..b");
}

TEST(HostRoot, ReadsFilesLinesAndNumbers) {
    Folder folder;
    folder.file("sys/x", "512\n").file("sys/padded", std::string("write back\n\0\0\0\0", 15));
    const HostRoot root = open_recording(folder);
    EXPECT_FALSE(root.is_live());
    EXPECT_EQ(root.read("sys/x"), Result<std::string>("512\n"));
    EXPECT_EQ(root.read("/sys//x"), Result<std::string>("512\n"));
    EXPECT_EQ(root.read_line("sys/padded"), Result<std::string>("write back"));
    EXPECT_EQ(root.read_number("sys/x"), Result<std::uint64_t>(512U));
}

TEST(HostRoot, RefusesWhatIsNoNumber) {
    Folder folder;
    folder.file("empty").file("words", "512 bytes").file("negative", "-1");
    folder.file("large", "18446744073709551616");
    const HostRoot root = open_recording(folder);
    for (const char* name : {"empty", "words", "negative", "large"}) {
        EXPECT_EQ(root.read_number(name).error().kind, ErrorKind::Malformed) << name;
    }
}

TEST(HostRoot, TellsWhatWasNotRecordedFromWhatWasNotThere) {
    Folder folder;
    folder.folder("sys/block/vdb/queue");
    folder.file("stat.toml", "[\"sys/block/vdb/queue/discard_granularity\"]\nerrno = \"ENOENT\"\n"
                             "[\"/etc/shadow\"]\nerrno = \"EACCES\"\n");
    const HostRoot root = open_recording(folder);
    const Reading<std::string> absent = root.read("sys/block/vdb/queue/discard_granularity");
    EXPECT_TRUE(absent.is_known_absent());
    EXPECT_EQ(root.read("etc/shadow").error().sys_errno, EACCES);
    const Reading<std::string> gap = root.read("sys/block/vdb/queue/discard_max_bytes");
    EXPECT_TRUE(gap.is_not_recorded());
    EXPECT_THAT(gap.error().text(), HasSubstr("discard_max_bytes"));
    EXPECT_EQ(root.list("sys/nowhere").error().kind, ErrorKind::NotRecorded);
}

TEST(HostRoot, FindsAnErrnoThroughAnyLinkThatLeadsThere) {
    Folder folder;
    folder.folder("sys/devices/virtual/block/vdb/queue");
    folder.link("sys/block/vdb", "../devices/virtual/block/vdb");
    folder.link("sys/class/block/vdb", "../../devices/virtual/block/vdb");
    folder.file("stat.toml", "[\"sys/block/vdb/queue/zoned\"]\nerrno = \"EIO\"\n");
    const HostRoot root = open_recording(folder);
    for (const char* path : {"sys/block/vdb/queue/zoned", "sys/class/block/vdb/queue/zoned",
                             "sys/devices/virtual/block/vdb/queue/zoned"}) {
        EXPECT_EQ(root.read(path).error().sys_errno, EIO) << path;
    }
}

TEST(HostRoot, TellsWhyASourceIsNotThere) {
    Folder folder;
    folder.file("stat.toml", "[\"systemd/units.json\"]\nunsupported = \"PID 1 is init\"\n");
    const HostRoot root = open_recording(folder);
    const auto never = []() -> Result<std::string> {
        ADD_FAILURE() << "asked the live host";
        return std::string();
    };
    EXPECT_EQ(root.read_source("systemd/units.json", never).error(),
              Error::make(ErrorKind::Unsupported, "systemd/units.json: PID 1 is init"));
    EXPECT_EQ(root.read_source("systemd/boots.jsonl", never).error().kind, ErrorKind::NotRecorded);
}

TEST(HostRoot, TakesMtimesFromStatTomlOnly) {
    Folder folder;
    folder.file("var/lib/systemd/timers/stamp-fstrim.timer");
    folder.file("stat.toml", "[\"var/lib/systemd/timers/stamp-a.timer\"]\n"
                             "mtime = \"2026-11-23T01:12:07Z\"\n"
                             "[\"var/lib/systemd/timers/stamp-b.timer\"]\nerrno = \"ENOENT\"\n");
    const HostRoot root = open_recording(folder);
    EXPECT_EQ(root.mtime_seconds("var/lib/systemd/timers/stamp-a.timer"),
              Result<std::int64_t>(1795396327));
    EXPECT_EQ(root.mtime_seconds("var/lib/systemd/timers/stamp-b.timer").error().sys_errno, ENOENT);
    EXPECT_EQ(root.mtime_seconds("var/lib/systemd/timers/stamp-fstrim.timer").error().kind,
              ErrorKind::NotRecorded);
}

TEST(HostRoot, ListsNamesSortedWithoutDotFiles) {
    Folder folder;
    folder.file("d/b").file("d/a").file("d/.gitkeep").link("d/c", "nowhere");
    EXPECT_THAT(*open_recording(folder).list("d"), ElementsAre("a", "b", "c"));
}

TEST(HostRoot, FollowsLinksInsideTheRecordingOnly) {
    Folder outside;
    outside.file("secret", "x");
    Folder folder;
    folder.file("etc/real", "inside").link("up", "../../../../../../../../etc/real");
    folder.link("abs", "/etc/real").link("out", outside.path() + "/secret");
    folder.link("passwd", "/etc/passwd");
    const HostRoot root = open_recording(folder);
    EXPECT_EQ(root.read("up"), Result<std::string>("inside"));
    EXPECT_EQ(root.read("abs"), Result<std::string>("inside"));
    EXPECT_EQ(root.read("out").error().kind, ErrorKind::NotRecorded);
    EXPECT_EQ(root.read("passwd").error().kind, ErrorKind::NotRecorded);
    EXPECT_EQ(root.read("../../../../../../etc/passwd").error().kind, ErrorKind::NotRecorded);
}

TEST(HostRoot, ResolvesLinksRelativeToTheRoot) {
    Folder folder;
    folder.folder("sys/devices/pci/nvme0/nvme0n1");
    folder.link("sys/block/nvme0n1", "../devices/pci/nvme0/nvme0n1");
    const HostRoot root = open_recording(folder);
    EXPECT_EQ(root.resolve("sys/block/nvme0n1"),
              Result<std::string>("sys/devices/pci/nvme0/nvme0n1"));
    EXPECT_EQ(root.read_link("sys/block/nvme0n1"),
              Result<std::string>("../devices/pci/nvme0/nvme0n1"));
    EXPECT_EQ(root.read_link("sys/devices").error().sys_errno, EINVAL);
    EXPECT_FALSE(root.resolve("sys/block/nvme1n1"));
}

TEST(HostRoot, RefusesLoopsFifosAndFolders) {
    Folder folder;
    folder.link("a", "b").link("b", "a").fifo("pipe").folder("d");
    const HostRoot root = open_recording(folder);
    EXPECT_EQ(root.read("a").error().sys_errno, ELOOP);
    EXPECT_EQ(root.read("pipe").error().kind, ErrorKind::Malformed);
    EXPECT_EQ(root.read("d").error().sys_errno, EISDIR);
    EXPECT_FALSE(root.read(std::string("d\0x", 3)));
}

TEST(HostRoot, OptionalReadsDistinguishAbsenceFromFailure) {
    Folder folder;
    folder.file("there", "x").folder("d");
    const HostRoot root = open_recording(folder);
    EXPECT_EQ(root.read_if_there("there"),
              Result<std::optional<std::string>>(std::optional<std::string>("x")));
    EXPECT_EQ(root.read_if_there("nowhere"),
              Result<std::optional<std::string>>(std::optional<std::string>()));
    EXPECT_FALSE(root.read_if_there("d"));
}

TEST(HostRoot, NeedsAFolder) {
    Folder folder;
    folder.file("f");
    EXPECT_EQ(HostRoot::recording(folder.path() + "/nowhere").error().sys_errno, ENOENT);
    EXPECT_EQ(HostRoot::recording(folder.path() + "/f").error().sys_errno, ENOTDIR);
}

TEST(HostRoot, SaysWhereStatTomlIsBad) {
    Folder folder;
    folder.file("stat.toml", "[\"a\"]\nerrno = \"ENOSUCHTHING\"\n");
    const Result<HostRoot> root = HostRoot::recording(folder.path());
    ASSERT_FALSE(root);
    EXPECT_EQ(root.error().kind, ErrorKind::Malformed);
    EXPECT_THAT(root.error().text(), HasSubstr("stat.toml:2:"));
}

TEST(HostRoot, FailsTheAccessThatAFaultNames) {
    Folder folder;
    folder.file("a", "1").file("b", "2");
    HostRoot root = open_recording(folder);
    std::vector<std::string> asked;
    root.set_fault([&](std::uint64_t call, const std::string& path) -> std::optional<Error> {
        EXPECT_EQ(call, asked.size());
        asked.push_back(path);
        return path == "b" ? std::optional(Error::system(EIO, "made to fail")) : std::nullopt;
    });
    EXPECT_TRUE(root.read("a"));
    EXPECT_EQ(root.read("b").error().sys_errno, EIO);
    EXPECT_FALSE(root.read_if_there("b"));
    EXPECT_TRUE(root.list("."));
    EXPECT_THAT(asked, ElementsAre("a", "b", "b", "."));
}

TEST(HostRoot, TellsItsObserverEverythingButOptionalAbsence) {
    Folder folder;
    folder.file("a", "1").file("d/x");
    HostRoot root = open_recording(folder);
    std::vector<std::string> seen;
    root.set_observer([&](const Access& access) {
        seen.push_back(access.path + (access.outcome ? "=" + *access.outcome : "!"));
    });
    (void)root.read("/a");
    (void)root.read("b");
    (void)root.read_if_there("c");
    (void)root.list("d");
    EXPECT_THAT(seen, ElementsAre("a=1", "b!", "d="));
}

TEST(HostRoot, DuplicatesWithoutFaultAndObserver) {
    Folder folder;
    folder.file("a", "1").file("stat.toml", "[b]\nerrno = \"EIO\"\n");
    HostRoot root = open_recording(folder);
    root.set_fault([](std::uint64_t, const std::string&) { return Error::system(EIO, ""); });
    const Result<HostRoot> other = root.duplicate();
    ASSERT_TRUE(other);
    EXPECT_EQ(other->read("a"), Result<std::string>("1"));
    EXPECT_EQ(other->read("b").error().sys_errno, EIO);
    EXPECT_FALSE(other->is_live());
}

TEST(HostRoot, LiveHostKnowsWhatIsAbsent) {
    const Result<HostRoot> root = HostRoot::live();
    ASSERT_TRUE(root);
    EXPECT_TRUE(root->is_live());
    EXPECT_TRUE(root->read("proc/self/status"));
    EXPECT_TRUE(Reading<std::string>(root->read("nvmaint/no/such/file")).is_known_absent());
    EXPECT_TRUE(root->mtime_seconds("proc"));
    EXPECT_EQ(root->read_source("x", [] { return Result<std::string>("live"); }),
              Result<std::string>("live"));
}

} // namespace
} // namespace nvmaint::collect
