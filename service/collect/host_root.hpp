// The door through which every reader reads: the live host ("/"), or a recording of any host in a
// folder. Paths are relative to the root and never leave it: links resolve inside (openat2(2),
// RESOLVE_IN_ROOT).
//
// A recording is smaller than a host, so absence has two meanings: a file that is not there was not
// recorded, and nothing follows; a file for which stat.toml names an errno was asked for on the
// host and refused, which is a fact. stat.toml:
//
//     ["sys/block/vdb/queue/discard_granularity"]
//     errno = "ENOENT"
//     ["var/lib/systemd/timers/stamp-fstrim.timer"]
//     mtime = "2026-11-23T01:12:07Z"
//     ["systemd/units.json"]
//     unsupported = "PID 1 is init, not systemd"
//
// A path may be written through any link of the recording that leads there.
#pragma once

#include "values/result.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nvmaint::collect {

// What a copy of a file cannot carry, by path.
struct StatEntry {
    std::optional<int> sys_errno;           // what reading it gave
    std::optional<std::string> unsupported; // why the host has no such thing
    std::optional<std::int64_t> mtime;      // seconds since 1970
    bool operator==(const StatEntry&) const = default;
};

// One access to the root and what came of it, for whoever writes a recording.
struct Access {
    enum class Kind { Read, List, Link, Resolve, Mtime, Source };
    Kind kind = Kind::Read;
    std::string path; // without a leading "/"
    // The content, the target, the resolved path; empty for List and Mtime.
    Result<std::string> outcome;
    std::vector<std::string> names; // of a List
    std::int64_t mtime = 0;         // of a Mtime
};

class HostRoot {
  public:
    // The live host. Errors: System.
    [[nodiscard]] static Result<HostRoot> live();
    // A recording; reads stat.toml. Errors: System, Malformed (file:line:column in the context).
    [[nodiscard]] static Result<HostRoot> recording(const std::string& path);
    // Another door to the same root, without its fault and observer. Errors: System.
    [[nodiscard]] Result<HostRoot> duplicate() const;

    HostRoot(HostRoot&&) noexcept;
    HostRoot& operator=(HostRoot&&) noexcept;
    ~HostRoot();

    [[nodiscard]] bool is_live() const;
    [[nodiscard]] int fd() const; // directory descriptor, O_PATH; owned

    // Whole file. In a recording an absent file is NotRecorded, unless stat.toml names the errno
    // its reading gave on the host (then System with that errno). Files over 64 MiB, and what is
    // not a regular file: Malformed.
    [[nodiscard]] Result<std::string> read(const std::string& path) const;
    // The file up to its first NUL, without trailing white space: sysfs attributes.
    [[nodiscard]] Result<std::string> read_line(const std::string& path) const;
    [[nodiscard]] Result<std::uint64_t> read_number(const std::string& path) const;
    // For what most objects lack: nothing where the file is absent, recorded as such or not.
    [[nodiscard]] Result<std::optional<std::string>> read_if_there(const std::string& path) const;
    // Names in a folder, sorted, without those that begin with a dot.
    [[nodiscard]] Result<std::vector<std::string>> list(const std::string& path) const;
    // Target of a link, as written.
    [[nodiscard]] Result<std::string> read_link(const std::string& path) const;
    // Where a path leads once every link is followed, relative to the root.
    [[nodiscard]] Result<std::string> resolve(const std::string& path) const;
    // Modification time; in a recording from stat.toml (`["var/lib/systemd/timers/stamp-x"] mtime =
    // "..."`).
    [[nodiscard]] Result<std::int64_t> mtime_seconds(const std::string& path) const;
    // What is no file on a host but one in a recording ("systemd/units.json"): from `live` on the
    // live host, in the very form in which a recording holds it.
    [[nodiscard]] Result<std::string>
    read_source(const std::string& path, const std::function<Result<std::string>()>& live) const;

    // Asked before every access with its running number from 0 and its path; an error that it
    // returns is given instead. For tests; set before the root is used.
    using Fault = std::function<std::optional<Error>(std::uint64_t call, const std::string& path)>;
    void set_fault(Fault fault);
    // Told after every access, except of absence found by read_if_there(). Set before use.
    using Observer = std::function<void(const Access&)>;
    void set_observer(Observer observer);

  private:
    struct State;
    explicit HostRoot(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// "a//b/", "/a/b" -> "a/b".
[[nodiscard]] std::string relative_path(const std::string& path);

} // namespace nvmaint::collect
