// Structured journal entries: one MESSAGE_ID per kind of decision, so that `journalctl
// MESSAGE_ID=...` and the message catalog work. Where no journald listens (a container, a test),
// lines go to stderr, "<priority>text" as sd-daemon(3) has it. Any thread; blocks while the queue
// of journald's socket is full, which a journald on a hung disk lets happen.
#pragma once

#include "core/finding.hpp"

#include <map>
#include <string>

namespace nvmaint::log {

enum class MessageId {
    Started,
    Stopped,
    FindingRaised,
    FindingCleared,
    TrimStarted,
    TrimEnded,
    TrimInterrupted,
    TrimEffect,
    PolicyLoaded,
    PolicyRefused,
    HookFailed,
    WorkerLate,
    StateProblem,
};

// 128-bit ids as 32 hex digits; documented in nvmaintd(8) and the message catalog.
[[nodiscard]] const char* message_id(MessageId id);

// `priority` as syslog(3), 0 to 7. Fields are appended as NVMAINT_<NAME>; values are cut at 4 KiB
// and may hold any byte.
void write(int priority, MessageId id, const std::string& message,
           const std::map<std::string, std::string>& fields = {});
// A finding with its subject, evidence and fix as fields. Priority: critical, warning, notice or
// info as its severity; info where `id` is FindingCleared.
void finding(MessageId id, const core::Finding& finding);

} // namespace nvmaint::log
