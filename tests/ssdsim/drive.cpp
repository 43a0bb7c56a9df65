// SPDX-License-Identifier: Apache-2.0
#include "drive.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace ssdsim {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A drive that only pretends to flush answers as fast as its command path allows.
constexpr Time kPretendedFlush = microseconds{20};

// Pages that leave the cache together when it is drained without a flush.
constexpr std::uint32_t kDrainBatch = 64;

constexpr std::uint64_t kPagesPerMib = 1024 * 1024 / kPageSize;

// How many blocks an episode of collection regains, as a share of the spare area: enough that a
// database's commits (60 to 480 pages a second) take tens of seconds to use them up, and bounded,
// so that big drives stall as often as small ones. Measured in drive_test.cpp.
constexpr double kReclaimShare = 0.62;
constexpr std::uint32_t kReclaimLimit = 40;
constexpr std::uint32_t kStartLevel = 4;

} // namespace

std::optional<std::string> DriveConfig::problem() const {
    if (auto bad = geometry.problem()) {
        return bad;
    }
    if (!(age_overwrites >= 0.0 && age_overwrites <= 100.0)) {
        return "overwrites while ageing must be 0 to 100";
    }
    if (cache_pages < kDrainBatch) {
        return "the cache must hold at least " + std::to_string(kDrainBatch) + " pages";
    }
    if (gc_blocks_per_flush == 0 || gc_pages_per_slice == 0) {
        return "the pace of collection must not be 0";
    }
    return std::nullopt;
}

DriveConfig default_config(Mode mode, std::uint32_t logical_pages) {
    DriveConfig config;
    config.mode = mode;
    config.geometry.logical_pages = logical_pages;
    config.write_base = microseconds{10};
    config.write_page = microseconds{2};
    config.read_base = microseconds{80};
    config.read_page = microseconds{5};
    config.trim_base = microseconds{100};
    config.trim_mib = microseconds{20};
    if (mode == Mode::Plp) {
        config.geometry.spare = 0.28;
        config.flush_base = microseconds{40};
        config.program_page = microseconds{8};
        config.move_page = microseconds{20};
        config.erase_block = milliseconds{1};
    } else {
        config.geometry.spare = 0.07;
        config.flush_base = milliseconds{2};
        config.fua_base = microseconds{300};
        config.program_page = microseconds{15};
        config.move_page = microseconds{60};
        config.erase_block = milliseconds{2};
        config.gc_interval = seconds{35};
    }
    if (mode == Mode::SlowTrim) {
        config.trim_mib = milliseconds{30};
    }
    set_default_levels(config.geometry);
    return config;
}

void set_default_levels(FtlGeometry& geometry) {
    const std::uint32_t spare = geometry.spare_blocks();
    const auto share = static_cast<std::uint32_t>(kReclaimShare * static_cast<double>(spare));
    const std::uint32_t reclaim = std::clamp(share, 1U, kReclaimLimit);
    // Small drives keep some spare area beyond the stop level, or their victims would be full.
    const std::uint32_t highest = spare > kStartLevel + 4 ? spare - 3 : kStartLevel + 1;
    geometry.gc_start = kStartLevel;
    geometry.gc_stop = std::min(kStartLevel + reclaim, highest);
}

Drive::Drive(const DriveConfig& config)
    : config_(config), ftl_(config.geometry), dirty_(config.geometry.logical_pages, false) {
    assert(!config.problem());
    if (config_.aged) {
        ftl_.age(config_.seed, config_.age_overwrites);
    }
}

Receipt Drive::write(Time now, LogicalPage first, std::uint32_t count, bool fua) {
    Receipt receipt;
    const Time cached = now + config_.write_base + config_.write_page * count;
    if (fua && config_.mode != Mode::Plp && !config_.dishonest) {
        for (LogicalPage page = first; page < first + count; ++page) {
            clear_dirty(page);
            receipt.work += program(page, now);
        }
        receipt.work += collect_share(count, now);
        receipt.pages = count;
        receipt.done = occupy(now, config_.fua_base + cost(receipt.work));
        return finish(receipt);
    }
    for (LogicalPage page = first; page < first + count; ++page) {
        set_dirty(page);
    }
    if (config_.mode == Mode::Plp) {
        start_housekeeping(now);
    }
    const std::uint32_t keep = config_.mode == Mode::Plp ? 0 : config_.cache_pages / 2;
    while (dirty_count_ > keep) {
        receipt.work += drain(now, std::min(kDrainBatch, dirty_count_ - keep));
    }
    receipt.done = std::max(cached, room_in_cache(now));
    return finish(receipt);
}

Receipt Drive::read(Time now, LogicalPage first, std::uint32_t count) const {
    Receipt receipt;
    for (LogicalPage page = first; page < first + count; ++page) {
        receipt.pages += ftl_.mapped(page) && !dirty_[page] ? 1U : 0U;
    }
    receipt.done = now;
    if (receipt.pages > 0) {
        receipt.done +=
            config_.read_base + config_.read_page * static_cast<std::int64_t>(receipt.pages - 1);
    }
    receipt.free_blocks = ftl_.free_blocks();
    receipt.collecting = ftl_.collecting();
    return receipt;
}

Receipt Drive::flush(Time now) {
    Receipt receipt;
    if (config_.mode == Mode::Plp || config_.dishonest) {
        receipt.done = now + (config_.dishonest ? kPretendedFlush : config_.flush_base);
        return finish(receipt);
    }
    start_housekeeping(now);
    LogicalPage page = 0;
    while (take_oldest_dirty(page)) {
        receipt.work += program(page, now);
        ++receipt.pages;
    }
    if (receipt.pages > 0) {
        const std::uint64_t slices =
            (receipt.pages + config_.gc_pages_per_slice - 1) / config_.gc_pages_per_slice;
        receipt.work += collect(slices * config_.gc_blocks_per_flush, now);
    }
    receipt.done = occupy(now, config_.flush_base + cost(receipt.work));
    hold_in_cache(receipt.done, static_cast<std::uint32_t>(receipt.pages));
    return finish(receipt);
}

