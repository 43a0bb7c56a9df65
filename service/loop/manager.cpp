#include "loop/manager.hpp"

#include "act/hook.hpp"
#include "bus/server.hpp"
#include "collect/diskstats.hpp"
#include "config/policy_file.hpp"
#include "core/alerts.hpp"
#include "core/decide.hpp"
#include "core/flush_truth.hpp"
#include "log/journal.hpp"
#include "loop/flush_sources.hpp"
#include "loop/trim_job.hpp"
#include "loop/udev_monitor.hpp"
#include "loop/worker.hpp"
#include "report/report.hpp"
#include "state/state_store.hpp"

#include <fmt/format.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <syslog.h>

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

namespace nvmaint::loop {
namespace {

using namespace std::chrono_literals;
using core::BootTime;
using core::Now;
using core::seconds;
using log::MessageId;

// Mounts and devices announce themselves; units, journal and stamps do not, and change slowly.
constexpr seconds kHostEvery{60};
// While nothing is known of what is usual on a disk, a flush is told of from here on.
constexpr core::milliseconds kSlowWhileUnknown{1000};
// Bursts of uevents and mounts (a boot, a container start) become one reading.
constexpr seconds kHostSpacing{2};
// NVMe recommends no rate; a SMART log costs a drive less than a read, and temperature moves in
// minutes.
constexpr seconds kDriveEvery{60};
constexpr seconds kMetricsEvery{15};
constexpr seconds kDiagnoseEvery{5};
constexpr seconds kJobStays{60};
constexpr seconds kBaselineEvery{60};
constexpr std::size_t kTrimRecords = 500;

Now clocks() {
    timespec boot{};
    clock_gettime(CLOCK_BOOTTIME, &boot);
    timespec wall{};
    clock_gettime(CLOCK_REALTIME, &wall);
    return {.wall = core::WallTime(std::chrono::duration_cast<core::microseconds>(
                seconds(wall.tv_sec) + std::chrono::nanoseconds(wall.tv_nsec))),
            .boot = seconds(boot.tv_sec) + std::chrono::nanoseconds(boot.tv_nsec)};
}

struct EventDeleter {
    void operator()(sd_event* event) const { sd_event_unref(event); }
};
struct BusDeleter {
    void operator()(sd_bus* bus) const { sd_bus_flush_close_unref(bus); }
};

// Pages of one controller, as its worker last brought them.
struct DrivePages {
    Reading<nvme::IdentifyController> identify;
    Reading<nvme::SmartLog> smart;
    std::map<std::string, Reading<nvme::IdentifyNamespace>> namespaces;
};

struct Drive {
    std::unique_ptr<Worker> worker;
    std::string identity; // serial and address: another drive under the same name starts afresh
    std::optional<DrivePages> pages;
    std::optional<BootTime> asked;
    bool late_logged = false;
};

template <class T, class F>
Reading<T> page(Result<nvme::Bytes> bytes, F decode, const std::string& phrase) {
    if (!bytes) {
        return bytes.error().in(phrase);
    }
    Result<T> value = decode(*bytes);
    if (!value) {
        return value.error().in(phrase);
    }
    return value;
}

// In the controller's worker: plain calls that may block.
DrivePages read_drive(nvme::NvmeAdmin& admin, const std::string& name,
                      const std::vector<std::pair<std::string, std::uint32_t>>& namespaces) {
    DrivePages pages;
    pages.identify = page<nvme::IdentifyController>(
        admin.identify_controller(name), nvme::decode_identify_controller, "Identify of " + name);
    pages.smart = page<nvme::SmartLog>(admin.get_log(name, 0x02, 512), nvme::decode_smart_log,
                                       "SMART log of " + name);
    for (const auto& [disk, nsid] : namespaces) {
        pages.namespaces[disk] =
            page<nvme::IdentifyNamespace>(admin.identify_namespace(name, nsid),
                                          nvme::decode_identify_namespace, "Identify of " + disk);
    }
    return pages;
}

class Manager final : public bus::Handler, public TrimHost {
  public:
    Manager(const Options& options, const collect::HostRoot& root, nvme::NvmeAdmin& admin)
        : options_(options), root_(root), admin_(admin) {}
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;
    // A thread stuck in the kernel keeps the process, and so whatever is open, until the kernel
    // lets go of it: what the next instance needs is given up here.
    ~Manager() override {
        if (lock_fd_ >= 0) {
            close(lock_fd_);
        }
    }

    Result<Done> set_up();
    int loop();

    // bus::Handler
    Result<std::uint64_t> trim(const std::string& mount,
                               const std::map<std::string, bus::Value>& options) override;
    Result<Done> cancel(std::uint64_t job) override;
    Result<Done> reload() override;

    // TrimHost
    sd_event* event() override { return event_.get(); }
    Now now() override { return clocks(); }
    std::string fitrim_helper() override { return options_.helper_directory + "/nvmaint-fitrim"; }
    const core::FlushWatch* watch(const std::string& disk) override {
        const auto found = memory_.flush.find(disk);
        return found == memory_.flush.end() ? nullptr : &found->second;
    }
    std::optional<core::DiskLatency> latency_now(const std::string& disk) override {
        return sources_->read_now(disk);
    }
    std::optional<std::uint64_t> discarded_bytes(const std::string& disk) override;
    void save_marker(const core::TrimMarker& marker,
                     std::function<void(Result<Done>)> then) override;
    void clear_marker() override;
    void job_changed(std::uint64_t job, bool ended) override;

