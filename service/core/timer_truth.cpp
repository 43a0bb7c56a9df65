#include "core/timer_truth.hpp"

#include "core/calendar.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace nvmaint::core {
namespace {

// sd-messages.h of systemd.
constexpr std::string_view kUnitStarting = "7d4958e842da4a758f6c1cdc7b36dcc5";
constexpr std::string_view kUnitStarted = "39f53479d3a045ac8e11786248231fbf";
constexpr std::string_view kUnitFailed = "be02cf6855d2428ba40df7e9d022f03d";
constexpr std::string_view kUnitSuccess = "7ad2d189f7e94e70a38c781354912448";
constexpr std::string_view kUnitSkipped = "0e4284a0caca4bfc81c0bb6786972673";
constexpr std::string_view kUnitFailureResult = "d9b373ed55a64feb8242e02dbe79a49c";
constexpr std::string_view kUnitProcessExit = "98e322203f7a4ed290d09fe03c09fe15";

// Two things further apart than this belong to two runs where no start lies between them. A run
// itself takes minutes on a full drive: judgement, generous.
constexpr std::chrono::hours kSameRun{2};

const Unit* find_unit(const HostSnapshot& snapshot, const std::string& name) {
    if (!snapshot.units) {
        return nullptr;
    }
    const auto found = snapshot.units->find(name);
    return found == snapshot.units->end() ? nullptr : &found->second;
}

enum class Event { Starting, Finished, Failed, Skipped, Exit, Output };

Event classify(const JournalEntry& entry) {
    if (entry.identifier != "systemd") {
        return Event::Output;
    }
    const std::string_view id = entry.message_id;
    const std::string_view text = entry.message;
    if (id == kUnitStarting || (id.empty() && text.starts_with("Starting "))) {
        return Event::Starting;
    }
    if (id == kUnitStarted || id == kUnitSuccess ||
        (id.empty() && (text.starts_with("Finished ") || text.starts_with("Started ") ||
                        text.find("Deactivated successfully") != text.npos ||
                        text.find(": Succeeded.") != text.npos))) {
        return Event::Finished;
    }
    if (id == kUnitFailed || id == kUnitFailureResult ||
        (id.empty() &&
         (text.starts_with("Failed to start ") || text.find("Failed with result") != text.npos))) {
        return Event::Failed;
    }
    if (id == kUnitSkipped || (id.empty() && text.find("skipped because of") != text.npos)) {
        return Event::Skipped;
    }
    return id == kUnitProcessExit || text.find("process exited") != text.npos ? Event::Exit
                                                                              : Event::Output;
}

std::optional<int> exit_status(const std::string& message) {
    const auto at = message.find("status=");
    if (at == std::string::npos) {
        return std::nullopt;
    }
    int status = 0;
    const char* first = message.data() + at + 7;
    const auto [stop, error] = std::from_chars(first, message.data() + message.size(), status);
    return error == std::errc{} && stop != first ? std::optional(status) : std::nullopt;
}

void add_to_run(ServiceRun& run, Event event, const JournalEntry& entry) {
    switch (event) {
    case Event::Starting:
        run.started = true;
        return;
    case Event::Finished:
        run.finished = !run.failed;
        return;
    case Event::Failed:
        run.failed = true;
        run.finished = false;
        return;
    case Event::Skipped:
        run.skipped = true;
        return;
    case Event::Exit: // "code=exited, status=64/n/a", "code=killed, status=9/KILL"
        if (const auto status = exit_status(entry.message); status && *status != 0) {
            run.failed = true;
            if (entry.message.find("code=exited") != std::string::npos) {
                run.status = status;
            }
        }
        return;
    case Event::Output:
        if (entry.identifier == "systemd") {
            return; // "Consumed 3.1s CPU time"
        }
        if (auto line = parse_trimmed_line(entry.message)) {
            run.trimmed.push_back(std::move(*line));
        } else {
            run.complaints.push_back(entry.message);
        }
        return;
    }
}

bool begins_new_run(const std::vector<ServiceRun>& runs, WallTime previous, Event event,
                    const JournalEntry& entry) {
    if (runs.empty() || event == Event::Starting || event == Event::Skipped) {
        return true;
    }
    const auto& run = runs.back();
    const bool ended = run.finished || run.failed || run.skipped;
    return entry.time - previous > kSameRun ||
           (ended && event == Event::Output && entry.identifier != "systemd" &&
            entry.time - previous > std::chrono::minutes{1});
}

// The run that the service's own properties describe: the last one of this boot, or the one that is
// under way.
std::optional<ServiceRun> run_of_properties(const Unit* unit) {
    if (unit == nullptr || (!unit->exec_main_start && !unit->exec_main_exit)) {
        return std::nullopt;
    }
    ServiceRun run;
    run.time = unit->exec_main_start ? *unit->exec_main_start : *unit->exec_main_exit;
    run.started = true;
    if (unit->active_state == "activating") {
        return run;
    }
    run.failed = (unit->exec_main_status.value_or(0) != 0) ||
                 (!unit->result.empty() && unit->result != "success");
    run.finished = !run.failed;
    if (run.failed && !was_killed(*unit)) {
        run.status = unit->exec_main_status;
    }
    return run;
}

// ---- the timer ----

std::string state_text(const Unit& unit) {
    return fmt::format("UnitFileState={}, ActiveState={}",
                       unit.unit_file_state.empty() ? "(none)" : unit.unit_file_state,
                       unit.active_state.empty() ? "(not recorded)" : unit.active_state);
}

std::string source_of(const std::string& unit) {
    return "systemd: " + unit;
}

bool is_container_condition(const Condition& condition) {
    // "!container", or the name of one: both ask for the virtualisation.
    return condition.name == "ConditionVirtualization" || condition.name == "AssertVirtualization";
}

std::string condition_text(const Condition& condition) {
    return fmt::format("{}={}{}{}", condition.name, condition.trigger ? "|" : "",
                       condition.negate ? "!" : "", condition.parameter);
}

// Conditions that did not hold when systemd looked, as far as it said so; of those it did not test,
// the ones that the snapshot itself refutes.
std::vector<Condition> failing_conditions(const HostSnapshot& snapshot, const Unit& unit) {
    std::vector<Condition> failing;
    for (const auto& condition : unit.conditions) {
        if (condition.state < 0) {
            failing.push_back(condition);
        }
    }
    if (!failing.empty()) {
        return failing;
    }
    for (const auto& condition : unit.conditions) {
        const auto table = snapshot.tables.find(condition.parameter);
        if (condition.state == 0 && condition.name == "ConditionPathExists" && !condition.negate &&
            !condition.trigger && table != snapshot.tables.end() &&
            table->second.is_known_absent()) {
            failing.push_back(condition);
        }
    }
    return failing;
}

TimerTruth broken(TimerTruth truth, std::string id, std::string summary,
                  std::vector<std::string> fix) {
    truth.state = TimerState::Broken;
    truth.id = std::move(id);
    truth.why = summary;
    truth.summary = std::move(summary);
    truth.fix = std::move(fix);
    return truth;
}

// Not loaded, masked, off, stopped. Nothing where the timer runs.
std::optional<TimerTruth> judge_standing(const HostSnapshot& snapshot, const Unit& unit,
                                         TimerTruth truth) {
    const std::string& name = unit.name;
    truth.evidence.push_back(
        {source_of(name),
         unit.load_state.empty() || unit.load_state == "loaded"
             ? state_text(unit)
             : fmt::format("LoadState={}, {}", unit.load_state, state_text(unit))});
    if (unit.load_state == "not-found") {
        return broken(truth, "trim.timer.missing", fmt::format("{} is not installed", name),
                      {"apt install util-linux   # or your distribution's package of fstrim",
                       fmt::format("systemctl enable --now {}", name)});
    }
    if (unit.load_state == "masked" || unit.unit_file_state == "masked" ||
        unit.unit_file_state == "masked-runtime") {
        return broken(truth, "trim.timer.masked",
                      fmt::format("{} is masked: nothing can start it", name),
                      {fmt::format("systemctl unmask {}", name),
                       fmt::format("systemctl enable --now {}", name)});
    }
    const bool active = unit.active_state == "active";
    if (unit.active_state.empty() && unit.unit_file_state.empty()) {
        truth.why = fmt::format("the state of {} is not known", name);
        return truth;
    }
    if (unit.unit_file_state == "disabled") {
        return broken(truth, "trim.timer.disabled",
                      active
                          ? fmt::format("{} was started by hand and is gone after the next boot: "
                                        "it is not enabled",
                                        name)
                          : fmt::format("{} is not enabled: nothing trims by itself", name),
                      {fmt::format("systemctl enable --now {}", name)});
    }
    if (active || unit.active_state.empty()) {
        return std::nullopt;
    }
    const auto failing = failing_conditions(snapshot, unit);
    if (unit.condition_result == false || !failing.empty()) {
        if (std::any_of(failing.begin(), failing.end(), is_container_condition) &&
            !(snapshot.container && snapshot.container->empty())) {
            truth.in_container = true;
            truth.why = "in a container the host trims";
            return truth;
        }
    }
    if (!failing.empty()) {
        for (const auto& condition : failing) {
            truth.evidence.push_back(
                {source_of(name), condition_text(condition) + " did not hold"});
        }
        const auto text = condition_text(failing.front());
        const auto setting = text.substr(0, text.find('='));
        return broken(
            truth, "trim.timer.condition-unmet",
            fmt::format("{} is enabled but did not start: {} does not hold", name, text),
            {fmt::format("systemctl edit {}   # add under [Unit] the line: {}=", name, setting),
             fmt::format("systemctl restart {}", name),
             "or update util-linux: only the timer of 2.36 asks for /etc/fstab"});
    }
    return broken(truth, "trim.timer.never-fired",
                  fmt::format("{} is enabled but not started: it cannot fire", name),
                  {fmt::format("systemctl start {}", name)});
}

// When the timer should have fired at the latest, given that it last did, or began to wait, at
// `from`; nothing where no event could be followed. The legal window is the calendar event plus
// RandomizedDelaySec plus AccuracySec.
struct Due {
    WallTime event{};
    WallTime deadline{};
};

std::optional<Due> due_after(const Unit& unit, WallTime from, seconds offset) {
    std::optional<WallTime> event;
    for (const auto& text : unit.on_calendar) {
        const auto calendar = parse_calendar(text);
        const auto next = calendar ? next_elapse(*calendar, from, offset) : std::nullopt;
        if (!next) {
            return std::nullopt; // one that is not understood may be the earlier one
        }
        event = event ? std::min(*event, *next) : *next;
    }
    if (!event) {
        return std::nullopt;
    }
    // Defaults of systemd.timer(5).
    const auto accuracy = unit.accuracy.value_or(std::chrono::minutes{1});
    const auto delay = unit.randomized_delay.value_or(microseconds{0});
    return Due{*event, *event + delay + accuracy};
}

std::string calendar_text(const Unit& unit) {
    std::string text;
    for (const auto& event : unit.on_calendar) {
        text += (text.empty() ? "" : " | ") + event;
    }
    return text;
}

// Since when the timer has been waiting without a break: this boot, or its own start in it.
std::optional<WallTime> waiting_since(const HostSnapshot& snapshot, const Unit& unit) {
    std::optional<WallTime> since;
    if (snapshot.uptime) {
        since = snapshot.now.wall - *snapshot.uptime;
    } else if (snapshot.boots && !snapshot.boots->empty()) {
        since = snapshot.boots->back().first;
    }
    if (since && unit.active_enter) {
        since = std::max(*since, *unit.active_enter);
    }
    return since;
}

std::string window_text(const Unit& unit) {
    return fmt::format("OnCalendar={}, RandomizedDelaySec={}, AccuracySec={}", calendar_text(unit),
                       humane(unit.randomized_delay.value_or(microseconds{0})),
                       humane(unit.accuracy.value_or(std::chrono::minutes{1})));
}

std::vector<std::string> late_fix(const std::string& timer, const std::string& service) {
    return {fmt::format("systemctl list-timers {}; systemctl status {} {}", timer, timer, service),
            fmt::format("journalctl -u {} -u {}", timer, service),
            fmt::format("systemctl restart {}   # a persistent timer then catches up", timer)};
}

// The hint of the last time when the timer fired: what it says is at most that it has not fired
// since.
std::optional<WallTime> last_fired_hint(const HostSnapshot& snapshot, const Unit& unit) {
    if (unit.last_trigger) {
        return unit.last_trigger;
    }
    const auto stamp = snapshot.stamps.find(unit.name);
    return stamp != snapshot.stamps.end() && stamp->second ? std::optional(*stamp->second)
                                                           : std::nullopt;
}

TimerTruth judge_firing(const HostSnapshot& snapshot, const Unit& unit, const std::string& service,
                        const std::vector<ServiceRun>& runs, TimerTruth truth) {
    const WallTime now = snapshot.now.wall;
    const seconds offset = snapshot.utc_offset.value_or(seconds{0});
    const auto waiting = waiting_since(snapshot, unit);
    std::optional<WallTime> last_run;
    for (const auto& run : runs) {
        if (!run.skipped) {
            last_run = run.time;
        }
    }
    const auto hint = last_fired_hint(snapshot, unit);
    const auto last = std::max(last_run, hint);
    truth.state = TimerState::Working;
    if (unit.on_calendar.empty() || !waiting) {
        truth.why = unit.on_calendar.empty() ? "the schedule of the timer is not recorded"
                                             : "how long the host has been up is not known";
        return truth;
    }
    // The host was down, or the timer not started, when the event came: a persistent timer catches
    // up after its start, another waits for the next event.
    const WallTime from = last ? *last : *waiting;
    auto due = due_after(unit, from, offset);
    if (due && *waiting > due->event) {
        due = unit.persistent.value_or(true)
                  ? Due{*waiting, *waiting + (due->deadline - due->event)}
                  : due_after(unit, *waiting, offset);
    }
    if (!due) {
        truth.why =
            "the schedule of the timer is not one that can be followed: " + calendar_text(unit);
        return truth;
    }
    truth.deadline = due->deadline;
    if (now <= due->deadline) {
        truth.why = fmt::format("next run due until {}", to_rfc3339(due->deadline));
        return truth;
    }
    truth.evidence.push_back({source_of(unit.name), window_text(unit)});
    if (hint) {
        truth.evidence.push_back(
            {source_of(unit.name),
             fmt::format("{} {} (a hint: it shows that the timer has not fired since)",
                         unit.last_trigger ? "last trigger" : "stamp file of", to_rfc3339(*hint))});
    }
    truth.evidence.push_back(
        {"host",
         fmt::format("up, with the timer waiting, since {}{}", to_rfc3339(*waiting),
                     snapshot.utc_offset ? "" : "; its time zone is not known, UTC taken")});
    truth.since = due->deadline;
    const auto covered = journal_covers_since(snapshot);
    const bool hint_is_of_this_wait = hint && *hint > *waiting;
    if (!last_run && !hint_is_of_this_wait && covered) {
        const auto first = due_after(unit, std::max(*covered, *waiting), offset);
        if (first && now > first->deadline) {
            truth.evidence.push_back(
                {"journal", fmt::format("no run of {} since {}", service, to_rfc3339(*covered))});
            truth.fix = late_fix(unit.name, service);
            truth.state = TimerState::Late;
            truth.id = "trim.timer.never-fired";
            truth.summary = fmt::format("{} is active, yet {} never ran, though it was due by {}",
                                        unit.name, service, to_rfc3339(first->deadline));
            truth.since = first->deadline;
            truth.why = truth.summary;
            return truth;
        }
    }
    if (!last) {
        truth.state = TimerState::Unknown;
        truth.evidence.clear();
        truth.since.reset();
        truth.why = "no run is known, and the journal does not reach back far enough to show one";
        return truth;
    }
    if (last_run) {
        truth.evidence.push_back(
            {"journal", fmt::format("last run of {} at {}", service, to_rfc3339(*last_run))});
    }
    truth.state = TimerState::Late;
    truth.id = "trim.timer.overdue";
    truth.summary = fmt::format("{} should have run by {}", service, to_rfc3339(due->deadline));
    truth.why = truth.summary;
    truth.fix = late_fix(unit.name, service);
    return truth;
}

} // namespace

