#include "ctl/bus_client.hpp"

#include <systemd/sd-bus.h>

#include <cerrno>
#include <cstring>

namespace nvmaint::ctl {
namespace {

constexpr const char* kName = "org.nvmaint1";
constexpr const char* kRoot = "/org/nvmaint1";
constexpr const char* kManager = "org.nvmaint1.Manager";
constexpr const char* kJob = "org.nvmaint1.Job";

struct BusDeleter {
    void operator()(sd_bus* bus) const { sd_bus_flush_close_unref(bus); }
};
struct MessageDeleter {
    void operator()(sd_bus_message* message) const { sd_bus_message_unref(message); }
};
using Message = std::unique_ptr<sd_bus_message, MessageDeleter>;

struct BusError {
    sd_bus_error value = SD_BUS_ERROR_NULL;
    BusError() = default;
    BusError(const BusError&) = delete;
    BusError& operator=(const BusError&) = delete;
    ~BusError() { sd_bus_error_free(&value); }
    [[nodiscard]] Error error(int r) const {
        if (!sd_bus_error_is_set(&value)) {
            return Error::system(-r, "D-Bus call");
        }
        const std::string name = value.name;
        const bool denied = name == "org.nvmaint1.Error.Refused" ||
                            name == SD_BUS_ERROR_ACCESS_DENIED ||
                            name == SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED;
        return Error::make(denied ? ErrorKind::Denied : ErrorKind::System,
                           value.message == nullptr ? name : value.message);
    }
};

// Basic values only; anything else is skipped and absent.
Result<std::map<std::string, Value>> read_dictionary(sd_bus_message* message) {
    std::map<std::string, Value> values;
    int r = sd_bus_message_enter_container(message, 'a', "{sv}");
    while (r > 0 && (r = sd_bus_message_enter_container(message, 'e', "sv")) > 0) {
        const char* key = nullptr;
        sd_bus_message_read(message, "s", &key);
        const char* contents = nullptr;
        char type = 0;
        sd_bus_message_peek_type(message, &type, &contents);
        const std::string kind = contents == nullptr ? "" : contents;
        sd_bus_message_enter_container(message, 'v', contents);
        if (kind == "s") {
            const char* text = nullptr;
            sd_bus_message_read(message, "s", &text);
            values[key] = std::string(text);
        } else if (kind == "t") {
            std::uint64_t number = 0;
            sd_bus_message_read(message, "t", &number);
            values[key] = number;
        } else if (kind == "x") {
            std::int64_t number = 0;
            sd_bus_message_read(message, "x", &number);
            values[key] = number;
        } else if (kind == "d") {
            double number = 0;
            sd_bus_message_read(message, "d", &number);
            values[key] = number;
        } else if (kind == "b") {
            int flag = 0;
            sd_bus_message_read(message, "b", &flag);
            values[key] = flag != 0;
        } else {
            sd_bus_message_skip(message, contents);
        }
        sd_bus_message_exit_container(message);
        sd_bus_message_exit_container(message);
    }
    if (r < 0) {
        return Error::system(-r, "reading a D-Bus dictionary");
    }
    sd_bus_message_exit_container(message);
    return values;
}

class Client final : public BusClient {
  public:
    explicit Client(sd_bus* bus) : bus_(bus) {
        // A person at a terminal may have a polkit agent.
        sd_bus_set_allow_interactive_authorization(bus, 1);
    }