  private:
    Result<Done> lock_instance();
    Result<Done> load_policy();
    void connect_bus();
    void request_host_reading() { host_wanted_ = true; }
    void tick();
    void sample(const Now& now);
    void attach_sources(const Now& now);
    std::map<std::string, core::DiskLatency> read_sources();
    void take_slow(const std::string& disk, const std::vector<core::SlowFlush>& slow);
    Worker* worker_of(const std::string& disk);
    void read_host_if_due(const Now& now);
    void take_host(Result<core::HostSnapshot> snapshot);
    void poll_drives(const Now& now);
    void merge_drives();
    void diagnose_if_due(const Now& now);
    void diagnose(const Now& now);
    void announce(const core::Diagnosis& next);
    void run_hooks(const Now& now);
    void act_on_plan();
    Result<std::uint64_t> start_trim(const core::FilesystemView& filesystem, seconds watch);
    void keep_record(const core::TrimRecord& record);
    void learn_baselines(const Now& now);
    void tick_jobs(const Now& now);
    void refresh_jobs();
    void write_metrics(const Now& now);
    void save_trims();
    void show_trims();
    void publish();
    void report_late_workers();
    void stop();

    Options options_;
    const collect::HostRoot& root_;
    nvme::NvmeAdmin& admin_;

    std::unique_ptr<sd_event, EventDeleter> event_;
    std::unique_ptr<Mailbox> mailbox_;
    std::unique_ptr<Worker> host_worker_;
    std::unique_ptr<Worker> writer_;
    std::unique_ptr<UdevMonitor> udev_;
    std::unique_ptr<act::HookRunner> hooks_;
    std::unique_ptr<sd_bus, BusDeleter> bus_;
    std::unique_ptr<bus::Server> server_;
    sd_event_source* tick_source_ = nullptr;
    sd_event_source* mount_source_ = nullptr;
    int lock_fd_ = -1;
    int mount_fd_ = -1;

    core::Policy policy_;
    core::Memory memory_;
    core::AlertState alerts_;
    core::HostSnapshot snapshot_;
    bool snapshot_valid_ = false;
    core::Diagnosis diagnosis_;
    bool diagnosed_ = false;
    bus::Model model_;

    bool host_wanted_ = true;
    bool host_under_way_ = false;
    std::optional<BootTime> host_read_;
    bool host_late_logged_ = false;
    std::map<std::string, Drive> drives_;
    std::unique_ptr<FlushSources> sources_;
    std::map<std::string, core::DiskCounters> counters_;
    std::optional<BootTime> counters_at_;
    BootTime diagnosed_at_{};
    bool diagnose_wanted_ = true;
    BootTime metrics_at_{};
    BootTime baselines_at_{};
    std::map<std::uint64_t, std::unique_ptr<TrimJob>> jobs_;
    std::uint64_t next_job_ = 1;
    int exit_status_ = 0;
    unsigned bus_wait_ = 0;
    std::string bus_problem_;
    std::map<std::string, std::string> put_off_; // mount -> why, as last logged
};

Result<Done> Manager::lock_instance() {
    if (mkdir(options_.runtime_directory.c_str(), 0755) != 0 && errno != EEXIST) {
        return Error::system(errno, options_.runtime_directory);
    }
    const std::string path = options_.runtime_directory + "/lock";
    lock_fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock_fd_ < 0) {
        return Error::system(errno, path);
    }
    if (flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            return Error::make(ErrorKind::Denied,
                               "another nvmaintd is running (it holds " + path + ")");
        }
        return Error::system(errno, path);
    }
    return Done{};
}

Result<Done> Manager::load_policy() {
    TRY(policy, config::load_policy(options_.policy_root));
    policy_ = std::move(policy);
    model_.mode = policy_.mode == core::Mode::Maintain ? "maintain" : "observe";
    model_.policy_files = policy_.files;
    return Done{};
}

