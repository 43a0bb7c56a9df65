#include "report.hpp"

#include "escape.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <utility>

namespace nvmaint::report {

namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

constexpr double milliseconds_per_second = 1000;
constexpr std::uint64_t sector_bytes = 512; // of the block layer's counters, on any disk
constexpr double data_unit_bytes = 512000;  // NVM Express Base 2.0, SMART log: 1000 x 512
constexpr double seconds_per_hour = 3600;
constexpr double nanoseconds_per_second = 1e9;

// A trim proves that space reaches the drive when the discard counters of the disks moved by at
// least this share of what the filesystem asked for. Judgement: rounding to the granularity of the
// device takes a little of each extent away, a layer that swallows discards takes all of them.
constexpr double proving_share = 0.5;

// Label values: backslash, quote and newline escaped; always UTF-8 (exposition format 0.0.4).
std::string label_text(std::string_view value) {
    std::string out;
    for (char c : utf8_text(value)) {
        if (c == '\n') {
            out += "\\n";
            continue;
        }
        if (c == '\\' || c == '"') {
            out += '\\';
        }
        out += c;
    }
    return out;
}

// One metric family: its HELP and TYPE lines are written before the first sample, and not at all
// where there is none.
class Family {
  public:
    Family(std::string& out, std::string_view name, std::string_view type, std::string_view help)
        : out_(out), name_(name), type_(type), help_(help) {}
    Family(const Family&) = delete;
    Family& operator=(const Family&) = delete;

    void sample(const Labels& labels, double value) {
        std::string series(name_);
        for (std::size_t i = 0; i < labels.size(); ++i) {
            series += fmt::format("{}{}=\"{}\"", i == 0 ? "{" : ",", labels[i].first,
                                  label_text(labels[i].second));
        }
        series += labels.empty() ? "" : "}";
        // A series that is there twice makes the whole page unreadable.
        if (!std::isfinite(value) || !written_.insert(series).second) {
            return;
        }
        if (written_.size() == 1) {
            out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help_, name_, type_);
        }
        out_ += fmt::format("{} {}\n", series, value);
    }
    void sample(const Labels& labels, std::uint64_t value) {
        sample(labels, static_cast<double>(value));
    }

  private:
    std::string& out_;
    std::string_view name_;
    std::string_view type_;
    std::string_view help_;
    std::set<std::string> written_;
};

std::string identity_of(const MetricsInput& input, const std::string& disk) {
    const auto found = input.drive_identity.find(disk);
    return found == input.drive_identity.end() ? std::string() : found->second;
}

// The `drive` label of a controller: that of a disk it serves, for it has one identity only.
std::string controller_identity(const MetricsInput& input, const std::string& controller) {
    for (const core::DriveView& drive : input.diagnosis.drives) {
        if (drive.name != controller) {
            continue;
        }
        for (const std::string& disk : drive.disks) {
            if (std::string identity = identity_of(input, disk); !identity.empty()) {
                return identity;
            }
        }
        return core::drive_identity(drive);
    }
    return {};
}

void write_service(std::string& out, const MetricsInput& input) {
    Family(out, "nvmaint_build_info", "gauge", "Version of the service; always 1.")
        .sample({{"version", input.version}}, 1.0);
    Family(out, "nvmaint_diagnosis_timestamp_seconds", "gauge",
           "When the host was last judged, in seconds since 1970.")
        .sample({}, std::chrono::duration<double>(input.diagnosis.now.time_since_epoch()).count());
    Family finding(out, "nvmaint_finding", "gauge",
                   "1 for each finding that stands; a finding that ended has no series.");
    for (const core::Finding& active : input.diagnosis.findings) {
        finding.sample({{"id", active.id},
                        {"reason", active.reason},
                        {"severity", std::string(core::to_string(active.severity))},
                        {"subject_kind", std::string(core::to_string(active.subject.kind))},
                        {"subject", active.subject.name}},
                       1.0);
    }
    Family trim(out, "nvmaint_filesystem_trim_state", "gauge",
                "1 for the trim state that each filesystem is in.");
    for (const core::FilesystemView& filesystem : input.diagnosis.filesystems) {
        trim.sample(
            {{"mount", filesystem.mount}, {"state", std::string(core::to_string(filesystem.trim))}},
            1.0);
    }
}