Receipt Drive::trim(Time now, LogicalPage first, std::uint32_t count) {
    Receipt receipt;
    if (config_.mode != Mode::Liar) {
        for (LogicalPage page = first; page < first + count; ++page) {
            const bool was_dirty = dirty_[page];
            clear_dirty(page);
            receipt.pages += ftl_.trim(page) || was_dirty ? 1U : 0U;
        }
    }
    const Time span = config_.trim_base + config_.trim_mib * count / kPagesPerMib;
    receipt.done = config_.mode == Mode::SlowTrim ? occupy(now, span) : now + span;
    return finish(receipt);
}

bool Drive::has_data(LogicalPage page) const {
    return dirty_[page] || ftl_.mapped(page);
}

Time Drive::cost(const FlashWork& work) const {
    return config_.program_page * static_cast<std::int64_t>(work.programmed) +
           config_.move_page * static_cast<std::int64_t>(work.moved) +
           config_.erase_block * static_cast<std::int64_t>(work.erased);
}

bool Drive::take_oldest_dirty(LogicalPage& page) {
    while (!order_.empty()) {
        page = order_.front();
        order_.pop_front();
        if (dirty_[page]) {
            clear_dirty(page);
            return true;
        }
    }
    return false;
}

void Drive::set_dirty(LogicalPage page) {
    if (!dirty_[page]) {
        dirty_[page] = true;
        ++dirty_count_;
        order_.push_back(page);
    }
}

void Drive::clear_dirty(LogicalPage page) {
    if (dirty_[page]) {
        dirty_[page] = false;
        --dirty_count_;
    }
}

FlashWork Drive::program(LogicalPage page, Time now) {
    const bool before = ftl_.collecting();
    const FlashWork work = ftl_.write(page);
    note_collection({.programmed = 0, .moved = work.moved, .erased = work.erased}, before, now);
    return work;
}

FlashWork Drive::collect(std::uint64_t blocks, Time now) {
    FlashWork total;
    for (std::uint64_t i = 0; i < blocks && ftl_.collecting(); ++i) {
        const FlashWork work = ftl_.collect_victim();
        note_collection(work, true, now);
        total += work;
    }
    return total;
}

FlashWork Drive::collect_share(std::uint64_t programmed, Time now) {
    FlashWork total;
    if (!ftl_.collecting()) {
        share_debt_ = 0;
        return total;
    }
    share_debt_ += programmed * config_.fua_moves_per_page;
    while (ftl_.collecting() && share_debt_ >= ftl_.geometry().pages_per_block) {
        share_debt_ -= ftl_.geometry().pages_per_block;
        total += collect(1, now);
    }
    return total;
}

void Drive::note_collection(const FlashWork& work, bool was_collecting, Time now) {
    const bool collecting = ftl_.collecting();
    if (!was_collecting && collecting) {
        begin_episode(now);
    }
    episode_.work += work;
    if (was_collecting && !collecting) {
        episode_ended_ = true;
        episode_.ended = now;
    }
}

void Drive::begin_episode(Time now) {
    episode_started_ = true;
    episode_ = Episode{.started = now, .ended = now, .work = {}};
}

void Drive::start_housekeeping(Time now) {
    const bool due = config_.gc_interval > Time::zero() &&
                     now - episode_.ended >= config_.gc_interval &&
                     ftl_.free_blocks() + config_.gc_idle_blocks <= ftl_.geometry().gc_stop;
    if (due && !ftl_.collecting()) {
        ftl_.start_collecting();
        begin_episode(now);
    }
}

Time Drive::occupy(Time now, Time span) {
    busy_until_ = std::max(busy_until_, now) + span;
    return busy_until_;
}

void Drive::hold_in_cache(Time until, std::uint32_t pages) {
    if (pages > 0) {
        in_flight_.push_back({.done = until, .pages = pages});
        in_flight_pages_ += pages;
    }
}

FlashWork Drive::drain(Time now, std::uint32_t pages) {
    FlashWork work;
    std::uint32_t drained = 0;
    LogicalPage page = 0;
    while (drained < pages && take_oldest_dirty(page)) {
        work += program(page, now);
        ++drained;
    }
    pages_since_slice_ += drained;
    while (pages_since_slice_ >= config_.gc_pages_per_slice) {
        pages_since_slice_ -= config_.gc_pages_per_slice;
        work += collect(1, now);
    }
    hold_in_cache(occupy(now, cost(work)), drained);
    return work;
}

Time Drive::room_in_cache(Time now) {
    Time room = now;
    while (!in_flight_.empty()) {
        const Batch& oldest = in_flight_.front();
        if (oldest.done > now && dirty_count_ + in_flight_pages_ <= config_.cache_pages) {
            break;
        }
        room = std::max(room, oldest.done);
        in_flight_pages_ -= oldest.pages;
        in_flight_.pop_front();
    }
    return room;
}

Receipt Drive::finish(Receipt receipt) {
    receipt.free_blocks = ftl_.free_blocks();
    receipt.collecting = ftl_.collecting();
    receipt.episode_started = std::exchange(episode_started_, false);
    receipt.episode_ended = std::exchange(episode_ended_, false);
    return receipt;
}

} // namespace ssdsim
