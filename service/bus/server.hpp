// org.nvmaint1 on D-Bus: org.nvmaint1.xml made live. The server shows a model that the loop owns
// and asks a handler to act; it keeps no state of its own beyond what D-Bus needs. Loop thread;
// never blocks.
#pragma once

#include "core/diagnose.hpp"
#include "values/result.hpp"

#include <systemd/sd-bus.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace nvmaint::bus {

using Value = std::variant<bool, std::uint64_t, std::int64_t, double, std::string>;

struct JobView {
    std::uint64_t id = 0; // /org/nvmaint1/job/<id>
    std::string kind;     // "trim"
    std::string subject;  // mount point
    std::string state;    // "running", "done", "failed", "cancelled"
    double progress = 0;  // 0..1
    std::map<std::string, Value> result;
    bool operator==(const JobView&) const = default;
};

struct Model {
    std::string version;
    std::string mode; // "observe", "maintain"
    std::vector<std::string> policy_files;
    core::Diagnosis diagnosis;
    std::string doctor_json; // the text that Doctor() returns
    // Last trims by mount, newest last.
    std::vector<core::TrimRecord> trims;
    std::string trims_json = "[]"; // the same as text, for ListTrims()
    // By disk, for FlushSeries(); not owned, none = no series. Times are against `diagnosed`, the
    // boot clock at diagnosis.now.
    const std::map<std::string, core::FlushWatch>* flush = nullptr;
    core::BootTime diagnosed{};
    // By drive name: stable identity, used in object paths. A drive without an entry gets its path
    // from drive_path().
    std::map<std::string, std::string> drive_identities;
    std::vector<JobView> jobs;
};

class Handler {
  public:
    Handler() = default;
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;
    virtual ~Handler() = default;

    // Starts a job and returns its id. Errors: Denied (a guard refused, with its reason), Malformed
    // (no such mount, unknown option).
    [[nodiscard]] virtual Result<std::uint64_t>
    trim(const std::string& mount, const std::map<std::string, Value>& options) = 0;
    [[nodiscard]] virtual Result<Done> cancel(std::uint64_t job) = 0;
    // Errors: Malformed with the place in the policy file; the old policy stays.
    [[nodiscard]] virtual Result<Done> reload() = 0;
};

// How long polkit may take for an answer before a call is refused.
struct PolkitPatience {
    // Nobody is asked: the usual patience of a D-Bus caller (25 s,
    // sd_bus_set_method_call_timeout(3)).
    std::chrono::milliseconds silent = std::chrono::seconds(25);
    // A person is asked. Judgement: time to find a password, and after that nobody is there.
    std::chrono::milliseconds interactive = std::chrono::minutes(5);
};

class Server {
  public:
    // Exports the objects on `bus` (not yet started calls wait). `model` and `handler` must outlive
    // the server, and `bus` is kept open by it. The name is requested by request_name(), after
    // everything is in place. `polkit_name` is the bus name of the authority, another one in tests.
    [[nodiscard]] static Result<std::unique_ptr<Server>>
    create(sd_bus* bus, const Model& model, Handler& handler,
           const std::string& polkit_name = "org.freedesktop.PolicyKit1",
           PolkitPatience patience = {});
    Server() = default;
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    virtual ~Server() = default;

    // The one call that waits for the bus (at most 10 s); made once, at start. Errors: System
    // EEXIST: another instance owns the name; System EACCES: the bus policy does not let this user
    // own it.
    [[nodiscard]] virtual Result<Done> request_name() = 0;
    // The model changed: objects appear, vanish and announce changed properties; only real changes
    // are announced. Objects and properties show what was last published, methods the model itself.
    virtual void publish() = 0;
    virtual void finding_raised(const core::Finding& finding) = 0;
    virtual void finding_cleared(const core::Finding& finding) = 0;
};

// D-Bus object path of a drive or filesystem: every byte outside [A-Za-z0-9] as _xx (as systemd's
// sd_bus_path_encode() does), never empty; the same identity gives the same path after a re-plug.
[[nodiscard]] std::string drive_path(const core::DriveView& drive);
[[nodiscard]] std::string filesystem_path(const core::FilesystemView& filesystem);

} // namespace nvmaint::bus
