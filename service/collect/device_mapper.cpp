#include "collect/device_mapper.hpp"

#include "collect/text.hpp"

#include <fmt/format.h>
#include <libdevmapper.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>

namespace nvmaint::collect {
namespace {

constexpr std::size_t kKeyDigits = 32; // 128 bits: the shortest key that is one
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

struct TaskDeleter {
    void operator()(dm_task* task) const { dm_task_destroy(task); }
};
using Task = std::unique_ptr<dm_task, TaskDeleter>;

void drop_message(int, const char*, int, int, const char*, ...) {}

Task make_task(const std::string& name) {
    Task task(dm_task_create(DM_DEVICE_TABLE));
    // The library's copy of the table is wiped with the task.
    if (!task || dm_task_set_name(task.get(), name.c_str()) == 0 ||
        dm_task_secure_data(task.get()) == 0 || dm_task_no_open_count(task.get()) == 0) {
        return nullptr;
    }
    return task;
}

void blank_hex_runs(std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = text.find_first_of(kHexDigits, at);
        if (begin == std::string::npos) {
            return;
        }
        const std::size_t end = std::min(text.find_first_not_of(kHexDigits, begin), text.size());
        if (end - begin >= kKeyDigits) {
            text.replace(begin, end - begin, end - begin, '0');
        }
        at = end;
    }
}

} // namespace

std::string without_keys(std::string_view target, std::string_view parameters) {
    std::string out(parameters);
    if (target == "crypt") { // CIPHER KEY IV_OFFSET DEVICE OFFSET OPTIONS...
        const std::size_t key = std::min(out.find_first_not_of(' ', out.find(' ')), out.size());
        const std::size_t end = std::min(out.find(' ', key), out.size());
        if (key < end && out[key] != ':') {
            out.replace(key, end - key, end - key, '0');
        }
    }
    blank_hex_runs(out);
    return out;
}

std::map<std::string, std::vector<std::string>> parse_dm_tables(std::string_view text) {
    std::map<std::string, std::vector<std::string>> tables;
    for (const std::string_view line : split_lines(text)) {
        // A name may hold colons: the right one has two numbers behind it.
        for (std::size_t colon = line.find(": "); colon != std::string_view::npos;
             colon = line.find(": ", colon + 1)) {
            const std::string_view table = line.substr(colon + 2);
            const std::vector<std::string_view> fields = split_fields(table);
            if (fields.size() < 3 || !parse_decimal<std::uint64_t>(fields[0]) ||
                !parse_decimal<std::uint64_t>(fields[1])) {
                continue;
            }
            std::string clean = fmt::format("{} {} {}", fields[0], fields[1], fields[2]);
            const std::size_t rest =
                static_cast<std::size_t>(fields[2].data() + fields[2].size() - table.data());
            if (rest + 1 < table.size()) {
                clean += ' ';
                clean += without_keys(fields[2], table.substr(rest + 1));
            }
            tables[std::string(line.substr(0, colon))].push_back(std::move(clean));
            break;
        }
    }
    return tables;
}

Result<std::string> read_dm_tables_live(const std::vector<std::string>& names) {
    static std::mutex library; // libdevmapper keeps its control descriptor in a global
    const std::lock_guard lock(library);
    dm_log_with_errno_init(drop_message);
    std::string text;
    for (const std::string& name : names) {
        const Task task = make_task(name);
        if (!task) {
            return Error::system(ENOMEM, "device-mapper task for " + name);
        }
        if (dm_task_run(task.get()) == 0) {
            const int number = dm_task_get_errno(task.get());
            if (number == ENXIO) {
                continue; // removed meanwhile
            }
            return Error::system(number != 0 ? number : EACCES, "device-mapper table of " + name);
        }
        void* next = nullptr;
        do {
            std::uint64_t start = 0;
            std::uint64_t length = 0;
            char* target = nullptr;
            char* parameters = nullptr;
            next = dm_get_next_target(task.get(), next, &start, &length, &target, &parameters);
            if (target != nullptr) {
                text += fmt::format("{}: {} {} {} {}\n", name, start, length, target,
                                    without_keys(target, parameters != nullptr ? parameters : ""));
            }
        } while (next != nullptr);
    }
    return text;
}

} // namespace nvmaint::collect
