// The mount table and the files that list what should be mounted.
#pragma once

#include "collect/host_root.hpp"
#include "core/snapshot.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::collect {

// proc(5), /proc/pid/mountinfo. Errors: Malformed (line).
[[nodiscard]] Result<std::vector<core::Mount>> parse_mountinfo(std::string_view text);
// fstab(5) as libmount reads it: lines that it cannot parse are passed over, a file whose first
// line begins with two numbers is a mountinfo (util-linux libmount/src/tab_parse.c).
[[nodiscard]] std::vector<core::FstabEntry> parse_fstab(std::string_view text);
// crypttab(5). Lines without a device are passed over.
[[nodiscard]] std::vector<core::CrypttabEntry> parse_crypttab(std::string_view text);

[[nodiscard]] Reading<std::vector<core::Mount>> read_mounts(const HostRoot& root);
[[nodiscard]] Reading<std::vector<core::FstabEntry>> read_fstab(const HostRoot& root,
                                                                const std::string& path);
[[nodiscard]] Reading<std::vector<core::CrypttabEntry>> read_crypttab(const HostRoot& root);

} // namespace nvmaint::collect
