// What journald receives. It listens at a fixed place, so that the test takes that place in a mount
// namespace of its own.
#include "log/journal.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <regex>
#include <sched.h>
#include <set>
#include <sstream>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

namespace nvmaint::log {

namespace {

constexpr MessageId kAll[] = {
    MessageId::Started,         MessageId::Stopped,     MessageId::FindingRaised,
    MessageId::FindingCleared,  MessageId::TrimStarted, MessageId::TrimEnded,
    MessageId::TrimInterrupted, MessageId::TrimEffect,  MessageId::PolicyLoaded,
    MessageId::PolicyRefused,   MessageId::HookFailed,  MessageId::WorkerLate,
    MessageId::StateProblem,
};

core::Finding a_finding() {
    core::Finding finding;
    finding.id = "trim.not-covered";
    finding.reason = "not-in-fstab";
    finding.severity = core::Severity::Warning;
    finding.subject = {core::SubjectKind::Filesystem, "/var/lib/db"};
    finding.layer = "dm-0";
    finding.summary = "never trimmed";
    finding.evidence = {{"etc/fstab", "has no line"}, {"systemd", "runs fstrim -A"}};
    finding.fix = {"fstrim -v /var/lib/db"};
    return finding;
}

// The fields of one datagram: "NAME=value\n", or "NAME\n", a little-endian length of 64 bits, the
// value and "\n" (systemd.io/JOURNAL_NATIVE_PROTOCOL).
std::map<std::string, std::string> fields_of(const std::string& datagram) {
    std::map<std::string, std::string> fields;
    std::size_t at = 0;
    while (at < datagram.size()) {
        const std::size_t end = datagram.find('\n', at);
        const std::string line = datagram.substr(at, end - at);
        at = end + 1;
        const std::size_t equals = line.find('=');
        if (equals != std::string::npos) {
            fields[line.substr(0, equals)] = line.substr(equals + 1);
            continue;
        }
        std::uint64_t length = 0;
        for (int i = 7; i >= 0; --i) {
            length =
                length << 8 | static_cast<std::uint8_t>(datagram[at + static_cast<std::size_t>(i)]);
        }
        fields[line] = datagram.substr(at + 8, length);
        at += 8 + length + 1;
    }
    return fields;
}

std::string pipe_contents(int fd) {
    std::string text;
    char buffer[4096];
    ssize_t n = 0;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) {
        text.append(buffer, static_cast<std::size_t>(n));
    }
    return text;
}

// Runs `write` in a child that has its own /run, with a journald in it or without; returns what
// that journald received, or what went to stderr. Empty: the child could not have a /run of its
// own.
std::optional<std::string> captured(bool journald, const std::function<void()>& write) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return std::nullopt;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) != 0 ||
            mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("none", "/run", "tmpfs", 0, nullptr) != 0) {
            _exit(77);
        }
        if (!journald) {
            (void)dup2(ends[1], STDERR_FILENO);
            write();
            _exit(0);
        }
        (void)mkdir("/run/systemd", 0755);
        (void)mkdir("/run/systemd/journal", 0755);
        const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, "/run/systemd/journal/socket");
        if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            _exit(77);
        }
        write();
        std::string datagram(1 << 20, '\0');
        const ssize_t n = recv(fd, datagram.data(), datagram.size(), MSG_DONTWAIT);
        if (n < 0 || ::write(ends[1], datagram.data(), static_cast<std::size_t>(n)) != n) {
            _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    std::string text = pipe_contents(ends[0]);
    close(ends[0]);
    int status = 0;
    (void)waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        return std::nullopt;
    }
    EXPECT_EQ(status, 0);
    return text;
}

#define CAPTURE_OR_SKIP(name, journald, call)                                                      \
    const std::optional<std::string> name = captured(journald, [&] { call; });                     \
    if (!name) {                                                                                   \
        GTEST_SKIP() << "needs root, for a /run of its own";                                       \
    }                                                                                              \
    static_assert(true)

} // namespace

TEST(Journal, EntryCarriesMessageIdPriorityAndFields) {
    CAPTURE_OR_SKIP(datagram, true,
                    write(LOG_WARNING, MessageId::TrimStarted, "Trim of /srv starts",
                          {{"MOUNT", "/srv"}, {"job id", "7"}}));
    const std::map<std::string, std::string> expected{
        {"MESSAGE", "Trim of /srv starts"},
        {"PRIORITY", "4"},
        {"MESSAGE_ID", message_id(MessageId::TrimStarted)},
        {"SYSLOG_IDENTIFIER", "nvmaintd"},
        {"NVMAINT_MOUNT", "/srv"},
        {"NVMAINT_JOB_ID", "7"},
    };
    EXPECT_EQ(fields_of(*datagram), expected);
}

