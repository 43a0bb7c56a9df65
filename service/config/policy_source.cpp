#include "policy_file.hpp"

#include "quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nvmaint::config {

namespace {

constexpr std::size_t largest_file = std::size_t{1} << 20;

class Fd {
  public:
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&&) = delete;
    ~Fd() {
        if (fd_ >= 0) {
            (void)close(fd_); // only read from: nothing can be lost
        }
    }
    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

struct CloseDir {
    void operator()(DIR* dir) const { (void)closedir(dir); }
};

// The host itself, or a folder that stands for another host, out of which no link may lead.
class Root {
  public:
    static Result<Root> open(const std::string& path) {
        Fd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (fd.get() < 0) {
            return Error::system(errno, path);
        }
        return Root(path, std::move(fd));
    }

    // Not to be held up by a FIFO or a terminal that somebody put there: O_NONBLOCK, O_NOCTTY.
    [[nodiscard]] Fd open_at(const std::string& relative, int flags) const {
        flags |= O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
        if (path_ == "/") {
            return Fd(openat(fd_.get(), relative.c_str(), flags));
        }
        open_how how{};
        how.flags = static_cast<decltype(how.flags)>(flags);
        how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
        return Fd(
            static_cast<int>(syscall(SYS_openat2, fd_.get(), relative.c_str(), &how, sizeof how)));
    }

    // A link that leads nowhere is there, too.
    [[nodiscard]] bool has(const std::string& relative) const {
        struct stat status {};
        return fstatat(fd_.get(), relative.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    }

    [[nodiscard]] std::string name(const std::string& relative) const {
        return path_.ends_with('/') ? path_ + relative : fmt::format("{}/{}", path_, relative);
    }

  private:
    Root(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
    std::string path_;
    Fd fd_;
};

Result<std::string> read_regular(const Fd& fd, const std::string& name) {
    struct stat status {};
    if (fstat(fd.get(), &status) != 0) {
        return Error::system(errno, "reading " + name);
    }
    if (!S_ISREG(status.st_mode)) {
        return Error::make(ErrorKind::Malformed, name + ": not a regular file");
    }
    // Read what is there and not what st_size promises: the file may grow meanwhile.
    std::string text(largest_file + 1, '\0');
    std::size_t have = 0;
    while (have < text.size()) {
        const ssize_t got = read(fd.get(), text.data() + have, text.size() - have);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return Error::system(errno, "reading " + name);
        }
        if (got == 0) {
            break;
        }
        have += static_cast<std::size_t>(got);
    }
    if (have > largest_file) {
        return Error::make(ErrorKind::Malformed, name + ": larger than 1 MiB");
    }
    text.resize(have);
    return text;
}

// Nothing where there is no such file.
Result<std::optional<PolicySource>> read_if_there(const Root& root, const std::string& relative) {
    const std::string name = shown(root.name(relative), 4096);
    const Fd fd = root.open_at(relative, 0);
    if (fd.get() < 0) {
        const int error = errno;
        if (error == ENOENT && !root.has(relative)) {
            return std::optional<PolicySource>{};
        }
        return Error::system(error, "reading " + name);
    }
    TRY(text, read_regular(fd, name));
    return std::optional(PolicySource{name, std::move(text)});
}

// Names of the drop-ins, sorted by byte, as systemd sorts its own. Hidden files are left out:
// editors leave them.
Result<std::vector<std::string>> drop_ins(const Root& root, const std::string& relative) {
    std::vector<std::string> names;
    Fd fd = root.open_at(relative, O_DIRECTORY);
    if (fd.get() < 0) {
        const int error = errno;
        if (error == ENOENT && !root.has(relative)) {
            return names;
        }
        return Error::system(error, "reading " + shown(root.name(relative), 4096));
    }
    const std::unique_ptr<DIR, CloseDir> dir(fdopendir(fd.get()));
    if (!dir) {
        return Error::system(errno, "reading " + shown(root.name(relative), 4096));
    }
    (void)fd.release(); // the stream owns it now
    errno = 0;
    // The stream is this function's own, and glibc's readdir() is safe for that (readdir(3)).
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    while (const dirent* entry = readdir(dir.get())) {
        const std::string name = entry->d_name;
        if (name.front() != '.' && name.ends_with(".toml")) {
            names.push_back(name);
        }
        errno = 0;
    }
    if (errno != 0) {
        return Error::system(errno, "reading " + shown(root.name(relative), 4096));
    }
    std::sort(names.begin(), names.end());
    return names;
}

} // namespace

Result<PolicySource> read_policy_source(const std::string& path) {
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    const std::string name = shown(path, 4096);
    if (fd.get() < 0) {
        return Error::system(errno, "reading " + name);
    }
    TRY(text, read_regular(fd, name));
    return PolicySource{name, std::move(text)};
}

Result<std::vector<PolicySource>> read_policy_sources(const std::string& root_path) {
    TRY(root, Root::open(root_path));
    TRY(names, drop_ins(root, "etc/nvmaint/policy.d"));
    std::vector<std::string> files{"usr/lib/nvmaint/policy.toml", "etc/nvmaint/policy.toml"};
    for (const std::string& name : names) {
        files.push_back("etc/nvmaint/policy.d/" + name);
    }
    std::vector<PolicySource> sources;
    for (const std::string& file : files) {
        TRY(source, read_if_there(root, file));
        if (source) {
            sources.push_back(std::move(*source));
        }
    }
    return sources;
}

Result<core::Policy> load_policy(const std::string& root) {
    TRY(sources, read_policy_sources(root));
    return compile_policy(sources);
}

} // namespace nvmaint::config
