#include "collect/recording_toml.hpp"

#include "values/errno_name.hpp"

#include <fmt/format.h>

#include <cmath>

// Debian's toml++ is also a shared library, built with exceptions; ours is header-only without.
#undef TOML_HEADER_ONLY
#undef TOML_SHARED_LIB
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
// Its assertions fail on bad input ("[=") that its code then refuses in order.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

namespace nvmaint::collect {
namespace {

constexpr std::size_t kMaxKeyParts = 16;

// toml++ limits how deep values nest, not how deep dotted keys do, and walks and frees what it read
// by recursion: a file of "a.a.a..." would overflow the stack. Line of the first key with too many
// parts, counted outside strings and comments; 0 if there is none.
std::size_t line_of_deep_key(std::string_view text) {
    std::size_t line = 1;
    std::size_t dots = 0;
    std::string_view closing; // of the string we are in; empty outside
    bool comment = false;
    for (std::size_t i = 0; i < text.size();) {
        const char c = text[i];
        if (c == '\n') {
            ++line;
            comment = false;
            dots = 0;
            if (closing.size() == 1) {
                closing = {}; // single-line strings end here at the latest; toml++ will complain
            }
            ++i;
        } else if (comment) {
            ++i;
        } else if (!closing.empty()) {
            if (closing.front() == '"' && c == '\\') {
                i += text.substr(i + 1, 1) == "\n" ? 1 : 2;
            } else if (text.substr(i).starts_with(closing)) {
                i += closing.size();
                // Up to two quotes may stand right before the closing three.
                while (closing.size() == 3 && i < text.size() && text[i] == closing.front()) {
                    ++i;
                }
                closing = {};
            } else {
                ++i;
            }
        } else if (c == '"' || c == '\'') {
            static constexpr std::string_view kQuotes = "\"\"\"'''";
            const std::string_view triple = kQuotes.substr(c == '"' ? 0 : 3, 3);
            closing = text.substr(i).starts_with(triple) ? triple : triple.substr(0, 1);
            i += closing.size();
        } else {
            comment = c == '#';
            if (c == '.') {
                if (++dots >= kMaxKeyParts) {
                    return line;
                }
            } else if (c == '=' || c == ',' || c == '{' || c == '[') {
                dots = 0;
            }
            ++i;
        }
    }
    return 0;
}

Error malformed(const std::string& file, const toml::source_region& where, std::string_view what) {
    return Error::make(ErrorKind::Malformed, fmt::format("{}:{}:{}: {}", file, where.begin.line,
                                                         where.begin.column, what));
}

Result<toml::table> parse(std::string_view text, const std::string& file) {
    if (const std::size_t line = line_of_deep_key(text); line != 0) {
        return Error::make(ErrorKind::Malformed,
                           fmt::format("{}:{}:1: a key of too many parts", file, line));
    }
    toml::parse_result result = toml::parse(text, std::string_view(file));
    if (!result) {
        return malformed(file, result.error().source(), result.error().description());
    }
    return std::move(result).table();
}

// One table and the errors met while reading it.
class Reader {
  public:
    Reader(const toml::table& table, const std::string& file) : table_(table), file_(file) {}

    std::optional<std::string> text(std::string_view key) {
        return typed<std::string>(key, "a string");
    }

    std::optional<std::uint64_t> count(std::string_view key) {
        const std::optional<std::int64_t> value = typed<std::int64_t>(key, "a number");
        if (value && *value < 0) {
            fail(*table_.get(key), fmt::format("{} must not be negative", key));
            return std::nullopt;
        }
        return value ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
    }

    // Whole seconds; fractions are dropped.
    std::optional<core::seconds> duration(std::string_view key) {
        const toml::node* node = table_.get(key);
        if (node == nullptr) {
            return std::nullopt;
        }
        const std::optional<double> value =
            node->is_number() ? node->value<double>() : std::nullopt;
        if (!value || !std::isfinite(*value) || std::abs(*value) > 1e12) {
            fail(*node, fmt::format("{} must be a number of seconds", key));
            return std::nullopt;
        }
        return core::seconds(static_cast<std::int64_t>(std::floor(*value)));
    }

