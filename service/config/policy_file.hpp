// Policy files: TOML in, core::Policy out, or an error with its place.
#pragma once

#include "core/policy.hpp"
#include "values/result.hpp"

#include <string>
#include <vector>

namespace nvmaint::config {

struct PolicySource {
    std::string path; // as named in errors
    std::string text;
};

// Merges key by key in order, arrays replaced by later files. Errors: Malformed with
// "file:line:column: what", one line, for syntax errors, unknown keys, wrong types, wrong units and
// values out of range.
[[nodiscard]] Result<core::Policy> compile_policy(const std::vector<PolicySource>& sources);

// Reads <root>/usr/lib/nvmaint/policy.toml, <root>/etc/nvmaint/policy.toml and
// <root>/etc/nvmaint/policy.d/*.toml (sorted); each may be absent, none may be unreadable, larger
// than 1 MiB or not a regular file. Below a root other than "/" links are resolved within it.
// Errors: System (a link to nowhere included), Malformed.
[[nodiscard]] Result<std::vector<PolicySource>> read_policy_sources(const std::string& root);

// One file by name, as for `policy check FILE`. Errors: System, Malformed (not a regular file,
// larger than 1 MiB).
[[nodiscard]] Result<PolicySource> read_policy_source(const std::string& path);

[[nodiscard]] Result<core::Policy> load_policy(const std::string& root);

// The effective policy as TOML, every key with its value: what `nvmaintctl policy show` prints.
// Compiles to itself.
[[nodiscard]] std::string policy_to_toml(const core::Policy& policy);

} // namespace nvmaint::config
