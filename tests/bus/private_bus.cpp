#include "private_bus.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace nvmaint::bus_test {

namespace {

// What /usr/share/dbus-1/system.conf says about names and calls. A bus that does not run as root
// cannot follow a policy that lets root own the name, and lets everybody.
std::string config_for(const std::string& directory) {
    const bool is_root = geteuid() == 0;
    std::string text =
        R"(<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <auth>EXTERNAL</auth>
  <listen>unix:path=)" +
        directory +
        R"(/bus</listen>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus"/>
    <allow own="org.freedesktop.PolicyKit1"/>
    <allow send_destination="org.freedesktop.PolicyKit1"/>
)";
    if (!is_root) {
        text += "    <allow own=\"org.nvmaint1\"/>\n";
    }
    text += "  </policy>\n  <include>" NVMAINT_SOURCE_DIR "/units/org.nvmaint1.conf</include>\n"
            "</busconfig>\n";
    return text;
}

} // namespace

PrivateBus::PrivateBus() {
    std::string pattern = std::filesystem::temp_directory_path() / "nvmaint-bus-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
        problem_ = "no temporary directory: " + std::generic_category().message(errno);
        return;
    }
    directory_ = pattern;
    (void)chmod(directory_.c_str(), 0755); // other users are to find the socket
    const std::string config = directory_ + "/bus.conf";
    std::ofstream(config) << config_for(directory_);
    start(config);
}

PrivateBus::~PrivateBus() {
    kill();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

void PrivateBus::start(const std::string& config) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        problem_ = "no pipe";
        return;
    }
    const std::string log = directory_ + "/daemon.log"; // it grumbles about limits in containers
    pid_ = fork();
    if (pid_ == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        (void)dup2(fd, STDERR_FILENO);
        execlp("dbus-daemon", "dbus-daemon", "--nofork", "--nopidfile", "--nosyslog",
               "--print-address=1", ("--config-file=" + config).c_str(), nullptr);
        _exit(127);
    }
    close(ends[1]);
    std::string line;
    char c = 0;
    while (read(ends[0], &c, 1) == 1 && c != '\n') {
        line += c;
    }
    close(ends[0]);
    if (c == '\n') {
        address_ = line;
        return;
    }
    int status = 0;
    (void)waitpid(pid_, &status, 0);
    pid_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        problem_ = "dbus-daemon is not installed (Debian package dbus-daemon)";
        is_missing_ = true;
        return;
    }
    std::ifstream grumbling(log);
    problem_ =
        "dbus-daemon did not start: " + std::string(std::istreambuf_iterator<char>(grumbling), {});
}

void PrivateBus::kill() {
    if (pid_ > 0) {
        (void)::kill(pid_, SIGKILL);
        (void)waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
}

} // namespace nvmaint::bus_test
