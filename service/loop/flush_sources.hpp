// Who counts the flushes of which disk, where somebody does it better than /proc/diskstats:
// attaches nvmaint.ko to the NVMe disks, and keeps that so while disks, paths and the module come
// and go.
#pragma once

#include "collect/host_root.hpp"
#include "collect/latency_counter.hpp"
#include "core/snapshot.hpp"
#include "loop/worker.hpp"

#include <systemd/sd-event.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace nvmaint::loop {

class FlushSources {
  public:
    struct Host {
        // Runs a task where this disk may be opened, which may wait; false: not now.
        std::function<bool(const std::string& disk, Worker::Task task)> open_in;
        // Something is counted, or is not any more.
        std::function<void()> changed;
        // Flushes of this disk crossed its threshold, or one has been out that long.
        std::function<void(const std::string& disk, const std::vector<core::SlowFlush>& slow)> slow;
    };
    FlushSources(sd_event* event, const collect::HostRoot& root, Host host);
    FlushSources(const FlushSources&) = delete;
    FlushSources& operator=(const FlushSources&) = delete;
    ~FlushSources();

    // Attaches what is not attached yet; looks every few seconds only.
    void look(core::BootTime now, const std::map<std::string, core::BlockDevice>& devices);
    // Reads all of them. What was counted since the last time, by disk; a disk that was read for
    // the first time is not among them.
    [[nodiscard]] std::map<std::string, core::DiskLatency> read();
    // One disk, read now, all since the counting began; read() is not touched by it.
    [[nodiscard]] std::optional<core::DiskLatency> read_now(const std::string& disk);
    // A flush counts as slow from here on. Kept for paths that come later.
    void set_threshold(const std::string& disk, core::nanoseconds threshold);
    // As last read, or why not.
    [[nodiscard]] const std::map<std::string, Reading<core::DiskLatency>>& shown() const {
        return shown_;
    }

  private:
    struct SourceDeleter {
        void operator()(sd_event_source* source) const { sd_event_source_disable_unref(source); }
    };
    // A disk itself, or one path of a multipath head.
    struct Path {
        std::shared_ptr<collect::LatencyCounter> counter;
        std::optional<core::DiskLatency> last;
        std::unique_ptr<sd_event_source, SourceDeleter> wake;
    };
    struct Counted {
        std::map<std::string, Path> paths;      // "" for the disk itself
        std::optional<core::DiskLatency> ended; // what paths counted that are gone
        core::nanoseconds threshold{};          // 0: none set
    };
    struct Attempt {
        core::BootTime began{};
        std::uint64_t number = 0;
    };

    void attach(core::BootTime now, const std::string& disk, const std::string& path);
    void attached(const std::string& disk, const std::string& path,
                  Result<std::shared_ptr<collect::LatencyCounter>> counter);
    void listen(const std::string& disk, const std::string& path_name, Path& path);
    void take_slow(const std::string& disk, const core::DiskLatency& news);
    [[nodiscard]] static std::optional<core::DiskLatency> sum_of(const std::string& disk,
                                                                 const Counted& counted);

    sd_event* event_;
    const collect::HostRoot& root_;
    Host host_;
    std::map<std::string, Counted> counted_;
    std::map<std::string, Reading<core::DiskLatency>> shown_;
    std::map<std::string, Attempt> under_way_;      // by disk or path
    std::map<std::string, core::BootTime> refused_; // when
    std::uint64_t attempts_ = 0;
    std::optional<core::BootTime> looked_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true); // for completions that come late
};

} // namespace nvmaint::loop
