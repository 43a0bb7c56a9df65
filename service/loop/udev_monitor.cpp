#include "loop/udev_monitor.hpp"

#include <libudev.h>

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

namespace nvmaint::loop {
namespace {

struct UdevDeleter {
    void operator()(udev* handle) const { udev_unref(handle); }
    void operator()(udev_monitor* handle) const { udev_monitor_unref(handle); }
    void operator()(udev_device* handle) const { udev_device_unref(handle); }
};

class Monitor final : public UdevMonitor {
  public:
    explicit Monitor(OnEvent on_event) : on_event_(std::move(on_event)) {}
    ~Monitor() override { sd_event_source_disable_unref(source_); }

    Result<Done> start(sd_event* event) {
        udev_.reset(udev_new());
        // udevd's own socket exists where it runs; a container or a bare kernel has only the
        // kernel's events.
        const char* const group = access("/run/udev/control", F_OK) == 0 ? "udev" : "kernel";
        monitor_.reset(udev_ ? udev_monitor_new_from_netlink(udev_.get(), group) : nullptr);
        if (!monitor_) {
            return Error::system(errno, "udev monitor");
        }
        for (const char* const subsystem : {"block", "nvme", "nvme-subsystem"}) {
            udev_monitor_filter_add_match_subsystem_devtype(monitor_.get(), subsystem, nullptr);
        }
        if (udev_monitor_enable_receiving(monitor_.get()) < 0) {
            return Error::system(errno, "udev monitor");
        }
        const int r = sd_event_add_io(event, &source_, udev_monitor_get_fd(monitor_.get()), EPOLLIN,
                                      &Monitor::on_ready, this);
        if (r < 0) {
            return Error::system(-r, "udev monitor");
        }
        return Done{};
    }

  private:
    static int on_ready(sd_event_source*, int, std::uint32_t, void* data) noexcept {
        auto* self = static_cast<Monitor*>(data);
        while (const std::unique_ptr<udev_device, UdevDeleter> device{
            udev_monitor_receive_device(self->monitor_.get())}) {
            const char* const action = udev_device_get_action(device.get());
            const char* const name = udev_device_get_sysname(device.get());
            self->on_event_(action == nullptr ? "" : action, name == nullptr ? "" : name);
        }
        return 0;
    }

    OnEvent on_event_;
    std::unique_ptr<udev, UdevDeleter> udev_;
    std::unique_ptr<udev_monitor, UdevDeleter> monitor_;
    sd_event_source* source_ = nullptr;
};

} // namespace

Result<std::unique_ptr<UdevMonitor>> UdevMonitor::create(sd_event* event, OnEvent on_event) {
    auto monitor = std::make_unique<Monitor>(std::move(on_event));
    TRY(started, monitor->start(event));
    (void)started;
    return std::unique_ptr<UdevMonitor>(std::move(monitor));
}

} // namespace nvmaint::loop
