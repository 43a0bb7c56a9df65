// Three kinds of objects come and go; each kind is one map from path to a value (objects.hpp) and
// one fallback vtable below its prefix. The map holds what was last announced: find() and the
// property getters read it, publish() compares it with the model and announces the difference. So a
// client that follows the signals never sees a value that they did not tell.
//
//   model: nvme0 firmware 2B6Q ─▶ 2B8Q ── publish() ──▶ PropertiesChanged(".Drive", {"Firmware"})
//                                                        and Get() changes at the same moment
//
// A property is one row: name, getter, comparison. The vtable and the comparison are made from the
// same rows, so that none can be shown and not announced. Signatures follow from the member's type.
#include "bus/server.hpp"

#include "bus/objects.hpp"
#include "bus/paths.hpp"
#include "bus/polkit.hpp"
#include "bus/text.hpp"
#include "bus/wire.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

namespace nvmaint::bus {

namespace {

constexpr const char* kName = "org.nvmaint1";
// A third of the service's WatchdogSec=30: a bus that needs longer for one answer is tried again
// later.
constexpr std::uint64_t kNameTimeoutUsec = 10'000'000;
constexpr const char* kManagerInterface = "org.nvmaint1.Manager";
constexpr const char* kDriveInterface = "org.nvmaint1.Drive";
constexpr const char* kFilesystemInterface = "org.nvmaint1.Filesystem";
constexpr const char* kJobInterface = "org.nvmaint1.Job";

constexpr const char* kErrorRefused = "org.nvmaint1.Error.Refused";
constexpr const char* kErrorAlreadyRunning = "org.nvmaint1.Error.AlreadyRunning";

constexpr std::uint64_t kConstant = SD_BUS_VTABLE_PROPERTY_CONST;
constexpr std::uint64_t kAnnounced = SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE;
constexpr std::uint64_t kSilent = 0; // moves with every second; read it when you want it

class LiveServer;

// What sd-bus hands to callbacks as userdata: an object as last announced, and who answers for it.
template <class Object>
struct Node {
    LiveServer* server = nullptr;
    Object shown;
};

// ---- properties

template <class T>
constexpr const char* signature_of() {
    if constexpr (std::is_same_v<T, std::string>) {
        return "s";
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        return "as";
    } else if constexpr (std::is_same_v<T, double>) {
        return "d";
    } else if constexpr (std::is_same_v<T, std::int32_t>) {
        return "i";
    } else {
        static_assert(std::is_same_v<T, Dictionary>);
        return "a{sv}";
    }
}

template <class Object>
struct Property {
    const char* name;
    const char* signature;
    sd_bus_property_get_t get;
    bool (*same)(const Object&, const Object&);
    std::uint64_t flags;
};

template <class Object, auto Member>
int get_property(sd_bus*, const char*, const char*, const char*, sd_bus_message* reply,
                 void* userdata, sd_bus_error*) noexcept {
    return append(reply, static_cast<const Node<Object>*>(userdata)->shown.*Member);
}

template <class Object, auto Member>
bool is_same(const Object& a, const Object& b) {
    return a.*Member == b.*Member;
}

template <class Object, auto Member>
constexpr Property<Object> property(const char* name, std::uint64_t flags = kAnnounced) {
    using T = std::remove_cvref_t<decltype(std::declval<Object>().*Member)>;
    return {name, signature_of<T>(), get_property<Object, Member>, is_same<Object, Member>, flags};
}

constexpr Property<ManagerObject> kManagerProperties[] = {
    property<ManagerObject, &ManagerObject::version>("Version", kConstant),
    property<ManagerObject, &ManagerObject::mode>("Mode"),
    property<ManagerObject, &ManagerObject::policy_files>("PolicyFiles"),
    property<ManagerObject, &ManagerObject::verdict>("Verdict"),
};

constexpr Property<DriveObject> kDriveProperties[] = {
    property<DriveObject, &DriveObject::name>("Name"),
    property<DriveObject, &DriveObject::model>("Model"),
    property<DriveObject, &DriveObject::firmware>("Firmware"),
    property<DriveObject, &DriveObject::serial>("Serial"),
    property<DriveObject, &DriveObject::disks>("Disks"),
    property<DriveObject, &DriveObject::drive_class>("Class"),
    property<DriveObject, &DriveObject::flush_source>("FlushSource"),
    property<DriveObject, &DriveObject::flush_source_reason>("FlushSourceReason"),
    property<DriveObject, &DriveObject::health>("Health"),
    property<DriveObject, &DriveObject::flush_median_ms>("FlushMedianMilliseconds"),
    property<DriveObject, &DriveObject::flush_last_ms>("FlushLastMilliseconds", kSilent),
};

constexpr Property<FilesystemObject> kFilesystemProperties[] = {
    property<FilesystemObject, &FilesystemObject::mount>("Mount"),
    property<FilesystemObject, &FilesystemObject::mounts>("Mounts"),
    property<FilesystemObject, &FilesystemObject::source>("Source"),
    property<FilesystemObject, &FilesystemObject::type>("Type"),
    property<FilesystemObject, &FilesystemObject::uuid>("UUID"),
    property<FilesystemObject, &FilesystemObject::stack>("Stack"),
    property<FilesystemObject, &FilesystemObject::disks>("Disks"),
    property<FilesystemObject, &FilesystemObject::trim_state>("TrimState"),
    property<FilesystemObject, &FilesystemObject::trim_tier>("TrimTier"),
    property<FilesystemObject, &FilesystemObject::trim_reason>("TrimReason"),
    property<FilesystemObject, &FilesystemObject::last_trim>("LastTrim"),
};

constexpr Property<JobObject> kJobProperties[] = {
    property<JobObject, &JobObject::kind>("Kind", kConstant),
    property<JobObject, &JobObject::subject>("Subject", kConstant),
    property<JobObject, &JobObject::state>("State"),
    property<JobObject, &JobObject::progress>("Progress"),
    property<JobObject, &JobObject::result>("Result"),
};

template <class Object, std::size_t N>
std::vector<sd_bus_vtable> vtable_of(const Property<Object> (&properties)[N],
                                     std::vector<sd_bus_vtable> members = {}) {
    std::vector<sd_bus_vtable> table{SD_BUS_VTABLE_START(0)};
    table.insert(table.end(), members.begin(), members.end());
    for (const Property<Object>& p : properties) {
        // sd-bus keeps flags in a field of 56 bits.
        constexpr std::uint64_t kFlagBits = (std::uint64_t{1} << 56) - 1;
        table.push_back(SD_BUS_PROPERTY(p.name, p.signature, p.get, 0, p.flags & kFlagBits));
    }
    table.push_back(SD_BUS_VTABLE_END);
    return table;
}

// Names of the announced properties that differ.
template <class Object, std::size_t N>
std::vector<const char*> changed_names(const Property<Object> (&properties)[N],
                                       const Object& before, const Object& after) {
    std::vector<const char*> names;
    for (const Property<Object>& p : properties) {
        if (p.flags == kAnnounced && !p.same(before, after)) {
            names.push_back(p.name);
        }
    }
    return names;
}

void announce(sd_bus* bus, const std::string& path, const char* interface,
              std::vector<const char*> names) {
    if (names.empty()) {
        return;
    }
    names.push_back(nullptr);
    // sd-bus takes char** as strv functions do, and leaves the strings alone. A signal that cannot
    // be queued is lost with its connection, and the loop sees that one end.
    (void)sd_bus_emit_properties_changed_strv(bus, path.c_str(), interface,
                                              const_cast<char**>(names.data()));
}

// ---- objects that come and go

template <class Object>
using Objects = std::map<std::string, Node<Object>>; // by path

template <class Object>
int find_object(sd_bus*, const char* path, const char*, void* userdata, void** found,
                sd_bus_error*) noexcept {
    auto& objects = *static_cast<Objects<Object>*>(userdata);
    const auto at = objects.find(path);
    if (at == objects.end()) {
        return 0;
    }
    *found = &at->second;
    return 1;
}

// A strv on the heap of malloc(), as sd_bus_add_node_enumerator(3) wants it.
template <class Object>
int enumerate_objects(sd_bus*, const char*, void* userdata, char*** nodes, sd_bus_error*) noexcept {
    const auto& objects = *static_cast<const Objects<Object>*>(userdata);
    auto** paths = static_cast<char**>(std::calloc(objects.size() + 1, sizeof(char*)));
    if (paths == nullptr) {
        return -ENOMEM;
    }
    std::size_t i = 0;
    for (const auto& [path, node] : objects) {
        paths[i] = strdup(path.c_str());
        if (paths[i] == nullptr) {
            for (; i > 0; --i) {
                std::free(paths[i - 1]);
            }
            std::free(paths);
            return -ENOMEM;
        }
        ++i;
    }
    *nodes = paths;
    return 0;
}

// Turns `objects` into `next` and tells the bus. A removed object is announced while find() still
// knows it, since sd-bus asks for the interfaces that vanish; an added one when it is there.
template <class Object, std::size_t N>
void replace_objects(sd_bus* bus, const char* interface, const Property<Object> (&properties)[N],
                     Objects<Object>& objects, Objects<Object> next) {
    for (auto at = objects.begin(); at != objects.end();) {
        if (next.contains(at->first)) {
            ++at;
            continue;
        }
        (void)sd_bus_emit_object_removed(bus, at->first.c_str());
        at = objects.erase(at);
    }
    for (auto& [path, node] : next) {
        const auto [at, is_new] = objects.try_emplace(path, node);
        if (is_new) {
            (void)sd_bus_emit_object_added(bus, path.c_str());
            continue;
        }
        const auto names = changed_names(properties, at->second.shown, node.shown);
        at->second = std::move(node);
        announce(bus, path, interface, names);
    }
}

// ---- replies

int reply_error(sd_bus_message* call, const Error& error) {
    const char* name = SD_BUS_ERROR_FAILED;
    if (error.kind == ErrorKind::Denied) {
        name = kErrorRefused;
    } else if (error.kind == ErrorKind::Malformed) {
        name = SD_BUS_ERROR_INVALID_ARGS;
    } else if (error.kind == ErrorKind::System && error.sys_errno == EEXIST) {
        name = kErrorAlreadyRunning;
    }
    return sd_bus_reply_method_errorf(call, name, "%s", to_bus_text(error.text()).c_str());
}

// The reply to a call whose outcome is known only after an authorisation: what sd-bus says about
// sending it matters to nobody, the caller may have left.
void answer(sd_bus_message* call, const Result<Done>& outcome) {
    if (outcome) {
        (void)sd_bus_reply_method_return(call, nullptr);
    } else {
        (void)reply_error(call, outcome.error());
    }
}

// ---- the server

struct BusUnref {
    void operator()(sd_bus* bus) const { sd_bus_unref(bus); }
};

class LiveServer final : public Server {
  public:
    LiveServer(sd_bus* bus, const Model& model, Handler& handler, const std::string& polkit_name,
               PolkitPatience patience)
        : bus_(sd_bus_ref(bus)), model_(model), handler_(handler),
          authorizer_(bus, polkit_name, patience) {}

