#include "bus/paths.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace nvmaint::bus {

namespace {

bool is_blank(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\0'; });
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

std::string join(const char* prefix, std::string_view identity) {
    return std::string(prefix) + "/" + encode_element(identity);
}

} // namespace

std::string encode_element(std::string_view text) {
    constexpr const char* kHex = "0123456789abcdef";
    if (text.empty()) {
        return "_";
    }
    std::string element;
    for (const char c : text) {
        if (is_letter(c) || (is_digit(c) && !element.empty())) {
            element += c;
            continue;
        }
        const auto byte = static_cast<unsigned char>(c);
        element += '_';
        element += kHex[byte >> 4];
        element += kHex[byte & 0xf];
    }
    return element;
}

std::string drive_path(std::string_view identity) {
    return join(kDrivePrefix, identity);
}

// Model and serial tell drives apart. Where the serial is blank the kernel's name has to: two such
// drives stay distinct, and one that stays in its slot usually keeps its name.
std::string drive_path(const core::DriveView& drive) {
    const std::string model = is_blank(drive.model) ? "unknown" : drive.model;
    if (is_blank(drive.serial)) {
        return drive_path(model + "-noserial-" + drive.name);
    }
    return drive_path(model + "-" + drive.serial);
}

// A UUID never begins with a slash, so that the two kinds of identity cannot meet.
std::string filesystem_path(const core::FilesystemView& filesystem) {
    if (!is_blank(filesystem.uuid)) {
        return join(kFilesystemPrefix, filesystem.uuid);
    }
    return join(kFilesystemPrefix, filesystem.mount);
}

std::string job_path(std::uint64_t id) {
    return std::string(kJobPrefix) + "/" + std::to_string(id);
}

std::vector<std::string> PathBook::assign(const std::vector<Wish>& wishes) {
    // Two filesystems mounted over one another share their mount point.
    std::vector<std::string> names;
    std::set<std::string> used;
    for (const Wish& wish : wishes) {
        std::string name = wish.name;
        while (!used.insert(name).second) {
            name += '+';
        }
        names.push_back(std::move(name));
    }
    std::map<std::string, Entry> next;
    std::set<std::string> taken;
    for (std::size_t i = 0; i < wishes.size(); ++i) {
        const auto known = by_name_.find(names[i]);
        if (known != by_name_.end() && known->second.wished == wishes[i].path) {
            next.insert(*known);
            taken.insert(known->second.given);
        }
    }
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < wishes.size(); ++i) {
        auto entry = next.find(names[i]);
        if (entry == next.end()) {
            std::string path = wishes[i].path;
            // One suffix nearly always does; a hostile identity may already look like another one
            // with a suffix.
            while (!taken.insert(path).second) {
                path += "_2d" + encode_element(names[i]);
            }
            entry = next.insert({names[i], {.wished = wishes[i].path, .given = path}}).first;
        }
        paths.push_back(entry->second.given);
    }
    by_name_ = std::move(next);
    return paths;
}

} // namespace nvmaint::bus
