// Snapshot and history in, findings out. Pure.
#pragma once

#include "core/finding.hpp"
#include "core/flush_watch.hpp"
#include "core/history.hpp"
#include "core/policy.hpp"
#include "core/snapshot.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nvmaint::core {

enum class TrimState { Covered, NotCovered, Blocked, OtherAgent, NotApplicable, Unknown };
[[nodiscard]] std::string_view to_string(TrimState state); // "covered", "not-covered", ...

// One filesystem (superblock), however often it is mounted.
struct FilesystemView {
    std::string mount; // its shortest mount point
    std::vector<std::string> mounts;
    std::string source; // "/dev/nvme1n1"
    std::string type;
    std::string uuid;               // empty = unknown
    std::vector<std::string> stack; // kernel names from the filesystem's device down to the leaves
    std::vector<std::string> disks; // the physical disks at the bottom
    TrimState trim = TrimState::Unknown;
    int tier = 0;    // of the evidence the trim state stands on
    std::string why; // one line
    bool operator==(const FilesystemView&) const = default;
};

struct DriveView {
    std::string name; // controller
    std::string model;
    std::string firmware;
    std::string serial;
    std::vector<std::string> disks;
    std::string drive_class = "unknown";
    std::string flush_source = "none"; // "module", "diskstats", "none"
    std::string flush_source_why;
    std::string health = "unknown"; // "ok", "unknown", or the worst health finding's severity
    std::optional<double> flush_median_ms;
    std::optional<double> flush_last_ms; // mean of the last second with flushes
    std::optional<double> flush_p50_ms;  // of all flushes that the module counted
    std::optional<double> flush_p99_ms;  // likewise
    bool operator==(const DriveView&) const = default;
};

// What tells a drive from every other one and survives a re-plug: model and serial number; empty
// where it has no serial.
[[nodiscard]] std::string drive_identity(const DriveView& drive);

struct Memory {
    std::map<std::string, FlushWatch> flush;        // by disk; a disk without a series has no entry
    std::map<std::string, FlushBaseline> baselines; // by drive identity
    std::vector<TrimRecord> trims;                  // oldest first
    std::optional<TrimMarker> marker;               // found at start
    // A marker was there and could not be read: a trim was cut off, and nobody knows which and by
    // what.
    bool marker_lost = false;
    std::map<FindingKey, WallTime> since; // of the findings that stood at the last tick
    bool operator==(const Memory&) const = default;
};

struct Diagnosis {
    WallTime now{};
    std::vector<Finding> findings;           // sorted
    std::vector<FilesystemView> filesystems; // sorted by mount
    std::vector<DriveView> drives;           // sorted by name
    Verdict verdict = Verdict::Unknown;
    bool operator==(const Diagnosis&) const = default;
};

// The whole judgement. The parts below are what it is made of.
[[nodiscard]] Diagnosis diagnose(const HostSnapshot& snapshot, const Memory& memory,
                                 const Policy& policy);

[[nodiscard]] Verdict verdict_of(const Diagnosis& diagnosis);

} // namespace nvmaint::core
