#include "admin/open_in_root.hpp"

#include <linux/openat2.h>
#include <sys/syscall.h>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

namespace nvmaint {
namespace {

struct DirectoryCloser {
    void operator()(DIR* directory) const { closedir(directory); }
};

} // namespace

UniqueFd::~UniqueFd() {
    if (fd_ >= 0) {
        close(fd_);
    }
}

Result<UniqueFd> open_in_root(int root_fd, const std::string& path, int flags) {
    const std::size_t begin = path.find_first_not_of('/');
    const std::string relative = begin == std::string::npos ? "." : path.substr(begin);
    if (relative.find('\0') != std::string::npos) {
        return Error::system(EINVAL, {});
    }
    open_how how{};
    how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags) | O_CLOEXEC);
    how.resolve = RESOLVE_IN_ROOT;
    // EAGAIN: something on the way was renamed meanwhile; openat2(2) asks callers to try again.
    for (int attempt = 0;; ++attempt) {
        const long fd = syscall(SYS_openat2, root_fd, relative.c_str(), &how, sizeof how);
        if (fd >= 0) {
            return UniqueFd(static_cast<int>(fd));
        }
        if (errno == EINTR || (errno == EAGAIN && attempt < 8)) {
            continue;
        }
        return Error::system(errno, {});
    }
}

Result<std::string> read_whole(int fd, std::size_t limit) {
    std::string content;
    std::array<char, 65536> buffer{};
    for (;;) {
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return Error::system(errno, {});
        }
        if (got == 0) {
            return content;
        }
        if (content.size() + static_cast<std::size_t>(got) > limit) {
            return Error::make(ErrorKind::Malformed,
                               "over " + std::to_string(limit >> 20U) + " MiB");
        }
        content.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

Result<std::vector<std::string>> list_in_root(int root_fd, const std::string& path) {
    TRY(fd, open_in_root(root_fd, path, O_RDONLY | O_DIRECTORY));
    const std::unique_ptr<DIR, DirectoryCloser> directory(fdopendir(fd.get()));
    if (!directory) {
        return Error::system(errno, {});
    }
    (void)fd.release(); // the stream owns it now
    std::vector<std::string> names;
    for (;;) {
        errno = 0;
        // The stream is this function's own, and glibc's readdir() is safe for that (readdir(3)).
        // NOLINTNEXTLINE(concurrency-mt-unsafe)
        const dirent* entry = readdir(directory.get());
        if (entry == nullptr) {
            if (errno != 0) {
                return Error::system(errno, {});
            }
            break;
        }
        if (entry->d_name[0] != '.') {
            names.emplace_back(entry->d_name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

} // namespace nvmaint
