// Which filesystems a command line of fstrim reaches. The rule is util-linux' own
// (sys-utils/fstrim.c, as of 2.39), and it is the reason of most volumes that are never trimmed:
//
//   fstrim --listed-in /etc/fstab:/proc/self/mountinfo
//
// reads the *first* of these files that has any entry and never opens the second. Where fstab lists
// "/" and "/boot/efi" and a database volume is mounted by a unit of its own, that volume is never
// trimmed, and fstrim ends well. From the table it drops what it cannot trim, without a word, and
// trims each remaining source once.
#include "core/trim_truth.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace nvmaint::core {
namespace {

std::vector<std::string> split(std::string_view text, std::string_view separators) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const auto at = text.find_first_of(separators);
        if (at != 0) {
            parts.emplace_back(text.substr(0, at));
        }
        text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
    }
    return parts;
}

bool has_option(const std::vector<std::string>& options, std::string_view wanted) {
    return std::find(options.begin(), options.end(), wanted) != options.end();
}

std::string base_name(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

bool is_below(const std::string& path, const std::string& parent) {
    return parent == "/" || path == parent ||
           (path.size() > parent.size() && path.starts_with(parent) && path[parent.size()] == '/');
}

bool is_kernel_table(const std::string& file) {
    return file == "/proc/self/mountinfo" || file == "/proc/1/mountinfo" ||
           file == "/proc/mounts" || file == "/proc/self/mounts" || file == "/etc/mtab";
}

// ---- command line ----

struct Option {
    char letter;
    std::string_view name;
    bool argument;
};
// Longest name first where one begins another: getopt_long(3) accepts unambiguous abbreviations.
constexpr std::array<Option, 12> kOptions{{
    {'a', "all", false},
    {'A', "fstab", false},
    {'h', "help", false},
    {'I', "listed-in", true},
    {'V', "version", false},
    {'o', "offset", true},
    {'l', "length", true},
    {'m', "minimum", true},
    {'t', "types", true},
    {'v', "verbose", false},
    {'q', "quiet-unsupported", false},
    {'n', "dry-run", false},
}};

// An option of the command line. False: one that ends the matter (help, version).
bool apply(FstrimCommand& command, char letter, const std::string& argument) {
    switch (letter) {
    case 'a':
        command.all = true;
        return true;
    case 'A':
        command.listed_in = {"/etc/fstab"};
        return true;
    case 'I':
        command.listed_in = split(argument, ":");
        return true;
    case 't':
        command.types = split(argument, ",");
        return true;
    case 'q':
        command.quiet_unsupported = true;
        return true;
    case 'n':
        command.dry_run = true;
        return true;
    case 'v':
        command.verbose = true;
        return true;
    case 'h':
    case 'V':
        return false;
    default:
        return true; // offset, length, minimum: a part is trimmed, the choice stays the same
    }
}

const Option* find_long(std::string_view name) {
    const Option* found = nullptr;
    for (const auto& option : kOptions) {
        if (option.name == name) {
            return &option;
        }
        if (option.name.starts_with(name)) {
            if (found != nullptr) {
                return nullptr;
            }
            found = &option;
        }
    }
    return found;
}

const Option* find_short(char letter) {
    const auto* found = std::find_if(kOptions.begin(), kOptions.end(),
                                     [&](const auto& option) { return option.letter == letter; });
    return found == kOptions.end() || letter == 'q' ? nullptr : found;
}

// ---- devices and tags ----

std::string udev_property(const BlockDevice& device, const std::string& key) {
    const auto found = device.udev.find(key);
    return found == device.udev.end() ? "" : found->second;
}

std::string device_path(const BlockDevice& device) {
    return device.dm && !device.dm->name.empty() ? "/dev/mapper/" + device.dm->name
                                                 : "/dev/" + device.name;
}

bool answers_to_path(const BlockDevice& device, const std::string& path) {
    return path == "/dev/" + device.name ||
           (device.dm && !device.dm->name.empty() && path == "/dev/mapper/" + device.dm->name) ||
           has_option(split(udev_property(device, "DEVLINKS"), " "), path);
}

std::string_view property_of_tag(std::string_view tag) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTags{{
        {"UUID", "ID_FS_UUID"},
        {"LABEL", "ID_FS_LABEL"},
        {"PARTUUID", "ID_PART_ENTRY_UUID"},
        {"PARTLABEL", "ID_PART_ENTRY_NAME"},
        {"ID", "ID_SERIAL"},
    }};
    for (const auto& [name, property] : kTags) {
        if (tag == name) {
            return property;
        }
    }
    return {};
}