    std::optional<core::WallTime> time(std::string_view key) {
        const toml::node* node = table_.get(key);
        if (node == nullptr) {
            return std::nullopt;
        }
        std::string written;
        if (const auto text = node->value_exact<std::string>()) {
            written = *text;
        } else if (const auto stamp = node->value_exact<toml::date_time>();
                   stamp && stamp->offset) {
            const int offset = stamp->offset->minutes;
            written =
                fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}{}{:02}:{:02}",
                            stamp->date.year, stamp->date.month, stamp->date.day, stamp->time.hour,
                            stamp->time.minute, stamp->time.second, stamp->time.nanosecond,
                            offset < 0 ? '-' : '+', std::abs(offset) / 60, std::abs(offset) % 60);
        }
        const Result<core::WallTime> value = core::parse_rfc3339(written);
        if (!value) {
            fail(*node, fmt::format("{} must be a time like \"2026-11-30T20:47:33Z\"", key));
            return std::nullopt;
        }
        return *value;
    }

    // A name or a number; 0 only where `zero` is allowed.
    std::optional<int> error_number(std::string_view key, bool zero) {
        const toml::node* node = table_.get(key);
        if (node == nullptr) {
            return std::nullopt;
        }
        if (const auto number = node->value_exact<std::int64_t>()) {
            if ((*number == 0 && zero) || (*number > 0 && *number <= 4095)) {
                return static_cast<int>(*number);
            }
        } else if (const auto name = node->value_exact<std::string>()) {
            if (const std::optional<int> number = parse_errno_name(*name)) {
                return *number;
            }
        }
        fail(*node, fmt::format("{} must be the name of an errno", key));
        return std::nullopt;
    }

    std::vector<std::string> texts(std::string_view key) {
        const toml::node* node = table_.get(key);
        std::vector<std::string> values;
        if (node == nullptr) {
            return values;
        }
        const toml::array* array = node->as_array();
        if (array == nullptr) {
            fail(*node, fmt::format("{} must be an array of strings", key));
            return values;
        }
        for (const toml::node& item : *array) {
            if (const auto text = item.value_exact<std::string>()) {
                values.push_back(*text);
            } else {
                fail(item, fmt::format("{} must be an array of strings", key));
            }
        }
        return values;
    }

    void fail(const toml::node& node, std::string_view what) {
        if (!error_) {
            error_ = malformed(file_, node.source(), what);
        }
    }

    [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  private:
    template <class T>
    std::optional<T> typed(std::string_view key, std::string_view kind) {
        const toml::node* node = table_.get(key);
        if (node == nullptr) {
            return std::nullopt;
        }
        std::optional<T> value = node->value_exact<T>();
        if (!value) {
            fail(*node, fmt::format("{} must be {}", key, kind));
        }
        return value;
    }

    const toml::table& table_;
    const std::string& file_;
    std::optional<Error> error_;
};

// Calls `each(key, reader)` for every table of a file that consists of tables.
template <class F>
Result<Done> for_each_table(const toml::table& root, const std::string& file, F each) {
    for (const auto& [key, node] : root) {
        const toml::table* table = node.as_table();
        if (table == nullptr) {
            return malformed(file, node.source(),
                             fmt::format("{} must be a table", std::string_view(key)));
        }
        Reader reader(*table, file);
        each(std::string(key.str()), reader);
        if (reader.error()) {
            return *reader.error();
        }
    }
    return Done{};
}

// A TOML basic string.
std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
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
    return out + "\"";
}

void add_text(std::string& out, std::string_view key, const std::optional<std::string>& value) {
    if (value) {
        out += fmt::format("{} = {}\n", key, quoted(*value));
    }
}

} // namespace

Result<Manifest> parse_manifest_toml(std::string_view text, const std::string& file) {
    TRY(root, parse(text, file));
    Reader reader(root, file);
    const std::optional<std::uint64_t> schema = reader.count("schema");
    const std::optional<core::WallTime> now = reader.time("now");
    Manifest manifest{
        .now = now.value_or(core::WallTime{}),
        .uptime = reader.duration("uptime_seconds"),
        .utc_offset = reader.duration("utc_offset_seconds"),
        .boot_id = reader.text("boot_id"),
        .kernel = reader.text("kernel"),
        .container = reader.text("container"),
        .virtualization = reader.text("virtualization"),
        .init = reader.text("init"),
        .redactions = reader.texts("redactions"),
    };
    if (reader.error()) {
        return *reader.error();
    }
    if (!schema || !now) {
        return Error::make(ErrorKind::Malformed,
                           fmt::format("{}:1:1: {} is missing", file, schema ? "now" : "schema"));
    }
    if (*schema != 1) {
        return malformed(file, root.get("schema")->source(),
                         fmt::format("schema {} is not known to this version", *schema));
    }
    return manifest;
}

