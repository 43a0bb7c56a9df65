#include "admin/nvme_admin.hpp"

#include "admin/hex_page.hpp"
#include "admin/kernel_names.hpp"
#include "admin/libnvme_admin.hpp"
#include "admin/open_in_root.hpp"
#include "folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>

#include <fcntl.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <vector>

namespace {

// What the fake device saw, and how it answers. libnvme's ioctl() ends up here: the program's own
// symbol comes before the C library's.
struct FakeDevice {
    std::vector<nvme_admin_cmd> commands;
    std::function<int(const nvme_admin_cmd&)> answer; // NVMe status, or -1 with errno set
};
FakeDevice* device = nullptr;

} // namespace

extern "C" int ioctl(int, unsigned long request, ...) noexcept {
    va_list arguments;
    va_start(arguments, request);
    auto* command = va_arg(arguments, nvme_admin_cmd*);
    va_end(arguments);
    if (device == nullptr || request != NVME_IOCTL_ADMIN_CMD) {
        errno = ENOTTY;
        return -1;
    }
    device->commands.push_back(*command);
    return device->answer(*command);
}

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

// ---- commands ----

class Commands : public testing::Test {
  protected:
    Commands() {
        device_.answer = [](const nvme_admin_cmd& command) {
            std::memset(reinterpret_cast<void*>(command.addr), 0x5a, command.data_len);
            return 0;
        };
        device = &device_;
        admin_ = make_libnvme_admin([](const std::string&) -> Result<UniqueFd> {
            return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
        });
    }
    ~Commands() override { device = nullptr; }

    FakeDevice device_;
    std::unique_ptr<NvmeAdmin> admin_;
};

TEST_F(Commands, AskControllerLogsOfAllNamespaces) {
    for (const int lid : {1, 2, 3, 6}) {
        ASSERT_TRUE(admin_->get_log("nvme0", static_cast<std::uint8_t>(lid), 512));
        const nvme_admin_cmd& command = device_.commands.back();
        EXPECT_EQ(command.opcode, 0x02);
        EXPECT_EQ(command.nsid, 0xffffffffU);
        EXPECT_EQ(command.cdw10 & 0xffU, static_cast<unsigned>(lid));
        EXPECT_EQ(command.cdw10 >> 16U, 512U / 4 - 1); // NUMDL
        EXPECT_EQ(command.cdw12, 0U);                  // LPO
        EXPECT_EQ(command.data_len, 512U);
    }
}

TEST_F(Commands, LeaveTheKernelItsTimeout) {
    ASSERT_TRUE(admin_->get_log("nvme0", 2, 512));
    ASSERT_TRUE(admin_->identify_controller("nvme0"));
    ASSERT_TRUE(admin_->identify_namespace("nvme0", 1));
    for (const nvme_admin_cmd& command : device_.commands) {
        EXPECT_EQ(command.timeout_ms, 0U);
    }
}

TEST_F(Commands, ReArmTheEventsOfTheSmartLogOnly) {
    ASSERT_TRUE(admin_->get_log("nvme0", 2, 512));
    EXPECT_EQ(device_.commands.back().cdw10 >> 15U & 1U, 0U);
    ASSERT_TRUE(admin_->get_log("nvme0", 1, 4096));
    EXPECT_EQ(device_.commands.back().cdw10 >> 15U & 1U, 1U);
}

TEST_F(Commands, UsePageAlignedBuffers) {
    ASSERT_TRUE(admin_->get_log("nvme0", 2, 512));
    ASSERT_TRUE(admin_->identify_controller("nvme0"));
    for (const nvme_admin_cmd& command : device_.commands) {
        EXPECT_EQ(command.addr % 4096, 0U);
    }
}

TEST_F(Commands, IdentifyNamesItsStructureAndNamespace) {
    ASSERT_TRUE(admin_->identify_controller("nvme0"));
    EXPECT_EQ(device_.commands.back().opcode, 0x06);
    EXPECT_EQ(device_.commands.back().cdw10, 0x01U);
    EXPECT_EQ(device_.commands.back().nsid, 0U);
    ASSERT_TRUE(admin_->identify_namespace("nvme0", 4));
    EXPECT_EQ(device_.commands.back().cdw10, 0x00U);
    EXPECT_EQ(device_.commands.back().nsid, 4U);
    EXPECT_EQ(device_.commands.back().data_len, 4096U);
}

TEST_F(Commands, GiveTheBytesThatTheDeviceWrote) {
    EXPECT_EQ(admin_->get_log("nvme0", 2, 512), Result<Bytes>(Bytes(512, 0x5a)));
    EXPECT_EQ(admin_->identify_controller("nvme0"), Result<Bytes>(Bytes(4096, 0x5a)));
}

TEST_F(Commands, AskOnceMoreForAWholePageWhereTheLengthIsRefused) {
    const auto whole_pages_only = [](const nvme_admin_cmd& command) {
        return command.data_len % 4096 != 0 ? 0x4013 : 0; // Invalid PRP Offset, do not retry
    };
    device_.answer = whole_pages_only;
    const Result<Bytes> page = admin_->get_log("nvme0", 2, 512);
    ASSERT_TRUE(page) << page.error().text();
    EXPECT_EQ(page->size(), 512U);
    ASSERT_EQ(device_.commands.size(), 2U);
    EXPECT_EQ(device_.commands[1].data_len, 4096U);
    EXPECT_EQ(device_.commands[1].cdw10 >> 16U, 1023U);
}

TEST_F(Commands, AreNotRepeatedOtherwise) {
    device_.answer = [](const nvme_admin_cmd&) { return 0x4109; };
    const Result<Bytes> page = admin_->get_log("nvme0", 2, 512);
    ASSERT_FALSE(page);
    EXPECT_EQ(page.error().kind, ErrorKind::NvmeStatus);
    EXPECT_EQ(page.error().nvme_status, 0x109);
    EXPECT_EQ(device_.commands.size(), 1U);
}

TEST_F(Commands, AreNotRetriedWithNamespaceOne) {
    device_.answer = [](const nvme_admin_cmd&) { return 0x4002; }; // Invalid Field
    EXPECT_FALSE(admin_->get_log("nvme0", 6, 564));
    EXPECT_EQ(device_.commands.size(), 1U);
}

TEST_F(Commands, SayWhichErrnoTheyMet) {
    device_.answer = [](const nvme_admin_cmd&) {
        errno = EACCES; // without CAP_SYS_ADMIN
        return -1;
    };
    const Result<Bytes> page = admin_->identify_controller("nvme0");
    ASSERT_FALSE(page);
    EXPECT_EQ(page.error().kind, ErrorKind::System);
    EXPECT_EQ(page.error().sys_errno, EACCES);
    EXPECT_THAT(page.error().text(), HasSubstr("Identify Controller"));
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