Result<Done> Manager::set_up() {
    TRY(locked, lock_instance());
    (void)locked;
    sd_event* event = nullptr;
    int r = sd_event_default(&event);
    if (r < 0) {
        return Error::system(-r, "sd-event");
    }
    event_.reset(event);
    TRY(mailbox, Mailbox::create(event));
    mailbox_ = std::move(mailbox);
    host_worker_ = std::make_unique<Worker>("host", *mailbox_);
    writer_ = std::make_unique<Worker>("writer", *mailbox_);
    sources_ = std::make_unique<FlushSources>(
        event, root_,
        FlushSources::Host{
            .open_in =
                [this](const std::string& disk, Worker::Task task) {
                    Worker* worker = worker_of(disk);
                    return worker != nullptr && worker->post("opening " + disk, std::move(task));
                },
            .changed = [this] { diagnose_wanted_ = true; },
            .slow = [this](const std::string& disk,
                           const std::vector<core::SlowFlush>& slow) { take_slow(disk, slow); }});
    hooks_ = act::HookRunner::create(event, [](const std::string& line) {
        log::write(LOG_WARNING, MessageId::HookFailed, "Hook " + line);
    });
    model_.version = options_.version;

    const Result<Done> policy = load_policy();
    if (!policy) {
        // There is no last good policy yet: the built-in one observes and changes nothing.
        log::write(LOG_ERR, MessageId::PolicyRefused,
                   "Policy refused, going on with the built-in one (mode observe): " +
                       policy.error().text());
        model_.mode = "observe";
    }
    state::Loaded loaded = state::load_state(options_.state_directory);
    for (const std::string& problem : loaded.problems) {
        log::write(LOG_WARNING, MessageId::StateProblem, problem);
    }
    memory_.trims = std::move(loaded.trims);
    memory_.baselines = std::move(loaded.baselines);
    memory_.marker = std::move(loaded.marker);
    memory_.marker_lost = loaded.marker_lost;
    if (memory_.marker) {
        log::write(LOG_WARNING, MessageId::TrimInterrupted,
                   fmt::format("A trim of {} that began at {} was cut off before offset {}",
                               memory_.marker->mount, core::to_rfc3339(memory_.marker->started),
                               memory_.marker->next_start));
        core::TrimRecord cut{.mount = memory_.marker->mount,
                             .fs_uuid = memory_.marker->fs_uuid,
                             .disks = memory_.marker->disks,
                             .started = memory_.marker->started,
                             .ended = {},
                             .complete = false,
                             .outcome = "interrupted",
                             .requested_bytes = 0,
                             .discarded_bytes = {},
                             .effect = {}};
        const bool known = std::any_of(
            memory_.trims.begin(), memory_.trims.end(), [&](const core::TrimRecord& record) {
                return record.mount == cut.mount && record.started == cut.started;
            });
        if (!known) {
            keep_record(cut);
        }
    }

    for (const int signal : {SIGTERM, SIGINT}) {
        r = sd_event_add_signal(
            event, nullptr, signal,
            [](sd_event_source*, const signalfd_siginfo*, void* data) noexcept {
                static_cast<Manager*>(data)->stop();
                return 0;
            },
            this);
        if (r < 0) {
            return Error::system(-r, "signals");
        }
    }
    r = sd_event_add_signal(
        event, nullptr, SIGHUP,
        // Where memory ends, so does the process, and systemd starts it again.
        // NOLINTNEXTLINE(bugprone-exception-escape)
        [](sd_event_source*, const signalfd_siginfo*, void* data) noexcept {
            (void)static_cast<Manager*>(data)
                ->reload(); // logged inside; nobody waits for the answer
            return 0;
        },
        this);
    if (r < 0) {
        return Error::system(-r, "signals");
    }
    r = sd_event_add_time_relative(
        event, &tick_source_, CLOCK_BOOTTIME, 0, 1000,
        // NOLINTNEXTLINE(bugprone-exception-escape): as above
        [](sd_event_source* source, std::uint64_t, void* data) noexcept {
            static_cast<Manager*>(data)->tick();
            sd_event_source_set_time_relative(source, 1000000);
            return 0;
        },
        this);
    if (r < 0) {
        return Error::system(-r, "timer");
    }
    sd_event_source_set_enabled(tick_source_, SD_EVENT_ON);

    // The kernel marks the mount table with EPOLLPRI whenever it changes.
    mount_fd_ = open("/proc/1/mountinfo", O_RDONLY | O_CLOEXEC);
    if (mount_fd_ >= 0) {
        (void)sd_event_add_io(
            event, &mount_source_, mount_fd_, EPOLLPRI,
            [](sd_event_source*, int, std::uint32_t, void* data) noexcept {
                static_cast<Manager*>(data)->request_host_reading();
                return 0;
            },
            this);
    }
    Result<std::unique_ptr<UdevMonitor>> udev =
        UdevMonitor::create(event, [this](const std::string& action, const std::string& name) {
            (void)action;
            (void)name;
            request_host_reading();
        });
    if (udev) {
        udev_ = std::move(*udev);
    } else {
        log::write(LOG_NOTICE, MessageId::Started,
                   "No device events, devices are looked for once a minute: " +
                       udev.error().text());
    }
    connect_bus();
    if (exit_status_ != 0) {
        return Error::make(ErrorKind::Denied, bus_problem_);
    }
    // Keep-alives come from this loop, which does no device I/O.
    (void)sd_event_set_watchdog(event, 1);
    return Done{};
}

void Manager::connect_bus() {
    bus_wait_ = 30;
    server_.reset();
    bus_.reset();
    sd_bus* raw = nullptr;
    int r = sd_bus_open_system(&raw);
    bus_.reset(raw);
    if (r >= 0) {
        r = sd_bus_attach_event(raw, event_.get(), SD_EVENT_PRIORITY_NORMAL);
    }
    Result<Done> named =
        r < 0 ? Result<Done>(Error::system(-r, "system bus")) : Result<Done>(Done{});
    if (named) {
        Result<std::unique_ptr<bus::Server>> server = bus::Server::create(raw, model_, *this);
        if (server) {
            server_ = std::move(*server);
            named = server_->request_name();
        } else {
            named = server.error();
        }
    }
    if (named) {
        bus_problem_.clear();
        server_->publish();
        return;
    }
    server_.reset();
    bus_.reset();
    if (named.error().sys_errno == EEXIST) {
        bus_problem_ = "another nvmaintd is running: it owns org.nvmaint1 on the bus";
        exit_status_ = 1;
        return;
    }
    const std::string problem = named.error().text();
    if (problem != bus_problem_) { // once per problem, not at every attempt
        log::write(LOG_WARNING, MessageId::Started,
                   "No D-Bus service, trying again every 30 s: " + problem);
        bus_problem_ = problem;
    }
}

int Manager::loop() {
    sd_notify(0, "READY=1\nSTATUS=Reading the host");
    log::write(LOG_INFO, MessageId::Started,
               fmt::format("nvmaintd {} in mode {}; flush latency from /proc/diskstats (means per "
                           "second)",
                           options_.version, model_.mode));
    const int r = sd_event_loop(event_.get());
    return r < 0 ? 1 : exit_status_;
}

void Manager::stop() {
    sd_notify(0, "STOPPING=1");
    // A trim under way ends first. In good order that is no accident, and the next boot must not
    // take it for one: only a range that the drive does not answer leaves its marker behind.
    for (auto& [id, job] : jobs_) {
        if (job->trimming() && !job->range_is_late()) {
            clear_marker();
        }
        job->cancel("the service stopped");
    }
    if (!writer_->drain(2s)) {
        log::write(LOG_WARNING, MessageId::StateProblem,
                   "State was not written out: the disk did not answer within 2 s");
    }
    log::write(LOG_INFO, MessageId::Stopped, "nvmaintd stopped");
    sd_event_exit(event_.get(), 0);
}