std::string unquoted(std::string_view value) {
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
        value.back() == value.front()) {
        value = value.substr(1, value.size() - 2);
    }
    return std::string(value);
}

bool is_tag(const std::string& source) {
    const auto equals = source.find('=');
    return equals != std::string::npos && !property_of_tag(source.substr(0, equals)).empty();
}

// ---- selection ----

// What the rule looks at, from whichever table.
struct Row {
    std::string mount;
    std::string source;
    std::string type;
    std::vector<std::string> options;
    int line = 0;
};

const std::map<std::string, BlockDevice>& devices_of(const HostSnapshot& snapshot) {
    static const std::map<std::string, BlockDevice> none;
    return snapshot.block_devices ? *snapshot.block_devices : none;
}

const Mount* topmost(const HostSnapshot& snapshot, const std::string& mount_point) {
    const Mount* found = nullptr;
    if (snapshot.mounts) {
        for (const auto& mount : *snapshot.mounts) {
            if (mount.mount_point == mount_point) {
                found = &mount;
            }
        }
    }
    return found;
}

// fstrim finds a mount point by a change of st_dev against the parent folder: a bind mount onto the
// same filesystem is none.
bool looks_mounted(const HostSnapshot& snapshot, const Mount& mount) {
    if (mount.mount_point == "/" || mount.device.major == 0) {
        return true;
    }
    return std::none_of(snapshot.mounts->begin(), snapshot.mounts->end(), [&](const auto& other) {
        return other.id == mount.parent && other.id != mount.id && other.device == mount.device;
    });
}

std::vector<Row> rows_of_kernel_table(const HostSnapshot& snapshot) {
    std::vector<Row> rows;
    for (const auto& mount : *snapshot.mounts) {
        auto options = mount.options;
        options.insert(options.end(), mount.super_options.begin(), mount.super_options.end());
        rows.push_back({mount.mount_point, mount.source, mount.type, std::move(options), 0});
    }
    return rows;
}

std::vector<Row> rows_of_fstab(const std::vector<FstabEntry>& entries) {
    std::vector<Row> rows;
    for (const auto& entry : entries) {
        std::string mount = entry.file;
        while (mount.size() > 1 && mount.back() == '/') {
            mount.pop_back(); // paths are compared without it
        }
        rows.push_back({mount, unquoted(entry.source), entry.type, entry.options, entry.line});
    }
    return rows;
}

// The last entry for a mount point counts: it lies on top.
void keep_last_of_each_mount(std::vector<Row>& rows) {
    for (auto row = rows.begin(); row != rows.end();) {
        const bool again = std::any_of(
            row + 1, rows.end(), [&](const auto& later) { return later.mount == row->mount; });
        row = again ? rows.erase(row) : row + 1;
    }
}

bool type_wanted(const std::string& type, const std::vector<std::string>& pattern) {
    if (pattern.empty()) {
        return true;
    }
    const bool negative = pattern.front().starts_with("no");
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        std::string_view wanted = pattern[i];
        if (negative && wanted.starts_with("no")) {
            wanted.remove_prefix(2);
        }
        if (wanted == type) {
            return !negative;
        }
    }
    return negative;
}

FstrimSkip unwanted(const Row& row, const FstrimCommand& command, std::string& detail) {
    if (is_pseudo_filesystem(row.type) || is_network_filesystem(row.type) || row.type == "swap") {
        detail = "type " + row.type;
        return FstrimSkip::Pseudo;
    }
    if (has_option(row.options, "ro")) {
        detail = "option ro";
        return FstrimSkip::ListedReadOnly;
    }
    if (has_option(row.options, "X-fstrim.notrim")) {
        detail = "option X-fstrim.notrim";
        return FstrimSkip::OptedOut;
    }
    if (!type_wanted(row.type, command.types)) {
        detail = fmt::format("--types leaves {} out", row.type);
        return FstrimSkip::OtherType;
    }
    return FstrimSkip::None;
}

