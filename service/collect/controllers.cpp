#include "collect/controllers.hpp"

#include "admin/kernel_names.hpp"
#include "collect/diskstats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace nvmaint::collect {
namespace {

using Controllers = std::map<std::string, core::NvmeController>;
using Devices = std::map<std::string, core::BlockDevice>;

constexpr std::uint8_t kLogSmart = 0x02;
constexpr std::uint32_t kSmartBytes = 512;

std::string base_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

class Reader {
  public:
    Reader(const HostRoot& root, Devices* devices) : root_(root), devices_(devices) {}

    Result<Controllers> read() {
        Controllers controllers;
        const Reading<std::vector<std::string>> listed = root_.list("sys/class/nvme");
        if (listed.is_known_absent()) {
            return controllers; // no NVMe driver is loaded: there are no controllers
        }
        TRY(names, listed);
        for (const std::string& name : names) {
            if (nvme::is_controller_name(name)) {
                controllers.emplace(name, read_controller(name));
            }
        }
        read_subsystems();
        for (auto& [name, controller] : controllers) {
            find_by_folder(controller);
        }
        if (devices_ != nullptr) {
            for (const auto& [name, device] : *devices_) {
                if (device.partition_of.empty() && nvme::is_namespace_name(name)) {
                    find_by_link(controllers, device);
                }
            }
            name_controllers(controllers);
        }
        for (auto& [name, controller] : controllers) {
            std::sort(controller.namespaces.begin(), controller.namespaces.end());
        }
        return controllers;
    }

  private:
    static std::string folder_of(const std::string& controller) {
        return "sys/class/nvme/" + controller;
    }

    [[nodiscard]] core::NvmeController read_controller(const std::string& name) const {
        const std::string folder = folder_of(name) + "/";
        const auto text = [&](const char* attribute) -> Reading<std::string> {
            // Drives put anything into these strings: raw bytes in, printable text out.
            TRY(raw, root_.read(folder + attribute));
            const std::vector<std::uint8_t> bytes(raw.begin(), raw.end());
            return nvme::identity_text(bytes);
        };
        core::NvmeController controller;
        controller.name = name;
        controller.state = root_.read_line(folder + "state");
        controller.transport = root_.read_line(folder + "transport");
        controller.model = text("model");
        controller.serial = text("serial");
        controller.firmware = text("firmware_rev");
        controller.subsystem_nqn = text("subsysnqn");
        controller.cntlid = root_.read_number(folder + "cntlid");
        controller.address = root_.read_line(folder + "address");
        return controller;
    }

    // sys/class/nvme-subsystem/nvme-subsys0 holds links to its controllers.
    void read_subsystems() {
        const Result<std::vector<std::string>> names = root_.list("sys/class/nvme-subsystem");
        for (const std::string& name : names.value_or(std::vector<std::string>{})) {
            const Result<std::vector<std::string>> members =
                root_.list("sys/class/nvme-subsystem/" + name);
            for (const std::string& member : members.value_or(std::vector<std::string>{})) {
                if (nvme::is_controller_name(member)) {
                    subsystems_[name].insert(member);
                }
            }
        }
    }

    static void add(core::NvmeController& controller, const std::string& disk) {
        if (std::find(controller.namespaces.begin(), controller.namespaces.end(), disk) ==
            controller.namespaces.end()) {
            controller.namespaces.push_back(disk);
        }
    }

    // sys/class/nvme/nvme1/nvme1n1, or .../nvme0c1n1: a path to the head nvme0n1.
    void find_by_folder(core::NvmeController& controller) {
        const Result<std::vector<std::string>> children = root_.list(folder_of(controller.name));
        for (const std::string& child : children.value_or(std::vector<std::string>{})) {
            const std::string disk = nvme::is_namespace_name(child) ? child : head_of_path(child);
            if (!disk.empty()) {
                add(controller, disk);
                has_paths_.insert(controller.name);
            }
        }
    }

    void find_by_link(Controllers& controllers, const core::BlockDevice& device) {
        const Result<std::string> link = root_.resolve("sys/block/" + device.name + "/device");
        const Result<std::string> other =
            link ? link : root_.resolve("sys/class/block/" + device.name + "/device");
        const std::string target = other ? base_name(*other) : "";
        const auto controller = controllers.find(target);
        if (controller != controllers.end()) {
            add(controller->second, device.name);
            return;
        }
        const auto subsystem = subsystems_.find(target);
        if (subsystem == subsystems_.end()) {
            return;
        }
        for (const std::string& member : subsystem->second) {
            const auto found = controllers.find(member);
            // Where paths are shown, a controller without one to this disk does not serve it.
            if (found != controllers.end() && !has_paths_.contains(member)) {
                add(found->second, device.name);
            }
        }
    }

