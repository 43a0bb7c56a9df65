#include "collect/journal.hpp"

#include "collect/recording_toml.hpp"
#include "collect/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace nvmaint::collect {
namespace {

using Json = nlohmann::json;

// One value of a journal field. Bytes that are no UTF-8 stay as they are.
std::optional<std::string> value_text(const Json& value, bool repeated = false) {
    if (value.is_string()) {
        return value.get<std::string>();
    }
    if (value.is_number()) {
        return value.dump();
    }
    if (!value.is_array() || value.empty()) {
        return std::nullopt;
    }
    if (!value.front().is_number_unsigned()) { // a repeated field: the first one counts
        return repeated ? std::nullopt : value_text(value.front(), true);
    }
    std::string bytes;
    for (const Json& byte : value) {
        if (!byte.is_number_unsigned() || byte.get<std::uint64_t>() > 255) {
            return std::nullopt;
        }
        bytes += static_cast<char>(static_cast<unsigned char>(byte.get<std::uint64_t>()));
    }
    return bytes;
}

std::string field(const Json& entry, const char* name) {
    const auto found = entry.find(name);
    return found == entry.end() ? "" : value_text(*found).value_or("");
}

// PID 1 logs from its own scope; UNIT names whom it means.
std::string unit_of(const Json& entry) {
    const std::string about = field(entry, "UNIT");
    return field(entry, "_PID") == "1" && !about.empty() ? about : field(entry, "_SYSTEMD_UNIT");
}

std::optional<core::WallTime> time_of(const Json& entry, const char* name) {
    const std::string text = field(entry, name);
    if (const auto microseconds = parse_decimal<std::uint64_t>(text)) {
        return wall_time_of(*microseconds);
    }
    const Result<core::WallTime> time = core::parse_rfc3339(text);
    return time ? std::optional(*time) : std::nullopt;
}

// Calls `each(object)` for every line, until it names a problem.
template <class F>
Result<Done> for_each_object(std::string_view text, F each) {
    std::size_t number = 0;
    for (const std::string_view line : split_lines(text)) {
        ++number;
        if (line.find_first_not_of(" \t") == std::string_view::npos) {
            continue;
        }
        const Json entry = Json::parse(line, nullptr, false);
        const std::string problem = entry.is_object() ? each(entry) : "not a JSON object";
        if (!problem.empty()) {
            return Error::make(ErrorKind::Malformed, fmt::format("line {}: {}", number, problem));
        }
    }
    return Done{};
}

} // namespace

Result<std::vector<core::JournalEntry>> parse_journal(std::string_view text) {
    std::vector<core::JournalEntry> entries;
    TRY(done, for_each_object(text, [&](const Json& entry) -> std::string {
            const std::optional<core::WallTime> time = time_of(entry, "__REALTIME_TIMESTAMP");
            if (!time) {
                return "no __REALTIME_TIMESTAMP";
            }
            entries.push_back({.time = *time,
                               .boot_id = field(entry, "_BOOT_ID"),
                               .unit = unit_of(entry),
                               .identifier = field(entry, "SYSLOG_IDENTIFIER"),
                               .message_id = field(entry, "MESSAGE_ID"),
                               .message = field(entry, "MESSAGE")});
            return "";
        }));
    (void)done; // carries nothing
    std::stable_sort(
        entries.begin(), entries.end(),
        [](const core::JournalEntry& a, const core::JournalEntry& b) { return a.time < b.time; });
    return entries;
}

Result<std::vector<core::Boot>> parse_boots(std::string_view text) {
    std::vector<core::Boot> boots;
    TRY(done, for_each_object(text, [&](const Json& entry) -> std::string {
            const auto either = [&](const char* name, const char* other) {
                const std::optional<core::WallTime> time = time_of(entry, name);
                return time ? time : time_of(entry, other);
            };
            const std::optional<core::WallTime> first = either("first", "first_entry");
            const std::optional<core::WallTime> last = either("last", "last_entry");
            const std::string boot_id = field(entry, "boot_id");
            if (boot_id.empty() || !first || !last) {
                return "boot_id, first or last is missing";
            }
            boots.push_back({boot_id, *first, *last});
            return "";
        }));
    (void)done; // carries nothing
    std::stable_sort(boots.begin(), boots.end(),
                     [](const core::Boot& a, const core::Boot& b) { return a.first < b.first; });
    return boots;
}

std::string format_boots(const std::vector<core::Boot>& boots) {
    std::string text;
    for (const core::Boot& boot : boots) {
        const Json line = {{"boot_id", boot.boot_id},
                           {"first", format_time(boot.first)},
                           {"last", format_time(boot.last)}};
        text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
    return text;
}

Reading<std::vector<core::JournalEntry>>
read_journal(const HostRoot& root, const std::vector<std::string>& units, core::WallTime now) {
    static const std::string kPath = "systemd/journal.jsonl";
    TRY(text, root.read_source(kPath, [&] { return read_journal_live(units, now); }));
    Result<std::vector<core::JournalEntry>> entries = parse_journal(text);
    if (!entries) {
        return entries.error().in(kPath);
    }
    return entries;
}

Reading<std::vector<core::Boot>> read_boots(const HostRoot& root) {
    static const std::string kPath = "systemd/boots.jsonl";
    TRY(text, root.read_source(kPath, read_boots_live));
    Result<std::vector<core::Boot>> boots = parse_boots(text);
    if (!boots) {
        return boots.error().in(kPath);
    }
    return boots;
}

} // namespace nvmaint::collect