void Manager::tick() {
    const Now now = clocks();
    const bool cut_off = server_ && sd_bus_is_open(bus_.get()) <= 0;
    if (cut_off || (!server_ && --bus_wait_ == 0)) {
        connect_bus();
    }
    if (exit_status_ != 0) {
        log::write(LOG_ERR, MessageId::Stopped, bus_problem_);
        sd_event_exit(event_.get(), exit_status_);
        return;
    }
    attach_sources(now);
    sample(now);
    read_host_if_due(now);
    poll_drives(now);
    report_late_workers();
    tick_jobs(now);
    learn_baselines(now);
    diagnose_if_due(now);
    write_metrics(now);
}

// ---- collecting
// -------------------------------------------------------------------------------------------------------

// The worker of the controller that a disk belongs to; null: not there yet.
Worker* Manager::worker_of(const std::string& disk) {
    if (!snapshot_valid_ || !snapshot_.block_devices) {
        return nullptr;
    }
    const auto device = snapshot_.block_devices->find(disk);
    if (device == snapshot_.block_devices->end()) {
        return nullptr;
    }
    const auto drive = drives_.find(device->second.nvme_controller);
    return drive == drives_.end() ? nullptr : drive->second.worker.get();
}

void Manager::attach_sources(const Now& now) {
    if (snapshot_valid_ && snapshot_.block_devices) {
        sources_->look(now.boot, *snapshot_.block_devices);
    }
}

// What was counted since the last reading, by disk.
std::map<std::string, core::DiskLatency> Manager::read_sources() {
    const auto out_for_long = [](const core::DiskLatency& latency) {
        const auto& flushes = latency.of(core::LatencyClass::Flush);
        return flushes && flushes->oldest >= seconds{1};
    };
    const auto any_out = [&] {
        return std::any_of(
            sources_->shown().begin(), sources_->shown().end(),
            [&](const auto& entry) { return entry.second && out_for_long(*entry.second); });
    };
    // One that is out does not show in any counter; whether it matters is core's to say.
    const bool before = any_out();
    std::map<std::string, core::DiskLatency> since = sources_->read();
    diagnose_wanted_ |= before || any_out();
    snapshot_.latency = sources_->shown();
    for (const auto& [disk, latency] : sources_->shown()) {
        const auto watch = memory_.flush.find(disk);
        const auto usual = watch == memory_.flush.end() ? std::nullopt : watch->second.usual_ms();
        sources_->set_threshold(
            disk, usual ? std::chrono::duration_cast<core::nanoseconds>(
                              std::chrono::duration<double, std::milli>(core::far_limit_ms(*usual)))
                        : core::nanoseconds(kSlowWhileUnknown));
    }
    return since;
}

void Manager::take_slow(const std::string& disk, const std::vector<core::SlowFlush>& slow) {
    timespec monotonic{};
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    // Boot time goes on while the host sleeps, the kernel's time of a request does not.
    const core::nanoseconds slept =
        clocks().boot - (seconds(monotonic.tv_sec) + core::nanoseconds(monotonic.tv_nsec));
    core::FlushWatch& watch = memory_.flush[disk];
    for (core::SlowFlush flush : slow) {
        flush.start += slept;
        watch.note(flush);
        diagnose_wanted_ |= flush.pending;
    }
    for (auto& [id, job] : jobs_) {
        job->flushes_slow(disk);
    }
}

void Manager::sample(const Now& now) {
    const std::map<std::string, core::DiskLatency> counted = read_sources();
    Result<std::map<std::string, core::DiskCounters>> next = collect::read_diskstats(root_);
    if (!next) {
        counters_at_.reset(); // a gap; the next reading starts anew
        return;
    }
    if (counters_at_) {
        const core::nanoseconds length = now.boot - *counters_at_;
        for (const auto& [disk, after] : *next) {
            const auto before = counters_.find(disk);
            const bool wanted = snapshot_valid_ && snapshot_.block_devices &&
                                snapshot_.block_devices->contains(disk) &&
                                snapshot_.block_devices->at(disk).partition_of.empty() &&
                                snapshot_.block_devices->at(disk).slaves.empty() &&
                                !disk.starts_with("loop") && !disk.starts_with("ram");
            if (before == counters_.end() || !wanted) {
                continue;
            }
            if (auto each = core::sample_between(before->second, after, now.boot, length)) {
                if (const auto exact = counted.find(disk); exact != counted.end()) {
                    each->distribution = core::flush_distribution(exact->second);
                    if (each->distribution) {
                        const auto& flushes = *exact->second.of(core::LatencyClass::Flush);
                        each->has_flush_counters = true;
                        each->flushes = flushes.count;
                        each->flush_time = flushes.sum;
                    }
                }
                core::FlushWatch& watch = memory_.flush[disk];
                const bool stalled_before = watch.ongoing.has_value();
                watch.add(*each);
                diagnose_wanted_ |= watch.ongoing.has_value() != stalled_before;
            }
        }
    }
    counters_ = std::move(*next);
    counters_at_ = now.boot;
}

void Manager::read_host_if_due(const Now& now) {
    const bool due = !host_read_ || now.boot - *host_read_ >= kHostEvery ||
                     (host_wanted_ && now.boot - *host_read_ >= kHostSpacing);
    if (!due || host_under_way_) {
        return;
    }
    host_wanted_ = false;
    host_under_way_ = host_worker_->post("reading the host", [this]() -> Mailbox::Completion {
        // Device commands go through the controllers' own workers.
        Result<core::HostSnapshot> snapshot =
            collect::collect_host(root_, admin_, {.nvme_commands = false});
        return [this, snapshot = std::move(snapshot)]() mutable { take_host(std::move(snapshot)); };
    });
    host_read_ = now.boot;
}

void Manager::take_host(Result<core::HostSnapshot> snapshot) {
    host_under_way_ = false;
    host_late_logged_ = false;
    if (!snapshot) {
        log::write(LOG_ERR, MessageId::StateProblem,
                   "Reading the host: " + snapshot.error().text());
        return;
    }
    snapshot_ = std::move(*snapshot);
    snapshot_valid_ = true;
    // Watches of disks that are gone end with them.
    if (snapshot_.block_devices) {
        std::erase_if(memory_.flush, [&](const auto& entry) {
            return !snapshot_.block_devices->contains(entry.first);
        });
    }
    const Now now = clocks();
    snapshot_.latency = sources_->shown(); // until the next second reads them again
    poll_drives(now);
    merge_drives();
    diagnose_wanted_ = true;
    diagnose_if_due(now);
}

