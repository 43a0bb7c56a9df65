#include "core/drive_truth.hpp"

#include "core/trim_truth.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>

namespace nvmaint::core {
namespace {

// The kernel gives an admin command 60 s before it resets the controller (drivers/nvme/host/core.c,
// admin_timeout): what has waited that long is stuck.
constexpr seconds kAdminTimeout{60};

// Usual flush time by which a drive with a volatile cache shows its class: judgement from published
// figures. Drives with power-loss protection answer a flush within tens of microseconds, client
// drives in hundreds to thousands; between the two nothing is claimed.
constexpr double kProtectedBelowMs = 0.1;
constexpr double kClientAboveMs = 0.3;

Subject drive_subject(const std::string& name) {
    return {SubjectKind::Drive, name};
}
Subject service_subject() {
    return {SubjectKind::Service, "nvmaintd.service"};
}

template <class T>
bool is_denied(const Reading<T>& reading) {
    return !reading.has_value() && reading.error().kind == ErrorKind::System &&
           (reading.error().sys_errno == EACCES || reading.error().sys_errno == EPERM);
}

std::string log_source(const NvmeController& controller) {
    return "nvme/" + controller.name + "/log-02";
}

// ---- the drive as it is shown ----

std::string first_text(const Reading<std::string>& sysfs, const std::string& identify) {
    return sysfs && !sysfs->empty() ? *sysfs : identify;
}

const BlockDevice* disk_of(const HostSnapshot& snapshot, const std::string& name) {
    if (!snapshot.block_devices) {
        return nullptr;
    }
    const auto found = snapshot.block_devices->find(name);
    return found == snapshot.block_devices->end() ? nullptr : &found->second;
}

std::optional<double> in_ms(const std::optional<nanoseconds>& time) {
    return time ? std::optional<double>(static_cast<double>(time->count()) / 1e6) : std::nullopt;
}

void show_flush(const HostSnapshot& snapshot, const Memory& memory, DriveView& view) {
    view.flush_source_why = view.disks.empty() ? "no disk" : "counters of its disk were not read";
    for (const auto& name : view.disks) {
        const auto* disk = disk_of(snapshot, name);
        if (disk != nullptr && disk->counters) {
            const auto module = snapshot.latency.find(name);
            if (module != snapshot.latency.end() && module->second &&
                module->second->of(LatencyClass::Flush)) {
                const DiskLatency& latency = *module->second;
                const LatencyHistogram& flushes = *latency.of(LatencyClass::Flush);
                view.flush_source = "module";
                view.flush_source_why = latency.write_through
                                            ? "nvmaint.ko; the kernel sends this disk no flushes"
                                            : "nvmaint.ko: every flush, in a histogram";
                view.flush_p50_ms = in_ms(quantile(latency.shape, flushes, 0.5));
                view.flush_p99_ms = in_ms(quantile(latency.shape, flushes, 0.99));
                continue;
            }
            const bool counted = disk->counters->flushes.has_value();
            view.flush_source = counted ? "diskstats" : "none";
            view.flush_source_why = counted ? "the disk's counters have flush fields: means, no "
                                              "distribution"
                                            : "the kernel does not count flushes (it does since "
                                              "Linux 5.5)";
            if (module != snapshot.latency.end() && !module->second) {
                view.flush_source_why += "; nvmaint.ko: " + module->second.error().text();
            }
        }
        const auto watch = memory.flush.find(name);
        if (watch != memory.flush.end() && !view.flush_median_ms) {
            view.flush_median_ms = watch->second.usual_ms();
            view.flush_last_ms = watch->second.last_ms();
        }
    }
}

std::string class_of(const NvmeController& controller, const DriveView& view) {
    if (!controller.identify) {
        return "unknown";
    }
    if (!controller.identify->has_volatile_write_cache()) {
        return "power-loss-protected"; // what it acknowledged needs no flush
    }
    if (view.flush_median_ms) {
        if (*view.flush_median_ms < kProtectedBelowMs) {
            return "power-loss-protected";
        }
        if (*view.flush_median_ms > kClientAboveMs) {
            return "client";
        }
    }
    return "unknown";
}

DriveView show(const HostSnapshot& snapshot, const Memory& memory,
               const NvmeController& controller) {
    DriveView view{.name = controller.name, .disks = controller.namespaces};
    static const nvme::IdentifyController none;
    const auto& identify = controller.identify ? *controller.identify : none;
    view.model = first_text(controller.model, identify.model);
    view.firmware = first_text(controller.firmware, identify.firmware);
    view.serial = first_text(controller.serial, identify.serial);
    show_flush(snapshot, memory, view);
    view.drive_class = class_of(controller, view);
    return view;
}

// ---- health: only what the drive itself says is wrong now ----

bool spare_is_low(const nvme::SmartLog& smart) {
    const auto threshold = smart.available_spare_threshold;
    return threshold >= 1 && threshold <= 100 && smart.available_spare < threshold;
}

// A page without any figure, as simple targets answer it: it says nothing, also nothing good.
bool reports_nothing(const nvme::SmartLog& smart) {
    return smart.available_spare == 0 && smart.available_spare_threshold == 0 &&
           !smart.temperature_c && smart.percentage_used == 0 && smart.power_on_hours == 0 &&
           smart.data_units_written == 0;
}

Finding health_finding(const NvmeController& controller, const char* id, Severity severity,
                       std::string summary, std::string says, std::vector<std::string> fix) {
    return {.id = id,
            .severity = severity,
            .subject = drive_subject(controller.name),
            .summary = std::move(summary),
            .evidence = {{log_source(controller), std::move(says)}},
            .fix = std::move(fix)};
}

void judge_temperature(const NvmeController& controller, const nvme::SmartLog& smart,
                       std::vector<Finding>& findings) {
    const auto limit = controller.identify ? controller.identify->critical_temp_k : 0;
    const bool critical = limit != 0 && smart.temperature_c && *smart.temperature_c + 273 >= limit;
    findings.push_back(health_finding(
        controller, "health.temperature", critical ? Severity::Critical : Severity::Warning,
        fmt::format("{} warns of its temperature{}", controller.name,
                    smart.temperature_c ? fmt::format(": {} °C", *smart.temperature_c) : ""),
        fmt::format("critical warning 0x{:02x}, bit 1", smart.critical_warning),
        {"check airflow and heat sink; the warning also comes below a set minimum and follows "
         "hwmon's temp1_max: grep . /sys/class/nvme/" +
         controller.name + "/hwmon*/temp1_*"}));
}

void judge_health(const NvmeController& controller, std::vector<Finding>& findings) {
    if (!controller.smart) {
        return;
    }
    const auto& smart = *controller.smart;
    const auto& name = controller.name;
    const auto bit = [&](unsigned number) {
        return (smart.critical_warning & (1U << number)) != 0;
    };
    const auto warning = [&](unsigned number) {
        return fmt::format("critical warning 0x{:02x}, bit {}", smart.critical_warning, number);
    };
    const std::string spare = fmt::format("available spare {} %, threshold {} %",
                                          smart.available_spare, smart.available_spare_threshold);
    const std::vector<std::string> replace{"back up now and plan to replace the drive"};
    if (bit(0) || spare_is_low(smart)) {
        findings.push_back(health_finding(controller, "health.spare-low", Severity::Critical,
                                          name + " runs out of spare blocks", spare, replace));
    }
    if (bit(1)) {
        judge_temperature(controller, smart, findings);
    }
    if (bit(2)) {
        // Most drives that set it are merely past their rated endurance.
        const bool worn = smart.percentage_used >= 100 && !bit(0) && !spare_is_low(smart) &&
                          smart.media_errors == 0;
        findings.push_back(health_finding(
            controller, "health.reliability-degraded",
            worn ? Severity::Warning : Severity::Critical,
            worn ? fmt::format("{} is worn: {} % of its rated endurance used, no media errors",
                               name, smart.percentage_used)
                 : name + " says that its reliability is degraded",
            fmt::format("{}; used {} %, {}, media errors {}", warning(2), smart.percentage_used,
                        spare, smart.media_errors),
            replace));
    }
    if (bit(3)) {
        findings.push_back(health_finding(controller, "health.read-only", Severity::Critical,
                                          name + " has gone read-only", warning(3),
                                          {"copy the data off while it can be read, then replace "
                                           "the drive"}));
    }
    if (bit(4)) {
        findings.push_back(health_finding(
            controller, "health.plp-failed", Severity::Critical,
            name + " lost the backup of its volatile memory: what it acknowledged may be lost with "
                   "the power",
            warning(4), replace));
    }
}

std::string health_of(const NvmeController& controller, const std::vector<Finding>& findings) {
    std::optional<Severity> worst;
    for (const auto& finding : findings) {
        if (finding.id.starts_with("health.") &&
            finding.subject == drive_subject(controller.name)) {
            worst = worst ? std::min(*worst, finding.severity) : finding.severity;
        }
    }
    if (worst) {
        return std::string(to_string(*worst));
    }
    return controller.smart && !reports_nothing(*controller.smart) ? "ok" : "unknown";
}

// ---- controller and identity ----

void judge_controller(const HostSnapshot& snapshot, const NvmeController& controller,
                      std::vector<Finding>& findings) {
    if (controller.commands_pending && *controller.commands_pending >= kAdminTimeout) {
        findings.push_back({.id = "ctrl.timeout",
                            .severity = Severity::Warning,
                            .subject = drive_subject(controller.name),
                            .summary = fmt::format("{} has not answered for {}", controller.name,
                                                   humane(*controller.commands_pending)),
                            .evidence = {{"nvmaintd", "an admin command is still waiting"}},
                            .fix = {"dmesg | grep -i " + controller.name}});
    }
    if (controller.namespaces.empty() && controller.state && *controller.state == "live") {
        findings.push_back({.id = "ctrl.no-namespace",
                            .severity = Severity::Info,
                            .subject = drive_subject(controller.name),
                            .summary = controller.name + " has no namespace: no disk to look after",
                            .evidence = {{"sys/class/nvme/" + controller.name, "no namespace"}}});
    }
    for (const auto& [name, identify] : controller.identify_namespaces) {
        const auto* disk = disk_of(snapshot, name);
        if (identify && disk != nullptr && disk->size_bytes && *disk->size_bytes == 0 &&
            identify->size_blocks > 0) {
            findings.push_back(
                {.id = "ctrl.format-unusable",
                 .severity = Severity::Notice,
                 .subject = {SubjectKind::Namespace, name},
                 .summary =
                     fmt::format("{} is formatted in a way that the kernel cannot use", name),
                 .evidence = {{"sys/block/" + name + "/size", "0"},
                              {"nvme/" + controller.name + "/id-ns",
                               fmt::format("{} blocks of {} B with {} B of metadata, {}",
                                           identify->size_blocks, identify->block_bytes,
                                           identify->metadata_bytes,
                                           identify->metadata_extended ? "extended" : "separate")}},
                 .fix = {fmt::format("nvme id-ns /dev/{} -H   # the formats it offers", name),
                         fmt::format("nvme format /dev/{} --lbaf=N   # ERASES EVERYTHING on the "
                                     "namespace",
                                     name)}});
        }
    }
}

void judge_identity(const NvmeController& controller, const DriveView& view,
                    std::vector<Finding>& findings) {
    std::vector<Evidence> evidence;
    const auto look = [&](const char* field, const std::string& text) {
        if (text.find("\\x") != std::string::npos) {
            evidence.push_back({"nvme/" + controller.name, fmt::format("{}: {}", field, text)});
        }
    };
    look("model", controller.identify ? controller.identify->model : view.model);
    look("serial", controller.identify ? controller.identify->serial : view.serial);
    look("firmware", controller.identify ? controller.identify->firmware : view.firmware);
    if (!evidence.empty()) {
        findings.push_back(
            {.id = "ident.bad-string",
             .severity = Severity::Info,
             .subject = drive_subject(controller.name),
             .summary = controller.name +
                        " has bytes that are no text in its identity; they are shown "
                        "escaped",
             .evidence = evidence});
    }
}

// ---- what the service itself lacks ----

void judge_privilege(const HostSnapshot& snapshot, std::vector<Finding>& findings) {
    if (!snapshot.controllers || snapshot.controllers->empty()) {
        return;
    }
    std::vector<Evidence> evidence;
    for (const auto& [name, controller] : *snapshot.controllers) {
        const Error* error = is_denied(controller.identify) ? &controller.identify.error()
                             : is_denied(controller.smart)  ? &controller.smart.error()
                                                            : nullptr;
        if (error != nullptr) {
            evidence.push_back({"nvme/" + name, error->text()});
        }
    }
    const auto& missing = snapshot.missing_capabilities;
    const bool lacks_admin =
        std::find(missing.begin(), missing.end(), "CAP_SYS_ADMIN") != missing.end();
    if (evidence.empty() && !lacks_admin) {
        return;
    }
    std::string capabilities;
    for (const auto& name : missing) {
        capabilities += (capabilities.empty() ? "" : ", ") + name;
    }
    if (!capabilities.empty()) {
        evidence.push_back({"proc/self/status", "missing: " + capabilities});
    }
    findings.push_back(
        {.id = "svc.privilege",
         .severity = Severity::Warning,
         .subject = service_subject(),
         .summary = fmt::format("NVMe admin commands are refused: they need CAP_SYS_ADMIN and a "
                                "controller node that may be opened{}; the health of {} is unknown",
                                capabilities.empty() ? "" : " (missing: " + capabilities + ")",
                                snapshot.controllers->size() == 1 ? "the drive" : "the drives"),
         .evidence = evidence,
         .fix = {
             "run as root, or give the unit the capability: systemctl edit nvmaintd.service   # "
             "under [Service]: CapabilityBoundingSet=CAP_SYS_ADMIN CAP_DAC_OVERRIDE",
             "ls -l /dev/nvme[0-9]   # the controllers' nodes are root's alone by default"}});
}

// Why there is no module, where that is known. It is never needed: information, no more.
void judge_module(const HostSnapshot& snapshot, std::vector<Finding>& findings) {
    if (!snapshot.module || !snapshot.controllers || snapshot.controllers->empty()) {
        return;
    }
    const KernelModule& module = *snapshot.module;
    const std::string kernel = snapshot.kernel.value_or("");
    Finding f{.id = "svc.kmod", .severity = Severity::Info, .subject = service_subject()};
    constexpr std::string_view kInstead =
        "flush times come from the kernel's counters: means, no distribution";
    if (module.loaded) {
        const auto odd =
            std::find_if(snapshot.latency.begin(), snapshot.latency.end(), [](const auto& entry) {
                return !entry.second && (entry.second.error().kind == ErrorKind::Malformed ||
                                         entry.second.error().sys_errno == ENOTTY);
            });
        if (odd == snapshot.latency.end()) {
            return;
        }
        f.reason = "abi-mismatch";
        f.summary = fmt::format("the loaded nvmaint.ko is of another version: {}", kInstead);
        f.evidence = {{"dev/nvmaint", odd->second.error().text()}};
        f.fix = {"install the module of this version: apt-get install --reinstall nvmaint-dkms; "
                 "modprobe -r nvmaint; modprobe nvmaint"};
    } else if (!module.file || !module.source) {
        return; // where it lies could not be read: nothing follows
    } else if (module.file->empty() && !*module.source) {
        f.reason = "not-installed";
        f.summary = fmt::format("nvmaint.ko is not installed: {}", kInstead);
        f.evidence = {{"lib/modules/" + kernel, "no nvmaint.ko"}, {"usr/src", "no nvmaint-*"}};
        f.fix = {"apt-get install nvmaint-dkms   # optional; needs the kernel's headers",
                 "modprobe nvmaint"};
    } else if (module.file->empty()) {
        f.reason = "not-built";
        f.summary = fmt::format("nvmaint.ko was not built for Linux {}: {}", kernel, kInstead);
        f.evidence = {{"lib/modules/" + kernel, "no nvmaint.ko"},
                      {"usr/src", "its source is installed, or it was built for another kernel"}};
        f.fix = {
            fmt::format("apt-get install linux-headers-{}; dkms autoinstall -k {}", kernel, kernel),
            "modprobe nvmaint"};
    } else if (module.signatures_enforced ||
               (!module.lockdown.empty() && module.lockdown != "none")) {
        f.reason = "refused";
        f.summary = fmt::format("nvmaint.ko is built and not loaded, and this kernel takes signed "
                                "modules only: {}",
                                kInstead);
        f.evidence = {
            {*module.file, "is there"},
            {"sys/kernel/security/lockdown",
             module.lockdown.empty() ? "not there" : module.lockdown},
            {"sys/module/module/parameters/sig_enforce", module.signatures_enforced ? "Y" : "N"}};
        f.fix = {"modprobe nvmaint   # says whether its signature is taken",
                 "if it is refused, enrol the key that dkms signs with: mokutil --import "
                 "/var/lib/dkms/mok.pub, then reboot and confirm at the console"};
    } else {
        f.reason = "not-loaded";
        f.summary = fmt::format("nvmaint.ko is built and not loaded: {}", kInstead);
        f.evidence = {{*module.file, "is there"}, {"proc/modules", "no nvmaint"}};
        f.fix = {"modprobe nvmaint", "echo nvmaint > /etc/modules-load.d/nvmaint.conf   # at boot"};
    }
    findings.push_back(std::move(f));
}

void judge_service(const HostSnapshot& snapshot, std::vector<Finding>& findings) {
    const auto container = container_of(snapshot);
    if (!container.empty()) {
        findings.push_back(
            {.id = "svc.role",
             .severity = Severity::Info,
             .subject = service_subject(),
             .summary = fmt::format("this is a container ({}): trimming and the drives are matters "
                                    "of its host",
                                    container),
             .evidence = {{"container", container}}});
        return;
    }
    judge_privilege(snapshot, findings);
    judge_module(snapshot, findings);
    // 1 leaves it to privileged processes, and the service is one.
    if (snapshot.io_uring_disabled == "2") {
        findings.push_back({.id = "svc.io_uring",
                            .severity = Severity::Info,
                            .subject = service_subject(),
                            .summary = "io_uring is switched off on this host: probes use pwritev2 "
                                       "and fdatasync instead",
                            .evidence = {{"proc/sys/kernel/io_uring_disabled", "2"}}});
    }
}

} // namespace

DriveTruth judge_drives(const HostSnapshot& snapshot, const Memory& memory) {
    DriveTruth truth;
    judge_service(snapshot, truth.findings);
    if (!snapshot.controllers) {
        return truth;
    }
    for (const auto& [name, controller] : *snapshot.controllers) {
        auto view = show(snapshot, memory, controller);
        judge_health(controller, truth.findings);
        judge_controller(snapshot, controller, truth.findings);
        judge_identity(controller, view, truth.findings);
        view.health = health_of(controller, truth.findings);
        truth.drives.push_back(std::move(view));
    }
    std::sort(truth.drives.begin(), truth.drives.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return truth;
}

} // namespace nvmaint::core
