// SPDX-License-Identifier: Apache-2.0
//
// A simulated drive in virtual time: the flash translation layer, a volatile write cache and what
// everything costs. Pure like the layer below: time is an argument, the result says when the
// command would complete, and whoever calls decides whether to sleep until then (the nbdkit plugin)
// or not (the tests).
//
// Flash works serially: `busy_until_` is when it has finished all it has accepted. A write goes to
// the cache and completes at once. What programs and collection cost is paid by the flush (or by
// the write itself with FUA), as on a drive without power-loss protection.
//
// Collection is paced, as drives do it to avoid one long stop: between the start and the stop
// level each flush that programs something also reclaims `gc_blocks_per_flush` blocks (more if it
// programs much). A victim on a drive that was never trimmed is mostly valid, so such a flush takes
// several times as long, and an episode of hundreds of them is the periodic stall that
// hosts see. After a trim the victims are nearly empty and the same flushes cost an erase.
#pragma once

#include "ftl.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace ssdsim {

// Virtual time since the drive was powered on, and spans of it.
using Time = std::chrono::nanoseconds;

enum class Mode {
    Client,   // volatile cache, a flush costs milliseconds, collection stalls it
    Plp,      // cache protected by capacitors: flushes are free, collection hides behind the cache
    Liar,     // as Client, but acknowledges trims and keeps the data
    SlowTrim, // as Client, but a trim occupies the drive for tens of milliseconds per MiB
};

struct DriveConfig {
    Mode mode = Mode::Client;
    FtlGeometry geometry;
    bool aged = false;
    double age_overwrites = 3.0; // random overwrites while ageing, in drives' worth of pages
    std::uint64_t seed = 1;
    bool dishonest = false; // acknowledges flushes without writing the cache out

    Time flush_base{};   // every flush
    Time fua_base{};     // every write with FUA
    Time program_page{}; // a page the host wrote
    Time move_page{};    // a page copied by collection
    Time erase_block{};
    Time read_base{};  // a read that touches at least one mapped page, its first page included
    Time read_page{};  // each further mapped page
    Time write_base{}; // a write into the cache
    Time write_page{}; // each page of it
    Time trim_base{};  // every trim
    Time trim_mib{};   // each MiB of it

    std::uint32_t cache_pages = 4096;
    std::uint32_t gc_blocks_per_flush = 1;
    std::uint32_t gc_pages_per_slice = 64; // a flush of more pages reclaims once per so many
    std::uint32_t fua_moves_per_page = 8;  // share of collection that a FUA write pays
    // Housekeeping: collection also starts when this long has passed since the last episode ended
    // and at least `gc_idle_blocks` can be regained; zero switches it off.
    Time gc_interval{};
    std::uint32_t gc_idle_blocks = 4;

    [[nodiscard]] std::optional<std::string> problem() const;
};

// The defaults of a mode for a drive of so many pages: timings, spare area, levels (README.md has
// the table).
[[nodiscard]] DriveConfig default_config(Mode mode, std::uint32_t logical_pages);

// The default levels of collection for the geometry's size and spare area.
void set_default_levels(FtlGeometry& geometry);

// What a command did and when it completes.
struct Receipt {
    Time done{};
    FlashWork work;
    std::uint64_t pages = 0; // programmed (flush, FUA write), unmapped (trim), mapped (read)
    std::uint32_t free_blocks = 0;
    bool collecting = false;
    bool episode_started = false;
    bool episode_ended = false;
};

// What an episode of collection did, from start to end.
struct Episode {
    Time started{};
    Time ended{}; // while it runs, as `started`
    FlashWork work;
};

class Drive {
  public:
    // `config.problem()` must be empty. Ages the drive if the configuration says so.
    explicit Drive(const DriveConfig& config);

    [[nodiscard]] const DriveConfig& config() const { return config_; }
    [[nodiscard]] const Ftl& ftl() const { return ftl_; }

    // Commands at time `now`, which never goes back. Pages [first, first + count) must exist.
    [[nodiscard]] Receipt write(Time now, LogicalPage first, std::uint32_t count, bool fua);
    [[nodiscard]] Receipt read(Time now, LogicalPage first, std::uint32_t count) const;
    [[nodiscard]] Receipt flush(Time now);
    [[nodiscard]] Receipt trim(Time now, LogicalPage first, std::uint32_t count);

    // Whether the page has data: mapped in flash or waiting in the cache.
    [[nodiscard]] bool has_data(LogicalPage page) const;
    [[nodiscard]] std::uint32_t dirty_pages() const { return dirty_count_; }
    // The running episode, or the last one if none runs.
    [[nodiscard]] const Episode& episode() const { return episode_; }

  private:
    [[nodiscard]] Time cost(const FlashWork& work) const;
    [[nodiscard]] bool take_oldest_dirty(LogicalPage& page);
    void set_dirty(LogicalPage page);
    void clear_dirty(LogicalPage page);
    [[nodiscard]] FlashWork program(LogicalPage page, Time now);
    [[nodiscard]] FlashWork collect(std::uint64_t blocks, Time now);
    [[nodiscard]] FlashWork collect_share(std::uint64_t programmed, Time now);
    void note_collection(const FlashWork& work, bool was_collecting, Time now);
    void begin_episode(Time now);
    void start_housekeeping(Time now);
    Time occupy(Time now, Time span);
    void hold_in_cache(Time until, std::uint32_t pages);
    [[nodiscard]] FlashWork drain(Time now, std::uint32_t pages);
    [[nodiscard]] Time room_in_cache(Time now);
    [[nodiscard]] Receipt finish(Receipt receipt);

    DriveConfig config_;
    Ftl ftl_;
    std::vector<bool> dirty_;       // by logical page
    std::deque<LogicalPage> order_; // in order of arrival; entries no longer dirty are skipped
    std::uint32_t dirty_count_ = 0;
    // Pages on their way from cache to flash: they hold their place in the cache until then.
    struct Batch {
        Time done{};
        std::uint32_t pages = 0;
    };
    std::deque<Batch> in_flight_;
    std::uint32_t in_flight_pages_ = 0;
    Time busy_until_{};
    Episode episode_;
    bool episode_started_ = false; // by the running command
    bool episode_ended_ = false;
    std::uint64_t pages_since_slice_ = 0; // drained without a flush
    std::uint64_t share_debt_ = 0;        // page moves that FUA writes owe
};

} // namespace ssdsim
