// Files below a directory that stands for a host's root. Every link resolves inside it
// (openat2(2), RESOLVE_IN_ROOT; Linux 5.6), so that a recording from anywhere cannot lead us out.
#pragma once

#include "values/result.hpp"

#include <string>
#include <utility>
#include <vector>

namespace nvmaint {

// A file descriptor that closes itself.
class UniqueFd {
  public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~UniqueFd();
    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  private:
    int fd_ = -1;
};

// `path` is relative to the root, a leading "/" is allowed; `flags` as for open(2), O_CLOEXEC is
// added. Errors: System, without context.
[[nodiscard]] Result<UniqueFd> open_in_root(int root_fd, const std::string& path, int flags);

// Everything from a descriptor, up to `limit` bytes. Errors: System; Malformed beyond the limit.
[[nodiscard]] Result<std::string> read_whole(int fd, std::size_t limit);

// Names in a folder, sorted, without those that begin with a dot. Errors: System.
[[nodiscard]] Result<std::vector<std::string>> list_in_root(int root_fd, const std::string& path);

} // namespace nvmaint
