// Object paths. D-Bus allows [A-Za-z0-9_] in an element and nothing else, and drives have blanks,
// slashes, bytes that are no text, or nothing at all in their serial numbers.
#pragma once

#include "bus/server.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::bus {

inline constexpr const char* kRootPath = "/org/nvmaint1";
inline constexpr const char* kDrivePrefix = "/org/nvmaint1/drive";
inline constexpr const char* kFilesystemPrefix = "/org/nvmaint1/filesystem";
inline constexpr const char* kJobPrefix = "/org/nvmaint1/job";

// One path element: as sd_bus_path_encode(3), and NUL bytes are escaped too. A leading digit is
// escaped as well; "" becomes "_".
[[nodiscard]] std::string encode_element(std::string_view text);

// Path of a drive whose stable identity is known.
[[nodiscard]] std::string drive_path(std::string_view identity);
[[nodiscard]] std::string job_path(std::uint64_t id);

// Gives each object a path of its own, also where two report the same identity: the later one gets
// its name as a suffix. An object keeps its path while it stays, whatever comes and goes beside it:
// a path that changed its meaning would aim a client's call at another drive.
class PathBook {
  public:
    struct Wish {
        std::string name; // of the object: "nvme0", "/var/lib/db"
        std::string path; // what its identity asks for
    };
    // The paths of all objects of a kind, in the order of `wishes`.
    [[nodiscard]] std::vector<std::string> assign(const std::vector<Wish>& wishes);

  private:
    struct Entry {
        std::string wished;
        std::string given;
    };
    std::map<std::string, Entry> by_name_;
};

} // namespace nvmaint::bus
