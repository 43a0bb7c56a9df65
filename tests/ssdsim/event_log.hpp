// SPDX-License-Identifier: Apache-2.0
//
// The log of the simulated drive: what really happened, for judging what others report about it.
// README.md describes the lines. Safe to use from several threads.
#pragma once

#include "drive.hpp"

#include <tl/expected.hpp>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace ssdsim {

// Monotonic time, as the drive's clock.
[[nodiscard]] Time monotonic_now();

class EventLog {
  public:
    // Logs nowhere.
    EventLog() = default;

    // Creates or truncates the file. Error: one line.
    [[nodiscard]] static tl::expected<EventLog, std::string> create(const std::string& path);

    // The monotonic time at which the drive was powered on; call once, before the first event.
    void set_origin(Time monotonic) { origin_ = monotonic; }

    // Writes one line: the moment, counted from power on, and "ev=… key=value …".
    void write(Time at, std::string_view event);

  private:
    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    std::unique_ptr<std::FILE, Close> file_;
    Time origin_{};
};

} // namespace ssdsim