    Result<std::string> doctor() override { return call_text("Doctor"); }
    Result<std::string> trims() override { return call_text("ListTrims"); }
    Result<std::string> mode() override {
        BusError error;
        char* text = nullptr;
        const int r = sd_bus_get_property_string(bus_.get(), kName, kRoot, kManager, "Mode",
                                                 &error.value, &text);
        if (r < 0) {
            return error.error(r);
        }
        std::string mode = text;
        free(text);
        return mode;
    }
    Result<FlushSeries> flush_series(const std::string& disk) override {
        BusError error;
        sd_bus_message* raw = nullptr;
        const int r = sd_bus_call_method(bus_.get(), kName, kRoot, kManager, "FlushSeries",
                                         &error.value, &raw, "s", disk.c_str());
        const Message reply(raw);
        if (r < 0) {
            return error.error(r);
        }
        FlushSeries series;
        series.disk = disk;
        sd_bus_message_enter_container(raw, 'a', "(dd)");
        double t = 0;
        double ms = 0;
        while (sd_bus_message_read(raw, "(dd)", &t, &ms) > 0) {
            series.points.emplace_back(t, ms);
        }
        return series;
    }
    Result<std::string> trim(const std::string& mount,
                             const std::map<std::string, Value>& options) override {
        sd_bus_message* raw = nullptr;
        int r = sd_bus_message_new_method_call(bus_.get(), &raw, kName, kRoot, kManager, "Trim");
        const Message call(raw);
        if (r >= 0) {
            r = sd_bus_message_append(raw, "s", mount.c_str());
        }
        if (r >= 0) {
            r = sd_bus_message_open_container(raw, 'a', "{sv}");
        }
        for (const auto& [key, value] : options) {
            if (const auto* number = std::get_if<std::uint64_t>(&value);
                number != nullptr && r >= 0) {
                r = sd_bus_message_append(raw, "{sv}", key.c_str(), "t", *number);
            }
        }
        if (r >= 0) {
            r = sd_bus_message_close_container(raw);
        }
        if (r < 0) {
            return Error::system(-r, "building the call");
        }
        BusError error;
        sd_bus_message* answer = nullptr;
        // An agent may be asking for a password: as long as a person takes.
        r = sd_bus_call(bus_.get(), raw, 120000000, &error.value, &answer);
        const Message reply(answer);
        if (r < 0) {
            return error.error(r);
        }
        const char* path = nullptr;
        r = sd_bus_message_read(answer, "o", &path);
        if (r < 0) {
            return Error::system(-r, "reading the job");
        }
        return std::string(path);
    }
    Result<JobState> job(const std::string& path) override {
        BusError error;
        sd_bus_message* raw = nullptr;
        int r =
            sd_bus_call_method(bus_.get(), kName, path.c_str(), "org.freedesktop.DBus.Properties",
                               "GetAll", &error.value, &raw, "s", kJob);
        const Message reply(raw);
        if (r < 0) {
            return error.error(r);
        }
        JobState state;
        r = sd_bus_message_enter_container(raw, 'a', "{sv}");
        while (r > 0 && (r = sd_bus_message_enter_container(raw, 'e', "sv")) > 0) {
            const char* key = nullptr;
            sd_bus_message_read(raw, "s", &key);
            const std::string name = key;
            if (name == "Result") {
                sd_bus_message_enter_container(raw, 'v', "a{sv}");
                Result<std::map<std::string, Value>> result = read_dictionary(raw);
                if (!result) {
                    return result.error();
                }
                state.result = std::move(*result);
                sd_bus_message_exit_container(raw);
            } else if (name == "State") {
                const char* text = nullptr;
                sd_bus_message_read(raw, "v", "s", &text);
                state.state = text == nullptr ? "" : text;
            } else if (name == "Progress") {
                sd_bus_message_read(raw, "v", "d", &state.progress);
            } else {
                sd_bus_message_skip(raw, "v");
            }
            sd_bus_message_exit_container(raw);
        }
        return state;
    }
    Result<Done> cancel(const std::string& path) override {
        BusError error;
        const int r = sd_bus_call_method(bus_.get(), kName, path.c_str(), kJob, "Cancel",
                                         &error.value, nullptr, "");
        if (r < 0) {
            return error.error(r);
        }
        return Done{};
    }
    Result<Done> reload() override {
        BusError error;
        const int r = sd_bus_call_method(bus_.get(), kName, kRoot, kManager, "Reload", &error.value,
                                         nullptr, "");
        if (r < 0) {
            return error.error(r);
        }
        return Done{};
    }
    Result<Done> monitor(const std::function<bool(const BusEvent&)>& on_event) override {
        int r = sd_bus_match_signal(bus_.get(), nullptr, kName, kRoot, kManager, nullptr, nullptr,
                                    nullptr);
        if (r < 0) {
            return Error::system(-r, "subscribing");
        }
        while (true) {
            sd_bus_message* raw = nullptr;
            r = sd_bus_process(bus_.get(), &raw);
            const Message message(raw);
            if (r < 0) {
                return Error::system(-r, "waiting for signals");
            }
            if (raw != nullptr) {
                const bool raised = sd_bus_message_is_signal(raw, kManager, "FindingRaised") > 0;
                const bool cleared = sd_bus_message_is_signal(raw, kManager, "FindingCleared") > 0;
                if (raised || cleared) {
                    BusEvent event;
                    event.raised = raised;
                    const char* id = "";
                    const char* reason = "";
                    const char* severity = "";
                    const char* kind = "";
                    const char* name = "";
                    sd_bus_message_read(raw, "sssss", &id, &reason, &severity, &kind, &name);
                    event.id = id;
                    event.reason = reason;
                    event.severity = severity;
                    event.subject_kind = kind;
                    event.subject_name = name;
                    if (raised) {
                        const Result<std::map<std::string, Value>> details = read_dictionary(raw);
                        if (details && details->contains("summary")) {
                            if (const auto* text =
                                    std::get_if<std::string>(&details->at("summary"))) {
                                event.summary = *text;
                            }
                        }
                    }
                    if (!on_event(event)) {
                        return Done{};
                    }
                }
                continue;
            }
            if (r == 0 && sd_bus_wait(bus_.get(), UINT64_MAX) < 0 && errno != EINTR) {
                return Error::system(errno, "waiting for signals");
            }
        }
    }

  private:
    Result<std::string> call_text(const char* method) {
        BusError error;
        sd_bus_message* raw = nullptr;
        int r =
            sd_bus_call_method(bus_.get(), kName, kRoot, kManager, method, &error.value, &raw, "");
        const Message reply(raw);
        if (r < 0) {
            return error.error(r).in(method);
        }
        const char* text = nullptr;
        r = sd_bus_message_read(raw, "s", &text);
        if (r < 0) {
            return Error::system(-r, method);
        }
        return std::string(text);
    }

    std::unique_ptr<sd_bus, BusDeleter> bus_;
};

} // namespace

Result<std::unique_ptr<BusClient>> BusClient::connect() {
    sd_bus* bus = nullptr;
    int r = sd_bus_open_system(&bus);
    if (r < 0) {
        return Error::system(-r, "system bus");
    }
    auto client = std::make_unique<Client>(bus);
    r = sd_bus_get_name_creds(bus, kName, 0, nullptr);
    if (r < 0) {
        return Error::make(ErrorKind::Unsupported,
                           "nvmaintd is not running (nobody owns org.nvmaint1)");
    }
    return std::unique_ptr<BusClient>(std::move(client));
}

} // namespace nvmaint::ctl
