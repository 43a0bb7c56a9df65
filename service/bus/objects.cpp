#include "bus/objects.hpp"

#include "bus/text.hpp"

#include <algorithm>
#include <cmath>

namespace nvmaint::bus {

namespace {

// D-Bus knows NaN and infinity, its readers (JSON, shell) do not.
double finite_or(double value, double otherwise) {
    return std::isfinite(value) ? value : otherwise;
}

// The running median moves a little with every second. Three digits are what an estimate from whole
// milliseconds of diskstats can bear, and they keep the bus quiet.
double to_three_digits(double value) {
    if (value == 0 || !std::isfinite(value)) {
        return value;
    }
    const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 2);
    return std::round(value / unit) * unit;
}

Dictionary to_bus_text(const Dictionary& values) {
    Dictionary clean;
    for (const auto& [key, value] : values) {
        if (const auto* text = std::get_if<std::string>(&value)) {
            clean[bus::to_bus_text(key)] = bus::to_bus_text(*text);
        } else {
            clean[bus::to_bus_text(key)] = value;
        }
    }
    return clean;
}

bool is_of(const core::TrimRecord& trim, const core::FilesystemView& filesystem) {
    if (!trim.fs_uuid.empty() && !filesystem.uuid.empty()) {
        return trim.fs_uuid == filesystem.uuid;
    }
    return trim.mount == filesystem.mount ||
           std::find(filesystem.mounts.begin(), filesystem.mounts.end(), trim.mount) !=
               filesystem.mounts.end();
}

Dictionary trim_dictionary(const core::TrimRecord& trim) {
    Dictionary values{
        {"started", core::to_rfc3339(trim.started)},
        {"outcome", trim.outcome},
        {"complete", trim.complete},
        {"requested_bytes", trim.requested_bytes},
    };
    if (trim.ended) {
        values["ended"] = core::to_rfc3339(*trim.ended);
    }
    if (trim.discarded_bytes) {
        values["discarded_bytes"] = *trim.discarded_bytes;
    }
    if (trim.effect) {
        values["verdict"] = std::string(core::to_string(trim.effect->verdict));
    }
    return to_bus_text(values);
}

} // namespace

ManagerObject manager_object(const Model& model) {
    return {
        .version = bus::to_bus_text(model.version),
        .mode = bus::to_bus_text(model.mode),
        .policy_files = bus::to_bus_text(model.policy_files),
        .verdict = std::string(core::to_string(model.diagnosis.verdict)),
    };
}

DriveObject drive_object(const core::DriveView& drive) {
    return {
        .name = bus::to_bus_text(drive.name),
        .model = bus::to_bus_text(drive.model),
        .firmware = bus::to_bus_text(drive.firmware),
        .serial = bus::to_bus_text(drive.serial),
        .disks = bus::to_bus_text(drive.disks),
        .drive_class = bus::to_bus_text(drive.drive_class),
        .flush_source = bus::to_bus_text(drive.flush_source),
        .flush_source_reason = bus::to_bus_text(drive.flush_source_why),
        .health = bus::to_bus_text(drive.health),
        .flush_median_ms = finite_or(to_three_digits(drive.flush_median_ms.value_or(-1)), -1),
        .flush_last_ms = finite_or(drive.flush_last_ms.value_or(-1), -1),
    };
}

FilesystemObject filesystem_object(const core::FilesystemView& filesystem,
                                   const std::vector<core::TrimRecord>& trims) {
    FilesystemObject object{
        .mount = bus::to_bus_text(filesystem.mount),
        .mounts = bus::to_bus_text(filesystem.mounts),
        .source = bus::to_bus_text(filesystem.source),
        .type = bus::to_bus_text(filesystem.type),
        .uuid = bus::to_bus_text(filesystem.uuid),
        .stack = bus::to_bus_text(filesystem.stack),
        .disks = bus::to_bus_text(filesystem.disks),
        .trim_state = std::string(core::to_string(filesystem.trim)),
        .trim_tier = filesystem.tier,
        .trim_reason = bus::to_bus_text(filesystem.why),
        .last_trim = {},
    };
    const auto last = std::find_if(trims.rbegin(), trims.rend(), [&](const core::TrimRecord& trim) {
        return is_of(trim, filesystem);
    });
    if (last != trims.rend()) {
        object.last_trim = trim_dictionary(*last);
    }
    return object;
}

JobObject job_object(const JobView& job) {
    return {
        .id = job.id,
        .kind = bus::to_bus_text(job.kind),
        .subject = bus::to_bus_text(job.subject),
        .state = bus::to_bus_text(job.state),
        .progress = std::clamp(finite_or(job.progress, 0), 0.0, 1.0),
        .result = to_bus_text(job.result),
    };
}

std::vector<FlushPoint> flush_series(const Model& model, const std::string& disk) {
    std::vector<FlushPoint> points;
    if (model.flush == nullptr || !model.flush->contains(disk)) {
        return points;
    }
    using Seconds = std::chrono::duration<double>;
    for (const core::FlushSample& sample : model.flush->at(disk).recent) {
        if (sample.flushes > 0) {
            points.push_back(
                {.seconds = Seconds(sample.end - model.diagnosed).count(),
                 .milliseconds = sample.flush_time.count() / static_cast<double>(sample.flushes)});
        }
    }
    return points;
}

std::string real_mount(const Model& model, const std::string& shown) {
    std::string escaped;
    for (const core::FilesystemView& filesystem : model.diagnosis.filesystems) {
        for (const std::string& mount : filesystem.mounts) {
            if (mount == shown) {
                return shown;
            }
            if (bus::to_bus_text(mount) == shown) {
                escaped = mount;
            }
        }
    }
    return escaped.empty() ? shown : escaped;
}

} // namespace nvmaint::bus
