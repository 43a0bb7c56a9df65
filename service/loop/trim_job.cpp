#include "loop/trim_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace nvmaint::loop {
namespace {

using namespace std::chrono_literals;

// How far back "before" reaches: long enough for several bursts that come every minute, short
// enough to be the same load.
constexpr core::seconds kBeforeLongest{300};
// After the last range the drive still has map updates and collection of its own to finish:
// judgement, a few of its bursts would be blamed on the state before otherwise.
constexpr core::seconds kSettle{5};
// A range of 128 MiB takes milliseconds on a good drive and about a second on the slowest we know.
// One that is out for two minutes will not come back soon: end it rather than let it hold the
// drive's other users (judgement).
constexpr core::seconds kRangeDeadline{120};
// btrfs, and XFS before Linux 6.10, are trimmed in one range: it gets more by its size, at a tenth
// of what a client drive was seen to discard (74 GiB in 27 s).
constexpr std::uint64_t kSlowestBytesPerSecond = std::uint64_t{256} << 20;
// Beyond this a range is late: a hundred times what the pacing aims at.
constexpr core::seconds kRangeLate{10};
// The marker's cursor only shortens the next run, so it need not be exact.
constexpr core::seconds kMarkerEvery{10};

core::BootTime since(core::BootTime now, core::BootTime then) {
    return now - then;
}

} // namespace

TrimJob::TrimJob(TrimHost& host, TrimOrder order) : host_(host), order_(std::move(order)) {
    record_.mount = order_.filesystem.mount;
    record_.fs_uuid = order_.filesystem.uuid;
    record_.disks = order_.filesystem.disks;
    record_.started = host_.now().wall;
    record_.outcome = "running";
    pace_ = core::pace_start(order_.geometry, order_.resume_at);
}

TrimJob::~TrimJob() = default;

bool TrimJob::ended() const {
    return phase_ == TrimPhase::Done || phase_ == TrimPhase::Failed ||
           phase_ == TrimPhase::Cancelled;
}

core::TrimMarker TrimJob::marker() const {
    return {.mount = record_.mount,
            .fs_uuid = record_.fs_uuid,
            .disks = record_.disks,
            .serials = order_.serials,
            .boot_id = order_.boot_id,
            .started = record_.started,
            .next_start = pace_.next_start};
}

void TrimJob::start() {
    const core::Now now = host_.now();
    trim_started_ = now.boot;
    const core::FlushWatch* best = nullptr;
    for (const std::string& disk : record_.disks) {
        if (const std::optional<std::uint64_t> bytes = host_.discarded_bytes(disk)) {
            discarded_before_[disk] = *bytes;
        }
        const core::FlushWatch* watch = host_.watch(disk);
        if (watch == nullptr) {
            continue;
        }
        const std::optional<double> usual = watch->usual_ms();
        const core::FlushSummary summary =
            watch->summary(now.boot - kBeforeLongest, now.boot, usual);
        // Of several legs the one that suffers most tells most.
        if (best == nullptr || summary.stalled_flushes > before_.stalled_flushes ||
            (summary.stalled_flushes == before_.stalled_flushes &&
             summary.flushes > before_.flushes)) {
            best = watch;
            yardstick_disk_ = disk;
            usual_ms_ = usual;
            before_ = summary;
        }
    }
    host_.save_marker(marker(), [this, alive = std::weak_ptr<bool>(alive_)](Result<Done> saved) {
        if (alive.expired() || phase_ != TrimPhase::Preparing) {
            return; // cancelled meanwhile
        }
        if (!saved) {
            end(TrimPhase::Failed,
                "failed: no trim without a durable marker: " + saved.error().text());
            return;
        }
        marker_saved_ = host_.now().boot;
        Result<std::unique_ptr<act::FitrimChild>> child = act::FitrimChild::start(
            host_.event(),
            {.helper = host_.fitrim_helper(),
             .mount_point = record_.mount,
             .device = order_.device},
            [this](Result<act::FitrimReply> reply) { on_reply(std::move(reply)); });
        if (!child) {
            end(TrimPhase::Failed, "failed: " + child.error().text());
            return;
        }
        child_ = std::move(*child);
        phase_ = TrimPhase::Trimming;
        next_range();
    });
    host_.job_changed(order_.id, false);
}

