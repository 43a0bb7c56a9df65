// Did a timer's service run, and is its next run late? For fstrim.timer and for whichever other
// timer trims.
//
// What proves a run is what the run itself left: lines of its output, PID 1's messages about its
// start and end, the exit time of its process in this boot. LastTriggerUSec and the stamp file are
// hints only: systemd creates the stamp when a persistent timer is first started and loads its
// mtime as the last trigger at the next boot, although nothing ran, and sets the property when the
// start job is queued (systemd src/core/timer.c, timer_start(), timer_enter_running()). They do
// show one thing: that the timer has not fired since.
#pragma once

#include "core/finding.hpp"
#include "core/snapshot.hpp"
#include "core/trim_truth.hpp"

#include <optional>
#include <string>
#include <vector>

namespace nvmaint::core {

// One run of the service, put together from the journal or from the service's properties.
struct ServiceRun {
    WallTime time{}; // of the first thing seen of it
    bool started = false;
    bool finished = false; // ended well
    bool failed = false;
    bool skipped = false; // a condition of the service did not hold
    bool from_journal = false;
    std::optional<int> status; // exit status, where it failed
    std::vector<TrimmedLine> trimmed;
    std::vector<std::string> complaints; // other lines of its output
    bool operator==(const ServiceRun&) const = default;
};
// The main process of the last run ended by a signal: ExecMainStatus is its number then.
[[nodiscard]] bool was_killed(const Unit& unit);

// Oldest first.
[[nodiscard]] std::vector<ServiceRun> service_runs(const HostSnapshot& snapshot,
                                                   const std::string& service);

// Since when the journal and the boots recorded speak for the host; nothing where there is no
// journal.
[[nodiscard]] std::optional<WallTime> journal_covers_since(const HostSnapshot& snapshot);

enum class TimerState {
    Working,
    Broken, // will not start the service: not there, off, stopped, conditions
    Late,   // should have started it
    Unknown,
};

struct TimerTruth {
    TimerState state = TimerState::Unknown;
    std::string why;     // one line
    std::string id;      // "trim.timer.overdue" where Broken or Late
    std::string summary; // of that finding
    std::string subject; // the unit at fault
    std::vector<Evidence> evidence;
    std::vector<std::string> fix;
    std::optional<WallTime> since;    // when the finding began to hold, where that is known
    std::optional<WallTime> deadline; // until when the next run is not late
    bool in_container = false;        // a condition against containers stopped it
};
// `runs` of the service that the timer starts. For a timer that is not in the snapshot the state is
// Unknown.
[[nodiscard]] TimerTruth judge_timer(const HostSnapshot& snapshot, const std::string& timer,
                                     const std::vector<ServiceRun>& runs);

} // namespace nvmaint::core
