#include "loop/flush_sources.hpp"

#include "collect/kmod.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace nvmaint::loop {
namespace {

using core::BootTime;
using core::DiskLatency;
using core::seconds;

constexpr const char* kModuleNode = "/dev/nvmaint";
constexpr seconds kLookEvery{5};
// What was refused is seldom taken the next moment; an attempt that does not come back is not
// waited for longer (its worker may be gone with its drive).
constexpr seconds kAgain{60};

// Of a disk or path that ended: nothing of it is under way any more.
DiskLatency at_rest(DiskLatency latency) {
    for (auto& histogram : latency.classes) {
        if (histogram) {
            histogram->in_flight = 0;
            histogram->oldest = core::nanoseconds::zero();
        }
    }
    latency.slow.clear();
    return latency;
}

} // namespace

FlushSources::FlushSources(sd_event* event, const collect::HostRoot& root, Host host)
    : event_(event), root_(root), host_(std::move(host)) {}

FlushSources::~FlushSources() = default;

void FlushSources::look(BootTime now, const std::map<std::string, core::BlockDevice>& devices) {
    if (looked_ && now - *looked_ < kLookEvery) {
        return;
    }
    looked_ = now;
    if (access(kModuleNode, F_OK) != 0) {
        // Its absence is told by svc.kmod; files that are still open go on counting until the
        // module's disks end them.
        refused_.clear();
        std::erase_if(shown_, [](const auto& entry) { return !entry.second; });
        return;
    }
    for (const auto& [disk, device] : devices) {
        if (device.nvme_controller.empty() || !device.partition_of.empty()) {
            continue;
        }
        Result<std::vector<std::string>> paths = collect::paths_of_head(root_, disk);
        if (!paths) {
            continue; // one of several, taken for the disk itself, would be refused
        }
        if (paths->empty()) {
            paths->emplace_back();
        }
        for (const std::string& path : *paths) {
            attach(now, disk, path);
        }
    }
}

void FlushSources::attach(BootTime now, const std::string& disk, const std::string& path) {
    const std::string& key = path.empty() ? disk : path;
    const auto counted = counted_.find(disk);
    if (counted != counted_.end() && counted->second.paths.contains(path)) {
        return;
    }
    const auto recent = [&](BootTime when) { return now - when < kAgain; };
    if (const auto refused = refused_.find(key);
        refused != refused_.end() && recent(refused->second)) {
        return;
    }
    if (const auto attempt = under_way_.find(key);
        attempt != under_way_.end() && recent(attempt->second.began)) {
        return;
    }
    const std::uint64_t number = ++attempts_;
    const bool posted = host_.open_in(
        disk,
        [this, alive = std::weak_ptr<bool>(alive_), disk, path, key, now,
         number]() -> Mailbox::Completion {
            // Completions are copied, counters are not.
            auto result = collect::attach_kmod(kModuleNode, disk, path);
            auto counter =
                result ? Result<std::shared_ptr<collect::LatencyCounter>>(std::move(*result))
                       : Result<std::shared_ptr<collect::LatencyCounter>>(result.error());
            return [this, alive, disk, path, key, now, number, counter = std::move(counter)] {
                if (alive.expired()) {
                    return;
                }
                const auto attempt = under_way_.find(key);
                if (attempt == under_way_.end() || attempt->second.number != number) {
                    return; // given up meanwhile
                }
                under_way_.erase(attempt);
                if (!counter) {
                    refused_[key] = now;
                }
                attached(disk, path, counter);
            };
        });
    if (posted) {
        under_way_[key] = {.began = now, .number = number};
    }
}

void FlushSources::attached(const std::string& disk, const std::string& path,
                            Result<std::shared_ptr<collect::LatencyCounter>> counter) {
    if (!counter) {
        if (!counted_.contains(disk)) {
            shown_.insert_or_assign(disk, counter.error());
        }
    } else {
        Counted& all = counted_[disk];
        Path& own = all.paths[path];
        own.counter = std::move(*counter);
        if (all.threshold > core::nanoseconds::zero()) {
            (void)own.counter->set_threshold(all.threshold); // one without goes on counting
        }
        listen(disk, path, own);
    }
    host_.changed();
}

