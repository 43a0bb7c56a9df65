// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace ssdsim {

namespace {

using Error = tl::unexpected<std::string>;

// The spare area decides the default levels, so what shapes it is applied first.
enum class Stage { Geometry, Rest };

struct Number {
    std::string_view key;
    Stage stage;
    double lowest;
    double highest;
    bool whole;
    void (*apply)(Settings&, double);
    std::string_view meaning;
};

std::uint32_t count(double value) {
    return static_cast<std::uint32_t>(value);
}

Time from_us(double value) {
    return Time{static_cast<std::int64_t>(std::llround(value * 1000.0))};
}

constexpr double kMaxCount = 4294967295.0;
constexpr double kMaxSeed = 9007199254740992.0; // whole numbers beyond 2^53 are not exact
constexpr double kMaxUs = 600e6;

constexpr std::array kNumbers{
    Number{"aged", Stage::Rest, 0, 1, true, [](Settings& s, double v) { s.drive.aged = v != 0; },
           "1: as after long use, every page mapped and fragmented"},
    Number{"seed", Stage::Rest, 0, kMaxSeed, true,
           [](Settings& s, double v) { s.drive.seed = static_cast<std::uint64_t>(v); },
           "of ageing and of stale data"},
    Number{"dishonest", Stage::Rest, 0, 1, true,
           [](Settings& s, double v) { s.drive.dishonest = v != 0; },
           "1: flush and FUA are acknowledged at once"},
    Number{"log_writes", Stage::Rest, 0, 1, true,
           [](Settings& s, double v) { s.log_writes = v != 0; }, "1: log writes and reads too"},
    Number{"spare", Stage::Geometry, 0, 1000, false,
           [](Settings& s, double v) { s.drive.geometry.spare = v / 100.0; },
           "spare area, percent of the size"},
    Number{"extra_blocks", Stage::Geometry, 0, 65536, true,
           [](Settings& s, double v) { s.drive.geometry.extra_blocks = count(v); },
           "blocks added to the spare area"},
    Number{"pages_per_block", Stage::Geometry, 2, 65536, true,
           [](Settings& s, double v) { s.drive.geometry.pages_per_block = count(v); },
           "pages of 4 KiB in an erase block"},
    Number{"gc_start", Stage::Rest, 2, kMaxCount / 4, true,
           [](Settings& s, double v) { s.drive.geometry.gc_start = count(v); },
           "free blocks at which collection starts"},
    Number{"gc_stop", Stage::Rest, 3, kMaxCount / 4, true,
           [](Settings& s, double v) { s.drive.geometry.gc_stop = count(v); },
           "free blocks at which it stops"},
    Number{"gc_blocks_per_flush", Stage::Rest, 1, 65536, true,
           [](Settings& s, double v) { s.drive.gc_blocks_per_flush = count(v); },
           "victims a flush reclaims while collection runs"},
    Number{"gc_pages_per_slice", Stage::Rest, 1, kMaxCount, true,
           [](Settings& s, double v) { s.drive.gc_pages_per_slice = count(v); },
           "a bigger flush reclaims once per so many pages"},
    Number{"fua_moves_per_page", Stage::Rest, 0, 65536, true,
           [](Settings& s, double v) { s.drive.fua_moves_per_page = count(v); },
           "share of collection paid by a FUA write"},
    Number{"gc_interval_ms", Stage::Rest, 0, kMaxUs, true,
           [](Settings& s, double v) { s.drive.gc_interval = from_us(v * 1000.0); },
           "housekeeping at least this often; 0: only by level"},
    Number{"gc_idle_blocks", Stage::Rest, 1, kMaxCount / 4, true,
           [](Settings& s, double v) { s.drive.gc_idle_blocks = count(v); },
           "but only if it can regain so many blocks"},
    Number{"age_overwrites", Stage::Rest, 0, 100, false,
           [](Settings& s, double v) { s.drive.age_overwrites = v; },
           "random overwrites while ageing, in drives' worth"},
    Number{"flush_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.flush_base = from_us(v); }, "each flush"},
    Number{"fua_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.fua_base = from_us(v); }, "each FUA write"},
    Number{"program_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.program_page = from_us(v); },
           "each page programmed for the host"},
    Number{"move_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.move_page = from_us(v); },
           "each page moved by collection"},
    Number{"erase_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.erase_block = from_us(v); }, "each block erased"},
    Number{"read_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.read_base = from_us(v); }, "a read of mapped pages"},
    Number{"read_page_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.read_page = from_us(v); }, "each further page"},
    Number{"write_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.write_base = from_us(v); },
           "a write into the cache"},
    Number{"write_page_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.write_page = from_us(v); }, "each page of it"},
    Number{"trim_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.trim_base = from_us(v); }, "each trim"},
    Number{"trim_mib_us", Stage::Rest, 0, kMaxUs, false,
           [](Settings& s, double v) { s.drive.trim_mib = from_us(v); }, "each MiB of it"},
};

std::string quoted(std::string_view text) {
    return "'" + std::string(text) + "'";
}

tl::expected<double, std::string> parse_number(const Number& number, std::string_view text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    if (problem != std::errc{} || stop != end || !std::isfinite(value) ||
        (number.whole && value != std::floor(value))) {
        return Error(std::string(number.key) + ": " + quoted(text) + " is not a " +
                     (number.whole ? "whole number" : "number"));
    }
    if (value < number.lowest || value > number.highest) {
        return Error(std::string(number.key) + ": " + quoted(text) + " is out of range");
    }
    return value;
}

tl::expected<Mode, std::string> parse_mode(std::string_view text) {
    if (text == "client") {
        return Mode::Client;
    }
    if (text == "plp") {
        return Mode::Plp;
    }
    if (text == "liar") {
        return Mode::Liar;
    }
    if (text == "slowtrim") {
        return Mode::SlowTrim;
    }
    return Error("mode: " + quoted(text) + " is none of client, plp, liar, slowtrim");
}

} // namespace

tl::expected<std::uint64_t, std::string> parse_size(std::string_view text) {
    const Error bad(quoted(text) + " is not a size such as 512M");
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    if (problem != std::errc{}) {
        return bad;
    }
    const std::string_view suffix(stop, static_cast<std::size_t>(end - stop));
    unsigned shift = 0;
    if (suffix == "K" || suffix == "k") {
        shift = 10;
    } else if (suffix == "M" || suffix == "m") {
        shift = 20;
    } else if (suffix == "G" || suffix == "g") {
        shift = 30;
    } else if (!suffix.empty()) {
        return bad;
    }
    if (value > std::numeric_limits<std::uint64_t>::max() >> shift) {
        return bad;
    }
    return value << shift;
}

tl::expected<void, std::string> Options::set(std::string_view key, std::string_view value) {
    if (key == "size") {
        return parse_size(value)
            .map([this](std::uint64_t size) { size_ = size; })
            .map_error([](const std::string& error) { return "size: " + error; });
    }
    if (key == "mode") {
        return parse_mode(value).map([this](Mode mode) { mode_ = mode; });
    }
    if (key == "log") {
        log_ = value;
        return {};
    }
    if (key == "hang_flush_file") {
        hang_flush_file_ = value;
        return {};
    }
    if (key == "cache") {
        return parse_size(value)
            .map_error([](const std::string& error) { return "cache: " + error; })
            .and_then([this](std::uint64_t size) -> tl::expected<void, std::string> {
                if (size > std::uint64_t{1} << 40U) {
                    return Error("cache: more than 1 TiB");
                }
                cache_pages_ = static_cast<std::uint32_t>(size / kPageSize);
                return {};
            });
    }
    for (std::size_t i = 0; i < kNumbers.size(); ++i) {
        if (kNumbers[i].key == key) {
            return parse_number(kNumbers[i], value).map([this, i](double number) {
                numbers_.emplace_back(i, number);
            });
        }
    }
    return Error("unknown parameter " + quoted(key));
}

tl::expected<Settings, std::string> Options::resolve() const {
    if (!size_) {
        return Error("size=SIZE is needed, for example size=1G");
    }
    if (*size_ == 0 || *size_ % kPageSize != 0 || *size_ / kPageSize >= (std::uint64_t{1} << 31U)) {
        return Error("size: must be a multiple of 4096 bytes, more than none, less than 8 TiB");
    }
    Settings settings;
    settings.size = *size_;
    settings.log = log_;
    settings.hang_flush_file = hang_flush_file_;
    settings.drive = default_config(mode_, static_cast<std::uint32_t>(*size_ / kPageSize));
    if (cache_pages_) {
        settings.drive.cache_pages = *cache_pages_;
    }
    for (const auto& [index, value] : numbers_) {
        if (kNumbers[index].stage == Stage::Geometry) {
            kNumbers[index].apply(settings, value);
        }
    }
    set_default_levels(settings.drive.geometry);
    for (const auto& [index, value] : numbers_) {
        if (kNumbers[index].stage == Stage::Rest) {
            kNumbers[index].apply(settings, value);
        }
    }
    if (auto problem = settings.drive.problem()) {
        return Error(*problem);
    }
    return settings;
}

std::string Options::help() {
    std::string text = "size=SIZE             of the drive, required (512M, 1G)\n"
                       "mode=MODE             client (default), plp, liar, slowtrim\n"
                       "log=FILE              one line per flush, FUA write, trim, collection\n"
                       "hang_flush_file=FILE  flushes wait while this file exists\n"
                       "cache=SIZE            of the write cache (default 16M)\n";
    for (const Number& number : kNumbers) {
        std::string key = std::string(number.key) + "=N";
        key.resize(std::max<std::size_t>(key.size(), 21), ' ');
        text += key + " " + std::string(number.meaning) + "\n";
    }
    return text;
}

} // namespace ssdsim
