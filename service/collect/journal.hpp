// The journal as far as the trim of filesystems and the state of controllers show in it, and the
// boots it covers.
#pragma once

#include "collect/host_root.hpp"
#include "core/snapshot.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::collect {

// Lines of JSON as `journalctl -o json` prints them (Journal JSON Format: strings, arrays of byte
// values for what is no text, arrays of those for repeated fields). Sorted by time. Errors:
// Malformed (line).
[[nodiscard]] Result<std::vector<core::JournalEntry>> parse_journal(std::string_view text);
// {"boot_id": "...", "first": T, "last": T} a line, or as `journalctl --list-boots -o json` names
// them (first_entry, last_entry). T: RFC 3339, or microseconds since 1970. Sorted by first time.
[[nodiscard]] Result<std::vector<core::Boot>> parse_boots(std::string_view text);

[[nodiscard]] std::string format_boots(const std::vector<core::Boot>& boots);

// From the running host's journal: what the units logged and PID 1 logged about them, reloads of
// PID 1, and the kernel's NVMe messages; of the last 90 days before `now`, at most the newest 5000.
// Errors: System, Unsupported (no journal files).
[[nodiscard]] Result<std::string> read_journal_live(const std::vector<std::string>& units,
                                                    core::WallTime now);
[[nodiscard]] Result<std::string> read_boots_live();

[[nodiscard]] Reading<std::vector<core::JournalEntry>>
read_journal(const HostRoot& root, const std::vector<std::string>& units, core::WallTime now);
[[nodiscard]] Reading<std::vector<core::Boot>> read_boots(const HostRoot& root);

} // namespace nvmaint::collect
