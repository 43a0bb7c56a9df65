// What each object shows, as plain values made from the model: one member per property, every
// string fit for the bus. The server keeps the last one it announced and compares.
#pragma once

#include "bus/server.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nvmaint::bus {

using Dictionary = std::map<std::string, Value>; // a{sv}

struct ManagerObject {
    std::string version;
    std::string mode;
    std::vector<std::string> policy_files;
    std::string verdict;
    bool operator==(const ManagerObject&) const = default;
};

struct DriveObject {
    std::string name;
    std::string model;
    std::string firmware;
    std::string serial;
    std::vector<std::string> disks;
    std::string drive_class;
    std::string flush_source;
    std::string flush_source_reason;
    std::string health;
    double flush_median_ms = -1; // -1 = unknown; three significant digits
    double flush_last_ms = -1;   // -1 = unknown
    bool operator==(const DriveObject&) const = default;
};

struct FilesystemObject {
    std::string mount;
    std::vector<std::string> mounts;
    std::string source;
    std::string type;
    std::string uuid;
    std::vector<std::string> stack;
    std::vector<std::string> disks;
    std::string trim_state;
    std::int32_t trim_tier = 0;
    std::string trim_reason;
    Dictionary last_trim;
    bool operator==(const FilesystemObject&) const = default;
};

struct JobObject {
    std::uint64_t id = 0;
    std::string kind;
    std::string subject;
    std::string state;
    double progress = 0; // 0..1
    Dictionary result;
    bool operator==(const JobObject&) const = default;
};

[[nodiscard]] ManagerObject manager_object(const Model& model);
[[nodiscard]] DriveObject drive_object(const core::DriveView& drive);
// With the last of `trims` (newest last) that was of this filesystem: by UUID where both are known,
// else by mount point.
[[nodiscard]] FilesystemObject filesystem_object(const core::FilesystemView& filesystem,
                                                 const std::vector<core::TrimRecord>& trims);
[[nodiscard]] JobObject job_object(const JobView& job);

struct FlushPoint {
    double seconds = 0;      // end of the interval, before (negative) or after the diagnosis
    double milliseconds = 0; // mean time of the flushes that completed in it
    bool operator==(const FlushPoint&) const = default;
};
// The recent intervals of a disk in which flushes completed, oldest first; none where the disk has
// no series.
[[nodiscard]] std::vector<FlushPoint> flush_series(const Model& model, const std::string& disk);

// The real mount point behind one that was shown: itself, or the one whose bytes are no text and
// that was shown escaped. Returns `shown` where there is none.
[[nodiscard]] std::string real_mount(const Model& model, const std::string& shown);

} // namespace nvmaint::bus