void TrimJob::next_range() {
    const std::optional<core::TrimRange> range = core::pace_range(order_.geometry, pace_);
    if (!range) {
        finish_trimming();
        return;
    }
    under_way_ = range;
    range_started_ = host_.now().boot;
    at_range_start_ = yardstick_disk_.empty() ? std::nullopt : host_.latency_now(yardstick_disk_);
    const Result<Done> asked = child_->request(*range);
    if (!asked) {
        end(TrimPhase::Failed, "failed: " + asked.error().text());
    }
}

bool TrimJob::flush_suffers() {
    const core::FlushWatch* watch =
        yardstick_disk_.empty() ? nullptr : host_.watch(yardstick_disk_);
    if (watch == nullptr || !usual_ms_) {
        return false;
    }
    // Of the range itself, where each flush is known; a second's mean comes up to a second late.
    if (at_range_start_) {
        if (const auto now = host_.latency_now(yardstick_disk_)) {
            const auto during = core::between(*at_range_start_, *now);
            const auto flushes = during ? core::flush_distribution(*during) : std::nullopt;
            if (flushes && core::flushes_suffer(*flushes, *usual_ms_)) {
                return true;
            }
        }
    }
    const std::optional<double> last = watch->last_ms();
    return last && core::far_over(*last, *usual_ms_);
}

void TrimJob::flushes_slow(const std::string& disk) {
    if (phase_ != TrimPhase::Trimming || disk != yardstick_disk_ || under_way_ || yielded_ ||
        !rest_timer_) {
        return; // a range that is under way is judged when it returns
    }
    yielded_ = true; // once a rest: what follows is the same trouble
    pace_ = core::pace_yield(order_.geometry, pace_);
    rest(pace_.rest);
}

void TrimJob::on_reply(Result<act::FitrimReply> reply) {
    if (!trimming()) {
        return; // the echo of a cancelled run
    }
    if (!reply) {
        end(reply.error().kind == ErrorKind::Cancelled ? TrimPhase::Cancelled : TrimPhase::Failed,
            "failed: " + reply.error().text());
        return;
    }
    if (!under_way_) {
        end(TrimPhase::Failed, "failed: an answer without a question from nvmaint-fitrim");
        return;
    }
    if (reply->error != 0) {
        end(TrimPhase::Failed,
            Error::system(reply->error, fmt::format("failed: FITRIM of {} at offset {}",
                                                    record_.mount, under_way_->start))
                .text());
        return;
    }
    ++ranges_;
    record_.requested_bytes += reply->bytes;
    const core::TrimRange done = *std::exchange(under_way_, std::nullopt);
    pace_ = core::pace_next(
        order_.geometry, pace_, done,
        {.took = reply->took, .flush_suffered = flush_suffers(), .trimmed = reply->bytes});
    measure_discards();
    const core::BootTime now = host_.now().boot;
    if (since(now, marker_saved_) >= kMarkerEvery) {
        marker_saved_ = now;
        host_.save_marker(marker(), [](const Result<Done>&) {
            // Only the cursor would be stale: the next run would do a few ranges twice.
        });
    }
    host_.job_changed(order_.id, false);

    yielded_ = false;
    rest(pace_.rest);
}

void TrimJob::rest(core::milliseconds time) {
    rest_timer_.reset();
    sd_event_source* timer = nullptr;
    const int r = sd_event_add_time_relative(
        host_.event(), &timer, CLOCK_BOOTTIME,
        static_cast<std::uint64_t>(core::microseconds(time).count()), 1000,
        [](sd_event_source*, std::uint64_t, void* data) noexcept {
            auto* self = static_cast<TrimJob*>(data);
            if (self->phase_ == TrimPhase::Trimming) {
                self->next_range();
            }
            return 0;
        },
        this);
    if (r < 0) {
        end(TrimPhase::Failed, Error::system(-r, "failed: timer").text());
        return;
    }
    rest_timer_.reset(timer);
}

void TrimJob::measure_discards() {
    if (discarded_before_.size() != record_.disks.size()) {
        return; // a disk whose counter could not be read before: the sum would say too little
    }
    std::uint64_t sum = 0;
    for (const auto& [disk, before] : discarded_before_) {
        const std::optional<std::uint64_t> after = host_.discarded_bytes(disk);
        if (!after || *after < before) {
            record_.discarded_bytes.reset();
            return;
        }
        sum += *after - before;
    }
    record_.discarded_bytes = sum;
}

