// The running host's journal, in the form of a recording.
#include "collect/journal.hpp"

#include "collect/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <systemd/sd-journal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>

namespace nvmaint::collect {
namespace {

using Json = nlohmann::json;

constexpr auto kReachBack = std::chrono::hours(24 * 90);
constexpr std::size_t kMaxEntries = 5000;      // about 1 MB; judgement: years of weekly trims
constexpr std::size_t kMaxKernelEntries = 500; // a controller in a reset loop logs without end
constexpr std::size_t kMaxFieldBytes = 4096;
constexpr std::size_t kMaxBoots = 500;
constexpr std::array<const char*, 8> kFields = {"MESSAGE",    "MESSAGE_ID", "_SYSTEMD_UNIT",
                                                "UNIT",       "_PID",       "SYSLOG_IDENTIFIER",
                                                "_TRANSPORT", "JOB_RESULT"};

struct JournalDeleter {
    void operator()(sd_journal* journal) const { sd_journal_close(journal); }
};
using Journal = std::unique_ptr<sd_journal, JournalDeleter>;

Error journal_error(int returned) {
    return Error::system(-returned, "reading the journal");
}

Result<Journal> open_journal() {
    sd_journal* raw = nullptr;
    const int opened = sd_journal_open(&raw, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);
    if (opened < 0) {
        return journal_error(opened);
    }
    Journal journal(raw);
    if (sd_journal_has_persistent_files(raw) <= 0 && sd_journal_has_runtime_files(raw) <= 0) {
        return Error::make(ErrorKind::Unsupported,
                           "there are no journal files, or they may not be read");
    }
    (void)sd_journal_set_data_threshold(raw, kMaxFieldBytes); // only bounds memory
    return journal;
}

// Matches on one field are alternatives, on several they all hold; a disjunction begins a new set.
class Matches {
  public:
    explicit Matches(sd_journal* journal) : journal_(journal) {}
    Matches& add(const std::string& match) {
        keep(sd_journal_add_match(journal_, match.c_str(), match.size()));
        return *this;
    }
    void next() { keep(sd_journal_add_disjunction(journal_)); }
    [[nodiscard]] int problem() const { return problem_; }

