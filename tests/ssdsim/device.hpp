// SPDX-License-Identifier: Apache-2.0
//
// The simulated drive in real time: takes commands from several threads, keeps the data, sleeps as
// the drive in virtual time says, and logs. Everything but nbdkit itself.
#pragma once

#include "content.hpp"
#include "drive.hpp"
#include "event_log.hpp"
#include "options.hpp"

#include <tl/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace ssdsim {

// A run of bytes that either has data or reads as zeros.
struct Extent {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    bool has_data = false;
};

// Offsets and sizes are in bytes and lie within the drive; every command may be called from any
// thread and blocks as long as the drive would.
class Device {
  public:
    // Ages the drive if asked to (well below a second per GiB). Error: no memory, or the log cannot
    // be written.
    [[nodiscard]] static tl::expected<std::unique_ptr<Device>, std::string>
    create(const Settings& settings);

    [[nodiscard]] std::uint64_t size() const { return settings_.size; }

    void read(std::uint64_t offset, std::span<std::byte> into);
    void write(std::uint64_t offset, std::span<const std::byte> from, bool fua);
    void flush();
    // Only whole pages inside the range are unmapped.
    void trim(std::uint64_t offset, std::uint64_t length);

    // Whether a flush must wait: the file named by hang_flush_file exists.
    [[nodiscard]] bool flush_hangs() const;
    void log_hang(bool begins);

    // The longest run that starts at `offset` and ends at or before `end`.
    [[nodiscard]] Extent extent_at(std::uint64_t offset, std::uint64_t end) const;

  private:
    Device(const Settings& settings, Content content, EventLog log);

    [[nodiscard]] Time now() const { return monotonic_now() - origin_; }
    void log_collection(Time at, const Receipt& receipt);
    void complete(Time started, const Receipt& receipt, const std::string& event,
                  const std::string& details, bool logged);

    Settings settings_;
    mutable std::mutex mutex_; // guards drive_ and content_
    Drive drive_;
    Content content_;
    EventLog log_;
    Time origin_;
};

} // namespace ssdsim
