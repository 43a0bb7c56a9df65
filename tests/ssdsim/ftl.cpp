// SPDX-License-Identifier: Apache-2.0
#include "ftl.hpp"

#include <cassert>
#include <cmath>

namespace ssdsim {

namespace {

// Collection must be able to copy a victim before it is erased, so the host never gets the last
// free block.
constexpr std::uint32_t kReservedBlocks = 1;

} // namespace

FlashWork& FlashWork::operator+=(const FlashWork& other) {
    programmed += other.programmed;
    moved += other.moved;
    erased += other.erased;
    return *this;
}

std::uint32_t FtlGeometry::logical_blocks() const {
    return logical_pages / pages_per_block + (logical_pages % pages_per_block != 0 ? 1U : 0U);
}

std::uint32_t FtlGeometry::spare_blocks() const {
    const double pages = spare * static_cast<double>(logical_pages);
    const double blocks = std::ceil(pages / static_cast<double>(pages_per_block));
    return static_cast<std::uint32_t>(blocks) + extra_blocks;
}

std::uint32_t FtlGeometry::physical_blocks() const {
    return logical_blocks() + spare_blocks();
}

std::optional<std::string> FtlGeometry::problem() const {
    if (logical_pages == 0) {
        return "the drive has no pages";
    }
    if (pages_per_block < 2 || pages_per_block > 65536) {
        return "pages per block must be 2 to 65536";
    }
    if (!(spare >= 0.0 && spare <= 10.0)) {
        return "the spare share must be 0 to 10";
    }
    const double flash_pages =
        (1.0 + spare) * static_cast<double>(logical_pages) +
        (static_cast<double>(extra_blocks) + 2.0) * static_cast<double>(pages_per_block);
    if (flash_pages >= 4294967295.0) {
        return "the drive is too big for 32-bit page numbers";
    }
    if (gc_start <= kReservedBlocks) {
        return "collection must start at 2 free blocks or more";
    }
    if (gc_stop <= gc_start) {
        return "the level at which collection stops must be above the one at which it starts";
    }
    // At the stop level: the free blocks, the frontier and one block's worth of invalid pages.
    if (gc_stop + 2 > spare_blocks()) {
        return "the spare area of " + std::to_string(spare_blocks()) +
               " blocks is too small to stop collection at " + std::to_string(gc_stop) +
               " free blocks";
    }
    return std::nullopt;
}

Ftl::Ftl(const FtlGeometry& geometry)
    : geometry_(geometry), blocks_(geometry.physical_blocks()),
      physical_(geometry.logical_pages, kNone),
      logical_(std::size_t{blocks_} * geometry.pages_per_block, kNone), valid_(blocks_, 0),
      closed_(blocks_, false), next_(std::size_t{blocks_} + geometry.pages_per_block + 1),
      previous_(next_.size()) {
    assert(!geometry.problem());
    for (std::uint32_t node = 0; node < next_.size(); ++node) {
        next_[node] = node;
        previous_[node] = node;
    }
    for (Block block = 0; block < blocks_; ++block) {
        free_.push_back(block);
    }
}

FlashWork Ftl::write(LogicalPage page) {
    FlashWork work;
    while (frontier_ == kNone && free_.size() <= kReservedBlocks) {
        work += collect_victim();
    }
    invalidate(page);
    place(page);
    work.programmed += 1;
    update_episode();
    return work;
}

bool Ftl::trim(LogicalPage page) {
    const bool was_mapped = mapped(page);
    invalidate(page);
    return was_mapped;
}

bool Ftl::mapped(LogicalPage page) const {
    return physical_[page] != kNone;
}

void Ftl::start_collecting() {
    collecting_ = free_.size() < geometry_.gc_stop;
}

FlashWork Ftl::collect_victim() {
    FlashWork work;
    const Block victim = lowest_valid_block();
    if (victim == kNone || valid_[victim] == geometry_.pages_per_block) {
        collecting_ = false;
        return work;
    }
    unlink(victim);
    closed_[victim] = false;
    const PhysicalPage first = victim * geometry_.pages_per_block;
    for (PhysicalPage source = first; source < first + geometry_.pages_per_block; ++source) {
        const LogicalPage page = logical_[source];
        if (page != kNone) {
            invalidate(page);
            place(page);
            work.moved += 1;
        }
    }
    free_.push_back(victim);
    work.erased = 1;
    update_episode();
    return work;
}

void Ftl::age(std::uint64_t seed, double overwrites) {
    Random random(seed);
    const auto collect = [this] {
        while (collecting_) {
            (void)collect_victim(); // ageing takes no simulated time
        }
    };
    for (LogicalPage page = 0; page < geometry_.logical_pages; ++page) {
        (void)write(page); // as above
        collect();
    }
    const auto writes =
        static_cast<std::uint64_t>(overwrites * static_cast<double>(geometry_.logical_pages));
    for (std::uint64_t i = 0; i < writes; ++i) {
        (void)write(random.below(geometry_.logical_pages)); // as above
        collect();
    }
}

std::uint64_t Ftl::free_pages() const {
    const std::uint64_t in_frontier =
        frontier_ == kNone ? 0 : geometry_.pages_per_block - frontier_used_;
    return free_.size() * geometry_.pages_per_block + in_frontier;
}

std::optional<std::uint32_t> Ftl::next_victim_valid() const {
    const Block victim = lowest_valid_block();
    if (victim == kNone) {
        return std::nullopt;
    }
    return valid_[victim];
}

std::optional<std::string> Ftl::inconsistency() const {
    std::uint32_t mapped_count = 0;
    for (LogicalPage page = 0; page < geometry_.logical_pages; ++page) {
        if (physical_[page] == kNone) {
            continue;
        }
        ++mapped_count;
        if (logical_[physical_[page]] != page) {
            return "page " + std::to_string(page) + " is not where the map says";
        }
    }
    if (mapped_count != mapped_pages_) {
        return "count of mapped pages is off";
    }
    std::uint32_t valid_total = 0;
    std::uint32_t closed_count = 0;
    for (Block block = 0; block < blocks_; ++block) {
        std::uint32_t valid = 0;
        for (std::uint32_t i = 0; i < geometry_.pages_per_block; ++i) {
            valid += logical_[block * geometry_.pages_per_block + i] != kNone ? 1U : 0U;
        }
        if (valid != valid_[block]) {
            return "valid count of block " + std::to_string(block) + " is off";
        }
        valid_total += valid;
        closed_count += closed_[block] ? 1U : 0U;
    }
    if (valid_total != mapped_count) {
        return "a page is valid twice";
    }
    std::uint32_t linked = 0;
    for (std::uint32_t valid = 0; valid <= geometry_.pages_per_block; ++valid) {
        for (std::uint32_t node = next_[ring(valid)]; node != ring(valid); node = next_[node]) {
            ++linked;
            if (valid_[node] != valid || !closed_[node]) {
                return "block " + std::to_string(node) + " hangs in the wrong ring";
            }
        }
    }
    const std::size_t open_count = frontier_ == kNone ? 0 : 1;
    if (linked != closed_count || closed_count + free_.size() + open_count != blocks_) {
        return "a block is lost or counted twice";
    }
    for (const Block block : free_) {
        if (valid_[block] != 0 || closed_[block]) {
            return "free block " + std::to_string(block) + " is in use";
        }
    }
    return std::nullopt;
}

void Ftl::place(LogicalPage page) {
    if (frontier_ == kNone) {
        open_frontier();
    }
    const PhysicalPage target = frontier_ * geometry_.pages_per_block + frontier_used_;
    physical_[page] = target;
    logical_[target] = page;
    ++valid_[frontier_];
    ++mapped_pages_;
    ++frontier_used_;
    if (frontier_used_ == geometry_.pages_per_block) {
        close_frontier();
    }
}

void Ftl::invalidate(LogicalPage page) {
    const PhysicalPage old = physical_[page];
    if (old == kNone) {
        return;
    }
    physical_[page] = kNone;
    logical_[old] = kNone;
    --mapped_pages_;
    const Block block = old / geometry_.pages_per_block;
    if (closed_[block]) {
        unlink(block);
        --valid_[block];
        link(block);
    } else {
        --valid_[block];
    }
}

void Ftl::open_frontier() {
    assert(!free_.empty());
    frontier_ = free_.front();
    free_.pop_front();
    frontier_used_ = 0;
}

void Ftl::close_frontier() {
    closed_[frontier_] = true;
    link(frontier_);
    frontier_ = kNone;
}

void Ftl::update_episode() {
    if (free_.size() <= geometry_.gc_start) {
        collecting_ = true;
    } else if (free_.size() >= geometry_.gc_stop) {
        collecting_ = false;
    }
}

Ftl::Block Ftl::lowest_valid_block() const {
    for (std::uint32_t valid = 0; valid <= geometry_.pages_per_block; ++valid) {
        const std::uint32_t head = ring(valid);
        if (next_[head] != head) {
            return next_[head];
        }
    }
    return kNone;
}

void Ftl::link(Block block) {
    const std::uint32_t head = ring(valid_[block]);
    const std::uint32_t last = previous_[head];
    next_[last] = block;
    previous_[block] = last;
    next_[block] = head;
    previous_[head] = block;
}

void Ftl::unlink(Block block) {
    next_[previous_[block]] = next_[block];
    previous_[next_[block]] = previous_[block];
    next_[block] = block;
    previous_[block] = block;
}

std::uint64_t Random::next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
}

std::uint32_t Random::below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32U) * bound) >> 32U);
}

} // namespace ssdsim