void Manager::poll_drives(const Now& now) {
    if (!snapshot_valid_ || !snapshot_.controllers) {
        return;
    }
    std::erase_if(drives_,
                  [&](const auto& entry) { return !snapshot_.controllers->contains(entry.first); });
    for (const auto& [name, controller] : *snapshot_.controllers) {
        const std::string identity = controller.serial.value_or("") + '\n' +
                                     controller.address.value_or("") + '\n' +
                                     std::to_string(controller.cntlid.value_or(0));
        Drive& drive = drives_[name];
        if (!drive.worker || drive.identity != identity) {
            drive = Drive{};
            drive.identity = identity;
            drive.worker = std::make_unique<Worker>(name, *mailbox_);
        }
        const bool live = controller.state && *controller.state == "live";
        const bool due = !drive.asked || now.boot - *drive.asked >= kDriveEvery;
        if (!live || !due || !drive.worker->idle()) {
            continue;
        }
        std::vector<std::pair<std::string, std::uint32_t>> namespaces;
        for (const std::string& disk : controller.namespaces) {
            if (snapshot_.block_devices && snapshot_.block_devices->contains(disk)) {
                const Reading<std::uint64_t>& nsid = snapshot_.block_devices->at(disk).nsid;
                if (nsid) {
                    namespaces.emplace_back(disk, static_cast<std::uint32_t>(*nsid));
                }
            }
        }
        drive.asked = now.boot;
        drive.late_logged = false;
        (void)drive.worker->post( // idle, so its queue is not full
            "Identify and SMART log",
            [this, name = name, identity, namespaces]() -> Mailbox::Completion {
                DrivePages pages = read_drive(admin_, name, namespaces);
                return [this, name, identity, pages = std::move(pages)]() mutable {
                    const auto found = drives_.find(name);
                    if (found == drives_.end() || found->second.identity != identity) {
                        return; // the answer of a drive that is gone
                    }
                    found->second.pages = std::move(pages);
                    diagnose_wanted_ = true;
                };
            });
    }
}

void Manager::merge_drives() {
    if (!snapshot_.controllers) {
        return;
    }
    for (auto& [name, controller] : *snapshot_.controllers) {
        const auto found = drives_.find(name);
        if (found == drives_.end()) {
            continue;
        }
        const Drive& drive = found->second;
        if (drive.pages) {
            controller.identify = drive.pages->identify;
            controller.smart = drive.pages->smart;
            controller.identify_namespaces = drive.pages->namespaces;
        }
        const std::optional<Worker::Busy> busy = drive.worker->busy();
        controller.commands_pending.reset();
        if (busy) {
            controller.commands_pending = std::chrono::duration_cast<seconds>(busy->since_start);
        }
    }
}

void Manager::report_late_workers() {
    for (auto& [name, drive] : drives_) {
        const std::optional<Worker::Busy> busy = drive.worker->busy();
        if (busy && busy->since_start >= kDriveEvery && !drive.late_logged) {
            drive.late_logged = true;
            diagnose_wanted_ = true;
            log::write(LOG_WARNING, MessageId::WorkerLate,
                       fmt::format("{} has not answered for {}: {}", name,
                                   core::humane(busy->since_start), busy->what));
        }
    }
    const std::optional<Worker::Busy> busy = host_worker_->busy();
    if (busy && busy->since_start >= kHostEvery && !host_late_logged_) {
        host_late_logged_ = true;
        log::write(LOG_WARNING, MessageId::WorkerLate,
                   "The host has not been read for " + core::humane(busy->since_start) +
                       ": findings are as old as that");
    }
}

// ---- judging
// ----------------------------------------------------------------------------------------------------------

void Manager::diagnose_if_due(const Now& now) {
    if (!snapshot_valid_ || (!diagnose_wanted_ && now.boot - diagnosed_at_ < kDiagnoseEvery)) {
        return;
    }
    diagnose(now);
}

void Manager::diagnose(const Now& now) {
    diagnose_wanted_ = false;
    diagnosed_at_ = now.boot;
    merge_drives();
    snapshot_.now = now;
    snapshot_.uptime = std::chrono::duration_cast<seconds>(now.boot);
    core::Diagnosis next = core::diagnose(snapshot_, memory_, policy_);
    announce(next);
    memory_.since.clear();
    for (const core::Finding& finding : next.findings) {
        memory_.since[core::key_of(finding)] = finding.since.value_or(now.wall);
    }
    diagnosis_ = std::move(next);
    diagnosed_ = true;
    run_hooks(now);
    publish();
    act_on_plan();
}

void Manager::announce(const core::Diagnosis& next) {
    std::map<core::FindingKey, const core::Finding*> before;
    for (const core::Finding& finding : diagnosis_.findings) {
        before[core::key_of(finding)] = &finding;
    }
    for (const core::Finding& finding : next.findings) {
        const auto same = before.find(core::key_of(finding));
        const bool risen = same != before.end() && finding.severity < same->second->severity;
        if (same == before.end() || risen) {
            log::finding(MessageId::FindingRaised, finding);
            if (server_) {
                server_->finding_raised(finding);
            }
        }
        if (same != before.end()) {
            before.erase(same);
        }
    }
    for (const auto& [key, finding] : before) {
        log::finding(MessageId::FindingCleared, *finding);
        if (server_) {
            server_->finding_cleared(*finding);
        }
    }
}

