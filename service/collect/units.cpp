#include "collect/units.hpp"

#include "collect/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

namespace nvmaint::collect {
namespace {

using Json = nlohmann::json;

// What of a service's environment can make a mount point unreachable or read-only for it, or keep
// it from the ioctl (systemd.exec(5)).
constexpr std::array<std::string_view, 22> kSandbox = {
    "ProtectSystem",
    "ProtectHome",
    "ReadWritePaths",
    "ReadOnlyPaths",
    "InaccessiblePaths",
    "ExecPaths",
    "NoExecPaths",
    "TemporaryFileSystem",
    "BindPaths",
    "BindReadOnlyPaths",
    "PrivateTmp",
    "PrivateDevices",
    "PrivateMounts",
    "PrivateUsers",
    "MountFlags",
    "RootDirectory",
    "RootImage",
    "DevicePolicy",
    "CapabilityBoundingSet",
    "User",
    "DynamicUser",
    "ProtectKernelTunables",
};
constexpr std::array<std::string_view, 27> kPlain = {
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "FragmentPath",
    "DropInPaths",
    "ConditionResult",
    "Conditions",
    "ActiveEnterTimestamp",
    "InactiveExitTimestamp",
    "TimersCalendar",
    "TimersMonotonic",
    "LastTriggerUSec",
    "NextElapseUSecRealtime",
    "NextElapseUSecMonotonic",
    "AccuracyUSec",
    "RandomizedDelayUSec",
    "Persistent",
    "Unit",
    "Result",
    "ExecMainCode",
    "ExecMainStatus",
    "ExecMainStartTimestamp",
    "ExecMainExitTimestamp",
    "ExecStart",
    "StateChangeTimestamp",
};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
}

// The properties of one unit, and the first of them that is not of its type.
class Properties {
  public:
    explicit Properties(const Json& json) : json_(json) {}

    std::string text(const char* name) {
        const Json* value = find(name);
        if (value == nullptr) {
            return {};
        }
        return value->is_string() ? value->get<std::string>() : refuse<std::string>(name);
    }

    std::vector<std::string> texts(const char* name) {
        const Json* value = find(name);
        return value == nullptr ? std::vector<std::string>{} : texts_of(*value, name);
    }

    std::optional<bool> flag(const char* name) {
        const Json* value = find(name);
        if (value == nullptr) {
            return std::nullopt;
        }
        return value->is_boolean() ? std::optional(value->get<bool>())
                                   : refuse<std::optional<bool>>(name);
    }

    std::optional<int> number(const char* name) {
        const Json* value = find(name);
        if (value == nullptr) {
            return std::nullopt;
        }
        const std::optional<int> number = int_of(*value);
        return number ? number : refuse<std::optional<int>>(name);
    }

    std::optional<core::WallTime> time(const char* name) {
        const std::optional<std::uint64_t> value = unsigned_number(name);
        return value ? wall_time_of(*value) : std::nullopt;
    }

    // "infinity" (all ones) is no duration.
    std::optional<core::microseconds> duration(const char* name) {
        const std::optional<std::uint64_t> value = unsigned_number(name);
        if (!value ||
            *value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 1000)) {
            return std::nullopt;
        }
        return core::microseconds(static_cast<std::int64_t>(*value));
    }

    std::vector<core::Condition> conditions(const char* name) {
        std::vector<core::Condition> conditions;
        for (const Json& entry : structures(name, 5)) {
            const std::optional<int> state = int_of(entry[4]);
            if (!entry[0].is_string() || !entry[1].is_boolean() || !entry[2].is_boolean() ||
                !entry[3].is_string() || !state) {
                return refuse<std::vector<core::Condition>>(name);
            }
            conditions.push_back({entry[0].get<std::string>(), entry[1].get<bool>(),
                                  entry[2].get<bool>(), entry[3].get<std::string>(), *state});
        }
        return conditions;
    }

    std::vector<std::string> calendar(const char* name) {
        std::vector<std::string> specifications;
        for (const Json& entry : structures(name, 2)) {
            if (!entry[0].is_string() || !entry[1].is_string()) {
                return refuse<std::vector<std::string>>(name);
            }
            if (entry[0].get<std::string>() == "OnCalendar") {
                specifications.push_back(entry[1].get<std::string>());
            }
        }
        return specifications;
    }

    std::vector<std::vector<std::string>> commands(const char* name) {
        std::vector<std::vector<std::string>> commands;
        for (const Json& entry : structures(name, 2)) {
            commands.push_back(texts_of(entry[1], name));
        }
        return commands;
    }

    std::map<std::string, std::string> sandbox() {
        std::map<std::string, std::string> settings;
        for (const std::string_view name : kSandbox) {
            const Json* value = find(std::string(name).c_str());
            if (value != nullptr) {
                settings[std::string(name)] = as_text(*value);
            }
        }
        return settings;
    }

    [[nodiscard]] const std::string& refused() const { return refused_; }

  private:
    const Json* find(const char* name) const {
        const auto found = json_.find(name);
        return found == json_.end() || found->is_null() ? nullptr : &*found;
    }

    template <class T>
    T refuse(const char* name) {
        if (refused_.empty()) {
            refused_ = name;
        }
        return T{};
    }

    static std::optional<int> int_of(const Json& value) {
        if (!value.is_number_integer()) {
            return std::nullopt;
        }
        return parse_decimal<int>(value.dump());
    }

