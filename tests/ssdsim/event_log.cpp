// SPDX-License-Identifier: Apache-2.0
#include "event_log.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>

namespace ssdsim {

namespace {

Time read_clock(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
}

} // namespace

Time monotonic_now() {
    return read_clock(CLOCK_MONOTONIC);
}

tl::expected<EventLog, std::string> EventLog::create(const std::string& path) {
    EventLog log;
    log.file_.reset(std::fopen(path.c_str(), "we"));
    if (!log.file_) {
        return tl::unexpected("log " + path + ": " + strerrordesc_np(errno));
    }
    std::setvbuf(log.file_.get(), nullptr, _IOLBF, BUFSIZ);
    return log;
}

void EventLog::write(Time at, std::string_view event) {
    if (!file_) {
        return;
    }
    const Time real = read_clock(CLOCK_REALTIME) - (monotonic_now() - origin_ - at);
    const double seconds = std::chrono::duration<double>(at).count();
    const auto real_ms = std::chrono::duration_cast<std::chrono::milliseconds>(real).count();
    // One call a line: stdio locks the stream for its duration, so lines of threads do not mix.
    std::fprintf(file_.get(), "t=%.6f real=%lld %.*s\n", seconds, static_cast<long long>(real_ms),
                 static_cast<int>(event.size()), event.data());
}

} // namespace ssdsim
