// A trim in ranges. Each FITRIM holds up the drive for as long as it lasts, so the law aims at
// ranges of a tenth of a second and rests four times as long after each: a fifth of the time at
// most. What a range costs is not known before (it depends on what is free in it and on the drive),
// hence the first range is small and the size follows the time the last one took.
#include "core/pacing.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace nvmaint::core {

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

// A block group of ext4 at its usual block size of 4 KiB (one block of bitmap: 32768 blocks).
// Smaller blocks have smaller groups, of which this is a multiple.
constexpr std::uint64_t kExt4Group = 128 * kMiB;
// Below a group ext4 trims as asked and only forgets that it did (fs/ext4/mballoc.c,
// ext4_trim_all_free(): the mark is set for whole groups), so that going lower costs a later trim
// some repetition. Judgement: an eighth of a group is where a range costs less than its rest.
constexpr std::uint64_t kExt4Smallest = 16 * kMiB;
constexpr std::uint64_t kXfsRange = kGiB;
constexpr std::uint64_t kLargest = 4 * kGiB;

// Extents shorter than 1 MiB are left alone on filesystems where they are a small share of the free
// space; small ones are trimmed whole.
constexpr std::uint64_t kSmallFilesystem = 16 * kGiB;

// A small filesystem is trimmed in so many ranges at least to begin with, so that there is
// something to learn from and to stop between.
constexpr std::uint64_t kFewestRanges = 16;

constexpr double kTargetNs = 100e6;
constexpr double kTellingShare = 1.0 / 64;
constexpr milliseconds kLeastRest{50};
constexpr int kRestFactor = 4; // of the time a range took: one fifth duty
constexpr int kSufferFactor = 8;
constexpr milliseconds kLeastRestSuffering{1000};
constexpr milliseconds kLongestRest{60'000};

// Major and minor version of uname's release, "6.12.95+deb12-amd64"; {0, 0} if it is none.
std::pair<unsigned, unsigned> kernel_version(const std::string& release) {
    std::pair<unsigned, unsigned> version{0, 0};
    const char* const end = release.data() + release.size();
    const auto major = std::from_chars(release.data(), end, version.first);
    if (major.ec != std::errc{} || major.ptr == end || *major.ptr != '.') {
        return {0, 0};
    }
    if (std::from_chars(major.ptr + 1, end, version.second).ec != std::errc{}) {
        return {0, 0};
    }
    return version;
}

// To a multiple of the alignment where it is larger than that, and within the geometry's limits.
std::uint64_t fit(const TrimGeometry& g, std::uint64_t bytes) {
    bytes = std::clamp(bytes, g.smallest, std::max(g.smallest, g.largest));
    if (g.alignment > 1 && bytes > g.alignment) {
        bytes -= bytes % g.alignment;
    }
    return bytes;
}

} // namespace

TrimGeometry trim_geometry(const std::string& type, std::uint64_t size_bytes,
                           std::uint64_t discard_granularity, const std::string& kernel) {
    TrimGeometry g;
    g.type = type;
    g.span = size_bytes;
    g.minimum =
        size_bytes >= kSmallFilesystem ? std::max(discard_granularity, kMiB) : discard_granularity;
    if (type == "ext4") {
        g.alignment = kExt4Group;
        g.smallest = kExt4Smallest;
        g.largest = kLargest;
    } else if (type == "xfs" && kernel_version(kernel) >= std::pair{6U, 10U}) {
        // Since b0ffe661fab4 (Linux 6.10) a range only looks at its own extents.
        g.alignment = kXfsRange;
        g.smallest = kXfsRange / 4;
        g.largest = kLargest;
    } else {
        // XFS before 6.10 walks and discards far beyond a range that is not a whole allocation
        // group; btrfs trims all unallocated space with the first range, and its addresses are not
        // the device's. Others are not known. One range does it once.
        g.alignment = 1;
        g.smallest = std::max<std::uint64_t>(size_bytes, 1);
        g.largest = g.smallest;
    }
    return g;
}

PaceState pace_start(const TrimGeometry& geometry, std::uint64_t resume_at) {
    PaceState state;
    // One range within another trims it twice at worst; starting between keeps the marks apart.
    state.next_start = geometry.alignment > 1      ? resume_at - resume_at % geometry.alignment
                       : resume_at < geometry.span ? 0
                                                   : resume_at;
    // A pilot: one group, less on a filesystem that has only few.
    state.range_bytes = fit(geometry, std::min(geometry.alignment, geometry.span / kFewestRanges));
    return state;
}

std::optional<TrimRange> pace_range(const TrimGeometry& geometry, const PaceState& state) {
    if (state.next_start >= geometry.span) {
        return std::nullopt;
    }
    TrimRange range;
    range.start = state.next_start;
    range.length = std::max<std::uint64_t>(fit(geometry, state.range_bytes), 1);
    range.minimum = geometry.minimum;
    if (geometry.alignment > 1) {
        // Up to a boundary where that is nearer, or where a large range would end off one.
        const std::uint64_t into = range.start % geometry.alignment;
        const std::uint64_t to_boundary = geometry.alignment - into;
        if (range.length <= geometry.alignment) {
            range.length = std::min(range.length, to_boundary);
        } else {
            range.length -= into;
        }
    }
    if (range.length >= geometry.span - range.start) {
        range.length = kNoEnd - range.start;
    }
    return range;
}

PaceState pace_next(const TrimGeometry& geometry, const PaceState& state, const TrimRange& done,
                    const PaceInput& input) {
    PaceState next = state;
    const bool last = done.length >= geometry.span || done.start >= geometry.span - done.length;
    next.next_start = last ? geometry.span : done.start + done.length;
    const double length = static_cast<double>(
        last ? geometry.span - std::min(done.start, geometry.span) : done.length);
    const double size = static_cast<double>(state.range_bytes);
    const double took = std::max(0.0, static_cast<double>(input.took.count()));
    const double trimmed =
        input.trimmed ? std::min(static_cast<double>(*input.trimmed), length) : length;
    // A range with hardly anything free in it tells what scanning costs and nothing of the drive.
    if (trimmed >= kTellingShare * length && trimmed > 0) {
        const double cost = took / trimmed;
        next.ns_per_byte = std::max(cost, (state.ns_per_byte + cost) / 2);
    }
    // At most twice or half at a time; as it is while nothing is known, unless it took long.
    double wanted = size;
    if (input.flush_suffered || took > 2 * kTargetNs) {
        wanted = size / 2;
    } else if (next.ns_per_byte > 0) {
        wanted = std::clamp(kTargetNs / next.ns_per_byte, size / 2, size * 2);
    } else if (trimmed >= kTellingShare * length) {
        wanted = size * 2; // trimmed, in no time at all
    }
    const double limit = static_cast<double>(geometry.largest);
    next.range_bytes = fit(geometry, static_cast<std::uint64_t>(std::min(wanted, limit)));
    const auto took_ms = std::chrono::duration_cast<milliseconds>(
        std::clamp(input.took, nanoseconds::zero(), nanoseconds{kLongestRest}));
    next.rest = input.flush_suffered ? std::max(kLeastRestSuffering, kSufferFactor * took_ms)
                                     : std::max(kLeastRest, kRestFactor * took_ms);
    next.rest = std::min(next.rest, kLongestRest);
    return next;
}

PaceState pace_yield(const TrimGeometry& geometry, const PaceState& state) {
    PaceState next = state;
    next.range_bytes = fit(geometry, state.range_bytes / 2);
    next.rest = std::min(std::max(2 * state.rest, kLeastRestSuffering), kLongestRest);
    return next;
}

} // namespace nvmaint::core
