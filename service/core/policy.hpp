// The operator's will, compiled. config/ makes this out of TOML; core only reads it.
#pragma once

#include "core/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nvmaint::core {

enum class Mode { Observe, Maintain };

enum class Weekday { Mon, Tue, Wed, Thu, Fri, Sat, Sun };

struct TrimWindow {
    std::vector<Weekday> days;   // empty = every day
    std::chrono::minutes from{}; // since midnight, 0..1439
    std::chrono::minutes to{};   // 0..1440; before `from`: the window runs past midnight
    std::string timezone;        // "UTC"; "" = the host's local time
    bool operator==(const TrimWindow&) const = default;
};

struct Hook {
    std::vector<std::string> match; // globs over finding ids; empty = all
    std::string exec;               // absolute path; gets the finding as JSON on stdin
    seconds timeout{10};
    seconds hold{0};  // a finding must have stood this long before the hook runs for it
    seconds clear{0}; // and must have been gone this long before it counts as cleared
    bool operator==(const Hook&) const = default;
};

struct FlushPolicy {
    std::optional<nanoseconds> target_p99; // absent = no target: flush.degraded stays a warning
    bool operator==(const FlushPolicy&) const = default;
};

struct TrimPolicy {
    bool takeover = false; // trim also what a working fstrim.timer covers
    seconds minimum_spacing{24 * 3600};
    std::optional<double> debt_limit; // share of the filesystem, 0..1
    std::vector<TrimWindow> windows;
    bool operator==(const TrimPolicy&) const = default;
};

struct Override {
    std::string match_model; // globs; for drives
    std::string match_serial;
    std::string match_mount; // for filesystems
    FlushPolicy flush;
    std::optional<bool> trim_exclude;
    bool operator==(const Override&) const = default;
};

struct Policy {
    Mode mode = Mode::Observe;
    FlushPolicy flush;
    TrimPolicy trim;
    std::vector<Hook> hooks; // [[alert]]
    std::vector<Override> drives;
    std::vector<Override> filesystems;
    std::vector<std::string> files; // that were read, in order
    bool operator==(const Policy&) const = default;
};

} // namespace nvmaint::core
