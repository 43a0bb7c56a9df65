// Somebody in the kernel who counts request times of one disk, whoever it is.
#pragma once

#include "core/latency.hpp"
#include "values/result.hpp"

namespace nvmaint::collect {

class LatencyCounter {
  public:
    LatencyCounter() = default;
    LatencyCounter(const LatencyCounter&) = delete;
    LatencyCounter& operator=(const LatencyCounter&) = delete;
    virtual ~LatencyCounter() = default; // ends the counting

    // Memory of the kernel's, no device I/O. Errors: System, Malformed.
    [[nodiscard]] virtual Result<core::DiskLatency> read() = 0;
    // Flushes that take this long, done or not, are kept in DiskLatency::slow and wake wake_fd().
    virtual Result<Done> set_threshold(core::nanoseconds threshold) = 0;
    // Readable (EPOLLIN) from a slow flush until the next read(). -1: there is none, one has to
    // look.
    [[nodiscard]] virtual int wake_fd() const = 0;
};

} // namespace nvmaint::collect
