// FITRIM in a process of its own. The ioctl blocks in the kernel until the range is done, and only
// a fatal signal ends it early, so it must never run in a thread of the service: a child without
// signal handlers can be killed.
#pragma once

#include "core/pacing.hpp"
#include "core/snapshot.hpp"
#include "values/result.hpp"

#include <systemd/sd-event.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace nvmaint::act {

struct FitrimReply {
    std::uint64_t bytes = 0; // what the filesystem asked the device to discard; an upper bound
    int error = 0;           // errno of the ioctl; 0 = done
    std::chrono::nanoseconds took{};
    bool operator==(const FitrimReply&) const = default;
};

struct FitrimTarget {
    std::string helper; // path of the nvmaint-fitrim program
    std::string mount_point;
    // Of the superblock, as mountinfo gives it: the child refuses if another one stands there.
    core::DeviceNumber device;
};

// One child serves one trim of one filesystem, range after range. Loop thread.
class FitrimChild {
  public:
    // `on_reply` is called once for each request; an error there means the child is gone (killed,
    // crashed, refused the mount) and no more will come. It must not destroy the child from within.
    // Errors: System.
    using OnReply = std::function<void(Result<FitrimReply>)>;
    [[nodiscard]] static Result<std::unique_ptr<FitrimChild>>
    start(sd_event* event, const FitrimTarget& target, OnReply on_reply);

    FitrimChild() = default;
    FitrimChild(const FitrimChild&) = delete;
    FitrimChild& operator=(const FitrimChild&) = delete;
    virtual ~FitrimChild() =
        default; // kills; a child stuck in the kernel is reaped whenever it ends

    // One request at a time.
    [[nodiscard]] virtual Result<Done> request(const core::TrimRange& range) = 0;
    virtual void kill() = 0;
    [[nodiscard]] virtual bool gone() const = 0; // reaped
};

} // namespace nvmaint::act