// Woken once, then not before the next read(): a drive that stalls has many slow flushes.
void FlushSources::listen(const std::string& disk, const std::string& path_name, Path& path) {
    if (path.counter->wake_fd() < 0) {
        return;
    }
    struct Context {
        FlushSources* self;
        std::string disk;
        std::string path;
    };
    sd_event_source* source = nullptr;
    auto context = std::make_unique<Context>(Context{this, disk, path_name});
    const int r = sd_event_add_io(
        event_, &source, path.counter->wake_fd(), EPOLLIN,
        // Where memory ends, so does the process, and systemd starts it again.
        // NOLINTNEXTLINE(bugprone-exception-escape)
        [](sd_event_source*, int, std::uint32_t, void* data) noexcept {
            const auto* woken = static_cast<Context*>(data);
            FlushSources& self = *woken->self;
            const auto counted = self.counted_.find(woken->disk);
            if (counted == self.counted_.end() || !counted->second.paths.contains(woken->path)) {
                return 0;
            }
            Path& own = counted->second.paths.at(woken->path);
            if (!own.last) {
                return 0; // read() comes within the second
            }
            if (const Result<DiskLatency> latency = own.counter->read()) {
                // What is told now is not told by read() again; its counters are not touched.
                if (auto news = core::between(*own.last, *latency)) {
                    own.last->slow = latency->slow;
                    self.take_slow(woken->disk, *news);
                }
            }
            return 0;
        },
        context.get());
    if (r < 0) {
        return; // told of within a second all the same
    }
    sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
    sd_event_source_set_destroy_callback(source,
                                         [](void* data) { delete static_cast<Context*>(data); });
    (void)context.release(); // NOLINT(bugprone-unused-return-value): the source's from here on
    path.wake.reset(source);
}

void FlushSources::take_slow(const std::string& disk, const DiskLatency& news) {
    if (!news.slow.empty()) {
        host_.slow(disk, news.slow);
    }
}

std::map<std::string, DiskLatency> FlushSources::read() {
    std::map<std::string, DiskLatency> since;
    for (auto entry = counted_.begin(); entry != counted_.end();) {
        auto& [disk, counted] = *entry;
        std::vector<DiskLatency> news;
        bool whole = true; // every path had a reading to compare with
        std::optional<Error> error;
        for (auto own = counted.paths.begin(); own != counted.paths.end();) {
            Path& path = own->second;
            const Result<DiskLatency> latency = path.counter->read();
            const bool over = !latency || latency->gone;
            if (latency) {
                auto more = path.last ? core::between(*path.last, *latency) : std::nullopt;
                whole = whole && more.has_value();
                if (more) {
                    take_slow(disk, *more);
                    news.push_back(over ? at_rest(*more) : std::move(*more));
                }
                path.last = *latency;
            } else {
                error = latency.error();
            }
            if (over) { // a path or disk that comes back is attached anew
                if (path.last) {
                    const DiskLatency rest = at_rest(*path.last);
                    counted.ended =
                        counted.ended ? core::joined(disk, {*counted.ended, rest}) : rest;
                }
                own = counted.paths.erase(own);
                continue;
            }
            if (path.wake) {
                sd_event_source_set_enabled(path.wake.get(), SD_EVENT_ONESHOT);
            }
            ++own;
        }
        if (counted.paths.empty()) {
            if (error) {
                shown_.insert_or_assign(disk, *error);
            } else {
                shown_.erase(disk);
            }
            entry = counted_.erase(entry);
            host_.changed();
            continue;
        }
        if (auto sum = sum_of(disk, counted)) {
            shown_.insert_or_assign(disk, std::move(*sum));
        } else {
            shown_.insert_or_assign(
                disk,
                Error::make(ErrorKind::Malformed, disk + ": its paths are counted differently"));
        }
        // Paths share a disk's flushes: a part of them would pass for fewer flushes.
        if (auto sum = core::joined(disk, news); sum && whole) {
            since.emplace(disk, std::move(*sum));
        }
        ++entry;
    }
    return since;
}

std::optional<DiskLatency> FlushSources::sum_of(const std::string& disk, const Counted& counted) {
    std::vector<DiskLatency> all;
    for (const auto& [name, path] : counted.paths) {
        if (path.last) {
            all.push_back(*path.last);
        }
    }
    std::optional<DiskLatency> sum = core::joined(disk, all);
    if (!sum || !counted.ended) {
        return sum;
    }
    std::optional<DiskLatency> whole = core::joined(disk, {*sum, *counted.ended});
    if (whole) {
        whole->gone = false;
    }
    return whole ? whole : sum;
}

std::optional<DiskLatency> FlushSources::read_now(const std::string& disk) {
    const auto counted = counted_.find(disk);
    if (counted == counted_.end()) {
        return std::nullopt;
    }
    std::vector<DiskLatency> all;
    for (const auto& [name, path] : counted->second.paths) {
        Result<DiskLatency> latency = path.counter->read();
        if (!latency) {
            return std::nullopt;
        }
        all.push_back(std::move(*latency));
    }
    return core::joined(disk, all);
}

void FlushSources::set_threshold(const std::string& disk, core::nanoseconds threshold) {
    const auto counted = counted_.find(disk);
    if (counted == counted_.end() || counted->second.threshold == threshold) {
        return;
    }
    counted->second.threshold = threshold;
    for (auto& [name, path] : counted->second.paths) {
        (void)path.counter->set_threshold(threshold); // one without goes on counting
    }
}

} // namespace nvmaint::loop