FstrimSkip unreachable(const Mount* mount, const HostSnapshot& snapshot, const Unit* unit,
                       const std::string& target, std::string& detail) {
    if (mount == nullptr || !looks_mounted(snapshot, *mount)) {
        detail = "nothing is mounted there";
        return FstrimSkip::NotMounted;
    }
    if (has_option(mount->options, "ro") || has_option(mount->super_options, "ro")) {
        detail = "mounted read-only";
        return FstrimSkip::ReadOnly;
    }
    if (unit != nullptr) {
        if (auto setting = sandbox_hides(*unit, target)) {
            detail = *setting;
            return FstrimSkip::ReadOnlyView;
        }
    }
    return FstrimSkip::None;
}

// The discard question as fstrim asks it: queue/discard_granularity of the whole disk, and "ro".
// A source that is not a block device counts as able.
FstrimSkip unable(const BlockDevice& device, FstrimEntry& entry) {
    const auto& granularity = device.queue.discard_granularity;
    if (granularity.is_known_absent() || (granularity && *granularity == 0)) {
        entry.detail = device.name + ": discard_granularity is " + (granularity ? "0" : "missing");
        return FstrimSkip::NoDiscard;
    }
    if (!granularity) {
        entry.uncertain = true;
        entry.detail = device.name + ": discard_granularity is not known";
    }
    if (device.read_only && *device.read_only != 0) {
        entry.detail = device.name + " is read-only";
        return FstrimSkip::ReadOnlyDevice;
    }
    return FstrimSkip::None;
}

// Turns the source into a path as fstrim does: tags through udev, other sources as written.
FstrimSkip resolve(FstrimEntry& entry, const Mount* mount, const HostSnapshot& snapshot,
                   std::string& device_name) {
    const auto& devices = devices_of(snapshot);
    device_name = find_device(devices, entry.source);
    if (is_tag(entry.source)) {
        if (device_name.empty()) {
            // Without udev's record of the mounted device the tag cannot be checked: it is taken
            // to name what is mounted there, which is how it got there.
            const auto mounted = find_device(devices, mount->source);
            const auto found = devices.find(mounted);
            if (found != devices.end() && !found->second.udev.empty()) {
                entry.detail = entry.source + " names no device";
                return FstrimSkip::UnknownSource;
            }
            device_name = mounted;
            entry.source = mount->source;
            return FstrimSkip::None;
        }
        entry.source = device_path(devices.at(device_name));
    } else if (entry.source == "/dev/root" && mount->device.major != 0) {
        // The kernel's own name of the root before any /dev: libmount asks for the number.
        for (const auto& [name, device] : devices) {
            if (device.number == mount->device) {
                device_name = name;
                entry.source = device_path(device);
            }
        }
    }
    if (!entry.source.starts_with('/')) {
        entry.detail = "its source " + entry.source + " is no path";
        return FstrimSkip::UnknownSource;
    }
    return FstrimSkip::None;
}

FstrimEntry judge_row(const Row& row, const FstrimCommand& command, const HostSnapshot& snapshot,
                      const Unit* unit) {
    FstrimEntry entry{.mount = row.mount, .source = row.source, .line = row.line};
    entry.skip = unwanted(row, command, entry.detail);
    if (entry.skip != FstrimSkip::None) {
        return entry;
    }
    const Mount* mount = topmost(snapshot, row.mount);
    entry.skip = unreachable(mount, snapshot, unit, row.mount, entry.detail);
    if (entry.skip != FstrimSkip::None) {
        return entry;
    }
    std::string device_name;
    entry.skip = resolve(entry, mount, snapshot, device_name);
    const auto device = devices_of(snapshot).find(device_name);
    if (entry.skip == FstrimSkip::None && device != devices_of(snapshot).end()) {
        entry.skip = unable(device->second, entry);
    } else if (entry.skip == FstrimSkip::None && !snapshot.block_devices) {
        entry.uncertain = true;
        entry.detail = "block devices are not known";
    }
    return entry;
}