void Manager::run_hooks(const Now& now) {
    for (const core::AlertEvent& event :
         core::step_alerts(alerts_, policy_.hooks, diagnosis_.findings, now.boot)) {
        nlohmann::ordered_json input;
        input["event"] = event.raised ? "raised" : "cleared";
        input["finding"] = report::finding_json(event.finding);
        const core::Hook& hook = policy_.hooks[event.hook];
        hooks_->run(hook.exec, hook.timeout, input.dump() + "\n");
    }
}

void Manager::show_trims() {
    model_.trims = memory_.trims;
    nlohmann::ordered_json trims = nlohmann::ordered_json::array();
    for (const core::TrimRecord& record : memory_.trims) {
        trims.push_back(report::trim_record_json(record));
    }
    model_.trims_json = trims.dump(2);
}

void Manager::publish() {
    model_.diagnosis = diagnosis_;
    model_.doctor_json = report::doctor_json(diagnosis_).dump(2);
    show_trims();
    model_.flush = &memory_.flush;
    model_.diagnosed = diagnosed_at_;
    refresh_jobs();
    if (server_) {
        server_->publish();
    }
    sd_notifyf(0, "STATUS=%s: %zu findings, %zu drives, %zu filesystems",
               std::string(core::to_string(diagnosis_.verdict)).c_str(), diagnosis_.findings.size(),
               diagnosis_.drives.size(), diagnosis_.filesystems.size());
}

void Manager::learn_baselines(const Now& now) {
    if (!snapshot_valid_ || now.boot - baselines_at_ < kBaselineEvery) {
        return;
    }
    baselines_at_ = now.boot;
    bool changed = false;
    for (const core::DriveView& drive : diagnosis_.drives) {
        for (const std::string& disk : drive.disks) {
            const auto watch = memory_.flush.find(disk);
            const std::string identity = core::drive_identity(drive);
            const auto known = memory_.baselines.find(identity);
            // Another firmware is another drive in this: what it costs is learned anew.
            if (watch == memory_.flush.end() || identity.empty() ||
                (known != memory_.baselines.end() && known->second.firmware == drive.firmware)) {
                continue;
            }
            if (std::optional<core::FlushBaseline> baseline =
                    core::baseline_candidate(watch->second, now.wall, drive.firmware)) {
                memory_.baselines[identity] = std::move(*baseline);
                changed = true;
            }
        }
    }
    if (changed) {
        (void)writer_->post( // a full queue: it is written with the next one
            "baselines",
            [directory = options_.state_directory,
             baselines = memory_.baselines]() -> Mailbox::Completion {
                const Result<Done> saved = state::save_baselines(directory, baselines);
                if (saved) {
                    return {};
                }
                return [text = saved.error().text()] {
                    log::write(LOG_WARNING, MessageId::StateProblem, "Baselines not kept: " + text);
                };
            });
    }
}

// ---- acting
// -----------------------------------------------------------------------------------------------------------

void Manager::act_on_plan() {
    const core::Plan plan = core::decide(snapshot_, diagnosis_, memory_, policy_);
    for (const core::Action& action : plan.actions) {
        if (action.kind != "trim") {
            continue;
        }
        const auto filesystem = std::find_if(
            diagnosis_.filesystems.begin(), diagnosis_.filesystems.end(),
            [&](const core::FilesystemView& each) { return each.mount == action.subject.name; });
        if (filesystem == diagnosis_.filesystems.end()) {
            continue;
        }
        const Result<std::uint64_t> started = start_trim(*filesystem, core::kEffectLongest);
        const std::string line = started ? std::string() : started.error().text();
        if (!started && std::exchange(put_off_[action.subject.name], line) != line) {
            log::write(LOG_NOTICE, MessageId::TrimEnded,
                       fmt::format("Trim of {} put off: {}", action.subject.name, line));
        }
    }
}

Result<std::uint64_t> Manager::trim(const std::string& mount,
                                    const std::map<std::string, bus::Value>& options) {
    seconds watch = core::kEffectLongest;
    for (const auto& [key, value] : options) {
        const std::uint64_t* number = std::get_if<std::uint64_t>(&value);
        if (key == "watch" && number != nullptr && *number <= 3600) {
            watch = seconds(static_cast<std::int64_t>(*number));
        } else {
            return Error::make(ErrorKind::Malformed,
                               "option " + key + " is not known or not a number of seconds");
        }
    }
    if (!diagnosed_) {
        return Error::make(ErrorKind::Denied,
                           "the host has not been read yet; try again in a moment");
    }
    const auto filesystem = std::find_if(
        diagnosis_.filesystems.begin(), diagnosis_.filesystems.end(),
        [&](const core::FilesystemView& each) {
            return std::find(each.mounts.begin(), each.mounts.end(), mount) != each.mounts.end();
        });
    if (filesystem == diagnosis_.filesystems.end()) {
        request_host_reading(); // it may have been mounted a moment ago
        return Error::make(ErrorKind::Malformed, "no filesystem is mounted at " + mount);
    }
    if (const std::optional<std::string> why =
            core::refuse_trim(snapshot_, diagnosis_, memory_, filesystem->mount)) {
        return Error::make(ErrorKind::Denied, *why);
    }
    return start_trim(*filesystem, watch);
}

