// The service: one sd-event loop that gathers what the workers read, judges it, and acts. Every
// second it takes a sample of the kernel's counters; everything slower arrives by mailbox and is as
// old as its time stamp says.
#pragma once

#include "admin/nvme_admin.hpp"
#include "collect/collect.hpp"
#include "values/result.hpp"

#include <memory>
#include <string>

namespace nvmaint::loop {

struct Options {
    std::string version;
    std::string policy_root = "/";
    std::string state_directory = "/var/lib/nvmaint";
    std::string runtime_directory = "/run/nvmaint";
    std::string helper_directory; // where nvmaint-fitrim is
};

// Runs until SIGTERM or SIGINT. `admin` is called from worker threads only. Returns the exit
// status. Exit 1: another instance runs, or the loop could not be set up; the reason was logged.
[[nodiscard]] int run(const Options& options, const collect::HostRoot& root,
                      nvme::NvmeAdmin& admin);

} // namespace nvmaint::loop