void write_drives(std::string& out, const MetricsInput& input) {
    Family info(out, "nvmaint_drive_info", "gauge",
                "What a drive is and where its flush times come from; always 1.");
    for (const core::DriveView& drive : input.diagnosis.drives) {
        info.sample({{"drive", controller_identity(input, drive.name)},
                     {"device", drive.name},
                     {"model", drive.model},
                     {"firmware", drive.firmware},
                     {"class", drive.drive_class},
                     {"flush_source", drive.flush_source}},
                    1.0);
    }
    Family usual(out, "nvmaint_flush_usual_seconds", "gauge",
                 "How long a flush usually takes: median of the means of recent seconds that were "
                 "not stalled.");
    for (const core::DriveView& drive : input.diagnosis.drives) {
        if (drive.flush_median_ms) {
            usual.sample(
                {{"drive", controller_identity(input, drive.name)}, {"device", drive.name}},
                *drive.flush_median_ms / milliseconds_per_second);
        }
    }
}

// One counter family over all disks; `value` gives nothing where the kernel does not count it.
template <class Value>
void write_counter(std::string& out, const MetricsInput& input, std::string_view name,
                   std::string_view help, Value value) {
    Family family(out, name, "counter", help);
    for (const auto& [disk, counters] : input.counters) {
        if (const std::optional<double> counted = value(counters)) {
            family.sample({{"drive", identity_of(input, disk)}, {"device", disk}}, *counted);
        }
    }
}

void write_counters(std::string& out, const MetricsInput& input) {
    using Counters = core::DiskCounters;
    using Sample = std::optional<double>;
    const auto seconds = [](std::uint64_t ms) {
        return static_cast<double>(ms) / milliseconds_per_second;
    };
    const auto bytes = [](std::uint64_t sectors) {
        return static_cast<double>(sectors) * static_cast<double>(sector_bytes);
    };
    const auto counter = [&](std::string_view name, std::string_view help, auto value) {
        write_counter(out, input, name, help, value);
    };
    counter("nvmaint_flushes_total", "Flushes that the disk completed.", [](const Counters& c) {
        return c.flushes ? Sample(static_cast<double>(c.flushes->count)) : std::nullopt;
    });
    counter("nvmaint_flush_seconds_total",
            "Time that completed flushes took, summed, by the kernel's counters. They have no "
            "distribution: where nvmaint.ko counts, there is a histogram too.",
            [&](const Counters& c) {
                return c.flushes ? Sample(seconds(c.flushes->ms)) : std::nullopt;
            });
    counter("nvmaint_discards_total", "Discard requests that the disk completed.",
            [](const Counters& c) {
                return c.discards ? Sample(static_cast<double>(c.discards->count)) : std::nullopt;
            });
    counter("nvmaint_discarded_bytes_total", "Bytes that the disk was told are free.",
            [&](const Counters& c) {
                return c.discards ? Sample(bytes(c.discards->sectors)) : std::nullopt;
            });
    counter("nvmaint_discard_seconds_total", "Time that completed discards took, summed.",
            [&](const Counters& c) {
                return c.discards ? Sample(seconds(c.discards->ms)) : std::nullopt;
            });
    counter("nvmaint_writes_total", "Writes that the disk completed.",
            [](const Counters& c) { return Sample(static_cast<double>(c.writes)); });
    counter("nvmaint_written_bytes_total", "Bytes written to the disk.",
            [&](const Counters& c) { return Sample(bytes(c.write_sectors)); });
    counter("nvmaint_write_seconds_total", "Time that completed writes took, summed.",
            [&](const Counters& c) { return Sample(seconds(c.write_ms)); });
    counter("nvmaint_reads_total", "Reads that the disk completed.",
            [](const Counters& c) { return Sample(static_cast<double>(c.reads)); });
    counter("nvmaint_read_bytes_total", "Bytes read from the disk.",
            [&](const Counters& c) { return Sample(bytes(c.read_sectors)); });
    counter("nvmaint_read_seconds_total", "Time that completed reads took, summed.",
            [&](const Counters& c) { return Sample(seconds(c.read_ms)); });
    Family in_flight(out, "nvmaint_requests_in_flight", "gauge",
                     "Requests that the disk is working on.");
    for (const auto& [disk, counters] : input.counters) {
        in_flight.sample({{"drive", identity_of(input, disk)}, {"device", disk}},
                         counters.in_flight);
    }
}

