// The interface as others meet it: Introspect against the definition, and busctl.
#include "peers.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace nvmaint::bus_test {

namespace {

constexpr const char* kDefinition = NVMAINT_SOURCE_DIR "/service/bus/org.nvmaint1.xml";
constexpr const char* kCompare = NVMAINT_SOURCE_DIR "/tests/bus/compare_introspection.py";

struct Ran {
    int status = -1; // exit status; 127 = no such program
    std::string output;
};

} // namespace

class Interface : public OnBus {
  protected:
    void SetUp() override {
        OnBus::SetUp();
        if (IsSkipped() || HasFatalFailure()) {
            return;
        }
        model_.diagnosis.drives = {a_drive()};
        model_.diagnosis.filesystems = {a_filesystem()};
        model_.diagnosis.findings = {a_finding()};
        model_.jobs = {{.id = 7,
                        .kind = "trim",
                        .subject = "/var/lib/db",
                        .state = "running",
                        .progress = 0.25,
                        .result = {}}};
        start();
    }

    // Runs a program while the parties on the bus go on.
    Ran run(std::vector<std::string> command) {
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        const pid_t pid = fork();
        if (pid == 0) {
            (void)dup2(ends[1], STDOUT_FILENO);
            (void)dup2(ends[1], STDERR_FILENO);
            std::vector<char*> arguments;
            arguments.reserve(command.size() + 1);
            for (std::string& word : command) {
                arguments.push_back(word.data());
            }
            arguments.push_back(nullptr);
            execvp(arguments[0], arguments.data());
            _exit(127);
        }
        close(ends[1]);
        Ran ran;
        int status = 0;
        EXPECT_TRUE(pump_.until([&] {
            std::array<char, 4096> buffer{};
            ssize_t n = 0;
            while ((n = read(ends[0], buffer.data(), buffer.size())) > 0) {
                ran.output.append(buffer.data(), static_cast<std::size_t>(n));
            }
            return n == 0; // every end of the pipe is closed
        })) << command[0]
            << " does not end";
        (void)waitpid(pid, &status, 0);
        close(ends[0]);
        ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        return ran;
    }

    Ran busctl(std::vector<std::string> arguments) {
        std::vector<std::string> command{"busctl", "--address=" + daemon_.address(), "--no-pager"};
        command.insert(command.end(), arguments.begin(), arguments.end());
        return run(std::move(command));
    }

    std::string introspect(Peer& peer, const std::string& path) {
        const Peer::Pending answer =
            peer.call(path, "org.freedesktop.DBus.Introspectable", "Introspect");
        EXPECT_EQ(answer->error, "");
        const char* xml = "";
        EXPECT_GT(sd_bus_message_read(answer->message.get(), "s", &xml), 0);
        return xml;
    }
};

#define SKIP_WITHOUT(ran, package)                                                                 \
    if ((ran).status == 127) {                                                                     \
        GTEST_SKIP() << package " is not installed";                                               \
    }                                                                                              \
    static_assert(true)

TEST_F(Interface, IntrospectionEqualsTheDefinition) {
    const auto peer = user();
    const std::map<std::string, std::string> objects{
        {"org.nvmaint1.Manager", kRoot},
        {"org.nvmaint1.Drive", bus::drive_path(a_drive())},
        {"org.nvmaint1.Filesystem", bus::filesystem_path(a_filesystem())},
        {"org.nvmaint1.Job", "/org/nvmaint1/job/7"},
    };
    std::vector<std::string> command{"python3", kCompare, kDefinition};
    for (const auto& [interface, path] : objects) {
        const std::string file = fmt::format("{}/{}.xml", daemon_.directory(), interface);
        std::ofstream(file) << introspect(*peer, path);
        command.push_back(fmt::format("{}={}", interface, file));
    }
    const Ran ran = run(command);
    SKIP_WITHOUT(ran, "python3");
    EXPECT_EQ(ran.status, 0) << ran.output;
}

TEST_F(Interface, ComparisonSeesAMissingMember) {
    const std::string file = daemon_.directory() + "/job.xml";
    std::string xml = introspect(*user(), "/org/nvmaint1/job/7");
    const std::size_t at = xml.find("\"Progress\"");
    ASSERT_NE(at, std::string::npos);
    xml.replace(at, 10, "\"Progres\"");
    std::ofstream(file) << xml;
    const Ran ran = run({"python3", kCompare, kDefinition, "org.nvmaint1.Job=" + file});
    SKIP_WITHOUT(ran, "python3");
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.output.find("Job.Progress (property): defined, but"), std::string::npos)
        << ran.output;
    EXPECT_NE(ran.output.find("Job.Progres (property): the service has"), std::string::npos)
        << ran.output;
}

TEST_F(Interface, RootIsAnObjectManager) {
    EXPECT_NE(introspect(*user(), kRoot).find("org.freedesktop.DBus.ObjectManager"),
              std::string::npos);
}

TEST_F(Interface, BusctlWalksTheTree) {
    const Ran ran = busctl({"tree", "--list", kService});
    SKIP_WITHOUT(ran, "busctl (Debian package systemd)");
    EXPECT_EQ(ran.status, 0) << ran.output;
    for (const std::string& path :
         {bus::drive_path(a_drive()), bus::filesystem_path(a_filesystem()),
          std::string("/org/nvmaint1/job/7")}) {
        EXPECT_NE(ran.output.find(path + "\n"), std::string::npos) << ran.output;
    }
}

TEST_F(Interface, BusctlReadsAndCalls) {
    const Ran property = busctl({"get-property", kService, bus::filesystem_path(a_filesystem()),
                                 "org.nvmaint1.Filesystem", "Stack"});
    SKIP_WITHOUT(property, "busctl (Debian package systemd)");
    EXPECT_EQ(property.output, "as 3 \"dm-0\" \"nvme0n1p2\" \"nvme0n1\"\n");
    const Ran findings = busctl({"call", kService, kRoot, kManager, "ListFindings"});
    EXPECT_EQ(findings.status, 0) << findings.output;
    EXPECT_EQ(findings.output.rfind("a(sssssa{sv}) 1 \"trim.not-covered\" \"not-in-fstab\"", 0), 0U)
        << findings.output;
    if (geteuid() == 0) {
        const Ran trim =
            busctl({"call", kService, kRoot, kManager, "Trim", "sa{sv}", "/var/lib/db", "0"});
        EXPECT_EQ(trim.output, "o \"/org/nvmaint1/job/7\"\n");
    }
}

TEST_F(Interface, BusctlOfAnotherUserIsToldToAuthenticate) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "needs root, to be somebody else";
    }
    MockPolkit polkit(pump_, daemon_.address(), MockPolkit::Says::AskAnAgent);
    const std::vector<std::string> as_nobody{"setpriv", "--reuid=65534", "--clear-groups", "busctl",
                                             "--address=" + daemon_.address()};
    const auto trim = [&](const char* flag) {
        std::vector<std::string> command = as_nobody;
        command.insert(command.end(), {flag, "call", kService, kRoot, kManager, "Trim", "sa{sv}",
                                       "/var/lib/db", "0"});
        return run(command);
    };
    const Ran refused = trim("--allow-interactive-authorization=no");
    SKIP_WITHOUT(refused, "setpriv or busctl");
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.output.find("needs authentication"), std::string::npos) << refused.output;
    EXPECT_EQ(trim("--allow-interactive-authorization=yes").output, "o \"/org/nvmaint1/job/7\"\n");
}

} // namespace nvmaint::bus_test
