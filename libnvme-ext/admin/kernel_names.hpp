// Kernel names of NVMe devices and what sysfs says about who belongs to whom. A namespace's number
// is its subsystem's, not its controller's: "nvme0n1" may well be served by nvme1 (Linux
// drivers/nvme/host/core.c, nvme_alloc_ns()), so that links decide and names never do.
#pragma once

#include "values/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::nvme {

[[nodiscard]] bool is_controller_name(std::string_view name);  // "nvme0"
[[nodiscard]] bool is_namespace_name(std::string_view name);   // "nvme0n1"; no partitions
[[nodiscard]] bool is_hidden_path_name(std::string_view name); // "nvme0c1n1": a path, not a disk

// Names of the namespace nodes through which an admin command is sure to reach this very
// controller: its own namespaces, or the heads of a subsystem that has no other controller. A
// multipath head with several controllers sends admin commands down whichever path it likes (Linux
// drivers/nvme/host/ioctl.c, nvme_ns_head_ioctl()). Errors: System.
[[nodiscard]] Result<std::vector<std::string>> read_namespace_nodes(int root_fd,
                                                                    const std::string& controller);

} // namespace nvmaint::nvme
