// Structured journal entries: one MESSAGE_ID per kind of decision, so that `journalctl
// MESSAGE_ID=...` and the message catalog work. Where no journald listens (a container, a test),
// lines go to stderr.
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

// `priority` as syslog(3). Fields are appended as NVMAINT_<NAME>; values are cut at 4 KiB and may
// hold any byte.
void write(int priority, MessageId id, const std::string& message,
           const std::map<std::string, std::string>& fields = {});
void finding(MessageId id, const core::Finding& finding);

} // namespace nvmaint::log
