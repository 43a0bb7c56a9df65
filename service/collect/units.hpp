// systemd's view of the units that trim: fstrim.timer, fstrim.service, every timer whose name
// contains "trim", and the services that those start.
//
// One JSON form for the live host and for recordings (systemd/units.json): unit -> property ->
// value, names and types as systemd's D-Bus interface gives them (org.freedesktop.systemd1(5)).
// Structures are arrays, times are microseconds since 1970 as numbers:
//
//     { "fstrim.timer": {
//         "LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled",
//         "Unit": "fstrim.service",
//         "TimersCalendar": [["OnCalendar", "Mon *-*-* 00:00:00", 1764547200000000]],
//         "LastTriggerUSec": 1763946727000000, "NextElapseUSecRealtime": 1764547200000000,
//         "AccuracyUSec": 3600000000, "RandomizedDelayUSec": 6000000000, "Persistent": true,
//         "Conditions": [["ConditionPathExists", false, false, "/etc/fstab", 1]] },
//       "fstrim.service": {
//         "LoadState": "loaded", "ActiveState": "inactive", "Result": "success",
//         "ExecStart": [["/sbin/fstrim", ["/sbin/fstrim", "--listed-in", "/etc/fstab"], false,
//                        0, 0, 0, 0, 0, 0, 0]] } }
//
// A property that is not there was not read. Of an ExecStart entry only path and argv are needed.
// Where the file exists and does not name fstrim.timer or fstrim.service, systemd does not know
// them: they get LoadState "not-found".
#pragma once

#include "collect/host_root.hpp"
#include "core/snapshot.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::collect {

// The properties that are read, recorded and parsed; everything else (environment, credentials) is
// left alone.
[[nodiscard]] bool is_wanted_property(std::string_view name);

// Errors: Malformed, naming unit and property.
[[nodiscard]] Result<std::map<std::string, core::Unit>> parse_units(std::string_view json);

// The JSON above from PID 1. At most 5 s without an answer. Errors: System, Timeout, Unsupported
// (no bus).
[[nodiscard]] Result<std::string> read_units_live();

// `init` is the comm of PID 1: without systemd there, nobody is asked.
[[nodiscard]] Reading<std::map<std::string, core::Unit>>
read_units(const HostRoot& root, const Reading<std::string>& init);

// Timers that trim, and what they start; always with fstrim.timer and fstrim.service.
[[nodiscard]] std::vector<std::string>
names_of_trim_units(const Reading<std::map<std::string, core::Unit>>& units);

} // namespace nvmaint::collect
