// Which layer swallows discards? A stacked device offers them only where it was told to and where
// what lies below offered them when it was set up, so the culprit is the lowest device whose limits
// are zero: blaming the one on top sends people to lvm.conf when the crypt layer is at fault.
#include "core/shell_quote.hpp"
#include "core/trim_truth.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace nvmaint::core {
namespace {

using Devices = std::map<std::string, BlockDevice>;

constexpr std::size_t kDeepest = 64;

enum class Ability { Can, Cannot, Unknown };

std::string udev_property(const BlockDevice& device, const std::string& key) {
    const auto found = device.udev.find(key);
    return found == device.udev.end() ? "" : found->second;
}

// Tried and not read, which is neither a value nor a known absence.
template <class T>
bool is_gap(const Reading<T>& reading) {
    return !reading.has_value() && !reading.is_not_recorded() && !reading.is_known_absent();
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

// Disks of hypervisors and clouds that announce themselves. SCSI vendors and NVMe models as their
// emulations report them.
bool is_virtual_disk(const BlockDevice& device, const std::string& nvme_model) {
    const auto& path = device.sysfs_path;
    if (device.name.starts_with("vd") || device.name.starts_with("xvd") ||
        contains(path, "/virtio") || contains(path, "/vbd-") || contains(path, "/VMBUS:")) {
        return true;
    }
    for (const auto& text :
         {udev_property(device, "ID_VENDOR"), udev_property(device, "ID_MODEL"), nvme_model}) {
        for (const char* name : {"QEMU", "VBOX", "VMware", "Msft", "Virtual_Disk", "Virtual Disk",
                                 "Amazon Elastic Block Store", "nvme_card-pd", "PersistentDisk"}) {
            if (contains(text, name)) {
                return true;
            }
        }
    }
    return false;
}

bool is_usb(const BlockDevice& device) {
    return contains(device.sysfs_path, "/usb") || udev_property(device, "ID_BUS") == "usb";
}

const NvmeController* controller_of(const HostSnapshot& snapshot, const BlockDevice& device) {
    if (!snapshot.controllers || device.nvme_controller.empty()) {
        return nullptr;
    }
    const auto found = snapshot.controllers->find(device.nvme_controller);
    return found == snapshot.controllers->end() ? nullptr : &found->second;
}

std::string model_of(const HostSnapshot& snapshot, const BlockDevice& device) {
    const auto* controller = controller_of(snapshot, device);
    return controller != nullptr && controller->model ? *controller->model : "";
}

std::vector<std::string> below(const BlockDevice& device) {
    return device.partition_of.empty() ? device.slaves
                                       : std::vector<std::string>{device.partition_of};
}

Ability ability(const HostSnapshot& snapshot, const BlockDevice& device) {
    const auto& granularity = device.queue.discard_granularity;
    const auto& maximum = device.queue.discard_max_bytes;
    if ((granularity && *granularity == 0) || (maximum && *maximum == 0)) {
        return Ability::Cannot;
    }
    if (granularity) {
        return Ability::Can;
    }
    // A virtual disk whose hypervisor negotiates no discard has no such attribute with some
    // runtimes; elsewhere a missing one says nothing.
    const bool missing = granularity.is_known_absent() && !maximum;
    return missing && is_virtual_disk(device, model_of(snapshot, device)) ? Ability::Cannot
                                                                          : Ability::Unknown;
}

std::string number_text(const Reading<std::uint64_t>& reading) {
    if (reading) {
        return std::to_string(*reading);
    }
    return reading.is_known_absent() ? "missing" : "not known";
}

Evidence limits_of(const BlockDevice& device) {
    return {"sys/block/" + device.name + "/queue",
            fmt::format("{}: discard_granularity {}, discard_max_bytes {}", device.name,
                        number_text(device.queue.discard_granularity),
                        number_text(device.queue.discard_max_bytes))};
}

std::set<std::string> targets_of(const DeviceMapper& dm) {
    std::set<std::string> targets;
    if (!dm.table) {
        return targets;
    }
    for (const auto& line : *dm.table) { // "START LENGTH TARGET ..."
        std::size_t at = 0;
        for (int field = 0; field < 2 && at != std::string::npos; ++field) {
            at = line.find_first_not_of(' ', line.find(' ', at));
        }
        if (at != std::string::npos) {
            targets.insert(line.substr(at, line.find(' ', at) - at));
        }
    }
    return targets;
}

bool table_says(const DeviceMapper& dm, std::string_view word) {
    return dm.table && std::any_of(dm.table->begin(), dm.table->end(), [&](const auto& line) {
               return contains(" " + line + " ", fmt::format(" {} ", word));
           });
}

// ---- one function per kind of layer: reason, summary, evidence, fix ----

const CrypttabEntry* crypttab_discard(const HostSnapshot& snapshot, const std::string& name) {
    if (!snapshot.crypttab) {
        return nullptr;
    }
    for (const auto& entry : *snapshot.crypttab) {
        const auto& options = entry.options;
        if (entry.name == name &&
            (std::find(options.begin(), options.end(), "discard") != options.end() ||
             std::find(options.begin(), options.end(), "allow-discards") != options.end())) {
            return &entry;
        }
    }
    return nullptr;
}

void blame_crypt(StackBlame& blame, const HostSnapshot& snapshot, const BlockDevice& device) {
    const auto& dm = *device.dm;
    const std::string name = dm.name.empty() ? device.name : dm.name;
    const char* const leak =
        "Discards show whoever reads the raw drive which blocks are unused, and so hints of the "
        "filesystem's kind and fill (cryptsetup(8), --allow-discards): decide whether that is "
        "acceptable before enabling them.";
    const std::string word = shell_quoted(name);
    blame.reason = "dm-crypt";
    if (dm.table) {
        blame.evidence.push_back(
            {"dm/table", fmt::format("{}: target crypt {} allow_discards", name,
                                     table_says(dm, "allow_discards") ? "with" : "without")});
    } else {
        blame.evidence.push_back({"sys/block/" + device.name + "/dm/uuid", dm.uuid});
    }
    const auto* configured = crypttab_discard(snapshot, name);
    if (configured != nullptr && !table_says(dm, "allow_discards")) {
        blame.summary = fmt::format("discards are configured for {} in crypttab but not active in "
                                    "the running mapping ({})",
                                    name, device.name);
        blame.evidence.push_back({"etc/crypttab", fmt::format("line {}: {} has the option discard",
                                                              configured->line, name)});
        blame.fix = {
            "update-initramfs -u -k all   # dracut -f elsewhere: the volume is opened from "
            "the initramfs, which carries an older crypttab",
            "reboot",
            fmt::format("or without a reboot: cryptsetup refresh --allow-discards {}   # "
                        "asks for the passphrase",
                        word)};
        return;
    }
    blame.summary =
        fmt::format("dm-crypt mapping {} ({}) does not pass discards on", name, device.name);
    blame.fix = {leak,
                 fmt::format("LUKS2, kept in its header: cryptsetup refresh --allow-discards "
                             "--persistent {}   # asks for the passphrase",
                             word),
                 fmt::format("LUKS1 or plain: add discard to the options of {} in /etc/crypttab, "
                             "update-initramfs -u -k all, reboot",
                             name)};
}

void blame_md(StackBlame& blame, const HostSnapshot& snapshot, const BlockDevice& device) {
    const std::string level = device.md->level;
    blame.reason = "md";
    blame.evidence.push_back({"sys/block/" + device.name + "/md/level", level});
    const bool parity = level == "raid4" || level == "raid5" || level == "raid6";
    const std::string key =
        parity ? "raid456/devices_handle_discard_safely" : level + "/devices_discard_performance";
    const auto parameter = snapshot.module_parameters.find(key);
    const auto slash = key.find('/');
    const std::string module = key.substr(0, slash);
    const std::string name = key.substr(slash + 1);
    if (parameter != snapshot.module_parameters.end() && parameter->second != "Y" &&
        parameter->second != "1") {
        blame.summary = fmt::format("{} ({}) offers no discard: parameter {} of module {} is {}",
                                    device.name, level, name, module, parameter->second);
        blame.evidence.push_back(
            {fmt::format("sys/module/{}/parameters/{}", module, name), parameter->second});
        blame.fix = {
            parity ? "Danger: this loses data on the next rebuild unless every member reads zeros "
                     "from discarded blocks without exception. Ask the drives' maker first."
                   : "Small chunks make many small discards of one large one: with chunks below "
                     "1 MiB a trim may take long and slow the drives meanwhile.",
            fmt::format("echo options {} {}=Y > /etc/modprobe.d/{}.conf", module, name, module),
            "update-initramfs -u -k all, then reboot: the limits are set when the array is "
            "assembled"};
        return;
    }
    blame.summary =
        fmt::format("{} ({}) offers no discard although its members do: its limits were "
                    "set before they did",
                    device.name, level);
    for (const auto& member : device.slaves) {
        blame.evidence.push_back({"md", "member " + member + " can discard"});
    }
    blame.fix = {
        "put what switches discards on for the members (a udev rule) into the initramfs too, then "
        "update-initramfs -u -k all and reboot, so that it comes before the array is assembled",
        fmt::format("or with the array unmounted: mdadm --stop /dev/{}; mdadm --assemble --scan",
                    device.name)};
}

bool blame_dm(StackBlame& blame, const HostSnapshot& snapshot, const BlockDevice& device) {
    const auto& dm = *device.dm;
    const auto targets = targets_of(dm);
    const std::string name = dm.name.empty() ? device.name : dm.name;
    if (dm.uuid.starts_with("CRYPT-") || targets.contains("crypt")) {
        blame_crypt(blame, snapshot, device);
        return true;
    }
    if (targets.contains("thin") || targets.contains("thin-pool")) {
        blame.reason = "thin";
        blame.summary = fmt::format(
            "thin device {} ({}) does not take discards{}", name, device.name,
            table_says(dm, "ignore_discard") ? ": its pool was set up with ignore_discard" : "");
        blame.evidence.push_back({"dm/table", name + ": target " + *targets.begin()});
        blame.fix = {"lvs -a -o name,pool_lv,discards   # which pool, and what it does with them",
                     "lvchange --discards passdown VG/POOL   # the pool must be inactive to leave "
                     "ignore"};
        return true;
    }
    if (dm.uuid.starts_with("LVM-")) {
        std::string kinds;
        for (const auto& target : targets) {
            kinds += (kinds.empty() ? "" : ", ") + target;
        }
        blame.reason = "lvm";
        blame.summary = fmt::format("logical volume {} ({}) offers no discard although what is "
                                    "below does",
                                    name, device.name);
        blame.evidence.push_back(
            {"dm/table", name + ": " + (kinds.empty() ? "target not known" : "target " + kinds)});
        blame.fix = {
            fmt::format("lvs -a -o +devices,segtype | grep {}", shell_quoted(name)),
            fmt::format("dmsetup table {}; then deactivate and activate the volume so that "
                        "its limits are set anew",
                        shell_quoted(name))};
        return true;
    }
    return false;
}

void blame_disk(StackBlame& blame, const HostSnapshot& snapshot, const BlockDevice& device) {
    const auto& queue = device.queue;
    const std::string attribute = "sys/block/" + device.name + "/queue/";
    if (queue.discard_max_bytes && *queue.discard_max_bytes == 0 && queue.discard_max_hw_bytes &&
        *queue.discard_max_hw_bytes > 0) {
        blame.reason = "software-limit";
        blame.summary = fmt::format("discards are switched off for {}: discard_max_bytes was set "
                                    "to 0, the hardware takes {}",
                                    device.name, humane_bytes(*queue.discard_max_hw_bytes));
        blame.evidence.push_back(
            {attribute + "discard_max_hw_bytes", std::to_string(*queue.discard_max_hw_bytes)});
        blame.fix = {fmt::format("echo {} > /sys/block/{}/queue/discard_max_bytes",
                                 *queue.discard_max_hw_bytes, device.name),
                     "find what sets it: grep -rs discard_max_bytes /etc/udev/rules.d "
                     "/usr/lib/udev/rules.d /etc/tmpfiles.d /etc/rc.local"};
        return;
    }
    const std::string model = model_of(snapshot, device);
    if (is_virtual_disk(device, model)) {
        blame.reason = "virtual-disk";
        blame.summary =
            fmt::format("virtual disk {} is not offered discard by its hypervisor", device.name);
        blame.evidence.push_back({"sys/block/" + device.name, device.sysfs_path.empty()
                                                                  ? "a virtual disk by its name"
                                                                  : device.sysfs_path});
        blame.fix = {"fix it on the hypervisor: let the disk take discards (QEMU: discard=unmap on "
                     "the drive; libvirt: <driver discard='unmap'/>), then start the machine anew"};
        return;
    }
    if (is_usb(device)) {
        const auto& mode = device.scsi_provisioning_mode;
        blame.reason = "usb-bridge";
        blame.summary = fmt::format("the USB bridge of {} is not used for discards", device.name);
        blame.evidence.push_back(
            {"sys/block/" + device.name + "/device/scsi_disk/*/provisioning_mode",
             mode ? *mode : "not known"});
        blame.fix = {fmt::format("sg_vpd --page=lbpv /dev/{}   # does the bridge say that it "
                                 "translates UNMAP (LBPU: 1)?",
                                 device.name),
                     "Only then a udev rule may set provisioning_mode to unmap. Risk: a bridge "
                     "that claims it and translates wrongly discards other blocks and loses data; "
                     "try it on a drive whose content you can spare."};
        return;
    }
    const auto* controller = controller_of(snapshot, device);
    if (controller != nullptr && controller->identify) {
        const bool able = controller->identify->supports_dataset_management();
        blame.evidence.push_back({"nvme/" + controller->name + "/id-ctrl",
                                  fmt::format("ONCS 0x{:02x}: Dataset Management {}",
                                              controller->identify->optional_commands,
                                              able ? "supported" : "not supported")});
        if (able) {
            blame.reason = "kernel";
            blame.summary = fmt::format("{} supports deallocation, but the kernel does not use it",
                                        device.name);
            blame.fix = {"a newer kernel; look for a quirk: dmesg | grep -i " + controller->name};
            return;
        }
    }
    blame.reason = "device";
    blame.rotating = queue.rotational && *queue.rotational == 1;
    blame.summary = blame.rotating ? device.name + " rotates: it has nothing to trim"
                                   : fmt::format("{} does not support discard", device.name);
    if (device.scsi_provisioning_mode) {
        blame.evidence.push_back(
            {"sys/block/" + device.name + "/device/scsi_disk/*/provisioning_mode",
             *device.scsi_provisioning_mode});
    }
    blame.fix = {"a firmware or another drive that takes discards; leaving some space "
                 "unpartitioned gives the drive spare blocks meanwhile"};
}

StackBlame blame_layer(const HostSnapshot& snapshot, const BlockDevice& device) {
    const bool stacked = device.dm || device.md;
    if (stacked == below(device).empty()) {
        return {.unknown = true,
                .summary = fmt::format("{} offers no discard, and what it is made of is not known",
                                       device.name)};
    }
    StackBlame blame{.blocked = true, .layer = device.name};
    blame.evidence.push_back(limits_of(device));
    const auto& queue = device.queue;
    const bool limited = queue.discard_max_bytes && *queue.discard_max_bytes == 0 &&
                         queue.discard_max_hw_bytes && *queue.discard_max_hw_bytes > 0;
    if (limited || !stacked) {
        if (is_gap(queue.discard_max_hw_bytes) || is_gap(queue.rotational) ||
            device.sysfs_path.empty()) {
            return {.unknown = true,
                    .summary = fmt::format("{} offers no discard, and why could not be read",
                                           device.name)};
        }
        blame_disk(blame, snapshot, device);
    } else if (device.md) {
        blame_md(blame, snapshot, device);
    } else if (!blame_dm(blame, snapshot, device)) {
        return {.unknown = true,
                .summary =
                    fmt::format("{} offers no discard, and its kind is not known", device.name)};
    }
    for (const auto& name : below(device)) {
        const auto found = snapshot.block_devices->find(name);
        if (found != snapshot.block_devices->end()) {
            blame.evidence.push_back(limits_of(found->second));
        }
    }
    return blame;
}

StackBlame blame_from(const HostSnapshot& snapshot, const std::string& name, std::size_t depth) {
    const auto& devices = *snapshot.block_devices;
    const auto found = devices.find(name);
    if (found == devices.end() || depth > kDeepest) {
        return {.unknown = true, .summary = "block device " + name + " is not known"};
    }
    const auto& device = found->second;
    const auto lower = below(device);
    StackBlame first_blocked;
    StackBlame first_unknown;
    std::size_t blocked = 0;
    for (const auto& part : lower) {
        const auto blame = blame_from(snapshot, part, depth + 1);
        blocked += blame.blocked ? 1 : 0;
        if (blame.blocked && !first_blocked.blocked) {
            first_blocked = blame;
        }
        if (blame.unknown && !first_unknown.unknown) {
            first_unknown = blame;
        }
    }
    if (!lower.empty() && blocked == lower.size()) {
        return first_blocked;
    }
    if (!device.partition_of.empty()) {
        return first_unknown; // a partition has no limits of its own
    }
    switch (ability(snapshot, device)) {
    case Ability::Can:
        return {}; // a stacked device offers no more than what is below
    case Ability::Cannot:
        // With one member unable and another able the array's own zero is no fault of its own.
        if (blocked > 0) {
            return first_blocked;
        }
        return first_unknown.unknown ? first_unknown : blame_layer(snapshot, device);
    case Ability::Unknown:
        break;
    }
    return {.unknown = true,
            .summary = fmt::format("whether {} can discard is not known", device.name)};
}

} // namespace

StackBlame blame_stack(const HostSnapshot& snapshot, const std::string& top) {
    if (!snapshot.block_devices) {
        return {.unknown = true, .summary = "the block devices are not known"};
    }
    return blame_from(snapshot, top, 0);
}

} // namespace nvmaint::core
