// The one door for NVMe admin commands. Implementations: the host's devices through libnvme, a
// recording, and a wrapper that injects faults. Calls block for as long as the controller takes (up
// to the kernel's own 60 s admin timeout): only worker threads call them. No implementation
// shortens the kernel's timeout, since the PCIe driver answers an admin timeout with a controller
// reset (Linux drivers/nvme/host/pci.c, nvme_timeout()).
#pragma once

#include "values/result.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nvmaint::nvme {

using Bytes = std::vector<std::uint8_t>;

class NvmeAdmin {
  public:
    NvmeAdmin() = default;
    NvmeAdmin(const NvmeAdmin&) = delete;
    NvmeAdmin& operator=(const NvmeAdmin&) = delete;
    virtual ~NvmeAdmin() = default;

    // `controller` is a kernel name ("nvme0"). Results are whole pages: 4096 bytes for Identify,
    // the log's own length for logs. Errors: System (open or ioctl failed: EACCES without
    // CAP_SYS_ADMIN, EAGAIN while the controller is not live, ENODEV after removal), NvmeStatus,
    // NotRecorded.
    [[nodiscard]] virtual Result<Bytes> identify_controller(const std::string& controller) = 0;
    [[nodiscard]] virtual Result<Bytes> identify_namespace(const std::string& controller,
                                                           std::uint32_t nsid) = 0;
    // Controller-scope logs only (01h, 02h with LPA bit 0 clear, 03h, 06h): NSID FFFFFFFFh is sent.
    // `length` is a multiple of 4. The buffer is page-aligned and at least a page; where a
    // controller refuses the length itself (13h, Invalid PRP Offset), a whole page is asked for
    // once.
    [[nodiscard]] virtual Result<Bytes> get_log(const std::string& controller, std::uint8_t lid,
                                                std::uint32_t length) = 0;
};

// Commands to /dev/<controller>; where its node may not be opened (0600 root), to the namespace
// nodes that sysfs lists below that very controller.
[[nodiscard]] std::unique_ptr<NvmeAdmin> make_libnvme_admin();
// Pages of a recording: `root_fd` is a directory descriptor of the recording (not owned, must
// outlive).
[[nodiscard]] std::unique_ptr<NvmeAdmin> make_replay_admin(int root_fd);
// Passes calls on and makes chosen ones fail: `fails(i)` is asked with the running number of each
// call (from 0) and returns the error to give instead.
[[nodiscard]] std::unique_ptr<NvmeAdmin>
make_faulty_admin(std::unique_ptr<NvmeAdmin> inner,
                  std::function<std::unique_ptr<Error>(std::uint64_t call)> fails);

} // namespace nvmaint::nvme