bool was_killed(const Unit& unit) {
    constexpr int kKilled = 2; // CLD_KILLED and CLD_DUMPED of waitid(2)
    constexpr int kDumped = 3;
    const int code = unit.exec_main_code.value_or(0);
    return code == kKilled || code == kDumped;
}

std::vector<ServiceRun> service_runs(const HostSnapshot& snapshot, const std::string& service) {
    std::vector<ServiceRun> runs;
    WallTime previous{};
    if (snapshot.journal) {
        for (const auto& entry : *snapshot.journal) {
            if (entry.unit != service) {
                continue;
            }
            const Event event = classify(entry);
            if (begins_new_run(runs, previous, event, entry)) {
                runs.push_back({.time = entry.time, .from_journal = true});
            }
            add_to_run(runs.back(), event, entry);
            previous = entry.time;
        }
    }
    const auto own = run_of_properties(find_unit(snapshot, service));
    if (!own) {
        return runs;
    }
    if (!runs.empty() && own->time <= previous + kSameRun) {
        auto& last = runs.back();
        const bool same = own->time >= last.time - std::chrono::minutes{1};
        if (same) {
            last.failed = last.failed || own->failed;
            last.finished = last.finished || (own->finished && !last.failed);
            if (!last.status) {
                last.status = own->status;
            }
        }
        return runs;
    }
    runs.push_back(*own);
    return runs;
}

