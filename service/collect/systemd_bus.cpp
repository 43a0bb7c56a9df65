// PID 1 asked over D-Bus: one connection, 5 s without an answer at most.
#include "collect/units.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <systemd/sd-bus.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include <time.h>

namespace nvmaint::collect {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kCallTimeoutUsec = 5'000'000;
constexpr char kManagerName[] = "org.freedesktop.systemd1";
constexpr char kManagerPath[] = "/org/freedesktop/systemd1";
constexpr char kManagerInterface[] = "org.freedesktop.systemd1.Manager";
constexpr int kMaxDepth = 16; // of a property's structure; D-Bus itself allows 64

struct BusDeleter {
    void operator()(sd_bus* bus) const { sd_bus_close_unref(bus); }
};
using Bus = std::unique_ptr<sd_bus, BusDeleter>;
struct MessageDeleter {
    void operator()(sd_bus_message* message) const { sd_bus_message_unref(message); }
};
using Message = std::unique_ptr<sd_bus_message, MessageDeleter>;

Error bus_error(int returned, const std::string& what) {
    const int number = returned < 0 ? -returned : EIO;
    if (number == ETIMEDOUT) {
        return Error::make(ErrorKind::Timeout, what + ": systemd does not answer");
    }
    return Error::system(number, what);
}

std::uint64_t monotonic_usec() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000U +
           static_cast<std::uint64_t>(now.tv_nsec) / 1'000U;
}

// sd_bus_call() would wait 90 s for the broker to greet us.
int wait_until_ready(sd_bus* bus) {
    const std::uint64_t deadline = monotonic_usec() + kCallTimeoutUsec;
    for (;;) {
        const int ready = sd_bus_is_ready(bus);
        if (ready != 0) {
            return ready;
        }
        const int progress = sd_bus_process(bus, nullptr);
        if (progress < 0) {
            return progress;
        }
        if (progress == 0) {
            const std::uint64_t now = monotonic_usec();
            if (now >= deadline) {
                return -ETIMEDOUT;
            }
            const int waited = sd_bus_wait(bus, deadline - now);
            if (waited < 0 && waited != -EINTR) {
                return waited;
            }
        }
    }
}

// The system bus, or PID 1's own socket where there is no broker (that one is for root only).
Result<Bus> connect() {
    Error first;
    for (const char* address : {"", "unix:path=/run/systemd/private"}) {
        sd_bus* raw = nullptr;
        int returned = 0;
        if (*address == '\0') {
            returned = sd_bus_open_system(&raw);
        } else {
            returned = sd_bus_new(&raw);
            if (returned >= 0) {
                returned = sd_bus_set_address(raw, address);
            }
            if (returned >= 0) {
                returned = sd_bus_start(raw);
            }
        }
        Bus bus(raw);
        if (returned >= 0) {
            returned = wait_until_ready(bus.get());
        }
        if (returned >= 0) {
            returned = sd_bus_set_method_call_timeout(bus.get(), kCallTimeoutUsec);
        }
        if (returned >= 0) {
            return bus;
        }
        if (first.context.empty()) {
            first = bus_error(returned, "connecting to the system bus");
        }
    }
    return first;
}

// One complete value of a message.
Result<Json> read_value(sd_bus_message* message, int depth = 0);

template <class T>
Result<Json> read_basic(sd_bus_message* message, char type) {
    T value{};
    const int returned = sd_bus_message_read_basic(message, type, &value);
    return returned < 0 ? Result<Json>(bus_error(returned, "reading a D-Bus value"))
                        : Result<Json>(Json(value));
}

Result<Json> read_container(sd_bus_message* message, char type, const char* contents, int depth) {
    const auto failed = [](int returned) { return bus_error(returned, "reading a D-Bus value"); };
    if (depth >= kMaxDepth) {
        return Error::make(ErrorKind::Malformed, "a D-Bus value nests too deep");
    }
    if (const int entered = sd_bus_message_enter_container(message, type, contents); entered < 0) {
        return failed(entered);
    }
    const bool dictionary = type == SD_BUS_TYPE_ARRAY && *contents == SD_BUS_TYPE_DICT_ENTRY_BEGIN;
    Json value = dictionary ? Json::object() : Json::array();
    while (sd_bus_message_at_end(message, 0) == 0) {
        if (dictionary) {
            // The entry's own contents: "{sv}" without the braces.
            const std::string entry(contents + 1, std::strlen(contents) - 2);
            TRY(pair, read_container(message, SD_BUS_TYPE_DICT_ENTRY, entry.c_str(), depth + 1));
            const std::string key =
                pair[0].is_string() ? pair[0].get<std::string>() : pair[0].dump();
            value[key] = std::move(pair[1]);
        } else {
            TRY(item, read_value(message, depth + 1));
            value.push_back(std::move(item));
        }
    }
    if (const int left = sd_bus_message_exit_container(message); left < 0) {
        return failed(left);
    }
    if (type == SD_BUS_TYPE_VARIANT) {
        return std::move(value[0]);
    }
    return value;
}