  private:
    void keep(int returned) {
        if (returned < 0 && problem_ == 0) {
            problem_ = returned;
        }
    }
    sd_journal* journal_;
    int problem_ = 0;
};

int add_matches(sd_journal* journal, const std::vector<std::string>& units) {
    Matches matches(journal);
    for (const std::string& unit : units) {
        matches.add("_SYSTEMD_UNIT=" + unit);
    }
    matches.next();
    matches.add("_PID=1");
    for (const std::string& unit : units) {
        matches.add("UNIT=" + unit);
    }
    matches.next();
    // PID 1's own reloads carry no message id; they are logged from these functions (systemd
    // src/core/main.c and dbus-manager.c), which the journal has indexed.
    matches.add("_PID=1")
        .add("CODE_FUNC=invoke_main_loop")
        .add("CODE_FUNC=log_caller")
        .add("CODE_FUNC=manager_reload");
    matches.next();
    matches.add("_TRANSPORT=kernel").add("_KERNEL_SUBSYSTEM=nvme");
    return matches.problem();
}

std::optional<std::string> field(sd_journal* journal, const char* name) {
    const void* data = nullptr;
    std::size_t length = 0;
    if (sd_journal_get_data(journal, name, &data, &length) < 0) {
        return std::nullopt;
    }
    const std::string_view assignment(static_cast<const char*>(data), length);
    return std::string(assignment.substr(std::min(assignment.find('=') + 1, length)));
}

// As the Journal JSON Format has it: text as a string, other bytes as their values.
Json json_value(const std::string& value) {
    if (is_utf8(value)) {
        return value;
    }
    Json bytes = Json::array();
    for (const char c : value) {
        bytes.push_back(static_cast<unsigned char>(c));
    }
    return bytes;
}

bool is_reload(const std::string& message) {
    return message.find("eload") != std::string::npos; // "Reloading.", "Reload requested ..."
}

} // namespace

Result<std::string> read_journal_live(const std::vector<std::string>& units, core::WallTime now) {
    TRY(journal, open_journal());
    sd_journal* const j = journal.get();
    if (const int added = add_matches(j, units); added < 0) {
        return journal_error(added);
    }
    if (const int sought = sd_journal_seek_tail(j); sought < 0) {
        return journal_error(sought);
    }
    std::vector<std::string> lines; // newest first
    std::size_t kernel_lines = 0;
    // PID 1's other messages from the same functions are looked at and dropped: bound those too.
    for (std::size_t seen = 0; seen < 4 * kMaxEntries && lines.size() < kMaxEntries; ++seen) {
        const int moved = sd_journal_previous(j);
        if (moved < 0) {
            return journal_error(moved);
        }
        std::uint64_t realtime = 0;
        if (moved == 0 || sd_journal_get_realtime_usec(j, &realtime) < 0) {
            break;
        }
        const std::optional<core::WallTime> time = wall_time_of(realtime);
        if (!time || *time < now - kReachBack) {
            break;
        }
        Json entry = {{"__REALTIME_TIMESTAMP", std::to_string(realtime)}};
        std::uint64_t monotonic = 0;
        sd_id128_t boot{};
        std::array<char, SD_ID128_STRING_MAX> text{};
        if (sd_journal_get_monotonic_usec(j, &monotonic, &boot) >= 0) {
            entry["_BOOT_ID"] = sd_id128_to_string(boot, text.data());
        }
        for (const char* name : kFields) {
            if (const std::optional<std::string> value = field(j, name)) {
                entry[name] = json_value(*value);
            }
        }
        const bool kernel = entry.value("_TRANSPORT", Json()) == "kernel";
        const bool about_unit = entry.contains("UNIT") || entry.value("_PID", Json()) != "1";
        if (kernel ? ++kernel_lines > kMaxKernelEntries
                   : !about_unit && !is_reload(field(j, "MESSAGE").value_or(""))) {
            continue;
        }
        lines.push_back(entry.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    std::string text;
    std::for_each(lines.rbegin(), lines.rend(),
                  [&](const std::string& line) { text += line + "\n"; });
    return text;
}

Result<std::string> read_boots_live() {
    TRY(journal, open_journal());
    sd_journal* const j = journal.get();
    if (const int asked = sd_journal_query_unique(j, "_BOOT_ID"); asked < 0) {
        return journal_error(asked);
    }
    std::vector<std::string> ids;
    const void* data = nullptr;
    std::size_t length = 0;
    while (ids.size() < kMaxBoots && sd_journal_enumerate_unique(j, &data, &length) > 0) {
        ids.emplace_back(static_cast<const char*>(data), length);
    }
    std::vector<core::Boot> boots;
    for (const std::string& match : ids) {
        sd_journal_flush_matches(j);
        std::uint64_t first = 0;
        std::uint64_t last = 0;
        if (sd_journal_add_match(j, match.data(), match.size()) < 0 ||
            sd_journal_seek_head(j) < 0 || sd_journal_next(j) <= 0 ||
            sd_journal_get_realtime_usec(j, &first) < 0 || sd_journal_seek_tail(j) < 0 ||
            sd_journal_previous(j) <= 0 || sd_journal_get_realtime_usec(j, &last) < 0) {
            continue; // rotated away meanwhile
        }
        const std::optional<core::WallTime> begin = wall_time_of(first);
        const std::optional<core::WallTime> end = wall_time_of(last);
        if (begin && end) {
            boots.push_back({match.substr(match.find('=') + 1), *begin, *end});
        }
    }
    std::stable_sort(boots.begin(), boots.end(),
                     [](const core::Boot& a, const core::Boot& b) { return a.first < b.first; });
    return format_boots(boots);
}

} // namespace nvmaint::collect