std::optional<WallTime> journal_covers_since(const HostSnapshot& snapshot) {
    if (!snapshot.journal) {
        return std::nullopt;
    }
    std::optional<WallTime> since;
    if (snapshot.boots && !snapshot.boots->empty()) {
        since = snapshot.boots->front().first;
    }
    if (!snapshot.journal->empty()) {
        const auto first = snapshot.journal->front().time;
        since = since ? std::min(*since, first) : first;
    }
    return since;
}

TimerTruth judge_timer(const HostSnapshot& snapshot, const std::string& timer,
                       const std::vector<ServiceRun>& runs) {
    TimerTruth truth;
    truth.subject = timer;
    const Unit* unit = find_unit(snapshot, timer);
    if (unit == nullptr) {
        if (snapshot.init && *snapshot.init != "systemd") {
            truth.evidence.push_back({"proc/1/comm", "init is " + *snapshot.init});
            return broken(truth, "trim.timer.missing",
                          "this host does not run systemd: there is no " + timer,
                          {"run fstrim from cron or another scheduler"});
        }
        truth.why = snapshot.units
                        ? timer + " was not recorded"
                        : "systemd's units are not known: " + snapshot.units.error().text();
        return truth;
    }
    if (auto standing = judge_standing(snapshot, *unit, truth)) {
        return *standing;
    }
    truth.evidence.push_back({source_of(timer), state_text(*unit)});
    const std::string service = unit->triggers_unit.empty()
                                    ? timer.substr(0, timer.rfind('.')) + ".service"
                                    : unit->triggers_unit;
    return judge_firing(snapshot, *unit, service, runs, std::move(truth));
}

} // namespace nvmaint::core
