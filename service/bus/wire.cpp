#include "bus/wire.hpp"

#include "bus/text.hpp"

#include <fmt/format.h>

#include <type_traits>

namespace nvmaint::bus {

namespace {

// Early return of a negative errno.
#define TRY_BUS(call)                                                                              \
    do {                                                                                           \
        const int try_bus_result = (call);                                                         \
        if (try_bus_result < 0) {                                                                  \
            return try_bus_result;                                                                 \
        }                                                                                          \
    } while (false)

int append_value(sd_bus_message* message, const Value& value) {
    return std::visit(
        [&](const auto& v) -> int {
            using V = std::decay_t<decltype(v)>;
            if constexpr (std::is_same_v<V, bool>) {
                return sd_bus_message_append(message, "v", "b", static_cast<int>(v));
            } else if constexpr (std::is_same_v<V, std::uint64_t>) {
                return sd_bus_message_append(message, "v", "t", v);
            } else if constexpr (std::is_same_v<V, std::int64_t>) {
                return sd_bus_message_append(message, "v", "x", v);
            } else if constexpr (std::is_same_v<V, double>) {
                return sd_bus_message_append(message, "v", "d", v);
            } else {
                static_assert(std::is_same_v<V, std::string>);
                return sd_bus_message_append(message, "v", "s", v.c_str());
            }
        },
        value);
}

int append_text_entry(sd_bus_message* message, const char* key, const std::string& text) {
    return sd_bus_message_append(message, "{sv}", key, "s", to_bus_text(text).c_str());
}

int append_list_entry(sd_bus_message* message, const char* key,
                      const std::vector<std::string>& list) {
    TRY_BUS(sd_bus_message_open_container(message, 'e', "sv"));
    TRY_BUS(sd_bus_message_append(message, "s", key));
    TRY_BUS(sd_bus_message_open_container(message, 'v', "as"));
    TRY_BUS(append(message, to_bus_text(list)));
    TRY_BUS(sd_bus_message_close_container(message));
    return sd_bus_message_close_container(message);
}

int append_evidence_entry(sd_bus_message* message, const std::vector<core::Evidence>& evidence) {
    TRY_BUS(sd_bus_message_open_container(message, 'e', "sv"));
    TRY_BUS(sd_bus_message_append(message, "s", "evidence"));
    TRY_BUS(sd_bus_message_open_container(message, 'v', "a(ss)"));
    TRY_BUS(sd_bus_message_open_container(message, 'a', "(ss)"));
    for (const core::Evidence& piece : evidence) {
        TRY_BUS(sd_bus_message_append(message, "(ss)", to_bus_text(piece.source).c_str(),
                                      to_bus_text(piece.says).c_str()));
    }
    TRY_BUS(sd_bus_message_close_container(message));
    TRY_BUS(sd_bus_message_close_container(message));
    return sd_bus_message_close_container(message);
}

template <class Wire, class Wide>
Result<Value> read_number(sd_bus_message* message, char type) {
    Wire number{};
    const int r = sd_bus_message_read_basic(message, type, &number);
    if (r < 0) {
        return Error::system(-r, "reading an option");
    }
    return Value(static_cast<Wide>(number));
}

Result<Value> read_value(sd_bus_message* message, const std::string& key, char type) {
    switch (type) {
    case SD_BUS_TYPE_BOOLEAN:
        return read_number<int, bool>(message, type);
    case SD_BUS_TYPE_BYTE:
        return read_number<std::uint8_t, std::uint64_t>(message, type);
    case SD_BUS_TYPE_UINT16:
        return read_number<std::uint16_t, std::uint64_t>(message, type);
    case SD_BUS_TYPE_UINT32:
        return read_number<std::uint32_t, std::uint64_t>(message, type);
    case SD_BUS_TYPE_UINT64:
        return read_number<std::uint64_t, std::uint64_t>(message, type);
    case SD_BUS_TYPE_INT16:
        return read_number<std::int16_t, std::int64_t>(message, type);
    case SD_BUS_TYPE_INT32:
        return read_number<std::int32_t, std::int64_t>(message, type);
    case SD_BUS_TYPE_INT64:
        return read_number<std::int64_t, std::int64_t>(message, type);
    case SD_BUS_TYPE_DOUBLE:
        return read_number<double, double>(message, type);
    case SD_BUS_TYPE_STRING: {
        const char* text = nullptr;
        const int r = sd_bus_message_read_basic(message, type, &text);
        if (r < 0) {
            return Error::system(-r, "reading an option");
        }
        return Value(std::string(text));
    }
    default:
        return Error::make(ErrorKind::Malformed, "option " + key + " has a type that none has");
    }
}

} // namespace

int append(sd_bus_message* message, const std::string& text) {
    return sd_bus_message_append_basic(message, 's', text.c_str());
}

int append(sd_bus_message* message, const std::vector<std::string>& list) {
    TRY_BUS(sd_bus_message_open_container(message, 'a', "s"));
    for (const std::string& text : list) {
        TRY_BUS(append(message, text));
    }
    return sd_bus_message_close_container(message);
}

int append(sd_bus_message* message, double value) {
    return sd_bus_message_append_basic(message, 'd', &value);
}

int append(sd_bus_message* message, std::int32_t value) {
    return sd_bus_message_append_basic(message, 'i', &value);
}

int append(sd_bus_message* message, const Dictionary& values) {
    TRY_BUS(sd_bus_message_open_container(message, 'a', "{sv}"));
    for (const auto& [key, value] : values) {
        TRY_BUS(sd_bus_message_open_container(message, 'e', "sv"));
        TRY_BUS(append(message, key));
        TRY_BUS(append_value(message, value));
        TRY_BUS(sd_bus_message_close_container(message));
    }
    return sd_bus_message_close_container(message);
}

int append_finding_key(sd_bus_message* message, const core::Finding& finding) {
    return sd_bus_message_append(message, "sssss", to_bus_text(finding.id).c_str(),
                                 to_bus_text(finding.reason).c_str(),
                                 std::string(core::to_string(finding.severity)).c_str(),
                                 std::string(core::to_string(finding.subject.kind)).c_str(),
                                 to_bus_text(finding.subject.name).c_str());
}

int append_finding(sd_bus_message* message, const core::Finding& finding) {
    TRY_BUS(append_finding_key(message, finding));
    TRY_BUS(sd_bus_message_open_container(message, 'a', "{sv}"));
    TRY_BUS(append_text_entry(message, "summary", finding.summary));
    if (!finding.layer.empty()) {
        TRY_BUS(append_text_entry(message, "layer", finding.layer));
    }
    TRY_BUS(append_evidence_entry(message, finding.evidence));
    TRY_BUS(append_list_entry(message, "fix", finding.fix));
    if (finding.since) {
        TRY_BUS(append_text_entry(message, "since", core::to_rfc3339(*finding.since)));
    }
    return sd_bus_message_close_container(message);
}

Result<Dictionary> read_options(sd_bus_message* message) {
    Dictionary options;
    int r = sd_bus_message_enter_container(message, 'a', "{sv}");
    while (r >= 0 && (r = sd_bus_message_enter_container(message, 'e', "sv")) > 0) {
        const char* name = nullptr;
        const char* contents = nullptr;
        r = sd_bus_message_read_basic(message, 's', &name);
        if (r >= 0) {
            r = sd_bus_message_peek_type(message, nullptr, &contents);
        }
        if (r >= 0) {
            r = sd_bus_message_enter_container(message, 'v', contents);
        }
        if (r < 0) {
            break;
        }
        const std::string key = name;
        // A container's signature is longer than one character; it falls to no option's type.
        TRY(value, read_value(message, key, contents[1] == '\0' ? contents[0] : '\0'));
        if (!options.emplace(key, value).second) {
            return Error::make(ErrorKind::Malformed, "option " + key + " is given twice");
        }
        for (int level = 0; level < 2 && r >= 0; ++level) { // the value's, then the entry's
            r = sd_bus_message_exit_container(message);
        }
    }
    if (r >= 0) {
        r = sd_bus_message_exit_container(message);
    }
    if (r < 0) {
        return Error::system(-r, "reading the options");
    }
    return options;
}

} // namespace nvmaint::bus
