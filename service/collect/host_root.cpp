#include "collect/host_root.hpp"

#include "admin/open_in_root.hpp"
#include "collect/recording_toml.hpp"

#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>

namespace nvmaint::collect {
namespace {

constexpr std::size_t kMaxFile = std::size_t{64} << 20U;

bool means_absent(const Error& error) {
    return error.kind == ErrorKind::NotRecorded ||
           (error.kind == ErrorKind::System &&
            (error.sys_errno == ENOENT || error.sys_errno == ENOTDIR));
}

// Path of an open descriptor as this process sees it.
Result<std::string> path_of(int fd) {
    std::array<char, PATH_MAX> target{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t length = readlink(link.c_str(), target.data(), target.size());
    if (length < 0) {
        return Error::system(errno, link);
    }
    return std::string(target.data(), static_cast<std::size_t>(length));
}

Result<std::string> read_link_in_root(int root_fd, const std::string& path) {
    TRY(fd, open_in_root(root_fd, path, O_PATH | O_NOFOLLOW));
    std::array<char, PATH_MAX> target{};
    const ssize_t length = readlinkat(fd.get(), "", target.data(), target.size());
    if (length < 0) {
        // An empty path names the descriptor itself; ENOENT then means "not a link" (readlink(2)).
        return Error::system(errno == ENOENT ? EINVAL : errno, {});
    }
    return std::string(target.data(), static_cast<std::size_t>(length));
}

Result<std::string> read_file(int root_fd, const std::string& path) {
    // O_NONBLOCK: a FIFO in a recording must not hang us before it is refused.
    TRY(fd, open_in_root(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    struct stat status {};
    if (fstat(fd.get(), &status) != 0) {
        return Error::system(errno, {});
    }
    if (S_ISDIR(status.st_mode)) {
        return Error::system(EISDIR, {});
    }
    if (!S_ISREG(status.st_mode)) {
        return Error::make(ErrorKind::Malformed, "not a regular file");
    }
    return read_whole(fd.get(), kMaxFile);
}

template <class T>
Result<T> with_path(Result<T> result, const std::string& path) {
    return result ? std::move(result) : Result<T>(result.error().in(path));
}

} // namespace

std::string relative_path(const std::string& path) {
    std::string clean;
    std::size_t at = 0;
    while (at < path.size()) {
        const std::size_t end = std::min(path.find('/', at), path.size());
        if (end > at && path.compare(at, end - at, ".") != 0) {
            clean += clean.empty() ? "" : "/";
            clean.append(path, at, end - at);
        }
        at = end + 1;
    }
    return clean;
}

struct HostRoot::State {
    UniqueFd fd;
    bool live = false;
    std::string prefix; // path of the root as this process sees it, without a trailing "/"
    std::map<std::string, StatEntry> stat; // by canonical path
    Fault fault;
    Observer observer;
    std::atomic<std::uint64_t> calls{0};

    std::optional<Error> faulted(const std::string& path) {
        const std::uint64_t call = calls++;
        return fault ? fault(call, path) : std::nullopt;
    }

    Result<std::string> resolve(const std::string& path) const {
        TRY(target, open_in_root(fd.get(), path, O_PATH));
        TRY(absolute, path_of(target.get()));
        if (!absolute.starts_with(prefix)) {
            return Error::system(EXDEV, {});
        }
        return relative_path(absolute.substr(prefix.size()));
    }

    // The path with the links of its longest existing part followed.
    std::string canonical(const std::string& path) const {
        std::string head = relative_path(path);
        std::string tail;
        while (!head.empty()) {
            if (const Result<std::string> resolved = resolve(head)) {
                return relative_path(*resolved + "/" + tail);
            }
            const std::size_t slash = head.rfind('/');
            const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
            tail = tail.empty() ? head.substr(begin) : head.substr(begin) + "/" + tail;
            head.resize(slash == std::string::npos ? 0 : slash);
        }
        return tail;
    }

    const StatEntry* entry(const std::string& path) const {
        if (stat.empty()) {
            return nullptr;
        }
        const auto found = stat.find(canonical(path));
        return found == stat.end() ? nullptr : &found->second;
    }

    // What the absence of a file from a recording means.
    Error absence(const std::string& path, const Error& error) const {
        if (live || !means_absent(error)) {
            return error;
        }
        const StatEntry* known = entry(path);
        if (known != nullptr && known->sys_errno) {
            return Error::system(*known->sys_errno, {});
        }
        if (known != nullptr && known->unsupported) {
            return Error::make(ErrorKind::Unsupported, *known->unsupported);
        }
        return Error::make(ErrorKind::NotRecorded, {});
    }

    void tell(Access::Kind kind, const std::string& path, const Result<std::string>& outcome) {
        if (observer) {
            observer({kind, relative_path(path), outcome, {}, 0});
        }
    }

    Result<std::string> read_untold(const std::string& path) {
        if (std::optional<Error> error = faulted(path)) {
            return *error;
        }
        Result<std::string> content = read_file(fd.get(), path);
        return content ? std::move(content) : Result<std::string>(absence(path, content.error()));
    }
};

HostRoot::HostRoot(std::unique_ptr<State> state) : state_(std::move(state)) {}
HostRoot::HostRoot(HostRoot&&) noexcept = default;
HostRoot& HostRoot::operator=(HostRoot&&) noexcept = default;
HostRoot::~HostRoot() = default;

Result<HostRoot> HostRoot::live() {
    auto state = std::make_unique<State>();
    state->fd = UniqueFd(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (state->fd.get() < 0) {
        return Error::system(errno, "/");
    }
    state->live = true;
    return HostRoot(std::move(state));
}

Result<HostRoot> HostRoot::recording(const std::string& path) {
    auto state = std::make_unique<State>();
    state->fd = UniqueFd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (state->fd.get() < 0) {
        return Error::system(errno, path);
    }
    Result<std::string> prefix = path_of(state->fd.get());
    if (!prefix) {
        return prefix.error();
    }
    if (*prefix != "/") {
        state->prefix = std::move(*prefix);
    }
    const Result<std::string> text = read_file(state->fd.get(), "stat.toml");
    if (!text && !means_absent(text.error())) {
        return text.error().in(path + "/stat.toml");
    }
    if (text) {
        TRY(entries, parse_stat_toml(*text, path + "/stat.toml"));
        for (auto& [name, entry] : entries) {
            state->stat.insert_or_assign(state->canonical(name), std::move(entry));
        }
    }
    return HostRoot(std::move(state));
}

Result<HostRoot> HostRoot::duplicate() const {
    auto state = std::make_unique<State>();
    state->fd = UniqueFd(fcntl(state_->fd.get(), F_DUPFD_CLOEXEC, 0));
    if (state->fd.get() < 0) {
        return Error::system(errno, "duplicating a root");
    }
    state->live = state_->live;
    state->prefix = state_->prefix;
    state->stat = state_->stat;
    return HostRoot(std::move(state));
}

bool HostRoot::is_live() const {
    return state_->live;
}

int HostRoot::fd() const {
    return state_->fd.get();
}

Result<std::string> HostRoot::read(const std::string& path) const {
    Result<std::string> content = with_path(state_->read_untold(path), path);
    state_->tell(Access::Kind::Read, path, content);
    return content;
}

Result<std::optional<std::string>> HostRoot::read_if_there(const std::string& path) const {
    Result<std::string> content = with_path(state_->read_untold(path), path);
    if (!content && means_absent(content.error())) {
        return std::optional<std::string>();
    }
    state_->tell(Access::Kind::Read, path, content);
    if (!content) {
        return content.error();
    }
    return std::optional<std::string>(std::move(*content));
}

Result<std::string> HostRoot::read_line(const std::string& path) const {
    TRY(content, read(path));
    content.resize(std::min(content.find('\0'), content.size()));
    content.resize(content.find_last_not_of(" \t\r\n\v\f") + 1);
    return content;
}

Result<std::uint64_t> HostRoot::read_number(const std::string& path) const {
    TRY(text, read_line(path));
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    if (problem != std::errc() || stop != end) {
        return Error::make(ErrorKind::Malformed, path + ": not a number");
    }
    return value;
}

Result<std::vector<std::string>> HostRoot::list(const std::string& path) const {
    const std::optional<Error> error = state_->faulted(path);
    Result<std::vector<std::string>> names =
        error ? Result<std::vector<std::string>>(*error) : list_in_root(fd(), path);
    if (!names) {
        names = state_->absence(path, names.error()).in(path);
    }
    if (state_->observer) {
        Access access{Access::Kind::List, relative_path(path), std::string(), {}, 0};
        if (names) {
            access.names = *names;
        } else {
            access.outcome = names.error();
        }
        state_->observer(access);
    }
    return names;
}

Result<std::string> HostRoot::read_link(const std::string& path) const {
    const std::optional<Error> error = state_->faulted(path);
    Result<std::string> target =
        error ? Result<std::string>(*error) : read_link_in_root(fd(), path);
    if (!target) {
        target = state_->absence(path, target.error()).in(path);
    }
    state_->tell(Access::Kind::Link, path, target);
    return target;
}

Result<std::string> HostRoot::resolve(const std::string& path) const {
    const std::optional<Error> error = state_->faulted(path);
    Result<std::string> resolved = error ? Result<std::string>(*error) : state_->resolve(path);
    if (!resolved) {
        resolved = state_->absence(path, resolved.error()).in(path);
    }
    state_->tell(Access::Kind::Resolve, path, resolved);
    return resolved;
}

Result<std::int64_t> HostRoot::mtime_seconds(const std::string& path) const {
    Result<std::int64_t> mtime = [&]() -> Result<std::int64_t> {
        if (std::optional<Error> error = state_->faulted(path)) {
            return *error;
        }
        if (!state_->live) {
            const StatEntry* known = state_->entry(path);
            if (known != nullptr && known->mtime) {
                return *known->mtime;
            }
            return state_->absence(path, Error::make(ErrorKind::NotRecorded, {}));
        }
        TRY(target, open_in_root(fd(), path, O_PATH));
        struct stat status {};
        if (fstat(target.get(), &status) != 0) {
            return Error::system(errno, {});
        }
        return static_cast<std::int64_t>(status.st_mtim.tv_sec);
    }();
    mtime = with_path(std::move(mtime), path);
    if (state_->observer) {
        Access access{Access::Kind::Mtime, relative_path(path), std::string(), {}, 0};
        if (mtime) {
            access.mtime = *mtime;
        } else {
            access.outcome = mtime.error();
        }
        state_->observer(access);
    }
    return mtime;
}

Result<std::string> HostRoot::read_source(const std::string& path,
                                          const std::function<Result<std::string>()>& live) const {
    const std::optional<Error> error = state_->faulted(path);
    Result<std::string> content = error       ? Result<std::string>(*error)
                                  : is_live() ? live()
                                              : read_file(fd(), path);
    if (!content && !is_live()) {
        content = state_->absence(path, content.error());
    }
    content = with_path(std::move(content), path);
    state_->tell(Access::Kind::Source, path, content);
    return content;
}

void HostRoot::set_fault(Fault fault) {
    state_->fault = std::move(fault);
}

void HostRoot::set_observer(Observer observer) {
    state_->observer = std::move(observer);
}

} // namespace nvmaint::collect