    std::optional<std::uint64_t> unsigned_number(const char* name) {
        const Json* value = find(name);
        if (value == nullptr) {
            return std::nullopt;
        }
        return value->is_number_unsigned() ? std::optional(value->get<std::uint64_t>())
                                           : refuse<std::optional<std::uint64_t>>(name);
    }

    std::vector<std::string> texts_of(const Json& value, const char* name) {
        std::vector<std::string> texts;
        if (!value.is_array()) {
            return refuse<std::vector<std::string>>(name);
        }
        for (const Json& item : value) {
            if (!item.is_string()) {
                return refuse<std::vector<std::string>>(name);
            }
            texts.push_back(item.get<std::string>());
        }
        return texts;
    }

    // An array of arrays, each of at least `members` members.
    std::vector<Json> structures(const char* name, std::size_t members) {
        const Json* value = find(name);
        std::vector<Json> entries;
        if (value == nullptr) {
            return entries;
        }
        if (!value->is_array()) {
            return refuse<std::vector<Json>>(name);
        }
        for (const Json& entry : *value) {
            if (!entry.is_array() || entry.size() < members) {
                return refuse<std::vector<Json>>(name);
            }
            entries.push_back(entry);
        }
        return entries;
    }

    // As unit files write it: "yes", "/a /b", numbers as they are.
    static std::string as_text(const Json& value) {
        if (value.is_boolean()) {
            return value.get<bool>() ? "yes" : "no";
        }
        if (value.is_string()) {
            return value.get<std::string>();
        }
        if (value.is_number()) {
            return value.dump();
        }
        std::string list;
        if (!value.is_array()) {
            return list;
        }
        for (const Json& item : value) {
            // Pairs such as ["/run", "mode=0755"] count by what they name.
            const Json& named = item.is_array() && !item.empty() ? item.front() : item;
            if (named.is_string()) {
                list += (list.empty() ? "" : " ") + named.get<std::string>();
            }
        }
        return list;
    }

    const Json& json_;
    std::string refused_;
};

Result<core::Unit> parse_unit(const std::string& name, const Json& json) {
    Properties p(json);
    core::Unit unit{
        .name = name,
        .load_state = p.text("LoadState"),
        .active_state = p.text("ActiveState"),
        .unit_file_state = p.text("UnitFileState"),
        .condition_result = p.flag("ConditionResult"),
        .conditions = p.conditions("Conditions"),
        .drop_in_paths = p.texts("DropInPaths"),
        .fragment_path = p.text("FragmentPath"),
        .active_enter = p.time("ActiveEnterTimestamp"),
        .inactive_exit = p.time("InactiveExitTimestamp"),
        .on_calendar = p.calendar("TimersCalendar"),
        .last_trigger = p.time("LastTriggerUSec"),
        .next_elapse = p.time("NextElapseUSecRealtime"),
        .accuracy = p.duration("AccuracyUSec"),
        .randomized_delay = p.duration("RandomizedDelayUSec"),
        .persistent = p.flag("Persistent"),
        .triggers_unit = p.text("Unit"),
        .result = p.text("Result"),
        .exec_main_code = p.number("ExecMainCode"),
        .exec_main_status = p.number("ExecMainStatus"),
        .exec_main_start = p.time("ExecMainStartTimestamp"),
        .exec_main_exit = p.time("ExecMainExitTimestamp"),
        .exec_start = p.commands("ExecStart"),
        .sandbox = p.sandbox(),
    };
    if (!p.refused().empty()) {
        return Error::make(
            ErrorKind::Malformed,
            fmt::format("{}: {} is not of the type that systemd gives it", name, p.refused()));
    }
    return unit;
}

} // namespace

bool is_wanted_property(std::string_view name) {
    return contains(kPlain, name) || contains(kSandbox, name);
}

Result<std::map<std::string, core::Unit>> parse_units(std::string_view json) {
    const Json all = Json::parse(json, nullptr, false);
    if (!all.is_object()) {
        return Error::make(ErrorKind::Malformed, "not a JSON object");
    }
    std::map<std::string, core::Unit> units;
    for (const auto& [name, properties] : all.items()) {
        if (!properties.is_object()) {
            return Error::make(ErrorKind::Malformed, name + ": not a JSON object");
        }
        TRY(unit, parse_unit(name, properties));
        units.emplace(name, std::move(unit));
    }
    for (const char* name : {"fstrim.timer", "fstrim.service"}) {
        const auto [unit, added] = units.try_emplace(name);
        if (added) {
            unit->second.name = name;
            unit->second.load_state = "not-found";
        }
    }
    return units;
}

Reading<std::map<std::string, core::Unit>> read_units(const HostRoot& root,
                                                      const Reading<std::string>& init) {
    static const std::string kPath = "systemd/units.json";
    TRY(json, root.read_source(kPath, [&]() -> Result<std::string> {
        if (init && *init != "systemd") {
            return Error::make(ErrorKind::Unsupported,
                               fmt::format("PID 1 is {}, not systemd", *init));
        }
        return read_units_live();
    }));
    Result<std::map<std::string, core::Unit>> units = parse_units(json);
    if (!units) {
        return units.error().in(kPath);
    }
    return units;
}

std::vector<std::string>
names_of_trim_units(const Reading<std::map<std::string, core::Unit>>& units) {
    std::set<std::string> names = {"fstrim.timer", "fstrim.service"};
    if (units) {
        for (const auto& [name, unit] : *units) {
            names.insert(name);
            if (!unit.triggers_unit.empty()) {
                names.insert(unit.triggers_unit);
            }
        }
    }
    return {names.begin(), names.end()};
}

} // namespace nvmaint::collect
