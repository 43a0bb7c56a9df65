// TOML -> core::Policy, strictly. Every key is listed in one of the tables below with the function
// that takes its value; a key that is not listed is an error with its place, so that a typing
// mistake can never silently leave a default in force.

// toml++ is used as a header here: the shared library of the distribution is built with exceptions.
#undef TOML_HEADER_ONLY
#undef TOML_SHARED_LIB
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
// Its assertions fail on bad input ("[=") that its code then refuses in order.
#define TOML_ASSERT(expression) static_assert(true)

#include "policy_file.hpp"

#include "quantity.hpp"
#include "toml_guard.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace nvmaint::config {

namespace {

using core::nanoseconds;
using core::seconds;

// Ranges. All are judgement: wide enough for what anybody means, narrow enough to catch a wrong
// unit.
constexpr nanoseconds least_target{std::chrono::microseconds{10}}; // no drive flushes faster
constexpr nanoseconds most_target{std::chrono::seconds{60}};
constexpr nanoseconds most_spacing{std::chrono::hours{24 * 365}};
constexpr nanoseconds most_hold{std::chrono::hours{24 * 30}};
constexpr nanoseconds least_timeout{std::chrono::seconds{1}};
constexpr nanoseconds most_timeout{std::chrono::minutes{10}};
constexpr double least_debt = 0.01;

// Parts of the policy that other versions know. Refused by name, so that somebody who reads about
// them learns that it is the version and not the spelling.
constexpr std::array<std::string_view, 5> not_yet{"throttle", "profile", "health", "history",
                                                  "metrics"};

constexpr std::array<std::pair<std::string_view, core::Weekday>, 7> weekdays{{
    {"monday", core::Weekday::Mon},
    {"tuesday", core::Weekday::Tue},
    {"wednesday", core::Weekday::Wed},
    {"thursday", core::Weekday::Thu},
    {"friday", core::Weekday::Fri},
    {"saturday", core::Weekday::Sat},
    {"sunday", core::Weekday::Sun},
}};

std::string_view type_name(toml::node_type type) {
    switch (type) {
    case toml::node_type::none:
        return "nothing";
    case toml::node_type::table:
        return "a table";
    case toml::node_type::array:
        return "an array";
    case toml::node_type::string:
        return "a string";
    case toml::node_type::integer:
        return "an integer";
    case toml::node_type::floating_point:
        return "a number";
    case toml::node_type::boolean:
        return "true or false";
    case toml::node_type::date:
        return "a date";
    case toml::node_type::time:
        return "a time";
    case toml::node_type::date_time:
        return "a date and time";
    }
    return "something else";
}

std::optional<core::Weekday> weekday(std::string_view text) {
    std::string lower;
    for (char c : text) {
        lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    for (const auto& [name, day] : weekdays) {
        if (lower == name || lower == name.substr(0, 3)) {
            return day;
        }
    }
    return std::nullopt;
}

// Writes one file's settings over a policy. Goes through the whole file and keeps each error, so
// that the one reported is the first in the file, whatever order the tables were walked in.
class FileCompiler {
  public:
    FileCompiler(const std::string& path, core::Policy& policy) : path_(path), policy_(policy) {}

    void compile(const toml::table& root) {
        table(root, "",
              {{"schema", [this](const auto& node, const auto& key) { schema(node, key); }},
               {"mode", [this](const auto& node, const auto& key) { mode(node, key); }},
               {"flush",
                [this](const auto& node, const auto& key) { flush(node, key, policy_.flush); }},
               {"trim", [this](const auto& node, const auto& key) { trim(node, key); }},
               {"alert",
                [this](const auto& node, const auto& key) {
                    policy_.hooks = each<core::Hook>(
                        node, key, [this](const auto& t, const auto& k) { return alert(t, k); });
                }},
               {"drive",
                [this](const auto& node, const auto& key) {
                    policy_.drives = each<core::Override>(
                        node, key, [this](const auto& t, const auto& k) { return drive(t, k); });
                }},
               {"filesystem", [this](const auto& node, const auto& key) {
                    policy_.filesystems =
                        each<core::Override>(node, key, [this](const auto& t, const auto& k) {
                            return filesystem(t, k);
                        });
                }}});
    }

    [[nodiscard]] std::optional<Error> first_error() const {
        const auto first =
            std::min_element(errors_.begin(), errors_.end(), [](const auto& a, const auto& b) {
                return std::pair{a.line, a.column} < std::pair{b.line, b.column};
            });
        if (first == errors_.end()) {
            return std::nullopt;
        }
        return Error::make(ErrorKind::Malformed, fmt::format("{}:{}:{}: {}", path_, first->line,
                                                             first->column, first->what));
    }

    void fail(const toml::source_region& where, std::string what) {
        errors_.push_back({where.begin.line, where.begin.column, std::move(what)});
    }

  private:
    struct Problem {
        toml::source_index line = 0;
        toml::source_index column = 0;
        std::string what;
    };
    struct Key {
        std::string_view name;
        std::function<void(const toml::node&, const std::string&)> take;
    };

    static std::string join(const std::string& prefix, std::string_view name) {
        return prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name);
    }

    void table(const toml::table& from, const std::string& prefix, const std::vector<Key>& keys) {
        for (const auto& [name, node] : from) {
            const std::string_view text = name.str();
            const auto known = std::find_if(keys.begin(), keys.end(),
                                            [text](const Key& key) { return key.name == text; });
            if (known != keys.end()) {
                known->take(node, join(prefix, text));
            } else {
                unknown(name, prefix, keys);
            }
        }
    }

    void unknown(const toml::key& name, const std::string& prefix, const std::vector<Key>& keys) {
        const std::string path = join(prefix, shown(name.str()));
        const bool later =
            prefix.empty() && std::find(not_yet.begin(), not_yet.end(),
                                        std::string_view(name.str())) != not_yet.end();
        if (later || path == "trim.gate") {
            fail(name.source(), fmt::format("\"{}\" is not known to this version", path));
            return;
        }
        std::string known;
        for (const Key& key : keys) {
            known += fmt::format("{}{}", known.empty() ? "" : ", ", key.name);
        }
        fail(name.source(), fmt::format("unknown key \"{}\"; known here: {}", path, known));
    }

    void wrong_type(const toml::node& node, const std::string& key, std::string_view wanted) {
        fail(node.source(),
             fmt::format("\"{}\" is {}; it must be {}", key, type_name(node.type()), wanted));
    }

    const toml::table* as_table(const toml::node& node, const std::string& key) {
        if (!node.is_table()) {
            wrong_type(node, key, fmt::format("a table: [{}]", key));
        }
        return node.as_table();
    }

    std::optional<std::string> text(const toml::node& node, const std::string& key,
                                    std::string_view wanted) {
        const toml::value<std::string>* value = node.as_string();
        if (value == nullptr) {
            wrong_type(node, key, wanted);
            return std::nullopt;
        }
        if (value->get().find('\0') != std::string::npos) {
            fail(node.source(), fmt::format("\"{}\" holds a NUL", key));
            return std::nullopt;
        }
        return value->get();
    }

    std::optional<bool> boolean(const toml::node& node, const std::string& key) {
        const toml::value<bool>* value = node.as_boolean();
        if (value == nullptr) {
            wrong_type(node, key, "true or false, without quotes");
            return std::nullopt;
        }
        return value->get();
    }

    std::optional<nanoseconds> duration(const toml::node& node, const std::string& key,
                                        nanoseconds least, nanoseconds most) {
        const auto written = text(node, key, "a string with a unit, such as \"5ms\" or \"1d\"");
        if (!written) {
            return std::nullopt;
        }
        const auto value = parse_duration(*written);
        if (!value) {
            fail(node.source(), fmt::format("\"{}\": {}", key, value.error().context));
            return std::nullopt;
        }
        if (*value < least || *value > most) {
            fail(node.source(),
                 fmt::format("\"{}\": \"{}\" is out of range; it must be {} to {}", key,
                             shown(*written), duration_text(least), duration_text(most)));
            return std::nullopt;
        }
        return *value;
    }

    std::optional<seconds> whole_seconds(const toml::node& node, const std::string& key,
                                         nanoseconds least, nanoseconds most) {
        const auto value = duration(node, key, least, most);
        if (value && *value % seconds{1} != nanoseconds{0}) {
            fail(node.source(), fmt::format("\"{}\" must be whole seconds", key));
            return std::nullopt;
        }
        return value ? std::optional(std::chrono::duration_cast<seconds>(*value)) : std::nullopt;
    }

    // A glob, or with `several` an array of them.
    std::optional<std::string> glob(const toml::node& node, const std::string& key) {
        const auto value = text(node, key, "a string: a pattern as in glob(7)");
        if (!value) {
            return std::nullopt;
        }
        if (const auto problem = glob_problem(*value)) {
            fail(node.source(),
                 fmt::format("\"{}\": bad pattern \"{}\": {}", key, shown(*value), *problem));
            return std::nullopt;
        }
        return value;
    }

    // Each element of an array of tables.
    template <class T>
    std::vector<T>
    each(const toml::node& node, const std::string& key,
         const std::function<std::optional<T>(const toml::table&, const std::string&)>& one) {
        std::vector<T> all;
        const toml::array* array = node.as_array();
        if (array == nullptr) {
            wrong_type(node, key, fmt::format("an array of tables: [[{}]]", key));
            return all;
        }
        for (const toml::node& element : *array) {
            if (!element.is_table()) {
                wrong_type(element, key, fmt::format("an array of tables: [[{}]]", key));
            } else if (auto value = one(*element.as_table(), key)) {
                all.push_back(std::move(*value));
            }
        }
        return all;
    }

    // A string, or an array of strings that is not empty; `take` gets each.
    void one_or_more(const toml::node& node, const std::string& key, std::string_view wanted,
                     const std::function<void(const toml::node&)>& take) {
        const toml::array* array = node.as_array();
        if (array == nullptr) {
            if (!node.is_string()) {
                wrong_type(node, key, wanted);
                return;
            }
            take(node);
            return;
        }
        if (array->empty()) {
            fail(node.source(), fmt::format("\"{}\" is empty; leave it out to mean all", key));
        }
        for (const toml::node& element : *array) {
            take(element);
        }
    }

    void schema(const toml::node& node, const std::string& key) {
        const toml::value<std::int64_t>* value = node.as_integer();
        if (value == nullptr) {
            wrong_type(node, key, "the integer 1");
        } else if (value->get() != 1) {
            fail(node.source(),
                 fmt::format("\"schema\" is {}; this version knows schema 1 only", value->get()));
        }
    }

    void mode(const toml::node& node, const std::string& key) {
        const auto value = text(node, key, "\"observe\" or \"maintain\"");
        if (value == "observe") {
            policy_.mode = core::Mode::Observe;
        } else if (value == "maintain") {
            policy_.mode = core::Mode::Maintain;
        } else if (value) {
            fail(node.source(),
                 fmt::format("\"mode\" is \"{}\"; it must be \"observe\" or \"maintain\"",
                             shown(*value)));
        }
    }

    void flush(const toml::node& node, const std::string& key, core::FlushPolicy& into) {
        if (const toml::table* from = as_table(node, key)) {
            table(*from, key,
                  {{"target_p99", [&](const toml::node& n, const std::string& k) {
                        if (const auto value = duration(n, k, least_target, most_target)) {
                            into.target_p99 = value;
                        }
                    }}});
        }
    }

    void trim(const toml::node& node, const std::string& key) {
        const toml::table* from = as_table(node, key);
        if (from == nullptr) {
            return;
        }
        core::TrimPolicy& into = policy_.trim;
        table(*from, key,
              {{"takeover",
                [&](const toml::node& n, const std::string& k) {
                    into.takeover = boolean(n, k).value_or(into.takeover);
                }},
               {"minimum_spacing",
                [&](const toml::node& n, const std::string& k) {
                    into.minimum_spacing = whole_seconds(n, k, nanoseconds{0}, most_spacing)
                                               .value_or(into.minimum_spacing);
                }},
               {"debt_limit", [&](const toml::node& n, const std::string& k) { debt_limit(n, k); }},
               {"window", [&](const toml::node& n, const std::string& k) {
                    into.windows = each<core::TrimWindow>(
                        n, k, [this](const auto& t, const auto& name) { return window(t, name); });
                }}});
    }

    void debt_limit(const toml::node& node, const std::string& key) {
        const auto written = text(node, key, "a string: a percentage such as \"20%\"");
        if (!written) {
            return;
        }
        const auto value = parse_share(*written);
        if (!value) {
            fail(node.source(), fmt::format("\"{}\": {}", key, value.error().context));
        } else if (*value < least_debt) {
            fail(node.source(), fmt::format("\"{}\": \"{}\" is out of range; it must be 1% to 100%",
                                            key, shown(*written)));
        } else {
            policy_.trim.debt_limit = *value;
        }
    }

    std::optional<core::TrimWindow> window(const toml::table& from, const std::string& key) {
        core::TrimWindow into;
        std::optional<std::chrono::minutes> start;
        std::optional<std::chrono::minutes> end;
        const auto clock = [this](const toml::node& n, const std::string& k) {
            std::optional<std::chrono::minutes> value;
            if (const auto written = text(n, k, "a string: a time of day such as \"02:30\"")) {
                const auto parsed = parse_clock(*written);
                if (parsed) {
                    value = *parsed;
                } else {
                    fail(n.source(), fmt::format("\"{}\": {}", k, parsed.error().context));
                }
            }
            return value;
        };
        const std::size_t errors_before = errors_.size();
        table(from, key,
              {{"days",
                [&](const toml::node& n, const std::string& k) {
                    one_or_more(n, k, "a string or an array of strings, such as [\"Sat\", \"Sun\"]",
                                [&](const toml::node& day) { days(day, k, into.days); });
                }},
               {"from", [&](const toml::node& n, const std::string& k) { start = clock(n, k); }},
               {"to", [&](const toml::node& n, const std::string& k) { end = clock(n, k); }},
               {"timezone", [&](const toml::node& n, const std::string& k) {
                    const auto zone = text(n, k, "\"local\" or \"UTC\"");
                    if (zone == "UTC") {
                        into.timezone = *zone;
                    } else if (zone && zone != "local") {
                        fail(n.source(),
                             fmt::format("\"{}\" is \"{}\"; this version knows \"local\" (the "
                                         "host's own) and \"UTC\"",
                                         k, shown(*zone)));
                    }
                }}});
        if (errors_.size() != errors_before) {
            return std::nullopt;
        }
        if (!start || !end) {
            fail(from.source(), fmt::format("[[{}]] needs both \"from\" and \"to\"", key));
        } else if (*start >= std::chrono::minutes{24 * 60}) {
            fail(from.source(), fmt::format("\"{}.from\" must be before \"24:00\"", key));
        } else if (*start == *end) {
            fail(from.source(),
                 fmt::format("[[{}]] begins and ends at the same time; for the whole day write "
                             "from = \"00:00\" and to = \"24:00\"",
                             key));
        } else {
            into.from = *start;
            into.to = *end;
            return into;
        }
        return std::nullopt;
    }

    // "Sat", "saturday", "Mon-Fri", "Sat..Mon"; kept in the order of the week, each once.
    void days(const toml::node& node, const std::string& key, std::vector<core::Weekday>& into) {
        const auto written = text(node, key, "a string: a day of the week such as \"Sat\"");
        if (!written) {
            return;
        }
        const std::size_t dots = written->find("..");
        const std::size_t dash = dots == std::string::npos ? written->find('-') : dots;
        const std::size_t width = dots == std::string::npos ? 1 : 2;
        const auto first = weekday(written->substr(0, dash));
        const auto last =
            dash == std::string::npos ? first : weekday(written->substr(dash + width));
        if (!first || !last) {
            fail(node.source(),
                 fmt::format("\"{}\": \"{}\" is no day of the week; write \"Mon\", \"Tue\", ... "
                             "\"Sun\", or \"Mon-Fri\"",
                             key, shown(*written)));
            return;
        }
        for (int day = static_cast<int>(*first);; day = (day + 1) % 7) {
            into.push_back(static_cast<core::Weekday>(day));
            if (day == static_cast<int>(*last)) {
                break;
            }
        }
        std::sort(into.begin(), into.end());
        into.erase(std::unique(into.begin(), into.end()), into.end());
    }

    std::optional<core::Hook> alert(const toml::table& from, const std::string& key) {
        core::Hook into;
        const std::size_t errors_before = errors_.size();
        const auto time = [this](seconds& field, nanoseconds least, nanoseconds most) {
            return [this, &field, least, most](const toml::node& n, const std::string& k) {
                field = whole_seconds(n, k, least, most).value_or(field);
            };
        };
        table(from, key,
              {{"match",
                [&](const toml::node& n, const std::string& k) {
                    one_or_more(n, k,
                                "a pattern of finding ids such as \"trim.*\", or an array of them",
                                [&](const toml::node& element) {
                                    if (auto pattern = glob(element, k)) {
                                        into.match.push_back(std::move(*pattern));
                                    }
                                });
                }},
               {"hook",
                [&](const toml::node& n, const std::string& k) {
                    const auto program = text(n, k, "a string: the absolute path of a program");
                    if (program && (program->size() < 2 || program->front() != '/')) {
                        fail(n.source(), fmt::format("\"{}\" is \"{}\"; it must be the absolute "
                                                     "path of a program",
                                                     k, shown(*program)));
                    } else if (program) {
                        into.exec = *program;
                    }
                }},
               {"hold", time(into.hold, nanoseconds{0}, most_hold)},
               {"clear", time(into.clear, nanoseconds{0}, most_hold)},
               {"timeout", time(into.timeout, least_timeout, most_timeout)}});
        if (errors_.size() == errors_before && into.exec.empty()) {
            fail(from.source(), fmt::format("[[{}]] needs \"hook\", the program to run", key));
        }
        return errors_.size() == errors_before ? std::optional(into) : std::nullopt;
    }

    std::optional<core::Override> drive(const toml::table& from, const std::string& key) {
        core::Override into;
        const std::size_t errors_before = errors_.size();
        table(
            from, key,
            {{"match",
              [&](const toml::node& n, const std::string& k) {
                  match(n, k, {{"model", &into.match_model}, {"serial", &into.match_serial}});
              }},
             {"flush", [&](const toml::node& n, const std::string& k) { flush(n, k, into.flush); }},
             {"trim", [&](const toml::node& n, const std::string& k) {
                  trim_exclude(n, k, into.trim_exclude);
              }}});
        if (errors_.size() == errors_before && into.match_model.empty() &&
            into.match_serial.empty()) {
            fail(from.source(),
                 fmt::format("[[{}]] needs \"match.model\" or \"match.serial\"", key));
        }
        return errors_.size() == errors_before ? std::optional(into) : std::nullopt;
    }

    void trim_exclude(const toml::node& node, const std::string& key, std::optional<bool>& into) {
        if (const toml::table* from = as_table(node, key)) {
            table(*from, key, {{"exclude", [&](const toml::node& n, const std::string& k) {
                                    into = boolean(n, k);
                                }}});
        }
    }

    std::optional<core::Override> filesystem(const toml::table& from, const std::string& key) {
        core::Override into;
        const std::size_t errors_before = errors_.size();
        table(from, key,
              {{"match",
                [&](const toml::node& n, const std::string& k) {
                    match(n, k, {{"mount", &into.match_mount}});
                    if (!into.match_mount.empty() &&
                        std::string_view("/*?[\\").find(into.match_mount.front()) ==
                            std::string_view::npos) {
                        fail(n.source(),
                             fmt::format("\"{}.mount\" is \"{}\"; a mount point begins with \"/\"",
                                         k, shown(into.match_mount)));
                    }
                }},
               {"trim", [&](const toml::node& n, const std::string& k) {
                    trim_exclude(n, k, into.trim_exclude);
                }}});
        if (errors_.size() == errors_before && into.match_mount.empty()) {
            fail(from.source(), fmt::format("[[{}]] needs \"match.mount\"", key));
        }
        return errors_.size() == errors_before ? std::optional(into) : std::nullopt;
    }

    void match(const toml::node& node, const std::string& key,
               std::initializer_list<std::pair<std::string_view, std::string*>> fields) {
        const toml::table* from = as_table(node, key);
        if (from == nullptr) {
            return;
        }
        std::vector<Key> keys;
        for (const auto& field : fields) {
            keys.push_back({field.first,
                            [this, into = field.second](const toml::node& n, const std::string& k) {
                                *into = glob(n, k).value_or("");
                            }});
        }
        table(*from, key, keys);
    }

    const std::string& path_;
    core::Policy& policy_;
    std::vector<Problem> errors_;
};

} // namespace

Result<core::Policy> compile_policy(const std::vector<PolicySource>& sources) {
    core::Policy policy;
    for (const PolicySource& source : sources) {
        FileCompiler compiler(source.path, policy);
        if (const auto trap = find_trap(source.text)) {
            toml::source_region where;
            where.begin.line = trap->line;
            where.begin.column = trap->column;
            compiler.fail(where, std::string(trap->what));
        } else {
            const toml::parse_result parsed =
                toml::parse(std::string_view(source.text), std::string_view(source.path));
            if (parsed) {
                compiler.compile(parsed.table());
            } else {
                compiler.fail(parsed.error().source(), shown(parsed.error().description(), 400));
            }
        }
        if (const auto error = compiler.first_error()) {
            return *error;
        }
        policy.files.push_back(source.path);
    }
    return policy;
}

} // namespace nvmaint::config