    [[nodiscard]] Result<Done> export_objects();
    [[nodiscard]] Result<Done> request_name() override;
    void publish() override;
    void finding_raised(const core::Finding& finding) override;
    void finding_cleared(const core::Finding& finding) override;

    // Methods. A negative errno, or an error set, is what sd-bus answers for us.
    static int on_list_findings(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept;
    static int on_doctor(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept;
    static int on_list_trims(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept;
    static int on_flush_series(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept;
    static int on_trim(sd_bus_message* call, void* userdata, sd_bus_error* error) noexcept;
    static int on_reload(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept;
    static int on_cancel(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept;

  private:
    template <class Object>
    [[nodiscard]] int export_kind(const char* prefix, const char* interface,
                                  const std::vector<sd_bus_vtable>& table,
                                  Objects<Object>& objects);
    void emit(const char* signal, int (*fill)(sd_bus_message*, const core::Finding&),
              const core::Finding& finding);

    std::unique_ptr<sd_bus, BusUnref> bus_; // outlives the slots below
    const Model& model_;
    Handler& handler_;
    Node<ManagerObject> manager_;
    Objects<DriveObject> drives_;
    Objects<FilesystemObject> filesystems_;
    Objects<JobObject> jobs_;
    PathBook drive_paths_;
    PathBook filesystem_paths_;
    Authorizer authorizer_;
    std::vector<Slot> slots_;
};

// Every method is UNPRIVILEGED to sd-bus, which would otherwise ask for CAP_SYS_ADMIN: who may call
// is the authorizer's business. sd-bus keeps pointers into these for as long as the slots live.
const std::vector<sd_bus_vtable>& manager_vtable() {
    static const std::vector<sd_bus_vtable> table = vtable_of(
        kManagerProperties,
        {
            SD_BUS_METHOD_WITH_ARGS("ListFindings", SD_BUS_NO_ARGS,
                                    SD_BUS_RESULT("a(sssssa{sv})", findings),
                                    LiveServer::on_list_findings, SD_BUS_VTABLE_UNPRIVILEGED),
            SD_BUS_METHOD_WITH_ARGS("Doctor", SD_BUS_NO_ARGS, SD_BUS_RESULT("s", json),
                                    LiveServer::on_doctor, SD_BUS_VTABLE_UNPRIVILEGED),
            SD_BUS_METHOD_WITH_ARGS("ListTrims", SD_BUS_NO_ARGS, SD_BUS_RESULT("s", json),
                                    LiveServer::on_list_trims, SD_BUS_VTABLE_UNPRIVILEGED),
            SD_BUS_METHOD_WITH_ARGS("FlushSeries", SD_BUS_ARGS("s", disk),
                                    SD_BUS_RESULT("a(dd)", points), LiveServer::on_flush_series,
                                    SD_BUS_VTABLE_UNPRIVILEGED),
            SD_BUS_METHOD_WITH_ARGS("Trim", SD_BUS_ARGS("s", mount, "a{sv}", options),
                                    SD_BUS_RESULT("o", job), LiveServer::on_trim,
                                    SD_BUS_VTABLE_UNPRIVILEGED),
            SD_BUS_METHOD_WITH_ARGS("Reload", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT,
                                    LiveServer::on_reload, SD_BUS_VTABLE_UNPRIVILEGED),
            SD_BUS_SIGNAL_WITH_ARGS("FindingRaised",
                                    SD_BUS_ARGS("s", id, "s", reason, "s", severity, "s",
                                                subject_kind, "s", subject, "a{sv}", details),
                                    0),
            SD_BUS_SIGNAL_WITH_ARGS(
                "FindingCleared",
                SD_BUS_ARGS("s", id, "s", reason, "s", severity, "s", subject_kind, "s", subject),
                0),
        });
    return table;
}

const std::vector<sd_bus_vtable>& drive_vtable() {
    static const std::vector<sd_bus_vtable> table = vtable_of(kDriveProperties);
    return table;
}

const std::vector<sd_bus_vtable>& filesystem_vtable() {
    static const std::vector<sd_bus_vtable> table = vtable_of(kFilesystemProperties);
    return table;
}

const std::vector<sd_bus_vtable>& job_vtable() {
    static const std::vector<sd_bus_vtable> table =
        vtable_of(kJobProperties,
                  {
                      SD_BUS_METHOD_WITH_ARGS("Cancel", SD_BUS_NO_ARGS, SD_BUS_NO_RESULT,
                                              LiveServer::on_cancel, SD_BUS_VTABLE_UNPRIVILEGED),
                  });
    return table;
}

template <class Object>
int LiveServer::export_kind(const char* prefix, const char* interface,
                            const std::vector<sd_bus_vtable>& table, Objects<Object>& objects) {
    sd_bus_slot* slot = nullptr;
    int r = sd_bus_add_fallback_vtable(bus_.get(), &slot, prefix, interface, table.data(),
                                       find_object<Object>, &objects);
    slots_.emplace_back(slot);
    if (r < 0) {
        return r;
    }
    slot = nullptr;
    r = sd_bus_add_node_enumerator(bus_.get(), &slot, prefix, enumerate_objects<Object>, &objects);
    slots_.emplace_back(slot);
    return r;
}

Result<Done> LiveServer::export_objects() {
    manager_ = {.server = this, .shown = manager_object(model_)};
    sd_bus_slot* slot = nullptr;
    int r = sd_bus_add_object_vtable(bus_.get(), &slot, kRootPath, kManagerInterface,
                                     manager_vtable().data(), &manager_);
    slots_.emplace_back(slot);
    if (r >= 0) {
        slot = nullptr;
        r = sd_bus_add_object_manager(bus_.get(), &slot, kRootPath);
        slots_.emplace_back(slot);
    }
    if (r >= 0) {
        r = export_kind(kDrivePrefix, kDriveInterface, drive_vtable(), drives_);
    }
    if (r >= 0) {
        r = export_kind(kFilesystemPrefix, kFilesystemInterface, filesystem_vtable(), filesystems_);
    }
    if (r >= 0) {
        r = export_kind(kJobPrefix, kJobInterface, job_vtable(), jobs_);
    }
    if (r < 0) {
        return Error::system(-r, "exporting D-Bus objects");
    }
    return Done{};
}

Result<Done> LiveServer::request_name() {
    // The loop waits here, and a watchdog waits for the loop.
    std::uint64_t usual = 0;
    (void)sd_bus_get_method_call_timeout(bus_.get(), &usual);
    (void)sd_bus_set_method_call_timeout(bus_.get(), kNameTimeoutUsec);
    const int r = sd_bus_request_name(bus_.get(), kName, 0); // no queue, no replacement
    (void)sd_bus_set_method_call_timeout(bus_.get(), usual);
    if (r == -EEXIST) {
        return Error::system(EEXIST, "another instance owns the D-Bus name org.nvmaint1");
    }
    if (r < 0) {
        return Error::system(-r, "requesting the D-Bus name org.nvmaint1");
    }
    return Done{};
}

void LiveServer::publish() {
    ManagerObject manager = manager_object(model_);
    const auto names = changed_names(kManagerProperties, manager_.shown, manager);
    manager_.shown = std::move(manager);
    announce(bus_.get(), kRootPath, kManagerInterface, names);

    const core::Diagnosis& diagnosis = model_.diagnosis;
    std::vector<PathBook::Wish> wishes;
    for (const core::DriveView& drive : diagnosis.drives) {
        const auto identity = model_.drive_identities.find(drive.name);
        const bool known = identity != model_.drive_identities.end() && !identity->second.empty();
        wishes.push_back(
            {.name = drive.name, .path = known ? drive_path(identity->second) : drive_path(drive)});
    }
    std::vector<std::string> paths = drive_paths_.assign(wishes);
    Objects<DriveObject> drives;
    for (std::size_t i = 0; i < paths.size(); ++i) {
        drives[paths[i]] = {.server = this, .shown = drive_object(diagnosis.drives[i])};
    }
    replace_objects(bus_.get(), kDriveInterface, kDriveProperties, drives_, std::move(drives));

    wishes.clear();
    for (const core::FilesystemView& filesystem : diagnosis.filesystems) {
        wishes.push_back({.name = filesystem.mount, .path = filesystem_path(filesystem)});
    }
    paths = filesystem_paths_.assign(wishes);
    Objects<FilesystemObject> filesystems;
    for (std::size_t i = 0; i < paths.size(); ++i) {
        filesystems[paths[i]] = {
            .server = this, .shown = filesystem_object(diagnosis.filesystems[i], model_.trims)};
    }
    replace_objects(bus_.get(), kFilesystemInterface, kFilesystemProperties, filesystems_,
                    std::move(filesystems));

    Objects<JobObject> jobs;
    for (const JobView& job : model_.jobs) {
        jobs[job_path(job.id)] = {.server = this, .shown = job_object(job)};
    }
    replace_objects(bus_.get(), kJobInterface, kJobProperties, jobs_, std::move(jobs));
}

void LiveServer::emit(const char* signal, int (*fill)(sd_bus_message*, const core::Finding&),
                      const core::Finding& finding) {
    sd_bus_message* raw = nullptr;
    int r = sd_bus_message_new_signal(bus_.get(), &raw, kRootPath, kManagerInterface, signal);
    const Message message(raw);
    if (r >= 0) {
        r = fill(raw, finding);
    }
    if (r >= 0) {
        // A signal that cannot be queued is lost with its connection; the journal has it, too.
        (void)sd_bus_send(bus_.get(), raw, nullptr);
    }
}

void LiveServer::finding_raised(const core::Finding& finding) {
    emit("FindingRaised", append_finding, finding);
}

void LiveServer::finding_cleared(const core::Finding& finding) {
    emit("FindingCleared", append_finding_key, finding);
}

LiveServer& server_of(void* userdata) {
    return *static_cast<const Node<ManagerObject>*>(userdata)->server;
}

int LiveServer::on_list_findings(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept {
    const LiveServer& self = server_of(userdata);
    sd_bus_message* raw = nullptr;
    int r = sd_bus_message_new_method_return(call, &raw);
    const Message reply(raw);
    if (r >= 0) {
        r = sd_bus_message_open_container(raw, 'a', "(sssssa{sv})");
    }
    for (const core::Finding& finding : self.model_.diagnosis.findings) {
        if (r >= 0) {
            r = sd_bus_message_open_container(raw, 'r', "sssssa{sv}");
        }
        if (r >= 0) {
            r = append_finding(raw, finding);
        }
        if (r >= 0) {
            r = sd_bus_message_close_container(raw);
        }
    }
    if (r >= 0) {
        r = sd_bus_message_close_container(raw);
    }
    return r < 0 ? r : sd_bus_message_send(raw);
}

int LiveServer::on_doctor(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept {
    const LiveServer& self = server_of(userdata);
    return sd_bus_reply_method_return(call, "s", to_bus_json(self.model_.doctor_json).c_str());
}

int LiveServer::on_list_trims(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept {
    const LiveServer& self = server_of(userdata);
    return sd_bus_reply_method_return(call, "s", to_bus_json(self.model_.trims_json).c_str());
}

int LiveServer::on_flush_series(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept {
    const LiveServer& self = server_of(userdata);
    const char* disk = nullptr;
    int r = sd_bus_message_read(call, "s", &disk);
    if (r < 0) {
        return r;
    }
    sd_bus_message* raw = nullptr;
    r = sd_bus_message_new_method_return(call, &raw);
    const Message reply(raw);
    if (r >= 0) {
        r = sd_bus_message_open_container(raw, 'a', "(dd)");
    }
    for (const FlushPoint& point : flush_series(self.model_, disk)) {
        if (r >= 0) {
            r = sd_bus_message_append(raw, "(dd)", point.seconds, point.milliseconds);
        }
    }
    if (r >= 0) {
        r = sd_bus_message_close_container(raw);
    }
    return r < 0 ? r : sd_bus_message_send(raw);
}

int LiveServer::on_trim(sd_bus_message* call, void* userdata, sd_bus_error* error) noexcept {
    LiveServer& self = server_of(userdata);
    const char* mount = nullptr;
    const int r = sd_bus_message_read(call, "s", &mount);
    if (r < 0) {
        return r;
    }
    if (*mount != '/') {
        return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS,
                                "mount is not the absolute path of a mount point");
    }
    Result<Dictionary> options = read_options(call);
    if (!options) {
        return sd_bus_error_set(error, SD_BUS_ERROR_INVALID_ARGS, options.error().text().c_str());
    }
    self.authorizer_.authorize(
        call, {.action = "org.nvmaint1.trim", .details = {{"mount", mount}}},
        [&self, shown = std::string(mount), options = std::move(*options)](sd_bus_message* m) {
            const Result<std::uint64_t> id =
                self.handler_.trim(real_mount(self.model_, shown), options);
            if (!id) {
                (void)reply_error(m, id.error());
                return;
            }
            self.publish(); // the object is there before its path is told
            (void)sd_bus_reply_method_return(m, "o", job_path(*id).c_str());
        });
    return 1;
}

int LiveServer::on_reload(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept {
    LiveServer& self = server_of(userdata);
    self.authorizer_.authorize(call, {.action = "org.nvmaint1.reload", .details = {}},
                               [&self](sd_bus_message* m) { answer(m, self.handler_.reload()); });
    return 1;
}

// Who may start a trim may end it. The job may have ended and gone by the time polkit answers: the
// handler says so then.
int LiveServer::on_cancel(sd_bus_message* call, void* userdata, sd_bus_error*) noexcept {
    const auto& node = *static_cast<const Node<JobObject>*>(userdata);
    LiveServer& self = *node.server;
    self.authorizer_.authorize(
        call, {.action = "org.nvmaint1.trim", .details = {{"mount", node.shown.subject}}},
        [&self, id = node.shown.id](sd_bus_message* m) { answer(m, self.handler_.cancel(id)); });
    return 1;
}

} // namespace

Result<std::unique_ptr<Server>> Server::create(sd_bus* bus, const Model& model, Handler& handler,
                                               const std::string& polkit_name,
                                               PolkitPatience patience) {
    auto server = std::make_unique<LiveServer>(bus, model, handler, polkit_name, patience);
    TRY(exported, server->export_objects());
    (void)exported;
    server->publish(); // the objects are there before anybody can know of them
    return std::unique_ptr<Server>(std::move(server));
}

} // namespace nvmaint::bus
