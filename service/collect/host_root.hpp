// The door through which every reader reads: the live host ("/"), or a recording of any host in a
// folder. Paths are relative to the root and never leave it: links resolve inside (openat2(2),
// RESOLVE_IN_ROOT).
#pragma once

#include "values/result.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace nvmaint::collect {

class HostRoot {
  public:
    // The live host. Errors: System.
    [[nodiscard]] static Result<HostRoot> live();
    // A recording; reads stat.toml. Errors: System, Malformed (file:line:column in the context).
    [[nodiscard]] static Result<HostRoot> recording(const std::string& path);

    HostRoot(HostRoot&&) noexcept;
    HostRoot& operator=(HostRoot&&) noexcept;
    ~HostRoot();

    [[nodiscard]] bool is_live() const;
    [[nodiscard]] int fd() const; // directory descriptor, O_PATH; owned

    // Whole file. In a recording an absent file is NotRecorded, unless stat.toml names the errno
    // its reading gave on the host (then System with that errno). Files over 64 MiB: Malformed.
    [[nodiscard]] Result<std::string> read(const std::string& path) const;
    // The file without trailing NULs and white space: sysfs attributes.
    [[nodiscard]] Result<std::string> read_line(const std::string& path) const;
    [[nodiscard]] Result<std::uint64_t> read_number(const std::string& path) const;
    // Names in a folder, sorted, without "." and "..".
    [[nodiscard]] Result<std::vector<std::string>> list(const std::string& path) const;
    // Target of a link, as written.
    [[nodiscard]] Result<std::string> read_link(const std::string& path) const;
    // Where a path leads once every link is followed, relative to the root.
    [[nodiscard]] Result<std::string> resolve(const std::string& path) const;
    // Modification time; in a recording from stat.toml (`["var/lib/systemd/timers/stamp-x"] mtime =
    // "..."`).
    [[nodiscard]] Result<std::int64_t> mtime_seconds(const std::string& path) const;

  private:
    struct State;
    explicit HostRoot(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace nvmaint::collect