Result<std::uint64_t> Manager::start_trim(const core::FilesystemView& filesystem, seconds watch) {
    for (const auto& [id, job] : jobs_) {
        // One marker for the host: a second trim would write over the first one's. And one verdict
        // at a time on a disk.
        const std::vector<std::string>& others = job->order().filesystem.disks;
        const bool same_disk = std::any_of(others.begin(), others.end(), [&](const auto& disk) {
            return std::find(filesystem.disks.begin(), filesystem.disks.end(), disk) !=
                   filesystem.disks.end();
        });
        if (job->trimming() || (!job->ended() && same_disk)) {
            return Error::make(
                ErrorKind::Denied,
                fmt::format("{} is being {} (job {}): one at a time", job->order().filesystem.mount,
                            job->trimming() ? "trimmed" : "watched after its trim", id));
        }
    }
    const core::Mount* mount = nullptr;
    if (snapshot_.mounts) {
        for (const core::Mount& each : *snapshot_.mounts) {
            if (each.mount_point == filesystem.mount) {
                mount = &each; // the last one covers those before
            }
        }
    }
    if (mount == nullptr || filesystem.stack.empty() || !snapshot_.block_devices) {
        return Error::make(ErrorKind::Denied,
                           "the devices below " + filesystem.mount + " are not known");
    }
    const auto device = snapshot_.block_devices->find(filesystem.stack.front());
    if (device == snapshot_.block_devices->end() || !device->second.size_bytes) {
        return Error::make(ErrorKind::Denied,
                           "the size of " + filesystem.stack.front() + " is not known");
    }
    // A range must not be smaller than what any layer below can discard at once.
    std::uint64_t granularity = 0;
    for (const std::string& name : filesystem.stack) {
        const auto layer = snapshot_.block_devices->find(name);
        if (layer != snapshot_.block_devices->end()) {
            granularity =
                std::max(granularity, layer->second.queue.discard_granularity.value_or(0));
        }
    }
    TrimOrder order;
    order.id = next_job_++;
    order.filesystem = filesystem;
    order.device = mount->device;
    order.geometry = core::trim_geometry(filesystem.type, *device->second.size_bytes, granularity,
                                         snapshot_.kernel.value_or(""));
    order.boot_id = snapshot_.boot_id.value_or("");
    order.watch_at_most = watch;
    for (const core::DriveView& drive : diagnosis_.drives) {
        const bool below =
            std::any_of(drive.disks.begin(), drive.disks.end(), [&](const auto& disk) {
                return std::find(filesystem.disks.begin(), filesystem.disks.end(), disk) !=
                       filesystem.disks.end();
            });
        if (below) {
            order.serials.push_back(drive.serial);
        }
    }
    // A run that the service's end cut off in this very boot goes on where it was.
    if (memory_.marker && memory_.marker->mount == filesystem.mount && !filesystem.uuid.empty() &&
        memory_.marker->fs_uuid == filesystem.uuid && memory_.marker->boot_id == order.boot_id &&
        memory_.marker->next_start < order.geometry.span) {
        order.resume_at = memory_.marker->next_start;
    }
    const std::uint64_t id = order.id;
    log::write(LOG_INFO, MessageId::TrimStarted,
               fmt::format("Trimming {} from offset {}", filesystem.mount, order.resume_at),
               {{"ACTION", "trim"}});
    auto job = std::make_unique<TrimJob>(*this, std::move(order));
    TrimJob& started = *job;
    jobs_[id] = std::move(job);
    started.start();
    return id;
}

Result<Done> Manager::cancel(std::uint64_t id) {
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) {
        return Error::make(ErrorKind::Malformed, "no such job");
    }
    if (job->second->phase() == TrimPhase::Trimming ||
        job->second->phase() == TrimPhase::Preparing) {
        clear_marker(); // cut off by will, not by accident
    }
    job->second->cancel("cancelled");
    return Done{};
}

Result<Done> Manager::reload() {
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld", [] {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        return static_cast<long long>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
    }());
    const Result<Done> loaded = load_policy();
    if (loaded) {
        log::write(LOG_INFO, MessageId::PolicyLoaded, "Policy loaded, mode " + model_.mode);
        diagnose_wanted_ = true;
        publish();
    } else {
        log::write(LOG_ERR, MessageId::PolicyRefused,
                   "Policy refused, the one in force stays: " + loaded.error().text());
    }
    sd_notify(0, "READY=1");
    return loaded;
}

std::optional<std::uint64_t> Manager::discarded_bytes(const std::string& disk) {
    const Result<std::map<std::string, core::DiskCounters>> counters =
        collect::read_diskstats(root_);
    if (!counters) {
        return std::nullopt;
    }
    const auto found = counters->find(disk);
    if (found == counters->end() || !found->second.discards) {
        return std::nullopt;
    }
    return found->second.discards->sectors * 512;
}

void Manager::save_marker(const core::TrimMarker& marker, std::function<void(Result<Done>)> then) {
    const bool posted = writer_->post(
        "trim marker",
        [this, directory = options_.state_directory, marker, then]() -> Mailbox::Completion {
            Result<Done> saved = state::save_marker(directory, marker);
            return [this, then, saved = std::move(saved)] {
                if (saved) {
                    // It took the place of whatever was cut off before; core refuses where that
                    // must not be.
                    memory_.marker.reset();
                    memory_.marker_lost = false;
                }
                then(saved);
            };
        });
    if (!posted) {
        mailbox_->post(
            [then] { then(Error::make(ErrorKind::Timeout, "the state disk does not answer")); });
    }
}

void Manager::clear_marker() {
    (void)writer_->post( // a marker that stays says "cut off", which is the safe side
        "trim marker", [directory = options_.state_directory]() -> Mailbox::Completion {
            const Result<Done> cleared = state::clear_marker(directory);
            if (cleared) {
                return {};
            }
            return [text = cleared.error().text()] {
                log::write(LOG_WARNING, MessageId::StateProblem,
                           "Trim marker not removed: " + text);
            };
        });
}

