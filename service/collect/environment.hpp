// Facts about the host as a whole: in a recording from its manifest, on the live host from the
// clocks and a few files.
#pragma once

#include "collect/host_root.hpp"
#include "collect/recording_toml.hpp"
#include "core/snapshot.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::collect {

// Errors: a recording without a readable manifest.toml (System, Malformed with file:line:column).
[[nodiscard]] Result<Manifest> read_manifest(const HostRoot& root);

// "" outside containers, else "lxc", "docker", ... As systemd detects it: what PID 1 left in
// run/systemd/container, the variable `container` of PID 1, the files that Docker and Podman leave.
[[nodiscard]] Result<std::string> detect_container(const HostRoot& root,
                                                   const Reading<std::string>& init);
// "none", "kvm", "qemu", "vmware", "xen", ... from DMI and the hypervisor flag of the processor, in
// the words of systemd-detect-virt(1).
[[nodiscard]] Result<std::string> detect_virtualization(const HostRoot& root);

// Capabilities (capabilities(7)) that reading a host needs and the process whose /proc/PID/status
// this is does not have: CAP_SYS_ADMIN (NVMe commands, FITRIM, device-mapper), and
// CAP_DAC_READ_SEARCH for others than root (nodes of mode 0600).
[[nodiscard]] std::vector<std::string> missing_capabilities(std::string_view status);

} // namespace nvmaint::collect
