// A recording is made by collecting: every access that a reader made to the root is written down,
// with the links it went through. So a recording holds what the readers read, no more and no less,
// and a new reader needs no word here unless it reads outside the folders listed below.
#include "collect/record.hpp"

#include "admin/open_in_root.hpp"
#include "collect/collect.hpp"
#include "collect/kmod.hpp"
#include "collect/recording_toml.hpp"
#include "collect/redact.hpp"
#include "collect/text.hpp"
#include "core/trim_truth.hpp"
#include "values/errno_name.hpp"

#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <systemd/sd-id128.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

namespace nvmaint::collect {
namespace {

constexpr const char* kModuleNode = "/dev/nvmaint";
constexpr int kMaxLinks = 40; // as the kernel: path_resolution(7)

// What may be written down. Anything else that a reader touches (PID 1's environment, the
// processor's description) stays on the host; its result is in the manifest.
constexpr std::array<std::string_view, 17> kRecorded = {
    "proc/1/mountinfo",
    "proc/diskstats",
    "proc/cmdline",
    "proc/modules",
    "proc/sys/kernel/io_uring_disabled",
    "sys/block",
    "sys/class/block",
    "sys/class/nvme",
    "sys/class/nvme-subsystem",
    "sys/class/scsi_disk",
    "sys/module",
    "sys/kernel/security/lockdown",
    "etc/fstab",
    "etc/crypttab",
    "etc/nvmaint",
    "run/udev/data",
    "var/lib/systemd/timers",
};
// Where links of /dev say what udev's database would.
constexpr std::string_view kDeviceLinks = "dev/disk";
// UUID of this program, for sd_id128_get_machine_app_specific(3).
constexpr sd_id128_t kApplication =
    SD_ID128_MAKE(6e, 2a, 55, c1, 0d, 1b, 4f, 0e, 93, 5f, 51, 7c, 2b, a8, 40, d6);

bool is_below(std::string_view path, std::string_view folder) {
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

// The folder being written. Nothing is ever written through a link: those lead, as on the host, to
// anywhere.
class Folder {
  public:
    static Result<Folder> create(const std::string& path) {
        if (mkdir(path.c_str(), 0700) != 0) {
            return Error::system(errno, path);
        }
        Folder folder;
        folder.fd_ = UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        if (folder.fd_.get() < 0) {
            return Error::system(errno, path);
        }
        return folder;
    }

    Result<Done> make_folder(const std::string& path) const {
        if (path.empty()) {
            return Done{};
        }
        TRY(above, make_folder(parent_of(path)));
        (void)above; // carries nothing
        TRY(parent, open_folder(parent_of(path)));
        if (mkdirat(parent.get(), name_of(path).c_str(), 0755) != 0 && errno != EEXIST) {
            return Error::system(errno, path);
        }
        return Done{};
    }

    Result<Done> make_link(const std::string& path, const std::string& target) const {
        TRY(above, make_folder(parent_of(path)));
        (void)above; // carries nothing
        TRY(parent, open_folder(parent_of(path)));
        if (symlinkat(target.c_str(), parent.get(), name_of(path).c_str()) != 0 &&
            errno != EEXIST) {
            return Error::system(errno, path);
        }
        return Done{};
    }

    // The first content of a path stays: it is what the snapshot was made of.
    Result<Done> write_file(const std::string& path, std::string_view content) const {
        TRY(above, make_folder(parent_of(path)));
        (void)above; // carries nothing
        TRY(parent, open_folder(parent_of(path)));
        const UniqueFd file(openat(parent.get(), name_of(path).c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
        if (file.get() < 0) {
            return errno == EEXIST ? Result<Done>(Done{}) : Error::system(errno, path);
        }
        while (!content.empty()) {
            const ssize_t written = ::write(file.get(), content.data(), content.size());
            if (written < 0 && errno == EINTR) {
                continue;
            }
            if (written < 0) {
                return Error::system(errno, path);
            }
            content.remove_prefix(static_cast<std::size_t>(written));
        }
        return Done{};
    }

  private:
    Folder() = default;

    [[nodiscard]] Result<UniqueFd> open_folder(const std::string& path) const {
        open_how how{};
        how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
        how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
        const long fd =
            syscall(SYS_openat2, fd_.get(), path.empty() ? "." : path.c_str(), &how, sizeof how);
        if (fd < 0) {
            return Error::system(errno, path);
        }
        return UniqueFd(static_cast<int>(fd));
    }

    UniqueFd fd_;
};

// Passes commands on and keeps what came back, by file name.
class RecordingAdmin final : public nvme::NvmeAdmin {
  public:
    explicit RecordingAdmin(nvme::NvmeAdmin& inner) : inner_(inner) {}

    Result<nvme::Bytes> identify_controller(const std::string& controller) override {
        return keep(controller, "id-ctrl", inner_.identify_controller(controller));
    }
    Result<nvme::Bytes> identify_namespace(const std::string& controller,
                                           std::uint32_t nsid) override {
        return keep(controller, fmt::format("id-ns-{}", nsid),
                    inner_.identify_namespace(controller, nsid));
    }
    Result<nvme::Bytes> get_log(const std::string& controller, std::uint8_t lid,
                                std::uint32_t length) override {
        return keep(controller, fmt::format("log-{:02x}", lid),
                    inner_.get_log(controller, lid, length));
    }

    [[nodiscard]] const std::map<std::string, Result<nvme::Bytes>>& pages() const { return pages_; }

  private:
    Result<nvme::Bytes> keep(const std::string& controller, const std::string& name,
                             Result<nvme::Bytes> page) {
        pages_.insert_or_assign("nvme/" + controller + "/" + name, page);
        return page;
    }

    nvme::NvmeAdmin& inner_;
    std::map<std::string, Result<nvme::Bytes>> pages_;
};

HashKey make_key(const HostRoot& root) {
    HashKey key{};
    sd_id128_t id{};
    if (root.is_live() && sd_id128_get_machine_app_specific(kApplication, &id) >= 0) {
        std::copy(std::begin(id.bytes), std::end(id.bytes), key.begin());
        return key;
    }
    std::size_t filled = 0;
    while (filled < key.size()) {
        const ssize_t got = getrandom(key.data() + filled, key.size() - filled, 0);
        filled += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    return key;
}

class Recorder {
  public:
    Recorder(const HostRoot& root, Folder folder, std::optional<Redactor> redactor)
        : root_(root), folder_(std::move(folder)), redactor_(std::move(redactor)) {}

    void note(const Access& access) { accesses_.push_back(access); }

    Result<Done> write(const core::HostSnapshot& snapshot, const RecordingAdmin& admin) {
        if (redactor_) {
            learn(snapshot, admin);
        }
        for (const auto& [path, table] : snapshot.tables) {
            tables_.push_back(relative_path(path));
        }
        for (const Access& access : accesses_) {
            TRY(done, write_access(access));
            (void)done; // carries nothing
        }
        for (const auto& [path, page] : admin.pages()) {
            TRY(done, write_page(path, page));
            (void)done; // carries nothing
        }
        TRY(counted, write_latency(snapshot));
        (void)counted; // carries nothing
        if (!stat_.empty()) {
            TRY(done, folder_.write_file("stat.toml", format_stat_toml(stat_)));
            (void)done; // carries nothing
        }
        return folder_.write_file("manifest.toml", format_manifest_toml(manifest_of(snapshot)));
    }

  private:
    [[nodiscard]] bool is_recorded(const Access& access) const {
        const std::string& path = access.path;
        return access.kind == Access::Kind::Source ||
               std::any_of(kRecorded.begin(), kRecorded.end(),
                           [&](std::string_view folder) { return is_below(path, folder); }) ||
               std::find(tables_.begin(), tables_.end(), path) != tables_.end() ||
               is_below(path, kDeviceLinks);
    }

    Result<Done> write_access(const Access& access) {
        if (!is_recorded(access) || !is_utf8(access.path)) {
            return Done{};
        }
        if (!access.outcome) {
            note_error(access.path, access.outcome.error());
            return Done{};
        }
        switch (access.kind) {
        case Access::Kind::Source:
            return folder_.write_file(access.path, redacted(access.path, *access.outcome));
        case Access::Kind::Read: {
            TRY(path, follow(access.path));
            return folder_.write_file(path, redacted(path, *access.outcome));
        }
        case Access::Kind::List:
            return write_list(access);
        case Access::Kind::Link: {
            TRY(parent, follow(parent_of(access.path)));
            return make_link(parent, name_of(access.path), *access.outcome);
        }
        case Access::Kind::Resolve: {
            TRY(path, follow(access.path));
            return is_folder(path) ? folder_.make_folder(path) : Result<Done>(Done{});
        }
        case Access::Kind::Mtime: {
            stat_[access.path].mtime = access.mtime;
            TRY(path, follow(access.path));
            return folder_.write_file(path, "");
        }
        }
        return Done{};
    }

    void note_error(const std::string& path, const Error& error) {
        if (error.kind == ErrorKind::NotRecorded) {
            return;
        }
        StatEntry& entry = stat_[path];
        if (error.kind == ErrorKind::System && error.sys_errno != 0) {
            entry.sys_errno = error.sys_errno;
            return;
        }
        // The reader puts the path in front again.
        std::string text = error.text();
        if (text.starts_with(path + ": ")) {
            text.erase(0, path.size() + 2);
        }
        entry.unsupported = redactor_ ? redactor_->text(text) : text;
    }

    // Of a folder's entries only links and folders: a file that nobody read has no content here.
    Result<Done> write_list(const Access& access) {
        TRY(folder, follow(access.path));
        TRY(made, folder_.make_folder(folder));
        (void)made; // carries nothing
        for (const std::string& name : access.names) {
            const std::string path = folder.empty() ? name : folder + "/" + name;
            Result<Done> done = Done{};
            if (const Result<std::string> target = root_.read_link(path)) {
                done = make_link(folder, name, *target);
            } else if (is_folder(path)) {
                done = folder_.make_folder(path);
            }
            if (!done) {
                return done;
            }
        }
        return Done{};
    }

    [[nodiscard]] bool is_folder(const std::string& path) const {
        return open_in_root(root_.fd(), path, O_PATH | O_DIRECTORY).has_value();
    }

    Result<Done> make_link(const std::string& folder, const std::string& name,
                           const std::string& target) {
        const bool by_id = redactor_ && folder.ends_with("disk/by-id");
        const std::string shown = by_id ? redactor_->by_id_name(name) : name;
        return folder_.make_link(folder.empty() ? shown : folder + "/" + shown, target);
    }

    // Where the path leads on the host; the links on the way are written down as they are.
    Result<std::string> follow(const std::string& path) {
        const auto known = followed_.find(path);
        if (known != followed_.end()) {
            return known->second;
        }
        std::string rest = relative_path(path);
        std::string at;
        for (int links = 0; !rest.empty();) {
            const std::size_t slash = std::min(rest.find('/'), rest.size());
            const std::string name = rest.substr(0, slash);
            rest.erase(0, slash + 1);
            if (name == "..") {
                at = parent_of(at);
                continue;
            }
            const std::string next = at.empty() ? name : at + "/" + name;
            const Result<std::string> target = root_.read_link(next);
            if (!target) {
                at = next;
                continue;
            }
            if (++links > kMaxLinks) {
                return Error::system(ELOOP, path);
            }
            TRY(made, make_link(at, name, *target));
            (void)made; // carries nothing
            if (target->starts_with('/')) {
                at.clear();
            }
            rest = relative_path(*target) + (rest.empty() ? "" : "/" + rest);
        }
        followed_.emplace(path, at);
        return at;
    }

    [[nodiscard]] std::string redacted(const std::string& path, const std::string& content) const {
        return redactor_ ? redactor_->file(path, content) : content;
    }

    Result<Done> write_page(const std::string& path, const Result<nvme::Bytes>& page) {
        if (!page) {
            const Error& error = page.error();
            if (error.kind == ErrorKind::NvmeStatus) {
                return folder_.write_file(path + ".status",
                                          fmt::format("{:x}\n", error.nvme_status));
            }
            if (error.kind == ErrorKind::System && error.sys_errno != 0) {
                return folder_.write_file(path + ".status", errno_name(error.sys_errno) + "\n");
            }
            return Done{};
        }
        nvme::Bytes bytes = *page;
        if (redactor_ && bytes.size() == 4096) {
            if (path.ends_with("id-ctrl")) {
                redactor_->identify_controller(bytes);
            } else if (path.find("/id-ns-") != std::string::npos) {
                redactor_->identify_namespace(bytes);
            }
        }
        return folder_.write_file(path + ".bin",
                                  {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }

    // What nvmaint.ko has counted for somebody else, such as the service: with us its counting
    // would only begin.
    Result<Done> write_latency(const core::HostSnapshot& snapshot) {
        if (!root_.is_live() || !snapshot.block_devices || access(kModuleNode, F_OK) != 0) {
            return Done{};
        }
        for (const auto& [disk, device] : *snapshot.block_devices) {
            if (device.nvme_controller.empty() || !device.partition_of.empty()) {
                continue;
            }
            TRY(paths, paths_of_head(root_, disk));
            if (paths.empty()) {
                paths.emplace_back(); // the disk itself
            }
            for (const std::string& path : paths) {
                const auto bytes = kmod_snapshot(kModuleNode, disk, path);
                const auto counted =
                    bytes ? parse_kmod_snapshot(*bytes) : Result<core::DiskLatency>(bytes.error());
                if (!counted || counted->now - counted->attached < std::chrono::seconds{1}) {
                    continue;
                }
                TRY(done, folder_.write_file(
                              "kmod/" + (path.empty() ? disk : path) + ".bin",
                              {reinterpret_cast<const char*>(bytes->data()), bytes->size()}));
                (void)done; // carries nothing
            }
        }
        return Done{};
    }

    void learn(const core::HostSnapshot& snapshot, const RecordingAdmin& admin) {
        using Kind = Redactor::Kind;
        for (const Access& access : accesses_) {
            if (access.outcome && access.path.starts_with("run/udev/data/")) {
                redactor_->learn_udev(*access.outcome);
            }
        }
        if (snapshot.controllers) {
            for (const auto& [name, controller] : *snapshot.controllers) {
                redactor_->learn(Kind::Serial, controller.serial.value_or(""));
                redactor_->learn(Kind::Nqn, controller.subsystem_nqn.value_or(""));
                learn_addresses(controller.address.value_or(""));
            }
        }
        for (const auto& [path, page] : admin.pages()) {
            if (page && path.ends_with("id-ctrl")) {
                if (const Result<nvme::IdentifyController> identify =
                        nvme::decode_identify_controller(*page)) {
                    redactor_->learn(Kind::Serial, identify->serial);
                    redactor_->learn(Kind::Nqn, identify->subsystem_nqn);
                }
            }
        }
        for (const char* file : {"proc/sys/kernel/hostname", "etc/hostname"}) {
            const std::string host = root_.read_line(file).value_or("");
            redactor_->learn(Kind::HostName, host);
            redactor_->learn(Kind::HostName, host.substr(0, host.find('.')));
        }
        redactor_->learn(Kind::MachineId, root_.read_line("etc/machine-id").value_or(""));
        if (snapshot.mounts) {
            for (const core::Mount& mount : *snapshot.mounts) {
                learn_peer(mount.type, mount.source);
                if (core::is_network_filesystem(mount.type)) {
                    for (const std::string& option : mount.super_options) {
                        learn_addresses(option);
                    }
                }
            }
        }
        for (const auto& [path, table] : snapshot.tables) {
            if (table) {
                for (const core::FstabEntry& entry : *table) {
                    learn_peer(entry.type, entry.source);
                }
            }
        }
    }

    // "traddr=10.0.0.1,trsvcid=4420", "clientaddr=10.0.0.2".
    void learn_addresses(std::string_view text) {
        for (const std::string_view pair : split_fields(text, ", \t")) {
            const std::size_t equals = pair.find('=');
            if (equals != std::string_view::npos && pair.substr(0, equals).ends_with("addr")) {
                redactor_->learn(Redactor::Kind::Address, pair.substr(equals + 1));
            }
        }
    }

    // "server:/export", "//server/share".
    void learn_peer(const std::string& type, std::string_view source) {
        if (!core::is_network_filesystem(type)) {
            return;
        }
        if (source.starts_with("//")) {
            source.remove_prefix(2);
            source = source.substr(0, source.find('/'));
        } else {
            source = source.substr(0, source.find(":/"));
        }
        redactor_->learn(Redactor::Kind::HostName, source);
    }

    [[nodiscard]] Manifest manifest_of(const core::HostSnapshot& snapshot) const {
        const auto told = [](const auto& reading) {
            using Value = std::decay_t<decltype(*reading)>;
            return reading ? std::optional<Value>(*reading) : std::nullopt;
        };
        Manifest manifest{.now = snapshot.now.wall,
                          .uptime = told(snapshot.uptime),
                          .utc_offset = told(snapshot.utc_offset),
                          .boot_id = told(snapshot.boot_id),
                          .kernel = told(snapshot.kernel),
                          .container = told(snapshot.container),
                          .virtualization = told(snapshot.virtualization),
                          .init = told(snapshot.init),
                          .redactions = {}};
        if (redactor_) {
            manifest.redactions = Redactor::kinds();
            manifest.kernel =
                manifest.kernel ? std::optional(redactor_->text(*manifest.kernel)) : std::nullopt;
        }
        return manifest;
    }

    const HostRoot& root_;
    Folder folder_;
    std::optional<Redactor> redactor_;
    std::vector<Access> accesses_;
    std::vector<std::string> tables_;
    std::map<std::string, StatEntry> stat_;
    std::map<std::string, std::string> followed_;
};

// Not part of a snapshot, but of what people look at later: the counters of all disks, and the
// policy by which the recording is to be judged.
void read_more(const HostRoot& root) {
    (void)root.read("proc/diskstats"); // noted by the observer, as everything below
    (void)root.read("etc/nvmaint/policy.toml");
    const Result<std::vector<std::string>> files = root.list("etc/nvmaint/policy.d");
    for (const std::string& file : files.value_or(std::vector<std::string>{})) {
        (void)root.read("etc/nvmaint/policy.d/" + file);
    }
}

} // namespace

Result<core::HostSnapshot> record_snapshot(const HostRoot& root, nvme::NvmeAdmin& admin,
                                           const std::string& directory, bool redact) {
    TRY(watched, root.duplicate());
    TRY(folder, Folder::create(directory));
    Recorder recorder(root, std::move(folder),
                      redact ? std::optional(Redactor(make_key(root))) : std::nullopt);
    watched.set_observer([&](const Access& access) { recorder.note(access); });
    RecordingAdmin pages(admin);
    TRY(snapshot, collect_host(watched, pages, {}));
    read_more(watched);
    const Result<Done> written = recorder.write(snapshot, pages);
    if (!written) {
        return written.error().in("writing " + directory);
    }
    return snapshot;
}

Result<Done> record_host(const HostRoot& root, nvme::NvmeAdmin& admin, const std::string& directory,
                         bool redact) {
    TRY(snapshot, record_snapshot(root, admin, directory, redact));
    (void)snapshot; // is in the folder now
    return Done{};
}

} // namespace nvmaint::collect