Result<std::map<std::string, StatEntry>> parse_stat_toml(std::string_view text,
                                                         const std::string& file) {
    TRY(root, parse(text, file));
    std::map<std::string, StatEntry> entries;
    TRY(done, for_each_table(root, file, [&](const std::string& path, Reader& reader) {
            StatEntry entry{.sys_errno = reader.error_number("errno", false),
                            .unsupported = reader.text("unsupported"),
                            .mtime = std::nullopt};
            if (const std::optional<core::WallTime> mtime = reader.time("mtime")) {
                entry.mtime = std::chrono::floor<core::seconds>(*mtime).time_since_epoch().count();
            }
            entries.insert_or_assign(relative_path(path), std::move(entry));
        }));
    (void)done; // carries nothing
    return entries;
}

Result<Probes> parse_probe_toml(std::string_view text, const std::string& file) {
    TRY(root, parse(text, file));
    Probes probes;
    TRY(done, for_each_table(root, file, [&](const std::string& mount, Reader& reader) {
            const core::FilesystemProbe probe{
                .size_bytes = reader.count("size_bytes"),
                .free_bytes = reader.count("free_bytes"),
                .fitrim_errno = reader.error_number("fitrim_errno", true),
                .fitrim_bytes = reader.count("fitrim_bytes"),
            };
            if (const std::optional<int> failed = reader.error_number("errno", false)) {
                probes[mount] = Error::system(*failed, mount);
            } else {
                probes[mount] = probe;
            }
        }));
    (void)done; // carries nothing
    return probes;
}

std::string format_time(core::WallTime time) {
    std::string text = core::to_rfc3339(time);
    const auto whole = std::chrono::floor<core::seconds>(time);
    if (time != whole && text.ends_with('Z')) {
        text.pop_back();
        text += fmt::format(".{:06}Z", (time - whole).count());
    }
    return text;
}

std::string format_manifest_toml(const Manifest& manifest) {
    std::string out = fmt::format("schema = 1\nnow = {}\n", quoted(format_time(manifest.now)));
    if (manifest.uptime) {
        out += fmt::format("uptime_seconds = {}\n", manifest.uptime->count());
    }
    if (manifest.utc_offset) {
        out += fmt::format("utc_offset_seconds = {}\n", manifest.utc_offset->count());
    }
    add_text(out, "boot_id", manifest.boot_id);
    add_text(out, "kernel", manifest.kernel);
    add_text(out, "container", manifest.container);
    add_text(out, "virtualization", manifest.virtualization);
    add_text(out, "init", manifest.init);
    std::string list;
    for (const std::string& redaction : manifest.redactions) {
        list += (list.empty() ? "" : ", ") + quoted(redaction);
    }
    return out + fmt::format("redactions = [{}]\n", list);
}

std::string format_stat_toml(const std::map<std::string, StatEntry>& entries) {
    std::string out;
    for (const auto& [path, entry] : entries) {
        out += fmt::format("[{}]\n", quoted(path));
        if (entry.sys_errno) {
            out += fmt::format("errno = {}\n", quoted(errno_name(*entry.sys_errno)));
        }
        add_text(out, "unsupported", entry.unsupported);
        if (entry.mtime) {
            const core::WallTime mtime{core::seconds(*entry.mtime)};
            out += fmt::format("mtime = {}\n", quoted(format_time(mtime)));
        }
    }
    return out;
}

std::string format_probe_toml(const Probes& probes) {
    std::string out;
    const auto add = [&out](std::string_view key, const auto& value) {
        if (value) {
            out += fmt::format("{} = {}\n", key, *value);
        }
    };
    for (const auto& [mount, probe] : probes) {
        out += fmt::format("[{}]\n", quoted(mount));
        if (!probe) {
            const int number = probe.error().sys_errno;
            out += fmt::format("errno = {}\n", quoted(errno_name(number != 0 ? number : EIO)));
            continue;
        }
        add("size_bytes", probe->size_bytes);
        add("free_bytes", probe->free_bytes);
        if (probe->fitrim_errno) {
            const int number = *probe->fitrim_errno;
            out += number == 0 ? "fitrim_errno = 0\n"
                               : fmt::format("fitrim_errno = {}\n", quoted(errno_name(number)));
        }
        add("fitrim_bytes", probe->fitrim_bytes);
    }
    return out;
}

} // namespace nvmaint::collect
