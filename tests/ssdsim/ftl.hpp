// SPDX-License-Identifier: Apache-2.0
//
// The flash translation layer of a simulated SSD: page mapping, erase blocks, spare area, greedy
// garbage collection. Pure: no clock, no I/O, no hidden randomness; every operation returns what
// it cost in flash operations and the caller decides how long that takes.
//
// One frontier block takes host writes and collected pages alike, in order of arrival. That is the
// arrangement the published analyses of greedy collection assume, so the write amplification can
// be checked against them.
//
// Example: 4 logical blocks on 6 physical ones, collection starts at 1 free block and stops at 2.
// Filling the drive once leaves 2 blocks free. Overwrites fill the fifth block, then 1 is free:
// collecting() becomes true. Each collect_victim() takes the closed block with the fewest valid
// pages, moves those to the frontier and erases it, until 2 are free again.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace ssdsim {

// A logical page number, counted from 0 in units of 4 KiB.
using LogicalPage = std::uint32_t;

inline constexpr std::uint32_t kPageSize = 4096;

// Flash operations spent. Each count is in pages, `erased` in blocks.
struct FlashWork {
    std::uint64_t programmed = 0; // pages the host wrote
    std::uint64_t moved = 0;      // valid pages copied by garbage collection
    std::uint64_t erased = 0;     // blocks

    FlashWork& operator+=(const FlashWork& other);
    bool operator==(const FlashWork&) const = default;
};

struct FtlGeometry {
    std::uint32_t logical_pages = 0;
    std::uint32_t pages_per_block = 256;
    double spare = 0.07;            // flash beyond the logical pages, as a share of them
    std::uint32_t extra_blocks = 8; // added to the spare area, whatever the size
    std::uint32_t gc_start = 4;     // collection starts at this many free blocks or fewer
    std::uint32_t gc_stop = 12;     // and stops at this many

    [[nodiscard]] std::uint32_t logical_blocks() const;
    [[nodiscard]] std::uint32_t physical_blocks() const;
    [[nodiscard]] std::uint32_t spare_blocks() const;

    // What makes this geometry unusable, in one line; nothing if it is sound. Sound means that at
    // the stop level some closed block always has an invalid page, so collection can always finish.
    [[nodiscard]] std::optional<std::string> problem() const;
};

class Ftl {
  public:
    // `geometry.problem()` must be empty.
    explicit Ftl(const FtlGeometry& geometry);

    [[nodiscard]] const FtlGeometry& geometry() const { return geometry_; }

    // Writes one page. When no block but the last is free, collects first, however long it takes;
    // the result includes that work.
    [[nodiscard]] FlashWork write(LogicalPage page);

    // Unmaps one page; true if it was mapped.
    bool trim(LogicalPage page);

    [[nodiscard]] bool mapped(LogicalPage page) const;

    // True from the moment the free blocks fall to the start level until they reach the stop level.
    [[nodiscard]] bool collecting() const { return collecting_; }

    // Starts an episode before the start level is reached; without effect at or above the stop
    // level.
    void start_collecting();

    // Reclaims the closed block with the fewest valid pages (the oldest of several). Ends the
    // episode when the stop level is reached or every closed block is fully valid. Costs nothing
    // and does nothing in the latter case.
    [[nodiscard]] FlashWork collect_victim();

    // Writes every page once, then `overwrites` times as many pages at random, uniformly, and
    // collects from start to stop level as needed. Leaves every page mapped. Same seed, same drive.
    void age(std::uint64_t seed, double overwrites);

    [[nodiscard]] std::uint32_t free_blocks() const {
        return static_cast<std::uint32_t>(free_.size());
    }
    // Pages that can be programmed without an erase: free blocks and the rest of the frontier.
    [[nodiscard]] std::uint64_t free_pages() const;
    [[nodiscard]] std::uint32_t mapped_pages() const { return mapped_pages_; }
    // Valid pages of the block that collection would take next; nothing if no block is closed.
    [[nodiscard]] std::optional<std::uint32_t> next_victim_valid() const;

    // Checks every invariant against a recount; a line about the first one broken. For tests: costs
    // a walk over the whole map.
    [[nodiscard]] std::optional<std::string> inconsistency() const;

  private:
    using PhysicalPage = std::uint32_t;
    using Block = std::uint32_t;

    static constexpr std::uint32_t kNone = 0xffffffffU;

    void place(LogicalPage page);
    void invalidate(LogicalPage page);
    void open_frontier();
    void close_frontier();
    void update_episode();
    [[nodiscard]] Block lowest_valid_block() const;

    // Closed blocks hang in one ring per number of valid pages; ring heads are the list nodes after
    // those of the blocks.
    [[nodiscard]] std::uint32_t ring(std::uint32_t valid) const { return blocks_ + valid; }
    void link(Block block);
    void unlink(Block block);

    FtlGeometry geometry_;
    std::uint32_t blocks_;
    std::vector<PhysicalPage> physical_; // by logical page
    std::vector<LogicalPage> logical_;   // by physical page; kNone where not valid
    std::vector<std::uint32_t> valid_;   // by block
    std::vector<bool> closed_;           // by block
    std::vector<std::uint32_t> next_;
    std::vector<std::uint32_t> previous_;
    std::deque<Block> free_; // erased blocks, used in order of erasure
    Block frontier_ = kNone;
    std::uint32_t frontier_used_ = 0;
    std::uint32_t mapped_pages_ = 0;
    bool collecting_ = false;
};

// A small seeded generator (splitmix64, public domain, Sebastiano Vigna): the same sequence with
// every standard library.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    [[nodiscard]] std::uint64_t next();
    // Uniform in [0, bound) up to a bias of bound/2^32; bound must not be 0.
    [[nodiscard]] std::uint32_t below(std::uint32_t bound);

  private:
    std::uint64_t state_;
};

} // namespace ssdsim
