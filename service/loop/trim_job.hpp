// One trim of one filesystem, from the marker to the verdict. Loop thread; never blocks.
//
//   preparing ──marker durable──▶ trimming ──last range──▶ watching ──verdict firm──▶ done
//        └─────────────── cancel, error, deadline ──────────────▶ cancelled / failed
#pragma once

#include "act/fitrim_child.hpp"
#include "core/diagnose.hpp"
#include "core/effect.hpp"
#include "core/pacing.hpp"

#include <systemd/sd-event.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nvmaint::loop {

// What a job needs of the service around it.
class TrimHost {
  public:
    TrimHost() = default;
    TrimHost(const TrimHost&) = delete;
    TrimHost& operator=(const TrimHost&) = delete;
    virtual ~TrimHost() = default;
    [[nodiscard]] virtual sd_event* event() = 0;
    [[nodiscard]] virtual core::Now now() = 0;
    [[nodiscard]] virtual std::string fitrim_helper() = 0;
    [[nodiscard]] virtual const core::FlushWatch* watch(const std::string& disk) = 0;
    // Read afresh, all since the counting began; nothing where nobody keeps a histogram.
    [[nodiscard]] virtual std::optional<core::DiskLatency> latency_now(const std::string& disk) = 0;
    // Read afresh; nothing where the disk is gone or its kernel counts no discards.
    [[nodiscard]] virtual std::optional<std::uint64_t> discarded_bytes(const std::string& disk) = 0;
    // `then` runs on the loop thread once the marker is durable, or with the error.
    virtual void save_marker(const core::TrimMarker& marker,
                             std::function<void(Result<Done>)> then) = 0;
    virtual void clear_marker() = 0;
    // The job's view changed, or its record did (`ended`: the record will not change any more).
    virtual void job_changed(std::uint64_t job, bool ended) = 0;
};

struct TrimOrder {
    std::uint64_t id = 0;
    core::FilesystemView filesystem;
    core::DeviceNumber device;
    core::TrimGeometry geometry;
    std::uint64_t resume_at = 0;
    std::vector<std::string> serials;
    std::string boot_id;
    core::seconds watch_at_most = core::kEffectLongest; // 0: no verdict wanted
};

enum class TrimPhase { Preparing, Trimming, Watching, Done, Failed, Cancelled };

class TrimJob {
  public:
    TrimJob(TrimHost& host, TrimOrder order);
    TrimJob(const TrimJob&) = delete;
    TrimJob& operator=(const TrimJob&) = delete;
    ~TrimJob();

    void start();
    // Takes effect between ranges at the latest: a range under way is ended by killing its process.
    void cancel(const std::string& why);
    void tick(); // each second
    // Flushes of this disk are slow right now: the next range waits longer and is half as large.
    void flushes_slow(const std::string& disk);

    [[nodiscard]] TrimPhase phase() const { return phase_; }
    [[nodiscard]] bool ended() const;
    [[nodiscard]] bool trimming() const {
        return phase_ == TrimPhase::Preparing || phase_ == TrimPhase::Trimming;
    }
    [[nodiscard]] const TrimOrder& order() const { return order_; }
    [[nodiscard]] const core::TrimRecord& record() const { return record_; }
    // A range has been out for longer than any healthy drive takes for one.
    [[nodiscard]] bool range_is_late() const;
    [[nodiscard]] double progress() const; // 0..1; the trim itself is nine tenths of it
    [[nodiscard]] std::optional<core::BootTime> ended_at() const { return ended_at_; }
    [[nodiscard]] unsigned ranges() const { return ranges_; }

  private:
    void next_range();
    void on_reply(Result<act::FitrimReply> reply);
    void finish_trimming();
    void end(TrimPhase phase, const std::string& outcome);
    void measure_discards();
    [[nodiscard]] core::TrimMarker marker() const;
    [[nodiscard]] core::seconds range_deadline() const;
    [[nodiscard]] bool flush_suffers();
    void rest(core::milliseconds time);

    struct SourceDeleter {
        void operator()(sd_event_source* source) const { sd_event_source_disable_unref(source); }
    };

    TrimHost& host_;
    TrimOrder order_;
    TrimPhase phase_ = TrimPhase::Preparing;
    core::TrimRecord record_;
    core::PaceState pace_;
    std::optional<core::TrimRange> under_way_;
    core::BootTime range_started_{};
    core::BootTime trim_started_{};
    core::BootTime trim_ended_{};
    core::BootTime marker_saved_{};
    std::optional<core::BootTime> ended_at_;
    std::map<std::string, std::uint64_t> discarded_before_;
    std::string yardstick_disk_; // the disk whose flushes are compared
    std::optional<double> usual_ms_;
    std::optional<core::DiskLatency> at_range_start_; // of that disk
    bool yielded_ = false;                            // within this rest
    core::FlushSummary before_;
    unsigned ranges_ = 0;
    // Completions from the writer may arrive after we are gone: they look here first.
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    std::unique_ptr<act::FitrimChild> child_;
    std::unique_ptr<sd_event_source, SourceDeleter> rest_timer_;
};

} // namespace nvmaint::loop