    // A controller of each disk: a live one if there is any.
    void name_controllers(const Controllers& controllers) {
        for (auto& [name, device] : *devices_) {
            if (!device.partition_of.empty() || !nvme::is_namespace_name(name)) {
                continue;
            }
            for (const auto& [controller_name, controller] : controllers) {
                const bool serves =
                    std::find(controller.namespaces.begin(), controller.namespaces.end(), name) !=
                    controller.namespaces.end();
                const bool live = controller.state && *controller.state == "live";
                const auto current = controllers.find(device.nvme_controller);
                const bool have_live = current != controllers.end() && current->second.state &&
                                       *current->second.state == "live";
                if (serves && (device.nvme_controller.empty() || (live && !have_live))) {
                    device.nvme_controller = controller_name;
                }
            }
        }
    }

    const HostRoot& root_;
    Devices* devices_;
    std::map<std::string, std::set<std::string>> subsystems_; // name -> its controllers
    std::set<std::string> has_paths_; // controllers whose folders show their namespaces
};

// For recordings that hold no link between disks and controllers.
void link_by_identity(const HostRoot& root, Controllers& controllers, Devices& devices) {
    for (auto& [name, device] : devices) {
        if (!device.partition_of.empty() || !nvme::is_namespace_name(name) ||
            !device.nvme_controller.empty()) {
            continue;
        }
        std::string serial = root.read_line("sys/block/" + name + "/device/serial").value_or("");
        const auto udev = device.udev.find("ID_SERIAL_SHORT");
        if (serial.empty() && udev != device.udev.end()) {
            serial = udev->second;
        }
        std::vector<core::NvmeController*> candidates;
        for (auto& [controller_name, controller] : controllers) {
            if (serial.empty() ? controllers.size() == 1
                               : controller.serial && *controller.serial == serial) {
                candidates.push_back(&controller);
            }
        }
        if (candidates.size() == 1) {
            device.nvme_controller = candidates.front()->name;
            candidates.front()->namespaces.push_back(name);
        }
    }
}

template <class T, class F>
Reading<T> decoded(Result<nvme::Bytes> page, F decode, const std::string& phrase) {
    if (!page) {
        return page.error().in(phrase);
    }
    Result<T> value = decode(*page);
    return value ? Reading<T>(std::move(value)) : Reading<T>(value.error().in(phrase));
}

// Why no command is sent. A controller that is not live answers late or never, and its node does
// not even open (EAGAIN).
std::optional<Error> reason_not_to_ask(const HostRoot& root,
                                       const core::NvmeController& controller) {
    if (controller.state && *controller.state == "live") {
        return std::nullopt;
    }
    if (!root.is_live() && controller.state.is_not_recorded()) {
        return std::nullopt;
    }
    if (!controller.state) {
        return controller.state.error().in("no command sent to " + controller.name);
    }
    return Error::make(ErrorKind::Unsupported, fmt::format("no command sent: {} is {}",
                                                           controller.name, *controller.state));
}

void send_commands(const HostRoot& root, nvme::NvmeAdmin& admin, core::NvmeController& controller,
                   const Devices& devices) {
    const std::optional<Error> reason = reason_not_to_ask(root, controller);
    if (reason) {
        controller.identify = *reason;
        controller.smart = *reason;
        return;
    }
    const std::string& name = controller.name;
    controller.identify = decoded<nvme::IdentifyController>(
        admin.identify_controller(name), nvme::decode_identify_controller, "Identify of " + name);
    controller.smart = decoded<nvme::SmartLog>(admin.get_log(name, kLogSmart, kSmartBytes),
                                               nvme::decode_smart_log, "SMART log of " + name);
    for (const std::string& disk : controller.namespaces) {
        Reading<nvme::IdentifyNamespace>& reading = controller.identify_namespaces[disk];
        const auto device = devices.find(disk);
        if (device == devices.end()) {
            reading = Error::make(ErrorKind::NotRecorded, "sys/block/" + disk);
        } else if (!device->second.nsid) {
            reading = device->second.nsid.error();
        } else if (*device->second.nsid > std::numeric_limits<std::uint32_t>::max()) {
            reading = Error::make(ErrorKind::Malformed, "sys/block/" + disk + "/nsid");
        } else {
            const auto nsid = static_cast<std::uint32_t>(*device->second.nsid);
            reading = decoded<nvme::IdentifyNamespace>(admin.identify_namespace(name, nsid),
                                                       nvme::decode_identify_namespace,
                                                       "Identify of " + disk);
        }
    }
}

} // namespace

Reading<std::map<std::string, core::NvmeController>>
read_controllers(const HostRoot& root, nvme::NvmeAdmin& admin, bool commands,
                 std::map<std::string, core::BlockDevice>* devices) {
    Result<Controllers> controllers = Reader(root, devices).read();
    if (!controllers) {
        return controllers.error();
    }
    if (!root.is_live() && devices != nullptr) {
        link_by_identity(root, *controllers, *devices);
    }
    if (commands) {
        const Devices none;
        for (auto& [name, controller] : *controllers) {
            send_commands(root, admin, controller, devices != nullptr ? *devices : none);
        }
    }
    return controllers;
}

} // namespace nvmaint::collect
