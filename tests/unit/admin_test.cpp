#include "admin/nvme_admin.hpp"

#include "admin/hex_page.hpp"
#include "admin/kernel_names.hpp"
#include "admin/open_in_root.hpp"
#include "folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>

#include <cerrno>

namespace nvmaint::nvme {
namespace {

using test::Folder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

UniqueFd open_folder(const Folder& folder) {
    return UniqueFd(open(folder.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// ---- names ----

TEST(KernelNames, TellControllersNamespacesAndPathsApart) {
    for (const char* name : {"nvme0", "nvme12"}) {
        EXPECT_TRUE(is_controller_name(name)) << name;
    }
    for (const char* name : {"", "nvme", "nvme-fabrics", "nvme0n1", "nvmex", "../nvme0", "nvme0/",
                             "nvme99999999999"}) {
        EXPECT_FALSE(is_controller_name(name)) << name;
    }
    EXPECT_TRUE(is_namespace_name("nvme10n2"));
    for (const char* name : {"nvme0", "nvme0n1p1", "nvme0c1n1", "nvme0n", "sda"}) {
        EXPECT_FALSE(is_namespace_name(name)) << name;
    }
    EXPECT_TRUE(is_hidden_path_name("nvme0c1n1"));
    EXPECT_FALSE(is_hidden_path_name("nvme0n1"));
    EXPECT_FALSE(is_hidden_path_name("nvme0c1n1p1"));
}

TEST(NamespaceNodes, AreTheControllersOwn) {
    Folder root;
    root.folder("sys/class/nvme/nvme1/nvme1n1").folder("sys/class/nvme/nvme1/nvme1n2");
    root.folder("sys/class/nvme/nvme1/power").folder("sys/class/nvme/nvme0/nvme0n1");
    EXPECT_THAT(*read_namespace_nodes(open_folder(root).get(), "nvme1"),
                ElementsAre("nvme1n1", "nvme1n2"));
}

TEST(NamespaceNodes, AreTheHeadsOfASubsystemWithoutOtherController) {
    Folder root;
    root.folder("sys/class/nvme/nvme1/nvme0c1n1");
    root.folder("sys/class/nvme-subsystem/nvme-subsys0/nvme0n1");
    root.link("sys/class/nvme-subsystem/nvme-subsys0/nvme1", "../../nvme/nvme1");
    EXPECT_THAT(*read_namespace_nodes(open_folder(root).get(), "nvme1"), ElementsAre("nvme0n1"));
}

TEST(NamespaceNodes, AreNotAHeadThatMayLeadToAnotherController) {
    Folder root;
    root.folder("sys/class/nvme/nvme1/nvme0c1n1");
    root.folder("sys/class/nvme-subsystem/nvme-subsys0/nvme0n1");
    root.link("sys/class/nvme-subsystem/nvme-subsys0/nvme1", "../../nvme/nvme1");
    root.link("sys/class/nvme-subsystem/nvme-subsys0/nvme2", "../../nvme/nvme2");
    EXPECT_THAT(*read_namespace_nodes(open_folder(root).get(), "nvme1"), IsEmpty());
}

// ---- hex pages ----

TEST(HexPage, ReadsPairsCommentsAndBlanks) {
    EXPECT_EQ(parse_hex_page("49 6e # In\n6e6F\n\n# nothing\n\t20"),
              Result<HexPage>(HexPage{{0x49, 0x6e, 0x6e, 0x6f, 0x20}, false}));
}

TEST(HexPage, PutsBytesAtTheirOffset) {
    EXPECT_EQ(parse_hex_page("0002: 04\nfill\n5: ff"),
              Result<HexPage>(HexPage{{0, 0, 4, 0, 0, 0xff}, true}));
}

TEST(HexPage, ReadsWhatHexdumpAndXxdWrite) {
    const std::vector<std::uint8_t> bytes = {0x4d, 0x61, 0x6b, 0x65, 0x20, 0x69, 0x74, 0x20,
                                             0x73, 0x6f, 0x20, 0x6e, 0x6f, 0x77, 0x21, 0x0a};
    EXPECT_EQ(parse_hex_page("00000000  4d 61 6b 65 20 69 74 20  73 6f 20 6e 6f 77 21 0a  "
                             "|Make it so now!.|\n00000010\n")
                  ->bytes,
              bytes);
    EXPECT_EQ(
        parse_hex_page("00000000: 4d61 6b65 2069 7420 736f 206e 6f77 210a  Make it so now!.\n")
            ->bytes,
        bytes);
}

TEST(HexPage, RefusesGapsWithoutFill) {
    const Result<HexPage> page = parse_hex_page("00\n0010: ff");
    ASSERT_FALSE(page);
    EXPECT_THAT(page.error().text(), HasSubstr("line 2"));
}

TEST(HexPage, RefusesWhatIsNoHex) {
    for (const char* text :
         {"4", "4g", "hello", "0x49", "00 0", "0010: 00\n0000: 00", "ffffffff: 00", "fil"}) {
        EXPECT_FALSE(parse_hex_page(text)) << text;
    }
}

TEST(HexPage, RefusesEndlessPages) {
    std::string text;
    for (int i = 0; i < 3 << 20; ++i) {
        text += "00";
    }
    EXPECT_FALSE(parse_hex_page(text));
}

// ---- replay ----

class Replay : public testing::Test {
  protected:
    Result<Bytes> smart() {
        const UniqueFd fd = open_folder(folder_);
        return make_replay_admin(fd.get())->get_log("nvme0", 0x02, 512);
    }
    Folder folder_;
};

TEST_F(Replay, GivesTheRecordedBytes) {
    folder_.file("nvme/nvme0/log-02.bin", std::string(512, '\x11'));
    EXPECT_EQ(smart(), Result<Bytes>(Bytes(512, 0x11)));
}

TEST_F(Replay, NamesPagesByTheirNamespace) {
    folder_.file("nvme/nvme0/id-ns-4.bin", std::string(4096, '\x04'));
    const UniqueFd fd = open_folder(folder_);
    EXPECT_EQ(make_replay_admin(fd.get())->identify_namespace("nvme0", 4),
              Result<Bytes>(Bytes(4096, 0x04)));
    EXPECT_EQ(make_replay_admin(fd.get())->identify_namespace("nvme0", 1).error().kind,
              ErrorKind::NotRecorded);
}

TEST_F(Replay, TakesTheFrontOfALongerFile) {
    folder_.file("nvme/nvme0/log-02.bin", std::string(4096, '\x11'));
    EXPECT_EQ(smart()->size(), 512U);
}

TEST_F(Replay, RefusesAShortFile) {
    folder_.file("nvme/nvme0/log-02.bin", std::string(511, '\x11'));
    EXPECT_EQ(smart().error().kind, ErrorKind::Malformed);
    EXPECT_THAT(smart().error().text(), HasSubstr("log-02.bin"));
}

TEST_F(Replay, FillsAShortHexFileWhereItSaysSo) {
    folder_.file("nvme/nvme0/log-02.hex", "01 36 01\nfill\n");
    ASSERT_TRUE(smart());
    EXPECT_EQ(smart()->size(), 512U);
    EXPECT_EQ((*smart())[1], 0x36);
    EXPECT_EQ((*smart())[511], 0);
}

TEST_F(Replay, RefusesAShortHexFileThatDoesNot) {
    folder_.file("nvme/nvme0/log-02.hex", "01 36 01\n");
    EXPECT_EQ(smart().error().kind, ErrorKind::Malformed);
}

TEST_F(Replay, SaysWhereAHexFileIsBad) {
    folder_.file("nvme/nvme0/log-02.hex", "01\nzz\n");
    EXPECT_THAT(smart().error().text(), HasSubstr("nvme/nvme0/log-02.hex: line 2"));
}

struct StatusCase {
    const char* text;
    ErrorKind kind;
    int sys_errno;
    int nvme_status;
};
class ReplayStatus : public testing::TestWithParam<StatusCase> {};
TEST_P(ReplayStatus, MakesTheCommandFailAsItDid) {
    Folder folder;
    folder.file("nvme/nvme0/log-02.status", GetParam().text);
    const UniqueFd fd = open_folder(folder);
    const Result<Bytes> page = make_replay_admin(fd.get())->get_log("nvme0", 0x02, 512);
    ASSERT_FALSE(page);
    EXPECT_EQ(page.error().kind, GetParam().kind);
    EXPECT_EQ(page.error().sys_errno, GetParam().sys_errno);
    EXPECT_EQ(page.error().nvme_status, GetParam().nvme_status);
}
INSTANTIATE_TEST_SUITE_P(Texts, ReplayStatus,
                         testing::Values(StatusCase{"2\n", ErrorKind::NvmeStatus, 0, 0x002},
                                         StatusCase{"0x2109 # invalid log page, do not retry",
                                                    ErrorKind::NvmeStatus, 0, 0x109},
                                         StatusCase{"4002", ErrorKind::NvmeStatus, 0, 0x002},
                                         StatusCase{"EACCES\n", ErrorKind::System, EACCES, 0},
                                         StatusCase{"EBADF", ErrorKind::System, EBADF, 0},
                                         StatusCase{"", ErrorKind::Malformed, 0, 0},
                                         StatusCase{"0", ErrorKind::Malformed, 0, 0},
                                         StatusCase{"busy", ErrorKind::Malformed, 0, 0},
                                         StatusCase{"12345", ErrorKind::Malformed, 0, 0}));

TEST_F(Replay, TellsWhatWasNotRecorded) {
    EXPECT_EQ(smart().error().kind, ErrorKind::NotRecorded);
}

TEST_F(Replay, KeepsTheRootForIdentify) {
    folder_.file("nvme/nvme0/id-ctrl.bin", std::string(4096, '\x22'));
    const UniqueFd fd = open_folder(folder_);
    EXPECT_EQ(make_replay_admin(fd.get())->identify_controller("nvme0"),
              Result<Bytes>(Bytes(4096, 0x22)));
}

TEST_F(Replay, DoesNotLeaveTheRecording) {
    Folder outside;
    outside.file("secret", std::string(512, 'x'));
    folder_.link("nvme/nvme0/log-02.bin", outside.path() + "/secret");
    EXPECT_EQ(smart().error().kind, ErrorKind::NotRecorded);
    const UniqueFd fd = open_folder(folder_);
    EXPECT_EQ(make_replay_admin(fd.get())->get_log("../../etc", 2, 512).error().sys_errno, EINVAL);
}

TEST_F(Replay, DoesNotWaitForAFifo) {
    folder_.folder("nvme/nvme0").fifo("nvme/nvme0/log-02.bin");
    EXPECT_FALSE(smart());
}

// ---- faults ----

TEST(FaultyAdmin, FailsTheChosenCallOnly) {
    Folder folder;
    folder.file("nvme/nvme0/log-02.bin", std::string(512, '\x11'));
    folder.file("nvme/nvme0/id-ctrl.bin", std::string(4096, '\x22'));
    const UniqueFd fd = open_folder(folder);
    const std::unique_ptr<NvmeAdmin> admin = make_faulty_admin(
        make_replay_admin(fd.get()), [](std::uint64_t call) -> std::unique_ptr<Error> {
            return call == 1 ? std::make_unique<Error>(Error::system(EIO, "made to fail"))
                             : nullptr;
        });
    EXPECT_TRUE(admin->identify_controller("nvme0"));
    EXPECT_EQ(admin->get_log("nvme0", 2, 512).error().context, "made to fail");
    EXPECT_TRUE(admin->get_log("nvme0", 2, 512));
}

// ---- the host ----

TEST(LibnvmeAdmin, SaysWhichNodeItCouldNotOpen) {
    const std::unique_ptr<NvmeAdmin> admin = make_libnvme_admin();
    const Result<Bytes> page = admin->identify_controller("nvme4095");
    ASSERT_FALSE(page);
    EXPECT_EQ(page.error().sys_errno, ENOENT);
    EXPECT_THAT(page.error().text(), HasSubstr("/dev/nvme4095"));
}

TEST(LibnvmeAdmin, RefusesNamesThatAreNoController) {
    const std::unique_ptr<NvmeAdmin> admin = make_libnvme_admin();
    for (const char* name : {"", "null", "../etc/passwd", "nvme0n1"}) {
        EXPECT_EQ(admin->get_log(name, 2, 512).error().sys_errno, EINVAL) << name;
    }
}

TEST(LibnvmeAdmin, RefusesLengthsThatNoCommandCanAskFor) {
    const std::unique_ptr<NvmeAdmin> admin = make_libnvme_admin();
    for (const std::uint32_t length : {0U, 1U, 510U}) {
        EXPECT_EQ(admin->get_log("nvme0", 2, length).error().sys_errno, EINVAL) << length;
    }
}

} // namespace
} // namespace nvmaint::nvme
