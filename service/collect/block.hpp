// Block devices from sysfs.
//
// A live host has sys/class/block and sys/block, both folders of links into sys/devices. A
// recording may have those, or plain folders: sys/block/nvme0n1/{dev,size,queue/...} with a
// partition inside as sys/block/nvme0n1/nvme0n1p2/{partition,dev}. Whichever is there is read; what
// is not there was not recorded.
#pragma once

#include "collect/host_root.hpp"
#include "core/snapshot.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::collect {

struct BlockLayer {
    std::map<std::string, core::BlockDevice> devices; // hidden NVMe paths left out
    // Folders of each device, best first, relative to the root.
    std::map<std::string, std::vector<std::string>> folders;
};

// Errors: NotRecorded or System where there is no list of block devices at all. `slaves` holds "?"
// where it exists and could not be read: a device of that name exists nowhere, so that a walk down
// the stack ends there instead of mistaking the device for a disk.
[[nodiscard]] Result<BlockLayer> read_block_layer(const HostRoot& root);

// Properties of a device in udev's database (run/udev/data/bMAJOR:MINOR): its E: lines, and
// DEVLINKS from its S: lines as libudev makes it.
[[nodiscard]] std::map<std::string, std::string> parse_udev_data(std::string_view text);

// An attribute from the first folder that has it.
[[nodiscard]] Result<std::string> read_attribute(const HostRoot& root,
                                                 const std::vector<std::string>& folders,
                                                 const std::string& name);

} // namespace nvmaint::collect
