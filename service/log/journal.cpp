// sd_journal_sendv(3) hands a list of FIELD=value byte strings to journald in one datagram. Without
// a journald socket it succeeds silently, so the socket is looked for first: a line on stderr beats
// a line nowhere. Whoever started us by hand reads stderr and not the journal: he gets the line
// too.
#define SD_JOURNAL_SUPPRESS_LOCATION // CODE_FILE would name this file for every message

#include "log/journal.hpp"

#include <systemd/sd-journal.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>
#include <vector>

namespace nvmaint::log {

namespace {

constexpr const char* kJournalSocket = "/run/systemd/journal/socket";
constexpr const char* kIdentifier = "nvmaintd";
// Judgement: the longest honest values are a fix of a few lines or a mount point (PATH_MAX, 4096
// bytes); what is longer is noise from a device or a hook, and journald's datagrams are not for it.
constexpr std::size_t kLongestValue = 4096;

std::string_view cut(std::string_view value) {
    return value.substr(0, kLongestValue);
}

// Field names are [A-Z0-9_], systemd.journal-fields(7); journald drops a message's field whose name
// is not.
std::string field_name(std::string_view name) {
    std::string field = "NVMAINT_";
    for (const char c : name) {
        const auto byte = static_cast<unsigned char>(c);
        field +=
            byte < 0x80 && std::isalnum(byte) != 0 ? static_cast<char>(std::toupper(byte)) : '_';
    }
    return field;
}

// One line, as sd-daemon(3) wants it: "<4>text". Control characters would start a new line, or
// speak to the terminal.
void write_to_stderr(int priority, std::string_view message) {
    std::string line = ::isatty(STDERR_FILENO) == 1 ? "" : "<" + std::to_string(priority) + ">";
    for (const char c : cut(message)) {
        line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
    line += '\n';
    // Nothing is left to complain to when stderr fails.
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
    (void)std::fflush(stderr);
}

// systemd says in JOURNAL_STREAM, as device:inode, which file it has connected to the journal,
// systemd.exec(5). A stderr that is this file would show the line twice.
bool stderr_is_the_journal() {
    // Nothing in this process changes its environment.
    const char* stream = std::getenv("JOURNAL_STREAM"); // NOLINT(concurrency-mt-unsafe)
    struct stat file {};
    return stream != nullptr && ::fstat(STDERR_FILENO, &file) == 0 &&
           std::string_view(stream) ==
               std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino);
}

int priority_of(core::Severity severity) {
    switch (severity) {
    case core::Severity::Critical:
        return LOG_CRIT;
    case core::Severity::Warning:
        return LOG_WARNING;
    case core::Severity::Notice:
        return LOG_NOTICE;
    case core::Severity::Info:
        return LOG_INFO;
    }
    return LOG_INFO;
}

std::string lines(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) {
        text += text.empty() ? part : "\n" + part;
    }
    return text;
}

} // namespace

// Made once with `systemd-id128 new`; never change one, units/nvmaint.catalog and users' filters
// hold on to them.
const char* message_id(MessageId id) {
    switch (id) {
    case MessageId::Started:
        return "5b9f588f1f824d3ebd08e4ffc7f348b9";
    case MessageId::Stopped:
        return "c63cd6b9917c4803b2a29c6069d7fcc1";
    case MessageId::FindingRaised:
        return "2431f44792434a6797e71a2d08ccc03e";
    case MessageId::FindingCleared:
        return "03001827c8ef438e8109284b97260881";
    case MessageId::TrimStarted:
        return "8467ec45bd594d689bbed5efb8ca39c1";
    case MessageId::TrimEnded:
        return "39d3d768f0f34a4abd1752923af695a0";
    case MessageId::TrimInterrupted:
        return "010469376c934c20ac6bf9d6393f9764";
    case MessageId::TrimEffect:
        return "eaa759a22b924d17901580fefe220ed3";
    case MessageId::PolicyLoaded:
        return "4d42036ca82242369a77bb89b30a5631";
    case MessageId::PolicyRefused:
        return "ecbc53ec9b9e44e098ca234a25c4db19";
    case MessageId::HookFailed:
        return "fc46532aa7cb42dcbc38c8bbf648d712";
    case MessageId::WorkerLate:
        return "480b2a14a35940dbb49ff89e4cc6bbe0";
    case MessageId::StateProblem:
        return "cbc3e7fc643d49128b86833ebcb7db15";
    }
    return "";
}

void write(int priority, MessageId id, const std::string& message,
           const std::map<std::string, std::string>& fields) {
    const int level = std::clamp(priority, LOG_EMERG, LOG_DEBUG);
    const bool journal = ::access(kJournalSocket, F_OK) == 0;
    if (!journal || !stderr_is_the_journal()) {
        write_to_stderr(level, message);
    }
    if (!journal) {
        return;
    }
    std::vector<std::string> texts{
        "MESSAGE=" + std::string(cut(message)),
        "PRIORITY=" + std::to_string(level),
        std::string("MESSAGE_ID=") + message_id(id),
        std::string("SYSLOG_IDENTIFIER=") + kIdentifier,
    };
    for (const auto& [name, value] : fields) {
        texts.push_back(field_name(name) + "=" + std::string(cut(value)));
    }
    std::vector<iovec> vectors;
    vectors.reserve(texts.size());
    for (std::string& text : texts) {
        vectors.push_back({.iov_base = text.data(), .iov_len = text.size()});
    }
    if (sd_journal_sendv(vectors.data(), static_cast<int>(vectors.size())) < 0 &&
        stderr_is_the_journal()) {
        write_to_stderr(level, message); // it has not been there yet
    }
}

void finding(MessageId id, const core::Finding& finding) {
    const bool cleared = id == MessageId::FindingCleared;
    std::string message = cleared ? "cleared: " : "";
    message += finding.id;
    if (!finding.reason.empty()) {
        message += " [" + finding.reason + "]";
    }
    message += " on " + std::string(core::to_string(finding.subject.kind)) + " " +
               finding.subject.name + ": " + finding.summary;

    std::map<std::string, std::string> fields{
        {"FINDING", finding.id},
        {"SEVERITY", std::string(core::to_string(finding.severity))},
        {"SUBJECT_KIND", std::string(core::to_string(finding.subject.kind))},
        {"SUBJECT", finding.subject.name},
    };
    if (!finding.reason.empty()) {
        fields["REASON"] = finding.reason;
    }
    if (!finding.layer.empty()) {
        fields["LAYER"] = finding.layer;
    }
    if (!finding.fix.empty()) {
        fields["FIX"] = lines(finding.fix);
    }
    std::vector<std::string> evidence;
    for (const core::Evidence& piece : finding.evidence) {
        evidence.push_back(piece.source + ": " + piece.says);
    }
    if (!evidence.empty()) {
        fields["EVIDENCE"] = lines(evidence);
    }
    write(cleared ? LOG_INFO : priority_of(finding.severity), id, message, fields);
}

} // namespace nvmaint::log