Result<Json> read_value(sd_bus_message* message, int depth) {
    char type = 0;
    const char* contents = nullptr;
    const int peeked = sd_bus_message_peek_type(message, &type, &contents);
    if (peeked <= 0) {
        return bus_error(peeked, "reading a D-Bus value");
    }
    switch (type) {
    case SD_BUS_TYPE_BOOLEAN: {
        TRY(number, read_basic<int>(message, type));
        return Json(number.get<int>() != 0);
    }
    case SD_BUS_TYPE_BYTE:
        return read_basic<std::uint8_t>(message, type);
    case SD_BUS_TYPE_INT16:
        return read_basic<std::int16_t>(message, type);
    case SD_BUS_TYPE_UINT16:
        return read_basic<std::uint16_t>(message, type);
    case SD_BUS_TYPE_INT32:
        return read_basic<std::int32_t>(message, type);
    case SD_BUS_TYPE_UINT32:
        return read_basic<std::uint32_t>(message, type);
    case SD_BUS_TYPE_INT64:
        return read_basic<std::int64_t>(message, type);
    case SD_BUS_TYPE_UINT64:
        return read_basic<std::uint64_t>(message, type);
    case SD_BUS_TYPE_DOUBLE:
        return read_basic<double>(message, type);
    case SD_BUS_TYPE_STRING:
    case SD_BUS_TYPE_OBJECT_PATH:
    case SD_BUS_TYPE_SIGNATURE:
        return read_basic<const char*>(message, type);
    case SD_BUS_TYPE_ARRAY:
    case SD_BUS_TYPE_STRUCT:
    case SD_BUS_TYPE_VARIANT:
    case SD_BUS_TYPE_DICT_ENTRY:
        return read_container(message, type, contents, depth);
    default:
        return Error::make(ErrorKind::Malformed, fmt::format("D-Bus type '{}'", type));
    }
}

Result<Message> call(sd_bus* bus, const char* path, const char* interface, const char* member,
                     const std::string& what, const char* types, auto... arguments) {
    sd_bus_message* reply = nullptr;
    sd_bus_error error = SD_BUS_ERROR_NULL;
    const int returned = sd_bus_call_method(bus, kManagerName, path, interface, member, &error,
                                            &reply, types, arguments...);
    const std::string message = error.message != nullptr ? error.message : "";
    sd_bus_error_free(&error);
    if (returned < 0) {
        return bus_error(returned, message.empty() ? what : what + ": " + message);
    }
    return Message(reply);
}

// Names from ListUnitsByPatterns or ListUnitFilesByPatterns: units in memory, and installed files.
Result<std::set<std::string>> list_trim_timers(sd_bus* bus) {
    std::set<std::string> names;
    for (const char* member : {"ListUnitsByPatterns", "ListUnitFilesByPatterns"}) {
        TRY(reply, call(bus, kManagerPath, kManagerInterface, member, member, "asas", 0u, 1u,
                        "*trim*.timer"));
        TRY(entries, read_value(reply.get()));
        for (const Json& entry : entries) {
            if (!entry.is_array() || entry.empty() || !entry[0].is_string()) {
                return Error::make(ErrorKind::Malformed, std::string("reply to ") + member);
            }
            const std::string path = entry[0].get<std::string>();
            std::string name = path.substr(path.rfind('/') + 1);
            if (name.find("@.") == std::string::npos) { // a template is no unit
                names.insert(std::move(name));
            }
        }
    }
    return names;
}

Result<Json> read_unit(sd_bus* bus, const std::string& name) {
    // Also loads it where it is not in memory; a unit without a file gets LoadState "not-found".
    TRY(loaded, call(bus, kManagerPath, kManagerInterface, "LoadUnit", "LoadUnit of " + name, "s",
                     name.c_str()));
    TRY(path, read_value(loaded.get()));
    if (!path.is_string()) {
        return Error::make(ErrorKind::Malformed, "reply to LoadUnit of " + name);
    }
    TRY(reply, call(bus, path.get<std::string>().c_str(), "org.freedesktop.DBus.Properties",
                    "GetAll", "properties of " + name, "s", ""));
    TRY(properties, read_value(reply.get()));
    Json wanted = Json::object();
    for (auto& [key, value] : properties.items()) {
        if (is_wanted_property(key)) {
            wanted[key] = std::move(value);
        }
    }
    return wanted;
}

} // namespace

Result<std::string> read_units_live() {
    TRY(bus, connect());
    TRY(names, list_trim_timers(bus.get()));
    names.insert("fstrim.timer");
    Json units = Json::object();
    std::set<std::string> services = {"fstrim.service"};
    for (const std::string& name : names) {
        TRY(unit, read_unit(bus.get(), name));
        const auto triggers = unit.find("Unit");
        if (triggers != unit.end() && triggers->is_string() &&
            !triggers->get<std::string>().empty()) {
            services.insert(triggers->get<std::string>());
        }
        units[name] = std::move(unit);
    }
    for (const std::string& name : services) {
        TRY(unit, read_unit(bus.get(), name));
        units[name] = std::move(unit);
    }
    return units.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace nvmaint::collect
