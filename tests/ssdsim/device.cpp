// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include <sys/prctl.h>
#include <unistd.h>

namespace ssdsim {

namespace {

constexpr unsigned long kTimerSlackNs = 1000;

// Waits shorter than this are spun: a sleep takes about this long to wake up from, so that a flush
// of a protected drive (40 µs) would take twice its time and more.
constexpr Time kShortestSleep = std::chrono::microseconds{50};

// Waits until a moment of the monotonic clock.
void wait_until(Time moment) {
    if (moment - monotonic_now() < kShortestSleep) {
        while (monotonic_now() < moment) {
        }
        return;
    }
    thread_local const int slack = prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0, 0, 0);
    (void)slack; // without it the sleep is only less exact
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(moment);
    const timespec until{.tv_sec = whole.count(), .tv_nsec = (moment - whole).count()};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
    }
}

std::string number(std::uint64_t value) {
    return std::to_string(value);
}

std::string microseconds_of(Time span) {
    return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(span).count());
}

std::string spent(const FlashWork& work) {
    return " moved=" + number(work.moved) + " erased=" + number(work.erased);
}

std::string_view name_of(Mode mode) {
    switch (mode) {
    case Mode::Client:
        return "client";
    case Mode::Plp:
        return "plp";
    case Mode::Liar:
        return "liar";
    case Mode::SlowTrim:
        return "slowtrim";
    }
    return "";
}

std::string describe(const Settings& settings, const Ftl& ftl) {
    const FtlGeometry& geometry = ftl.geometry();
    return "ev=start size=" + number(settings.size) +
           " mode=" + std::string(name_of(settings.drive.mode)) +
           " aged=" + number(settings.drive.aged ? 1 : 0) + " seed=" + number(settings.drive.seed) +
           " spare_blocks=" + number(geometry.spare_blocks()) +
           " gc_start=" + number(geometry.gc_start) + " gc_stop=" + number(geometry.gc_stop) +
           " free=" + number(ftl.free_blocks()) + " mapped=" + number(ftl.mapped_pages());
}

struct PageRange {
    LogicalPage first;
    std::uint32_t count;
};

// The pages that a range of bytes touches.
PageRange touched(std::uint64_t offset, std::uint64_t length) {
    const std::uint64_t first = offset / kPageSize;
    const std::uint64_t end = (offset + length + kPageSize - 1) / kPageSize;
    return {static_cast<LogicalPage>(first), static_cast<std::uint32_t>(end - first)};
}

// The pages that lie wholly inside a range of bytes.
PageRange covered(std::uint64_t offset, std::uint64_t length) {
    const std::uint64_t first = (offset + kPageSize - 1) / kPageSize;
    const std::uint64_t end = std::max(first, (offset + length) / kPageSize);
    return {static_cast<LogicalPage>(first), static_cast<std::uint32_t>(end - first)};
}

} // namespace

tl::expected<std::unique_ptr<Device>, std::string> Device::create(const Settings& settings) {
    auto content = Content::create(settings.drive.geometry.logical_pages, settings.drive.seed);
    if (!content) {
        return tl::unexpected(content.error());
    }
    EventLog log;
    if (!settings.log.empty()) {
        auto created = EventLog::create(settings.log);
        if (!created) {
            return tl::unexpected(created.error());
        }
        log = std::move(*created);
    }
    return std::unique_ptr<Device>(new Device(settings, std::move(*content), std::move(log)));
}

Device::Device(const Settings& settings, Content content, EventLog log)
    : settings_(settings), drive_(settings.drive), content_(std::move(content)),
      log_(std::move(log)), origin_(monotonic_now()) {
    log_.set_origin(origin_);
    log_.write(Time::zero(), describe(settings_, drive_.ftl()));
}

