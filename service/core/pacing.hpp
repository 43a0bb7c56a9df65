// Which range to trim next, and how long to rest before it. Pure control law; the clock and the
// ioctl are elsewhere. FITRIM ranges are in bytes of the filesystem's own address space
// (fstrim(8)), and only a fatal signal stops one that is under way, so the range is the unit of
// yielding.
#pragma once

#include "core/time.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace nvmaint::core {

struct TrimRange {
    std::uint64_t start = 0;
    std::uint64_t length = 0;
    std::uint64_t minimum = 0; // extents shorter than this are left alone (FITRIM's minlen)
    bool operator==(const TrimRange&) const = default;
};

struct TrimGeometry {
    std::string type;            // "ext4", "xfs", "btrfs"
    std::uint64_t span = 0;      // bytes of the filesystem's address space to cover
    std::uint64_t alignment = 1; // ranges are multiples of this, or do not cross one
    std::uint64_t smallest = 0;  // smallest useful range
    std::uint64_t largest = 0;   // = span where ranges only multiply the work (coarse)
    std::uint64_t minimum = 0;   // minlen: at least the device's discard granularity
    bool operator==(const TrimGeometry&) const = default;
};

// Geometry by filesystem type. ext4 keeps its trimmed mark only for whole block groups
// (fs/ext4/mballoc.c); XFS before 6.10 scans a whole allocation group for any range in it; btrfs
// trims all unallocated space with the first range. `size_bytes` is the size of the block device
// the filesystem is on: statfs(2) leaves the filesystem's own overhead out. `kernel` is uname's
// release; empty = unknown, which is taken for old.
[[nodiscard]] TrimGeometry trim_geometry(const std::string& type, std::uint64_t size_bytes,
                                         std::uint64_t discard_granularity,
                                         const std::string& kernel = {});

struct PaceState {
    std::uint64_t next_start = 0;
    std::uint64_t range_bytes = 0;
    milliseconds rest{0};   // before the next range
    double ns_per_byte = 0; // of the worst range lately, per byte it trimmed; 0 = none seen yet
    bool operator==(const PaceState&) const = default;
};

// What the last range did to the drive.
struct PaceInput {
    nanoseconds took{};
    bool flush_suffered = false; // flushes during or right after it were slow, see
                                 // FlushWatch::slow_since()
    // Bytes that FITRIM reported. Absent: taken for the whole range.
    std::optional<std::uint64_t> trimmed = std::nullopt;
};

[[nodiscard]] PaceState pace_start(const TrimGeometry& geometry, std::uint64_t resume_at);
// The range to issue now; nothing when the filesystem is done. The last range is open-ended (its
// length is UINT64_MAX - start, as fstrim(8) passes): FITRIM clips it, and nothing behind a size
// that was rounded or measured too small stays untrimmed.
[[nodiscard]] std::optional<TrimRange> pace_range(const TrimGeometry& geometry,
                                                  const PaceState& state);
// After a range: halve on suffering or when it took long, grow while it was quick. The size follows
// what a trimmed byte costs, so that a range which is wholly free takes no longer than one after
// ranges in which nothing was.
[[nodiscard]] PaceState pace_next(const TrimGeometry& geometry, const PaceState& state,
                                  const TrimRange& done, const PaceInput& input);

// Flushes suffer during a rest: the rest begins again, twice as long, and the next range is half as
// large.
[[nodiscard]] PaceState pace_yield(const TrimGeometry& geometry, const PaceState& state);

} // namespace nvmaint::core
