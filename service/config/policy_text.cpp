#include "policy_file.hpp"

#include "quantity.hpp"

#include <fmt/format.h>

#include <array>

namespace nvmaint::config {

namespace {

// A TOML basic string. What came out of a TOML file is valid UTF-8 and stays so; controls are
// escaped.
std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (byte < 0x20 || byte == 0x7f) {
            out += fmt::format("\\u{:04X}", byte);
        } else {
            out += c;
        }
    }
    return out + '"';
}

std::string quoted(const std::vector<std::string>& texts) {
    std::string out = "[";
    for (const std::string& text : texts) {
        out += (out.size() > 1 ? ", " : "") + quoted(text);
    }
    return out + "]";
}

std::string_view day_text(core::Weekday day) {
    constexpr std::array<std::string_view, 7> names{"Mon", "Tue", "Wed", "Thu",
                                                    "Fri", "Sat", "Sun"};
    return names.at(static_cast<std::size_t>(day));
}

std::string window_text(const core::TrimWindow& window) {
    std::string out = "\n[[trim.window]]\n";
    if (!window.days.empty()) {
        std::vector<std::string> days;
        for (core::Weekday day : window.days) {
            days.emplace_back(day_text(day));
        }
        out += fmt::format("days = {}\n", quoted(days));
    }
    return out + fmt::format("from = \"{}\"\nto = \"{}\"\ntimezone = \"{}\"\n",
                             clock_text(window.from), clock_text(window.to),
                             window.timezone.empty() ? "local" : window.timezone);
}

std::string alert_text(const core::Hook& hook) {
    std::string out = "\n[[alert]]\n";
    if (!hook.match.empty()) {
        out += fmt::format("match = {}\n", quoted(hook.match));
    }
    return out + fmt::format("hook = {}\nhold = \"{}\"\nclear = \"{}\"\ntimeout = \"{}\"\n",
                             quoted(hook.exec), duration_text(hook.hold), duration_text(hook.clear),
                             duration_text(hook.timeout));
}

std::string override_text(std::string_view table, const core::Override& entry) {
    std::string out = fmt::format("\n[[{}]]\n", table);
    const std::array<std::pair<std::string_view, const std::string*>, 3> matches{
        {{"model", &entry.match_model},
         {"serial", &entry.match_serial},
         {"mount", &entry.match_mount}}};
    for (const auto& [name, pattern] : matches) {
        if (!pattern->empty()) {
            out += fmt::format("match.{} = {}\n", name, quoted(*pattern));
        }
    }
    if (entry.flush.target_p99) {
        out += fmt::format("flush.target_p99 = \"{}\"\n", duration_text(*entry.flush.target_p99));
    }
    if (entry.trim_exclude) {
        out += fmt::format("trim.exclude = {}\n", *entry.trim_exclude);
    }
    return out;
}

} // namespace

std::string policy_to_toml(const core::Policy& policy) {
    std::string out = "schema = 1\n";
    out += fmt::format("mode = \"{}\"\n",
                       policy.mode == core::Mode::Maintain ? "maintain" : "observe");
    out += "\n[flush]\n";
    out += policy.flush.target_p99
               ? fmt::format("target_p99 = \"{}\"\n", duration_text(*policy.flush.target_p99))
               : "# target_p99 is not set: no flush is judged against a target\n";
    out += fmt::format("\n[trim]\ntakeover = {}\nminimum_spacing = \"{}\"\n", policy.trim.takeover,
                       duration_text(policy.trim.minimum_spacing));
    out +=
        policy.trim.debt_limit
            ? fmt::format("debt_limit = \"{}\"\n", share_text(*policy.trim.debt_limit))
            : "# debt_limit is not set: freed space that was not trimmed never becomes a warning\n";
    for (const core::TrimWindow& window : policy.trim.windows) {
        out += window_text(window);
    }
    for (const core::Hook& hook : policy.hooks) {
        out += alert_text(hook);
    }
    for (const core::Override& drive : policy.drives) {
        out += override_text("drive", drive);
    }
    for (const core::Override& filesystem : policy.filesystems) {
        out += override_text("filesystem", filesystem);
    }
    return out;
}

} // namespace nvmaint::config
