// The TOML files of a recording: manifest.toml, stat.toml, probe.toml. Every error names
// file:line:column.
#pragma once

#include "collect/host_root.hpp"
#include "core/snapshot.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::collect {

// What a recording says about itself and its host. Keys: schema (1), now (RFC 3339),
// uptime_seconds, utc_offset_seconds, boot_id, kernel, container ("" = none), virtualization
// ("none", "kvm", ...), init (comm of PID 1), redactions. Only schema and now must be there; keys
// that this version does not know are passed over.
struct Manifest {
    core::WallTime now{};
    std::optional<core::seconds> uptime;
    std::optional<core::seconds> utc_offset;
    std::optional<std::string> boot_id;
    std::optional<std::string> kernel;
    std::optional<std::string> container;
    std::optional<std::string> virtualization;
    std::optional<std::string> init;
    std::vector<std::string> redactions;
    bool operator==(const Manifest&) const = default;
};

// By mount point. probe.toml:
//     ["/var/lib/db"]
//     size_bytes = 1000000000
//     free_bytes = 400000000
//     fitrim_errno = "EOPNOTSUPP"     # or a number; 0 = it succeeded
//     fitrim_bytes = 0
//     ["/mnt/gone"]
//     errno = "ESTALE"                # the probe itself failed
using Probes = std::map<std::string, Reading<core::FilesystemProbe>>;

[[nodiscard]] Result<Manifest> parse_manifest_toml(std::string_view text, const std::string& file);
[[nodiscard]] Result<std::map<std::string, StatEntry>> parse_stat_toml(std::string_view text,
                                                                       const std::string& file);
[[nodiscard]] Result<Probes> parse_probe_toml(std::string_view text, const std::string& file);

[[nodiscard]] std::string format_manifest_toml(const Manifest& manifest);
[[nodiscard]] std::string format_stat_toml(const std::map<std::string, StatEntry>& entries);
[[nodiscard]] std::string format_probe_toml(const Probes& probes);

// RFC 3339 down to the microsecond, where there are any.
[[nodiscard]] std::string format_time(core::WallTime time);

} // namespace nvmaint::collect