void Device::read(std::uint64_t offset, std::span<std::byte> into) {
    const PageRange pages = touched(offset, into.size());
    Receipt receipt;
    Time started{};
    {
        const std::lock_guard lock(mutex_);
        started = now();
        receipt = drive_.read(started, pages.first, pages.count);
        content_.read(offset, into, [this](LogicalPage page) { return drive_.has_data(page); });
    }
    complete(started, receipt, "read",
             " off=" + number(offset) + " len=" + number(into.size()) +
                 " pages=" + number(receipt.pages),
             settings_.log_writes);
}

void Device::write(std::uint64_t offset, std::span<const std::byte> from, bool fua) {
    const PageRange pages = touched(offset, from.size());
    Receipt receipt;
    Time started{};
    {
        const std::lock_guard lock(mutex_);
        started = now();
        content_.write(offset, from, [this](LogicalPage page) { return drive_.has_data(page); });
        receipt = drive_.write(started, pages.first, pages.count, fua);
        log_collection(started, receipt);
    }
    complete(started, receipt, fua ? "fua" : "write",
             " off=" + number(offset) + " len=" + number(from.size()) +
                 " pages=" + number(receipt.pages) + spent(receipt.work) +
                 " free=" + number(receipt.free_blocks),
             fua || settings_.log_writes);
}

void Device::flush() {
    Receipt receipt;
    Time started{};
    {
        const std::lock_guard lock(mutex_);
        started = now();
        receipt = drive_.flush(started);
        log_collection(started, receipt);
    }
    complete(started, receipt, "flush",
             " pages=" + number(receipt.pages) + spent(receipt.work) + " free=" +
                 number(receipt.free_blocks) + " gc=" + number(receipt.collecting ? 1 : 0),
             true);
}

void Device::trim(std::uint64_t offset, std::uint64_t length) {
    const PageRange pages = covered(offset, length);
    Receipt receipt;
    Time started{};
    {
        const std::lock_guard lock(mutex_);
        started = now();
        receipt = drive_.trim(started, pages.first, pages.count);
        if (settings_.drive.mode != Mode::Liar) {
            content_.discard(pages.first, pages.count);
        }
    }
    complete(started, receipt, "trim",
             " off=" + number(offset) + " len=" + number(length) +
                 " pages=" + number(receipt.pages) + " free=" + number(receipt.free_blocks),
             true);
}

bool Device::flush_hangs() const {
    return !settings_.hang_flush_file.empty() &&
           access(settings_.hang_flush_file.c_str(), F_OK) == 0;
}

void Device::log_hang(bool begins) {
    log_.write(now(), begins ? "ev=hang-start" : "ev=hang-end");
}

Extent Device::extent_at(std::uint64_t offset, std::uint64_t end) const {
    const std::lock_guard lock(mutex_);
    auto page = static_cast<LogicalPage>(offset / kPageSize);
    const bool has_data = drive_.has_data(page);
    std::uint64_t stop = offset;
    while (stop < end && drive_.has_data(page) == has_data) {
        ++page;
        stop = std::uint64_t{page} * kPageSize;
    }
    return {.offset = offset, .length = std::min(stop, end) - offset, .has_data = has_data};
}

void Device::log_collection(Time at, const Receipt& receipt) {
    if (receipt.episode_started) {
        log_.write(at, "ev=gc-start free=" + number(receipt.free_blocks));
    }
    if (receipt.episode_ended) {
        const Episode& episode = drive_.episode();
        log_.write(receipt.done, "ev=gc-end free=" + number(receipt.free_blocks) +
                                     " dur_us=" + microseconds_of(receipt.done - episode.started) +
                                     spent(episode.work));
    }
}

void Device::complete(Time started, const Receipt& receipt, const std::string& event,
                      const std::string& details, bool logged) {
    if (receipt.done > started) {
        wait_until(receipt.done + origin_);
    }
    if (logged) {
        log_.write(started, "ev=" + event + " dur_us=" + microseconds_of(now() - started) +
                                " plan_us=" + microseconds_of(receipt.done - started) + details);
    }
}

} // namespace ssdsim