void drop_later_of_each_source(std::vector<FstrimEntry>& entries) {
    for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
        if (entry->skip != FstrimSkip::None) {
            continue;
        }
        const auto earlier = std::find_if(entries.begin(), entry, [&](const auto& other) {
            return other.skip == FstrimSkip::None && other.source == entry->source;
        });
        if (earlier != entry) {
            entry->skip = FstrimSkip::Duplicate;
            entry->detail = "same source as " + earlier->mount;
        }
    }
}

// fstab without "/": fstrim adds it with the device that root= of the kernel's command line names
// (libmount, mnt_guess_system_root() with no device number).
void guess_root(std::vector<Row>& rows, const HostSnapshot& snapshot, FstrimSelection& selection) {
    if (std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.mount == "/"; })) {
        return;
    }
    const Mount* root = topmost(snapshot, "/");
    if (root == nullptr) {
        return;
    }
    std::string source = root->source;
    if (snapshot.kernel_command_line) {
        source.clear();
        for (const auto& word : split(*snapshot.kernel_command_line, " \t\n")) {
            if (word.starts_with("root=")) {
                source = unquoted(std::string_view(word).substr(5));
            }
        }
        if (source.empty()) {
            return;
        }
        if (!source.starts_with('/') && !is_tag(source)) {
            source = root->source; // "259:2" or "10302": a device number, the mounted one
        }
    }
    selection.root_guessed = true;
    rows.push_back({"/", source, "auto", {}, 0});
}

FstrimSelection select_explicit(const FstrimCommand& command, const HostSnapshot& snapshot) {
    FstrimSelection selection;
    for (const auto& path : command.mounts) {
        const Mount* holder = nullptr;
        for (const auto& mount : *snapshot.mounts) {
            if (is_below(path, mount.mount_point) &&
                (holder == nullptr || mount.mount_point.size() >= holder->mount_point.size())) {
                holder = &mount;
            }
        }
        if (holder != nullptr) {
            selection.entries.push_back({.mount = holder->mount_point, .source = holder->source});
        }
    }
    return selection;
}

} // namespace

FstrimCommand parse_fstrim_command(const std::vector<std::string>& argv) {
    FstrimCommand command;
    if (argv.empty() || base_name(argv[0]) != "fstrim") {
        return command;
    }
    bool options = true;
    for (std::size_t i = 1; i < argv.size(); ++i) {
        const std::string& word = argv[i];
        if (options && word == "--") {
            options = false;
        } else if (options && word.starts_with("--")) {
            const auto equals = word.find('=');
            const Option* option = find_long(std::string_view(word).substr(2, equals - 2));
            const bool inline_value = equals != std::string::npos;
            // "--quiet" (2.34) and "--quite-unsupported" (2.35.0) were spellings of the same.
            if (option == nullptr && word != "--quite-unsupported") {
                return command;
            }
            const char letter = option == nullptr ? 'q' : option->letter;
            std::string argument;
            if (option != nullptr && option->argument) {
                if (!inline_value && i + 1 == argv.size()) {
                    return command;
                }
                argument = inline_value ? word.substr(equals + 1) : argv[++i];
            }
            if (!apply(command, letter, argument)) {
                return command;
            }
        } else if (options && word.size() > 1 && word[0] == '-') {
            for (std::size_t at = 1; at < word.size(); ++at) {
                const Option* option = find_short(word[at]);
                if (option == nullptr) {
                    return command;
                }
                std::string argument;
                if (option->argument) {
                    argument = word.substr(at + 1);
                    at = word.size();
                    if (argument.empty()) {
                        if (i + 1 == argv.size()) {
                            return command;
                        }
                        argument = argv[++i];
                    }
                }
                if (!apply(command, option->letter, argument)) {
                    return command;
                }
            }
        } else {
            command.mounts.push_back(
                word.size() > 1 && word.back() == '/' ? word.substr(0, word.size() - 1) : word);
        }
    }
    const bool tables = command.all || !command.listed_in.empty();
    command.understood = tables ? command.mounts.empty() : command.mounts.size() == 1;
    return command;
}