TEST(Journal, FindingTellsEvidenceAndFix) {
    CAPTURE_OR_SKIP(datagram, true, finding(MessageId::FindingRaised, a_finding()));
    std::map<std::string, std::string> fields = fields_of(*datagram);
    EXPECT_EQ(fields["MESSAGE"],
              "trim.not-covered [not-in-fstab] on filesystem /var/lib/db: never trimmed");
    EXPECT_EQ(fields["PRIORITY"], "4");
    EXPECT_EQ(fields["MESSAGE_ID"], message_id(MessageId::FindingRaised));
    EXPECT_EQ(fields["NVMAINT_FINDING"], "trim.not-covered");
    EXPECT_EQ(fields["NVMAINT_REASON"], "not-in-fstab");
    EXPECT_EQ(fields["NVMAINT_SEVERITY"], "warning");
    EXPECT_EQ(fields["NVMAINT_SUBJECT_KIND"], "filesystem");
    EXPECT_EQ(fields["NVMAINT_SUBJECT"], "/var/lib/db");
    EXPECT_EQ(fields["NVMAINT_LAYER"], "dm-0");
    EXPECT_EQ(fields["NVMAINT_EVIDENCE"], "etc/fstab: has no line\nsystemd: runs fstrim -A");
    EXPECT_EQ(fields["NVMAINT_FIX"], "fstrim -v /var/lib/db");
}

struct Level {
    core::Severity severity;
    const char* priority;
};
class JournalPriority : public testing::TestWithParam<Level> {};
TEST_P(JournalPriority, FollowsTheSeverity) {
    core::Finding each = a_finding();
    each.severity = GetParam().severity;
    CAPTURE_OR_SKIP(datagram, true, finding(MessageId::FindingRaised, each));
    EXPECT_EQ(fields_of(*datagram)["PRIORITY"], GetParam().priority);
}
INSTANTIATE_TEST_SUITE_P(Severities, JournalPriority,
                         testing::Values(Level{core::Severity::Critical, "2"},
                                         Level{core::Severity::Warning, "4"},
                                         Level{core::Severity::Notice, "5"},
                                         Level{core::Severity::Info, "6"}));

TEST(Journal, AClearedFindingIsInformation) {
    CAPTURE_OR_SKIP(datagram, true, finding(MessageId::FindingCleared, a_finding()));
    std::map<std::string, std::string> fields = fields_of(*datagram);
    EXPECT_EQ(fields["PRIORITY"], "6");
    EXPECT_EQ(fields["MESSAGE"].rfind("cleared: trim.not-covered", 0), 0U);
}

TEST(Journal, AnyByteArrives) {
    const std::string bytes("a\nPRIORITY=0\n\0\xff", 15);
    CAPTURE_OR_SKIP(datagram, true,
                    write(LOG_INFO, MessageId::StateProblem, bytes, {{"MODEL", bytes}}));
    std::map<std::string, std::string> fields = fields_of(*datagram);
    EXPECT_EQ(fields["MESSAGE"], bytes);
    EXPECT_EQ(fields["NVMAINT_MODEL"], bytes);
    EXPECT_EQ(fields["PRIORITY"], "6"); // not what the text says
}

TEST(Journal, LongValuesAreCut) {
    CAPTURE_OR_SKIP(datagram, true,
                    write(LOG_INFO, MessageId::StateProblem, std::string(5000, 'm'),
                          {{"X", std::string(4096, 'x')}, {"Y", std::string(4097, 'y')}}));
    std::map<std::string, std::string> fields = fields_of(*datagram);
    EXPECT_EQ(fields["MESSAGE"], std::string(4096, 'm'));
    EXPECT_EQ(fields["NVMAINT_X"], std::string(4096, 'x'));
    EXPECT_EQ(fields["NVMAINT_Y"], std::string(4096, 'y'));
}

TEST(Journal, WithoutJournaldALineGoesToStderr) {
    CAPTURE_OR_SKIP(text, false,
                    write(LOG_WARNING, MessageId::TrimStarted, "one\ntwo\x1b[31m", {{"A", "b"}}));
    EXPECT_EQ(*text, "<4>one two [31m\n");
}

TEST(Journal, PrioritiesOutOfRangeAreTheNearest) {
    CAPTURE_OR_SKIP(low, false, write(-1, MessageId::Started, "x"));
    EXPECT_EQ(*low, "<0>x\n");
    CAPTURE_OR_SKIP(high, false, write(8, MessageId::Started, "x"));
    EXPECT_EQ(*high, "<7>x\n");
}

TEST(Journal, EachMessageHasAnIdOfItsOwnAndACatalogText) {
    std::ifstream file(NVMAINT_SOURCE_DIR "/units/nvmaint.catalog");
    ASSERT_TRUE(file) << "units/nvmaint.catalog is missing";
    std::set<std::string> in_catalog;
    std::string line;
    while (std::getline(file, line)) {
        if (line.rfind("-- ", 0) == 0) {
            EXPECT_TRUE(in_catalog.insert(line.substr(3)).second) << "twice: " << line;
        }
    }
    std::set<std::string> ids;
    for (const MessageId id : kAll) {
        EXPECT_TRUE(std::regex_match(message_id(id), std::regex("[0-9a-f]{32}"))) << message_id(id);
        EXPECT_TRUE(ids.insert(message_id(id)).second) << "twice: " << message_id(id);
    }
    EXPECT_EQ(ids, in_catalog);
}

} // namespace nvmaint::log
