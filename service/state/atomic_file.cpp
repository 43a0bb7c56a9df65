#include "atomic_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nvmaint::state {

namespace {

class Fd {
  public:
    explicit Fd(int fd) : fd_(fd) {}
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    ~Fd() {
        if (fd_ >= 0) {
            (void)close(fd_); // what matters was synced or closed by hand before
        }
    }
    [[nodiscard]] int get() const { return fd_; }
    // The error of close(2): a file system may report there what it could not write.
    [[nodiscard]] int close_now() { return close(std::exchange(fd_, -1)) == 0 ? 0 : errno; }

  private:
    int fd_;
};

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) {
        return ".";
    }
    return slash == 0 ? "/" : path.substr(0, slash);
}

// Hidden and with an ending of its own, so that whoever reads a folder by pattern never sees it.
std::string temporary_name(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::size_t name = slash == std::string::npos ? 0 : slash + 1;
    return path.substr(0, name) + "." + path.substr(name) + ".tmp";
}

Result<Done> sync_folder(const std::string& path) {
    const std::string folder = folder_of(path);
    const Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) {
        return Error::system(errno, "opening " + folder);
    }
    // EINVAL: a file system that knows no fsync of folders, and so has nothing to be synced.
    if (fsync(fd.get()) != 0 && errno != EINVAL) {
        return Error::system(errno, "syncing " + folder);
    }
    return Done{};
}

Result<Done> write_all(int fd, const std::string& content) {
    std::size_t done = 0;
    while (done < content.size()) {
        const ssize_t wrote = write(fd, content.data() + done, content.size() - done);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            return Error::system(wrote < 0 ? errno : EIO, "");
        }
        done += static_cast<std::size_t>(wrote);
    }
    return Done{};
}

Result<Done> write_new(const std::string& path, const std::string& content, unsigned mode,
                       Durability durability) {
    // A temporary file of an earlier run that was cut off goes first; O_EXCL then refuses to write
    // through a link that somebody put in its place.
    (void)unlink(path.c_str());
    Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd.get() < 0) {
        return Error::system(errno, "");
    }
    TRY(written, write_all(fd.get(), content));
    (void)written;
    // Not left to the umask, which is the caller's and not ours to change.
    if (fchmod(fd.get(), static_cast<mode_t>(mode)) != 0) {
        return Error::system(errno, "");
    }
    if (durability == Durability::Synced && fsync(fd.get()) != 0) {
        return Error::system(errno, "");
    }
    if (const int error = fd.close_now(); error != 0) {
        return Error::system(error, "");
    }
    return Done{};
}

} // namespace

Result<Done> replace_whole(const std::string& path, const std::string& content, unsigned mode,
                           Durability durability) {
    const std::string temporary = temporary_name(path);
    if (const auto written = write_new(temporary, content, mode, durability); !written) {
        (void)unlink(temporary.c_str());
        return written.error().in("writing " + path);
    }
    if (rename(temporary.c_str(), path.c_str()) != 0) {
        const int error = errno;
        (void)unlink(temporary.c_str());
        return Error::system(error, "writing " + path);
    }
    return durability == Durability::Synced ? sync_folder(path) : Done{};
}

Result<Done> remove_durably(const std::string& path) {
    if (unlink(path.c_str()) != 0) {
        if (errno == ENOENT) {
            return Done{};
        }
        return Error::system(errno, "removing " + path);
    }
    return sync_folder(path);
}

Result<std::optional<std::string>> read_whole(const std::string& path, std::size_t largest) {
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd.get() < 0) {
        if (errno == ENOENT) {
            return std::optional<std::string>{};
        }
        return Error::system(errno, "reading " + path);
    }
    struct stat status {};
    if (fstat(fd.get(), &status) != 0) {
        return Error::system(errno, "reading " + path);
    }
    if (!S_ISREG(status.st_mode)) {
        return Error::make(ErrorKind::Malformed, path + ": not a regular file");
    }
    std::string content;
    char chunk[16384];
    for (;;) {
        const ssize_t got = read(fd.get(), chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return Error::system(errno, "reading " + path);
        }
        if (got == 0) {
            return std::optional(std::move(content));
        }
        content.append(chunk, static_cast<std::size_t>(got));
        if (content.size() > largest) {
            return Error::make(ErrorKind::Malformed,
                               fmt::format("{}: larger than {} bytes", path, largest));
        }
    }
}

Result<std::string> move_aside(const std::string& path) {
    for (unsigned n = 1; n < 10000; ++n) {
        const std::string target = fmt::format("{}.corrupt-{}", path, n);
        if (renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) {
            return target;
        }
        if (errno != EEXIST) {
            return Error::system(errno, "moving " + path + " aside");
        }
    }
    return Error::system(EEXIST, "moving " + path + " aside");
}

} // namespace nvmaint::state
