#include "collect/diskstats.hpp"

#include "admin/kernel_names.hpp"
#include "collect/collect.hpp"
#include "collect/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace nvmaint::collect {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kBasicFields = 11;
constexpr std::size_t kDiscardFields = 15;
constexpr std::size_t kFlushFields = 17;
constexpr double kMaxSeconds = 1e9; // 31 years around `now`

core::DiskCounters counters_from(const std::vector<std::uint64_t>& n) {
    core::DiskCounters counters{.reads = n[0],
                                .reads_merged = n[1],
                                .read_sectors = n[2],
                                .read_ms = n[3],
                                .writes = n[4],
                                .writes_merged = n[5],
                                .write_sectors = n[6],
                                .write_ms = n[7],
                                .in_flight = n[8],
                                .io_ms = n[9],
                                .weighted_ms = n[10],
                                .discards = std::nullopt,
                                .flushes = std::nullopt};
    if (n.size() >= kDiscardFields) {
        counters.discards = core::DiskCounters::Discards{n[11], n[12], n[13], n[14]};
    }
    if (n.size() >= kFlushFields) {
        counters.flushes = core::DiskCounters::Flushes{n[15], n[16]};
    }
    return counters;
}

Result<core::DiskCounters> counters_of(const std::vector<std::string_view>& fields) {
    std::vector<std::uint64_t> numbers;
    for (const std::string_view field : fields) {
        const auto number = parse_decimal<std::uint64_t>(field);
        if (!number) {
            return Error::make(ErrorKind::Malformed, fmt::format("\"{}\" is no number", field));
        }
        numbers.push_back(*number);
    }
    // Between the known lengths lies no kernel, only a line that was cut.
    if (numbers.size() != kBasicFields && numbers.size() != kDiscardFields &&
        numbers.size() < kFlushFields) {
        return Error::make(ErrorKind::Malformed, fmt::format("{} counters", numbers.size()));
    }
    return counters_from(numbers);
}

struct SeriesPoint {
    double seconds = 0;
    std::string disk;
    core::DiskCounters counters;
};

Result<SeriesPoint> parse_point(std::string_view line) {
    const Json json = Json::parse(line, nullptr, false);
    const auto malformed = [](std::string_view what) {
        return Error::make(ErrorKind::Malformed, std::string(what));
    };
    if (!json.is_object()) {
        return malformed("not a JSON object");
    }
    const auto time = json.find("t");
    const auto disk = json.find("disk");
    const auto stat = json.find("stat");
    if (time == json.end() || !time->is_number() ||
        !(std::abs(time->get<double>()) <= kMaxSeconds)) {
        return malformed("\"t\" must be a number of seconds");
    }
    if (disk == json.end() || !disk->is_string()) {
        return malformed("\"disk\" must be a name");
    }
    SeriesPoint point{time->get<double>(), disk->get<std::string>(), {}};
    if (stat != json.end() && stat->is_string()) {
        TRY(counters, parse_stat(stat->get<std::string>()));
        point.counters = counters;
        return point;
    }
    std::vector<std::string> numbers;
    if (stat != json.end() && stat->is_array()) {
        for (const Json& number : *stat) {
            numbers.push_back(number.is_number_unsigned() ? number.dump() : "");
        }
    }
    TRY(counters, counters_of({numbers.begin(), numbers.end()}));
    point.counters = counters;
    return point;
}

} // namespace

Result<core::DiskCounters> parse_stat(std::string_view text) {
    return counters_of(split_fields(text, " \t\r\n"));
}

std::string head_of_path(std::string_view name) {
    if (!nvme::is_hidden_path_name(name)) {
        return {};
    }
    const std::size_t path = name.find('c');
    return std::string(name.substr(0, path)) + std::string(name.substr(name.find('n', path)));
}

void add_path_flushes(core::DiskCounters& head, const core::DiskCounters& path, bool first) {
    if (!path.flushes) {
        return;
    }
    if (first || !head.flushes) {
        head.flushes = path.flushes;
    } else {
        head.flushes->count += path.flushes->count;
        head.flushes->ms += path.flushes->ms;
    }
}

Result<std::map<std::string, core::DiskCounters>> parse_diskstats(std::string_view text) {
    std::map<std::string, core::DiskCounters> disks;
    std::map<std::string, core::DiskCounters> paths;
    std::size_t number = 0;
    for (const std::string_view line : split_lines(text)) {
        ++number;
        std::vector<std::string_view> fields = split_fields(line);
        if (fields.empty()) {
            continue;
        }
        if (fields.size() < 3) {
            return Error::make(ErrorKind::Malformed, fmt::format("line {}: too short", number));
        }
        std::string name(fields[2]);
        std::replace(name.begin(), name.end(), '/', '!');
        fields.erase(fields.begin(), fields.begin() + 3);
        Result<core::DiskCounters> counters = counters_of(fields);
        if (!counters) {
            return counters.error().in(fmt::format("line {}", number));
        }
        (nvme::is_hidden_path_name(name) ? paths : disks).insert_or_assign(name, *counters);
    }
    std::set<std::string> begun;
    for (const auto& [name, counters] : paths) {
        const auto head = disks.find(head_of_path(name));
        if (head != disks.end()) {
            add_path_flushes(head->second, counters, begun.insert(head->first).second);
        }
    }
    return disks;
}

Result<std::map<std::string, core::DiskCounters>> read_diskstats(const HostRoot& root) {
    static const std::string kPath = "proc/diskstats";
    TRY(text, root.read(kPath));
    Result<std::map<std::string, core::DiskCounters>> disks = parse_diskstats(text);
    if (!disks) {
        return disks.error().in(kPath);
    }
    return disks;
}

Result<std::map<std::string, core::FlushWatch>> read_flush_series(const HostRoot& root) {
    static const std::string kPath = "series/diskstats.jsonl";
    TRY(text, root.read(kPath));
    struct Last {
        double seconds = 0;
        core::DiskCounters counters;
    };
    std::map<std::string, Last> last;
    std::map<std::string, core::FlushWatch> watches;
    std::size_t number = 0;
    for (const std::string_view line : split_lines(text)) {
        ++number;
        if (line.find_first_not_of(" \t") == std::string_view::npos) {
            continue;
        }
        Result<SeriesPoint> point = parse_point(line);
        if (!point) {
            return point.error().in(fmt::format("{}:{}", kPath, number));
        }
        const auto before = last.find(point->disk);
        if (before != last.end()) {
            const double length = point->seconds - before->second.seconds;
            if (!(length > 0)) {
                return Error::make(ErrorKind::Malformed,
                                   fmt::format("{}:{}: time does not go on", kPath, number));
            }
            const auto nanoseconds = [](double seconds) {
                return core::nanoseconds(std::llround(seconds * 1e9));
            };
            core::FlushWatch& watch = watches[point->disk];
            if (const auto sample =
                    core::sample_between(before->second.counters, point->counters,
                                         nanoseconds(point->seconds), nanoseconds(length))) {
                watch.add(*sample);
            }
        }
        last.insert_or_assign(std::move(point->disk), Last{point->seconds, point->counters});
    }
    return watches;
}

} // namespace nvmaint::collect