// One limit an octave, from 1.024 us to 68.7 s: counts at them are exact, and a series of each of
// the 416 buckets between them would be more than anybody stores.
void write_histogram(std::string& out, const MetricsInput& input, core::LatencyClass kind,
                     const std::string& name, std::string_view help) {
    bool begun = false;
    for (const auto& [disk, latency] : input.latency) {
        const std::optional<core::LatencyHistogram>& counted = latency.of(kind);
        if (!counted || counted->buckets.size() != latency.shape.buckets()) {
            continue;
        }
        if (!begun) {
            out += fmt::format("# HELP {} {}\n# TYPE {} histogram\n", name, help, name);
            begun = true;
        }
        const std::string labels = fmt::format(
            "drive=\"{}\",device=\"{}\"", label_text(identity_of(input, disk)), label_text(disk));
        std::uint64_t below = 0;
        const std::size_t octave = std::size_t{1} << latency.shape.sub_bits;
        for (std::size_t i = 0; i + 1 < counted->buckets.size(); ++i) {
            below += counted->buckets[i];
            if (i % octave == 0) {
                out += fmt::format(
                    "{}_bucket{{{},le=\"{:.9g}\"}} {}\n", name, labels,
                    static_cast<double>(latency.shape.high_ns(i)) / nanoseconds_per_second, below);
            }
        }
        // Read one after the other while requests complete: the buckets are what adds up.
        below += counted->buckets.back();
        out +=
            fmt::format("{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n"
                        "{0}_count{{{1}}} {2}\n",
                        name, labels, below, std::chrono::duration<double>(counted->sum).count());
    }
}

void write_latency(std::string& out, const MetricsInput& input) {
    using core::LatencyClass;
    write_histogram(out, input, LatencyClass::Flush, "nvmaint_flush_latency_seconds",
                    "How long the disk took for a flush, counted by nvmaint.ko.");
    write_histogram(out, input, LatencyClass::FlushWait, "nvmaint_flush_wait_latency_seconds",
                    "How long a submitter waited for its flush, other flushes included.");
    write_histogram(out, input, LatencyClass::FuaWrite, "nvmaint_fua_write_latency_seconds",
                    "How long the disk took for a write with FUA.");
    write_histogram(out, input, LatencyClass::Write, "nvmaint_write_latency_seconds",
                    "How long the disk took for a write without FUA.");
    write_histogram(out, input, LatencyClass::Read, "nvmaint_read_latency_seconds",
                    "How long the disk took for a read.");
    write_histogram(out, input, LatencyClass::Discard, "nvmaint_discard_latency_seconds",
                    "How long the disk took for a discard.");
}

void write_trims(std::string& out, const MetricsInput& input) {
    std::map<std::string, const core::TrimRecord*> last;
    std::map<std::string, core::WallTime> proven;
    for (const core::TrimRecord& record : input.trims) {
        if (!record.ended) {
            continue;
        }
        last[record.mount] = &record;
        if (record.complete && record.discarded_bytes && *record.discarded_bytes > 0 &&
            static_cast<double>(*record.discarded_bytes) >=
                proving_share * static_cast<double>(record.requested_bytes)) {
            proven[record.mount] = *record.ended;
        }
    }
    const auto seconds = [](core::WallTime time) {
        return std::chrono::duration<double>(time.time_since_epoch()).count();
    };
    Family last_proven(out, "nvmaint_trim_last_proven_timestamp_seconds", "gauge",
                       "When the last trim of the filesystem ended that the discard counters of "
                       "its disks bear out, in seconds since 1970.");
    for (const auto& [mount, ended] : proven) {
        last_proven.sample({{"mount", mount}}, seconds(ended));
    }
    Family last_ended(out, "nvmaint_trim_last_end_timestamp_seconds", "gauge",
                      "When the last trim of the filesystem ended, in seconds since 1970.");
    for (const auto& [mount, record] : last) {
        last_ended.sample({{"mount", mount}}, seconds(*record->ended));
    }
    Family complete(out, "nvmaint_trim_last_complete", "gauge",
                    "1 if the last trim of the filesystem went through all of it, else 0.");
    for (const auto& [mount, record] : last) {
        complete.sample({{"mount", mount}}, record->complete ? 1.0 : 0.0);
    }
    Family requested(out, "nvmaint_trim_requested_bytes", "gauge",
                     "Bytes that the filesystem asked to be discarded in its last trim: an upper "
                     "bound, no proof.");
    for (const auto& [mount, record] : last) {
        requested.sample({{"mount", mount}}, record->requested_bytes);
    }
    Family discarded(out, "nvmaint_trim_discarded_bytes", "gauge",
                     "Bytes by which the discard counters of the disks moved during the last trim "
                     "of the filesystem.");
    for (const auto& [mount, record] : last) {
        if (record->discarded_bytes) {
            discarded.sample({{"mount", mount}}, *record->discarded_bytes);
        }
    }
}

