// SPDX-License-Identifier: Apache-2.0
//
// The parameters of the simulated drive as people type them: KEY=VALUE, in any order. Pure.
#pragma once

#include "drive.hpp"

#include <tl/expected.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ssdsim {

struct Settings {
    DriveConfig drive;
    std::uint64_t size = 0;      // bytes
    std::string log;             // path; empty for no log
    bool log_writes = false;     // also log writes and reads
    std::string hang_flush_file; // flushes wait while this file exists; empty for never
};

class Options {
  public:
    // Takes one parameter. Error: unknown key, or a value that is malformed or out of range.
    [[nodiscard]] tl::expected<void, std::string> set(std::string_view key, std::string_view value);

    // The settings for what was given, defaults of the mode for the rest. Error: no size, or values
    // that do not go together.
    [[nodiscard]] tl::expected<Settings, std::string> resolve() const;

    // All parameters with their units, one a line.
    [[nodiscard]] static std::string help();

  private:
    std::optional<std::uint64_t> size_;
    std::optional<std::uint32_t> cache_pages_;
    Mode mode_ = Mode::Client;
    std::string log_;
    std::string hang_flush_file_;
    std::vector<std::pair<std::size_t, double>> numbers_; // index into the table, value
};

// Bytes of "4096", "512K", "64M" or "1G" (powers of 1024). Error: anything else, or overflow.
[[nodiscard]] tl::expected<std::uint64_t, std::string> parse_size(std::string_view text);

} // namespace ssdsim