std::optional<TrimmedLine> parse_trimmed_line(const std::string& message) {
    // "MOUNT: AMOUNT (N bytes) trimmed on DEVICE". Read from the right, since a mount point may
    // hold anything, and without the words, since they are translated.
    const auto open = message.rfind(" (");
    const auto close = message.find(')', open == std::string::npos ? 0 : open);
    if (open == std::string::npos || close == std::string::npos || message[0] != '/') {
        return std::nullopt;
    }
    const auto colon = message.rfind(": ", open);
    if (colon == std::string::npos || colon == 0) {
        return std::nullopt;
    }
    TrimmedLine line;
    line.mount = message.substr(0, colon);
    const std::string inner = message.substr(open + 2, close - open - 2);
    const auto [stop, error] =
        std::from_chars(inner.data(), inner.data() + inner.size(), line.bytes);
    if (error == std::errc::result_out_of_range) {
        return std::nullopt;
    }
    if (error != std::errc{}) {
        if (!message.substr(colon + 2, open - colon - 2).starts_with("0 ")) {
            return std::nullopt;
        }
        line.dry_run = true;
    } else if (*stop != ' ') {
        return std::nullopt;
    }
    const auto path = message.rfind(" /");
    if (path != std::string::npos && path > close) {
        line.device = message.substr(path + 1);
    }
    return line;
}

std::string find_device(const std::map<std::string, BlockDevice>& devices,
                        const std::string& source) {
    if (source.starts_with('/')) {
        for (const auto& [name, device] : devices) {
            if (answers_to_path(device, source)) {
                return name;
            }
        }
        return {};
    }
    const auto equals = source.find('=');
    if (equals == std::string::npos) {
        return {};
    }
    const std::string property(property_of_tag(std::string_view(source).substr(0, equals)));
    const std::string value = unquoted(std::string_view(source).substr(equals + 1));
    if (property.empty() || value.empty()) {
        return {};
    }
    for (const auto& [name, device] : devices) {
        // The members of a RAID or of a multi-device filesystem may share a UUID with it: what is
        // mounted is never a raid member.
        if (udev_property(device, property) == value ||
            udev_property(device, property + "_ENC") == value) {
            if (!udev_property(device, "ID_FS_TYPE").ends_with("_raid_member")) {
                return name;
            }
        }
    }
    return {};
}

bool is_pseudo_filesystem(const std::string& type) {
    // Sorted. From libmount/src/utils.c.
    constexpr std::array<std::string_view, 55> kPseudo{
        "anon_inodefs",
        "apparmorfs",
        "autofs",
        "bdev",
        "binder",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "cpuset",
        "debugfs",
        "devfs",
        "devpts",
        "devtmpfs",
        "dlmfs",
        "dmabuf",
        "drm",
        "efivarfs",
        "fuse",
        "fuse.archivemount",
        "fuse.avfsd",
        "fuse.dumpfs",
        "fuse.encfs",
        "fuse.gvfs-fuse-daemon",
        "fuse.gvfsd-fuse",
        "fuse.lxcfs",
        "fuse.portal",
        "fuse.rofiles-fuse",
        "fuse.vmware-vmblock",
        "fuse.xwmfs",
        "fusectl",
        "hugetlbfs",
        "ipathfs",
        "mqueue",
        "nfsd",
        "none",
        "nsfs",
        "overlay",
        "pidfs",
        "pipefs",
        "proc",
        "pstore",
        "ramfs",
        "resctrl",
        "rootfs",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "smackfs",
        "sockfs",
        "spufs",
        "sysfs",
        "tmpfs",
        "tracefs",
    };
    return std::binary_search(kPseudo.begin(), kPseudo.end(), type) || type == "virtiofs" ||
           type == "vboxsf" || type == "fuse.kio-fuse";
}