void Manager::job_changed(std::uint64_t id, bool ended) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) {
        return;
    }
    const TrimJob& job = *found->second;
    if (job.phase() == TrimPhase::Watching || ended) {
        keep_record(job.record());
        diagnose_wanted_ = true;
    }
    if (ended) {
        const core::TrimRecord& record = job.record();
        const std::string discarded = record.discarded_bytes
                                          ? core::humane_bytes(*record.discarded_bytes)
                                          : std::string("an unknown amount");
        log::write(
            job.phase() == TrimPhase::Done ? LOG_INFO : LOG_WARNING, MessageId::TrimEnded,
            fmt::format("Trim of {}: {}; {} requested by the filesystem, {} discarded at the "
                        "drive, {} ranges",
                        record.mount, record.outcome, core::humane_bytes(record.requested_bytes),
                        discarded, job.ranges()),
            {{"ACTION", "trim"}});
        if (record.effect && record.complete) {
            log::write(LOG_INFO, MessageId::TrimEffect,
                       fmt::format("Effect of the trim of {}: {}: {}", record.mount,
                                   core::to_string(record.effect->verdict), record.effect->why));
        }
    }
    refresh_jobs();
    show_trims(); // whoever is told that the job ended may ask for its record at once
    if (server_) {
        server_->publish();
    }
}

void Manager::keep_record(const core::TrimRecord& record) {
    const auto same =
        std::find_if(memory_.trims.begin(), memory_.trims.end(), [&](const core::TrimRecord& each) {
            return each.mount == record.mount && each.started == record.started;
        });
    if (same != memory_.trims.end()) {
        *same = record;
    } else {
        memory_.trims.push_back(record);
        if (memory_.trims.size() > kTrimRecords) {
            memory_.trims.erase(memory_.trims.begin());
        }
    }
    save_trims();
}

void Manager::save_trims() {
    (void)writer_->post( // a full queue: the next record writes them all
        "trim records",
        [directory = options_.state_directory, trims = memory_.trims]() -> Mailbox::Completion {
            const Result<Done> saved = state::save_trims(directory, trims);
            if (saved) {
                return {};
            }
            return [text = saved.error().text()] {
                log::write(LOG_WARNING, MessageId::StateProblem, "Trim records not kept: " + text);
            };
        });
}

void Manager::tick_jobs(const Now& now) {
    for (auto& [id, job] : jobs_) {
        job->tick();
    }
    const std::size_t count = jobs_.size();
    std::erase_if(jobs_, [&](const auto& entry) {
        const std::optional<BootTime> ended = entry.second->ended_at();
        return ended && now.boot - *ended >= kJobStays;
    });
    if (count != jobs_.size() || !jobs_.empty()) {
        refresh_jobs();
        if (server_) {
            server_->publish();
        }
    }
}

void Manager::refresh_jobs() {
    model_.jobs.clear();
    for (const auto& [id, job] : jobs_) {
        const core::TrimRecord& record = job->record();
        bus::JobView view;
        view.id = id;
        view.kind = "trim";
        view.subject = record.mount;
        switch (job->phase()) {
        case TrimPhase::Preparing:
        case TrimPhase::Trimming:
        case TrimPhase::Watching:
            view.state = "running";
            break;
        case TrimPhase::Done:
            view.state = "done";
            break;
        case TrimPhase::Failed:
            view.state = "failed";
            break;
        case TrimPhase::Cancelled:
            view.state = "cancelled";
            break;
        }
        view.progress = job->progress();
        view.result["phase"] = std::string(job->phase() == TrimPhase::Watching ? "watching"
                                           : job->trimming()                   ? "trimming"
                                                                               : "ended");
        view.result["ranges"] = std::uint64_t{job->ranges()};
        view.result["requested_bytes"] = record.requested_bytes;
        if (record.discarded_bytes) {
            view.result["discarded_bytes"] = *record.discarded_bytes;
        }
        if (job->ended()) {
            view.result["outcome"] = record.outcome;
            view.result["record"] = report::trim_record_json(record).dump();
        }
        if (record.effect) {
            view.result["verdict"] = std::string(core::to_string(record.effect->verdict));
            view.result["why"] = record.effect->why;
            view.result["confidence"] = record.effect->confidence;
        }
        model_.jobs.push_back(std::move(view));
    }
}

void Manager::write_metrics(const Now& now) {
    if (!diagnosed_ || now.boot - metrics_at_ < kMetricsEvery || !writer_->idle()) {
        return;
    }
    metrics_at_ = now.boot;
    report::MetricsInput input;
    input.diagnosis = diagnosis_;
    input.trims = memory_.trims;
    input.version = options_.version;
    for (const core::DriveView& drive : diagnosis_.drives) {
        for (const std::string& disk : drive.disks) {
            if (const auto found = counters_.find(disk); found != counters_.end()) {
                input.counters[disk] = found->second;
                input.drive_identity[disk] = core::drive_identity(drive);
                if (const auto latency = sources_->shown().find(disk);
                    latency != sources_->shown().end() && latency->second) {
                    input.latency[disk] = *latency->second;
                }
            }
        }
        if (snapshot_.controllers && snapshot_.controllers->contains(drive.name)) {
            const core::NvmeController& controller = snapshot_.controllers->at(drive.name);
            if (controller.smart) {
                input.smart[drive.name] = *controller.smart;
            }
        }
    }
    const std::string path = options_.runtime_directory + "/metrics.prom";
    (void)writer_->post("metrics", [path, input = std::move(input)]() -> Mailbox::Completion {
        const Result<Done> saved = state::replace_file(path, report::metrics_text(input), 0644);
        if (saved) {
            return {};
        }
        return [text = saved.error().text()] {
            log::write(LOG_WARNING, MessageId::StateProblem, "Metrics not written: " + text);
        };
    });
}

} // namespace

int run(const Options& options, const collect::HostRoot& root, nvme::NvmeAdmin& admin) {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGPIPE}) {
        sigaddset(&blocked, signal);
    }
    pthread_sigmask(SIG_BLOCK, &blocked,
                    nullptr); // before the first thread, so that all inherit it
    auto manager = std::make_unique<Manager>(options, root, admin);
    const Result<Done> ready = manager->set_up();
    int status = 1;
    if (ready) {
        status = manager->loop();
    } else {
        log::write(LOG_ERR, MessageId::Stopped, ready.error().text());
    }
    manager.reset();
    return status;
}

} // namespace nvmaint::loop
