#include "collect/environment.hpp"

#include "collect/text.hpp"

#include <array>
#include <cerrno>
#include <ctime>

namespace nvmaint::collect {
namespace {

// Bits of CapEff (linux/capability.h).
constexpr unsigned kCapDacOverride = 1;
constexpr unsigned kCapDacReadSearch = 2;
constexpr unsigned kCapSysAdmin = 21;

core::nanoseconds read_clock(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return core::seconds(now.tv_sec) + core::nanoseconds(now.tv_nsec);
}

Manifest live_manifest() {
    Manifest manifest;
    const core::nanoseconds wall = read_clock(CLOCK_REALTIME);
    manifest.now = core::WallTime(std::chrono::floor<core::microseconds>(wall));
    manifest.uptime = std::chrono::floor<core::seconds>(read_clock(CLOCK_BOOTTIME));
    const std::time_t seconds = std::chrono::floor<core::seconds>(wall).count();
    std::tm local{};
    if (localtime_r(&seconds, &local) != nullptr) {
        manifest.utc_offset = core::seconds(local.tm_gmtoff);
    }
    return manifest;
}

// The value of a line "Key:\tvalue" in /proc/PID/status.
std::string_view status_field(std::string_view status, std::string_view key) {
    for (const std::string_view line : split_lines(status)) {
        if (line.starts_with(key) && line.substr(key.size()).starts_with(':')) {
            return line.substr(key.size() + 1);
        }
    }
    return {};
}

struct Hypervisor {
    std::string_view text;
    std::string_view name;
};
// systemd src/basic/virt.c, dmi_vendors.
constexpr std::array<Hypervisor, 12> kHypervisors = {{
    {"KVM", "kvm"},
    {"OpenStack", "kvm"},
    {"KubeVirt", "kvm"},
    {"Amazon EC2", "amazon"},
    {"QEMU", "qemu"},
    {"VMware", "vmware"},
    {"VMW", "vmware"},
    {"innotek GmbH", "oracle"},
    {"VirtualBox", "oracle"},
    {"Xen", "xen"},
    {"Bochs", "bochs"},
    {"Parallels", "parallels"},
}};

} // namespace

Result<Manifest> read_manifest(const HostRoot& root) {
    if (root.is_live()) {
        return live_manifest();
    }
    static const std::string kPath = "manifest.toml";
    const Result<std::string> text = root.read(kPath);
    if (!text) {
        return text.error().kind == ErrorKind::NotRecorded ? Error::system(ENOENT, kPath)
                                                           : text.error();
    }
    return parse_manifest_toml(*text, kPath);
}

Result<std::string> detect_container(const HostRoot& root, const Reading<std::string>& init) {
    TRY(told, root.read_if_there("run/systemd/container"));
    if (told) {
        const std::vector<std::string_view> words = split_fields(*told, " \t\r\n");
        return words.empty() ? std::string("other") : std::string(words.front());
    }
    const Result<std::optional<std::string>> environment = root.read_if_there("proc/1/environ");
    if (environment && *environment) {
        for (const std::string_view variable : split_exactly(**environment, '\0')) {
            if (variable.starts_with("container=")) {
                const std::string_view name = variable.substr(10);
                return name.empty() ? std::string("other") : std::string(name);
            }
        }
    }
    for (const auto& [file, name] :
         {std::pair("run/.containerenv", "podman"), std::pair(".dockerenv", "docker")}) {
        TRY(marker, root.read_if_there(file));
        if (marker) {
            return std::string(name);
        }
    }
    // systemd as PID 1 leaves its file in every container; others are known by their environment.
    if (!environment && !(init && *init == "systemd")) {
        return environment.error();
    }
    return std::string();
}

Result<std::string> detect_virtualization(const HostRoot& root) {
    TRY(type, root.read_if_there("sys/hypervisor/type"));
    if (type && type->starts_with("xen")) {
        return std::string("xen");
    }
    for (const char* name :
         {"product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"}) {
        TRY(text, root.read_if_there(std::string("sys/class/dmi/id/") + name));
        for (const Hypervisor& hypervisor : kHypervisors) {
            if (text && text->find(hypervisor.text) != std::string::npos) {
                return std::string(hypervisor.name);
            }
        }
        // Microsoft and Google also make real machines.
        if (text && text->starts_with("Virtual Machine")) {
            return std::string("microsoft");
        }
        if (text && text->starts_with("Google Compute Engine")) {
            return std::string("google");
        }
    }
    TRY(processors, root.read_if_there("proc/cpuinfo"));
    if (!processors) {
        return Error::make(ErrorKind::NotRecorded, "proc/cpuinfo");
    }
    for (const std::string_view line : split_lines(*processors)) {
        if (line.starts_with("flags")) {
            for (const std::string_view flag : split_fields(line)) {
                if (flag == "hypervisor") {
                    return std::string("vm-other");
                }
            }
            break;
        }
    }
    return std::string("none");
}

std::vector<std::string> missing_capabilities(std::string_view status) {
    std::vector<std::string> missing;
    const std::vector<std::string_view> mask = split_fields(status_field(status, "CapEff"));
    const std::vector<std::string_view> users = split_fields(status_field(status, "Uid"));
    if (mask.empty() || users.size() < 2) {
        return missing;
    }
    std::uint64_t effective = 0;
    const auto [end, problem] = std::from_chars(
        mask.front().data(), mask.front().data() + mask.front().size(), effective, 16);
    if (problem != std::errc() || end != mask.front().data() + mask.front().size()) {
        return missing;
    }
    const auto has = [&](unsigned bit) { return (effective >> bit & 1U) != 0; };
    if (!has(kCapSysAdmin)) {
        missing.emplace_back("CAP_SYS_ADMIN");
    }
    if (!has(kCapDacReadSearch) && !has(kCapDacOverride) && users[1] != "0") {
        missing.emplace_back("CAP_DAC_READ_SEARCH");
    }
    return missing;
}

} // namespace nvmaint::collect
