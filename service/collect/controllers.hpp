// NVMe controllers, and which disks are whose. Links of sysfs decide, names never do: "nvme0n1" may
// be served by nvme1. In this order: the controller's folder holds the namespace, or a hidden path
// to it; the disk's `device` link leads to the controller, or to a subsystem that links to it. A
// recording without any of those is helped by serial numbers, and by there being one controller.
#pragma once

#include "admin/nvme_admin.hpp"
#include "collect/block.hpp"
#include "collect/host_root.hpp"
#include "core/snapshot.hpp"

#include <map>
#include <string>

namespace nvmaint::collect {

// Fills in nvme_controller of the block devices, too. With `commands`, Identify and the SMART log
// are asked of every controller whose state is read to be "live"; in a recording also where no
// state was recorded.
[[nodiscard]] Reading<std::map<std::string, core::NvmeController>>
read_controllers(const HostRoot& root, nvme::NvmeAdmin& admin, bool commands,
                 std::map<std::string, core::BlockDevice>* devices);

} // namespace nvmaint::collect