void write_health(std::string& out, const MetricsInput& input) {
    using Smart = nvme::SmartLog;
    using Sample = std::optional<double>;
    // A controller that reports neither spare nor its threshold reports no wear either: emulated
    // and fabrics controllers leave the whole group zero.
    const auto reports_wear = [](const Smart& smart) {
        return smart.available_spare != 0 || smart.available_spare_threshold != 0;
    };
    const auto metric = [&](std::string_view name, std::string_view type, std::string_view help,
                            auto value) {
        Family family(out, name, type, help);
        for (const auto& [controller, smart] : input.smart) {
            if (const Sample reported = value(smart)) {
                family.sample(
                    {{"drive", controller_identity(input, controller)}, {"device", controller}},
                    *reported);
            }
        }
    };
    metric("nvmaint_health_critical_warning", "gauge",
           "Critical warning bits of the SMART log: 1 spare, 2 temperature, 4 reliability, 8 read "
           "only, 16 backup, 32 persistent memory.",
           [](const Smart& s) { return Sample(s.critical_warning); });
    metric(
        "nvmaint_health_temperature_celsius", "gauge", "Composite temperature.",
        [](const Smart& s) { return s.temperature_c ? Sample(*s.temperature_c) : std::nullopt; });
    metric("nvmaint_health_available_spare_ratio", "gauge",
           "Spare capacity that is left, 1 for all of it.", [&](const Smart& s) {
               return reports_wear(s) ? Sample(s.available_spare / 100.0) : std::nullopt;
           });
    metric("nvmaint_health_available_spare_threshold_ratio", "gauge",
           "Share of the spare capacity below which the drive warns.", [&](const Smart& s) {
               return reports_wear(s) ? Sample(s.available_spare_threshold / 100.0) : std::nullopt;
           });
    metric("nvmaint_health_percentage_used_ratio", "gauge",
           "Share of the drive's rated life that is used; may exceed 1, ends at 2.55.",
           [&](const Smart& s) {
               return reports_wear(s) || s.percentage_used != 0 ? Sample(s.percentage_used / 100.0)
                                                                : std::nullopt;
           });
    metric("nvmaint_health_data_units_written_bytes_total", "counter",
           "Bytes the host wrote over the drive's life, in units of 512000 rounded up.",
           [](const Smart& s) {
               return s.data_units_written != 0
                          ? Sample(static_cast<double>(s.data_units_written) * data_unit_bytes)
                          : std::nullopt;
           });
    metric("nvmaint_health_data_units_read_bytes_total", "counter",
           "Bytes the host read over the drive's life, in units of 512000 rounded up.",
           [](const Smart& s) {
               return s.data_units_read != 0
                          ? Sample(static_cast<double>(s.data_units_read) * data_unit_bytes)
                          : std::nullopt;
           });
    metric("nvmaint_health_media_errors_total", "counter",
           "Errors of data integrity that the drive could not recover.",
           [](const Smart& s) { return Sample(static_cast<double>(s.media_errors)); });
    metric("nvmaint_health_unsafe_shutdowns_total", "counter",
           "Times the drive lost power without being told.",
           [](const Smart& s) { return Sample(static_cast<double>(s.unsafe_shutdowns)); });
    metric("nvmaint_health_power_on_seconds_total", "counter",
           "Time the drive was powered, counted in hours; may leave out low-power time.",
           [](const Smart& s) {
               return s.power_on_hours != 0 || s.power_cycles != 0
                          ? Sample(static_cast<double>(s.power_on_hours) * seconds_per_hour)
                          : std::nullopt;
           });
}

} // namespace

std::string metrics_text(const MetricsInput& input) {
    std::string out;
    write_service(out, input);
    write_drives(out, input);
    write_counters(out, input);
    write_latency(out, input);
    write_trims(out, input);
    write_health(out, input);
    return out;
}

} // namespace nvmaint::report
