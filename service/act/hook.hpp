// Programs of the operator's that are told of a finding. They run as a transient unit of systemd
// with a user of its own (systemd-run, DynamicUser=), so that neither our privileges nor our
// sandbox reach them, and are stopped at their timeout.
#pragma once

#include "core/time.hpp"
#include "values/result.hpp"

#include <systemd/sd-event.h>

#include <functional>
#include <memory>
#include <string>

namespace nvmaint::act {

class HookRunner {
  public:
    // `on_failure` gets one line for each run that could not be started, failed or was stopped.
    // `launcher` is systemd-run.
    using OnFailure = std::function<void(const std::string&)>;
    [[nodiscard]] static std::unique_ptr<HookRunner>
    create(sd_event* event, OnFailure on_failure,
           const std::string& launcher = "/usr/bin/systemd-run");
    HookRunner() = default;
    HookRunner(const HookRunner&) = delete;
    HookRunner& operator=(const HookRunner&) = delete;
    virtual ~HookRunner() = default;

    // Runs `program` with `input` on its stdin. At most 8 run at once; more wait in order, at most
    // 64 of them, the oldest waiting one is dropped (and reported) beyond that.
    virtual void run(const std::string& program, core::seconds timeout,
                     const std::string& input) = 0;
};

} // namespace nvmaint::act