bool is_network_filesystem(const std::string& type) {
    constexpr std::array<std::string_view, 10> kNetwork{
        "afs",        "ceph",  "cifs",      "fuse.curlftpfs", "fuse.glusterfs",
        "fuse.sshfs", "ncpfs", "glusterfs", "smb3",           "smbfs",
    };
    return type.starts_with("nfs") || type.starts_with("9p") ||
           std::find(kNetwork.begin(), kNetwork.end(), type) != kNetwork.end();
}

std::optional<std::string> sandbox_hides(const Unit& unit, const std::string& mount) {
    const auto value = [&](const std::string& key) {
        const auto found = unit.sandbox.find(key);
        return found == unit.sandbox.end() ? std::string() : found->second;
    };
    const auto named = [&](const std::string& key) {
        for (auto path : split(value(key), " \t")) {
            path.erase(0, path.find_first_not_of("-+"));
            if (is_below(mount, path)) {
                return true;
            }
        }
        return false;
    };
    const auto below_any = [&](std::initializer_list<const char*> paths) {
        return std::any_of(paths.begin(), paths.end(),
                           [&](const char* path) { return is_below(mount, path); });
    };
    for (const char* key : {"InaccessiblePaths", "ReadOnlyPaths"}) {
        if (named(key) && !named("ReadWritePaths")) {
            return fmt::format("{}={}", key, value(key));
        }
    }
    const std::string home = value("ProtectHome");
    if ((home == "yes" || home == "read-only" || home == "tmpfs") &&
        below_any({"/home", "/root", "/run/user"}) && !named("ReadWritePaths")) {
        return "ProtectHome=" + home;
    }
    const std::string system = value("ProtectSystem");
    const bool hidden =
        (system == "strict" && !below_any({"/dev", "/proc", "/sys"})) ||
        ((system == "yes" || system == "full") && below_any({"/usr", "/boot", "/efi"})) ||
        (system == "full" && below_any({"/etc"}));
    if (hidden && !named("ReadWritePaths")) {
        return "ProtectSystem=" + system;
    }
    return std::nullopt;
}

FstrimSelection select_fstrim(const FstrimCommand& command, const HostSnapshot& snapshot,
                              const Unit* unit) {
    FstrimSelection selection;
    if (!command.understood) {
        selection.problem = "the command line is not one of fstrim that can be followed";
        return selection;
    }
    if (!snapshot.mounts) {
        selection.problem = "the mount table is not known";
        return selection;
    }
    if (!command.mounts.empty()) {
        return select_explicit(command, snapshot);
    }
    const auto files =
        command.all ? std::vector<std::string>{"/proc/self/mountinfo"} : command.listed_in;
    std::vector<Row> rows;
    for (const auto& file : files) {
        if (is_kernel_table(file)) {
            selection.table = file;
            selection.kernel_table = true;
            rows = rows_of_kernel_table(snapshot);
            break;
        }
        const auto table = snapshot.tables.find(file);
        if (table == snapshot.tables.end() || table->second.is_not_recorded()) {
            selection.problem = file + " was not read";
            return selection;
        }
        if (table->second.is_known_absent()) {
            selection.passed_over.push_back(file + " (does not exist)");
            continue;
        }
        if (!table->second) {
            selection.problem = file + " could not be read: " + table->second.error().text();
            return selection;
        }
        if (table->second->empty()) {
            selection.passed_over.push_back(file + " (has no entry)");
            continue;
        }
        selection.table = file;
        rows = rows_of_fstab(*table->second);
        break;
    }
    keep_last_of_each_mount(rows);
    if (selection.table == "/etc/fstab") {
        guess_root(rows, snapshot, selection);
    }
    for (const auto& row : rows) {
        selection.entries.push_back(judge_row(row, command, snapshot, unit));
    }
    const auto& words = snapshot.kernel_command_line;
    if (selection.root_guessed && !words.has_value() && !words.is_not_recorded()) {
        selection.entries.back().uncertain = true;
        selection.entries.back().detail = "the kernel's command line could not be read";
    }
    drop_later_of_each_source(selection.entries);
    return selection;
}

} // namespace nvmaint::core