void TrimJob::finish_trimming() {
    measure_discards();
    record_.complete = true;
    record_.ended = host_.now().wall;
    record_.outcome = "done";
    trim_ended_ = host_.now().boot;
    host_.clear_marker();
    if (order_.watch_at_most == 0s) {
        record_.effect =
            core::TrimEffect{.verdict = core::EffectVerdict::NotComparable,
                             .before = before_,
                             .after = {},
                             .confidence = 0,
                             .why = "not measured: no time after the trim was asked for"};
        end(TrimPhase::Done, "done");
        return;
    }
    phase_ = TrimPhase::Watching;
    host_.job_changed(order_.id, false);
    tick();
}

void TrimJob::tick() {
    const core::BootTime now = host_.now().boot;
    if (phase_ == TrimPhase::Trimming && under_way_ &&
        since(now, range_started_) > range_deadline()) {
        child_->kill();
        end(TrimPhase::Failed,
            fmt::format("failed: the range at offset {} did not return within {}",
                        under_way_->start, core::humane(range_deadline())));
        return;
    }
    if (phase_ != TrimPhase::Watching) {
        return;
    }
    const core::BootTime from = trim_ended_ + kSettle;
    const core::FlushWatch* watch =
        yardstick_disk_.empty() ? nullptr : host_.watch(yardstick_disk_);
    const core::FlushSummary after = watch == nullptr || now <= from
                                         ? core::FlushSummary{}
                                         : watch->summary(from, now, usual_ms_);
    core::TrimEffect effect = core::judge_effect(before_, after);
    const bool late = since(now, from) >= order_.watch_at_most;
    // Where too little was seen before, no time spent watching now makes the two comparable.
    const bool hopeless =
        core::judge_effect(before_, before_).verdict == core::EffectVerdict::NotComparable;
    const bool firm = hopeless || core::effect_firm(effect);
    if (!firm && !late) {
        return;
    }
    record_.effect = std::move(effect);
    end(TrimPhase::Done, "done");
}

void TrimJob::cancel(const std::string& why) {
    if (ended()) {
        return;
    }
    if (phase_ == TrimPhase::Watching) {
        record_.effect = core::TrimEffect{.verdict = core::EffectVerdict::NotComparable,
                                          .before = before_,
                                          .after = {},
                                          .confidence = 0,
                                          .why = "broken off before enough was seen: " + why};
        end(TrimPhase::Done, "done");
        return;
    }
    end(TrimPhase::Cancelled, why);
}

void TrimJob::end(TrimPhase phase, const std::string& outcome) {
    if (child_) {
        child_->kill(); // ends a range under way, and an idle child likewise
    }
    rest_timer_.reset();
    phase_ = phase;
    record_.outcome = outcome;
    if (!record_.ended) {
        record_.ended = host_.now().wall;
    }
    if (!record_.complete) {
        measure_discards();
    }
    ended_at_ = host_.now().boot;
    host_.job_changed(order_.id, true);
}

core::seconds TrimJob::range_deadline() const {
    // The last range has no end of its own; there is no more than the filesystem.
    const std::uint64_t bytes = std::min(under_way_->length, order_.geometry.span);
    return kRangeDeadline +
           core::seconds(static_cast<std::int64_t>(bytes / kSlowestBytesPerSecond));
}

bool TrimJob::range_is_late() const {
    return phase_ == TrimPhase::Trimming && under_way_ &&
           since(host_.now().boot, range_started_) > kRangeLate;
}

double TrimJob::progress() const {
    switch (phase_) {
    case TrimPhase::Preparing:
        return 0;
    case TrimPhase::Trimming: {
        const double span = static_cast<double>(std::max<std::uint64_t>(order_.geometry.span, 1));
        return std::min(0.9, 0.9 * static_cast<double>(pace_.next_start) / span);
    }
    case TrimPhase::Watching: {
        const auto longest = static_cast<double>(core::seconds(order_.watch_at_most).count());
        const auto gone =
            std::chrono::duration<double>(since(host_.now().boot, trim_ended_)).count();
        return 0.9 + 0.1 * std::clamp(gone / std::max(longest, 1.0), 0.0, 0.99);
    }
    case TrimPhase::Done:
        return 1;
    case TrimPhase::Failed:
    case TrimPhase::Cancelled:
        break;
    }
    const double span = static_cast<double>(std::max<std::uint64_t>(order_.geometry.span, 1));
    return record_.complete ? 1.0
                            : std::min(0.9, 0.9 * static_cast<double>(pace_.next_start) / span);
}

} // namespace nvmaint::loop
