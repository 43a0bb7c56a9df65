#include "collect/mounts.hpp"

#include "collect/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nvmaint::collect {
namespace {

std::optional<core::DeviceNumber> parse_device_number(std::string_view text) {
    const std::size_t colon = std::min(text.find(':'), text.size() - 1);
    const auto major = parse_decimal<unsigned>(text.substr(0, colon));
    const auto minor = parse_decimal<unsigned>(text.substr(colon + 1));
    if (!major || !minor) {
        return std::nullopt;
    }
    return core::DeviceNumber{*major, *minor};
}

// "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue". Fields are
// parted by single blanks: a source may be empty.
std::optional<core::Mount> parse_mountinfo_line(std::string_view line) {
    const std::vector<std::string_view> fields = split_exactly(line, ' ');
    const auto dash = fields.size() < 6
                          ? fields.end()
                          : std::find(fields.begin() + 6, fields.end(), std::string_view("-"));
    if (fields.end() - dash < 3) {
        return std::nullopt;
    }
    const auto id = parse_decimal<int>(fields[0]);
    const auto parent = parse_decimal<int>(fields[1]);
    const auto device = fields[2].empty() ? std::nullopt : parse_device_number(fields[2]);
    if (!id || !parent || !device) {
        return std::nullopt;
    }
    core::Mount mount{
        .id = *id,
        .parent = *parent,
        .device = *device,
        .root = decode_octal(fields[3]),
        .mount_point = decode_octal(fields[4]),
        .options = split_options(fields[5]),
        .type = decode_octal(dash[1]),
        .source = decode_octal(dash[2]),
        .super_options = {},
    };
    if (fields.end() - dash > 3) {
        mount.super_options = split_options(decode_octal(dash[3]));
    }
    return mount;
}

bool looks_like_mountinfo(std::string_view line) {
    const std::vector<std::string_view> fields = split_fields(line);
    return fields.size() >= 2 && parse_decimal<unsigned>(fields[0]) &&
           parse_decimal<unsigned>(fields[1]);
}

std::string_view without_blanks_in_front(std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return line;
}

} // namespace

Result<std::vector<core::Mount>> parse_mountinfo(std::string_view text) {
    std::vector<core::Mount> mounts;
    std::size_t number = 0;
    for (const std::string_view line : split_lines(text)) {
        ++number;
        if (line.empty()) {
            continue;
        }
        std::optional<core::Mount> mount = parse_mountinfo_line(line);
        if (!mount) {
            return Error::make(ErrorKind::Malformed,
                               fmt::format("line {}: not a mountinfo line", number));
        }
        mounts.push_back(std::move(*mount));
    }
    return mounts;
}

std::vector<core::FstabEntry> parse_fstab(std::string_view text) {
    std::vector<core::FstabEntry> entries;
    std::optional<bool> mountinfo; // decided by the first line that is no comment
    int number = 0;
    for (const std::string_view whole : split_lines(text)) {
        ++number;
        const std::string_view line = without_blanks_in_front(whole);
        if (line.empty() || line.front() == '#') {
            continue;
        }
        if (!mountinfo) {
            mountinfo = looks_like_mountinfo(line);
        }
        if (*mountinfo) {
            if (std::optional<core::Mount> mount = parse_mountinfo_line(line)) {
                entries.push_back({number, mount->source, mount->mount_point, mount->type,
                                   std::move(mount->options)});
            }
            continue;
        }
        const std::vector<std::string_view> fields = split_fields(line);
        const bool numbers_hold = (fields.size() < 5 || parse_decimal<int>(fields[4])) &&
                                  (fields.size() < 6 || parse_decimal<int>(fields[5]));
        if (fields.size() < 3 || !numbers_hold) {
            continue;
        }
        core::FstabEntry entry{
            number, decode_octal(fields[0]), decode_octal(fields[1]), decode_octal(fields[2]), {}};
        if (fields.size() > 3) {
            entry.options = split_options(decode_octal(fields[3]));
        }
        entries.push_back(std::move(entry));
    }
    return entries;
}

std::vector<core::CrypttabEntry> parse_crypttab(std::string_view text) {
    std::vector<core::CrypttabEntry> entries;
    int number = 0;
    for (const std::string_view whole : split_lines(text)) {
        ++number;
        const std::string_view line = without_blanks_in_front(whole);
        if (line.empty() || line.front() == '#') {
            continue;
        }
        const std::vector<std::string_view> fields = split_fields(line); // name device key options
        if (fields.size() < 2) {
            continue;
        }
        core::CrypttabEntry entry{number, std::string(fields[0]), std::string(fields[1]), {}};
        if (fields.size() > 3) {
            entry.options = split_options(fields[3]);
        }
        entries.push_back(std::move(entry));
    }
    return entries;
}

Reading<std::vector<core::Mount>> read_mounts(const HostRoot& root) {
    static const std::string kPath = "proc/1/mountinfo";
    TRY(text, root.read(kPath));
    Result<std::vector<core::Mount>> mounts = parse_mountinfo(text);
    if (!mounts) {
        return mounts.error().in(kPath);
    }
    return mounts;
}

Reading<std::vector<core::FstabEntry>> read_fstab(const HostRoot& root, const std::string& path) {
    TRY(text, root.read(path));
    return parse_fstab(text);
}

Reading<std::vector<core::CrypttabEntry>> read_crypttab(const HostRoot& root) {
    TRY(text, root.read("etc/crypttab"));
    return parse_crypttab(text);
}

} // namespace nvmaint::collect
