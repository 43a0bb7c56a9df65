// Device events from udev (after its rules have run), or from the kernel where no udev runs.
#pragma once

#include "values/result.hpp"

#include <systemd/sd-event.h>

#include <functional>
#include <memory>
#include <string>

namespace nvmaint::loop {

class UdevMonitor {
  public:
    // Called on the loop thread for block devices and NVMe controllers: "add", "remove", "change",
    // ... and the name.
    using OnEvent = std::function<void(const std::string& action, const std::string& name)>;
    [[nodiscard]] static Result<std::unique_ptr<UdevMonitor>> create(sd_event* event,
                                                                     OnEvent on_event);
    UdevMonitor() = default;
    UdevMonitor(const UdevMonitor&) = delete;
    UdevMonitor& operator=(const UdevMonitor&) = delete;
    virtual ~UdevMonitor() = default;
};

} // namespace nvmaint::loop
