#include "act/fitrim_child.hpp"

#include <fmt/format.h>

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

extern char** environ;

namespace nvmaint::act {
namespace {

struct Fd {
    int value = -1;
    Fd() = default;
    explicit Fd(int fd) : value(fd) {}
    Fd(Fd&& other) noexcept : value(std::exchange(other.value, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(value, other.value);
        return *this;
    }
    ~Fd() { reset(); }
    void reset() {
        if (value >= 0) {
            close(value);
            value = -1;
        }
    }
};

struct SourceDeleter {
    void operator()(sd_event_source* source) const { sd_event_source_disable_unref(source); }
};
using Source = std::unique_ptr<sd_event_source, SourceDeleter>;

// Parses "BYTES ERRNO NANOSECONDS".
Result<FitrimReply> parse_reply(std::string_view line) {
    std::array<std::int64_t, 2> rest{};
    FitrimReply reply;
    const char* at = line.data();
    const char* const end = line.data() + line.size();
    auto number = std::from_chars(at, end, reply.bytes);
    bool good = number.ec == std::errc();
    for (std::int64_t& field : rest) {
        good = good && number.ptr < end && *number.ptr == ' ';
        if (!good) {
            break;
        }
        number = std::from_chars(number.ptr + 1, end, field);
        good = number.ec == std::errc();
    }
    if (!good || number.ptr != end) {
        return Error::make(ErrorKind::Malformed, fmt::format("fitrim child said \"{}\"", line));
    }
    reply.error = static_cast<int>(rest[0]);
    reply.took = std::chrono::nanoseconds(rest[1]);
    return reply;
}

class Child final : public FitrimChild {
  public:
    Child(std::string mount, OnReply on_reply)
        : mount_(std::move(mount)), on_reply_(std::move(on_reply)) {}

    ~Child() override {
        on_reply_ = nullptr;
        kill();
        // A child in uninterruptible sleep dies when the kernel lets go of it; a zombie is left to
        // the service's own end, since waiting here would hang the loop.
        if (!gone_) {
            waitpid(pid_, nullptr, WNOHANG);
        }
    }

    Result<Done> spawn(sd_event* event, const FitrimTarget& target) {
        Fd to_child;
        Fd from_child;
        Fd errors;
        Fd child_in;
        Fd child_out;
        Fd child_err;
        for (auto [reader, writer] :
             {std::pair{&child_in, &to_child}, std::pair{&from_child, &child_out},
              std::pair{&errors, &child_err}}) {
            std::array<int, 2> ends{};
            if (pipe2(ends.data(), O_CLOEXEC) != 0) {
                return Error::system(errno, "pipe for nvmaint-fitrim");
            }
            *reader = Fd(ends[0]);
            *writer = Fd(ends[1]);
        }
        for (const int fd : {from_child.value, errors.value}) {
            fcntl(fd, F_SETFL, O_NONBLOCK);
        }
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, child_in.value, 0);
        posix_spawn_file_actions_adddup2(&actions, child_out.value, 1);
        posix_spawn_file_actions_adddup2(&actions, child_err.value, 2);
        posix_spawnattr_t attributes;
        posix_spawnattr_init(&attributes);
        sigset_t none;
        sigemptyset(&none);
        sigset_t all;
        sigfillset(&all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        std::string helper = target.helper;
        std::string mount = target.mount_point;
        std::string id = fmt::format("{}:{}", target.device.major, target.device.minor);
        std::array<char*, 4> argv{helper.data(), mount.data(), id.data(), nullptr};
        const int failed =
            posix_spawn(&pid_, helper.c_str(), &actions, &attributes, argv.data(), environ);
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
        if (failed != 0) {
            gone_ = true;
            return Error::system(failed, "starting " + helper);
        }
        to_child_ = std::move(to_child);
        from_child_ = std::move(from_child);
        errors_ = std::move(errors);

        const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
        if (pidfd < 0) {
            return Error::system(errno, "pidfd_open");
        }
        sd_event_source* raw = nullptr;
        int r = sd_event_add_io(event, &raw, from_child_.value, EPOLLIN, &Child::on_output, this);
        output_source_.reset(raw);
        if (r >= 0) {
            raw = nullptr;
            r = sd_event_add_child_pidfd(event, &raw, pidfd, WEXITED, &Child::on_exit, this);
            if (r < 0) {
                close(pidfd);
            } else {
                exit_source_.reset(raw);
                sd_event_source_set_child_pidfd_own(raw, 1);
            }
        }
        if (r < 0) {
            return Error::system(-r, "watching nvmaint-fitrim");
        }
        return Done{};
    }

    Result<Done> request(const core::TrimRange& range) override {
        if (gone_ || killed_) {
            return Error::make(ErrorKind::Cancelled, "the trimming process is gone");
        }
        const std::string line =
            fmt::format("{} {} {}\n", range.start, range.length, range.minimum);
        if (!ready_) {
            waiting_ = line; // sent when the child says that it stands on the right filesystem
            return Done{};
        }
        return send(line);
    }

    void kill() override {
        killed_ = true;
        if (!gone_ && pid_ > 0) {
            ::kill(pid_, SIGKILL);
        }
    }

    [[nodiscard]] bool gone() const override { return gone_; }

  private:
    Result<Done> send(const std::string& line) {
        // A line is far below PIPE_BUF and the pipe holds nothing else: the write cannot block or
        // be split.
        if (write(to_child_.value, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
            return Error::system(errno, "asking nvmaint-fitrim");
        }
        return Done{};
    }

    void read_lines() {
        std::array<char, 512> buffer{};
        while (true) {
            const ssize_t count = read(from_child_.value, buffer.data(), buffer.size());
            if (count <= 0) {
                break;
            }
            pending_.append(buffer.data(), static_cast<std::size_t>(count));
        }
        std::size_t newline = 0;
        while ((newline = pending_.find('\n')) != std::string::npos) {
            const std::string line = pending_.substr(0, newline);
            pending_.erase(0, newline + 1);
            if (line == "ready") {
                ready_ = true;
                if (!waiting_.empty()) {
                    const Result<Done> sent = send(std::exchange(waiting_, {}));
                    if (!sent) {
                        answer(sent.error());
                    }
                }
            } else {
                answer(parse_reply(line));
            }
        }
    }

    void answer(Result<FitrimReply> reply) {
        if (on_reply_) {
            on_reply_(std::move(reply));
        }
    }

    static int on_output(sd_event_source* source, int, std::uint32_t events, void* data) noexcept {
        auto* self = static_cast<Child*>(data);
        if ((events & EPOLLIN) == 0) {
            sd_event_source_set_enabled(source,
                                        SD_EVENT_OFF); // hang-up: the exit source tells the rest
            return 0;
        }
        self->read_lines();
        return 0;
    }

    static int on_exit(sd_event_source*, const siginfo_t* info, void* data) noexcept {
        auto* self = static_cast<Child*>(data);
        self->read_lines(); // what it said before it ended
        self->gone_ = true;
        std::array<char, 512> text{};
        const ssize_t count = read(self->errors_.value, text.data(), text.size());
        std::string said(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0U);
        while (!said.empty() && said.back() == '\n') {
            said.pop_back();
        }
        if (said.empty()) {
            said = info->si_code == CLD_EXITED ? fmt::format("exit status {}", info->si_status)
                                               : fmt::format("signal {}", info->si_status);
        }
        self->answer(Error::make(self->killed_ ? ErrorKind::Cancelled : ErrorKind::System,
                                 "trimming " + self->mount_ + ": " + said));
        return 0;
    }

    std::string mount_;
    OnReply on_reply_;
    pid_t pid_ = -1;
    Fd to_child_;
    Fd from_child_;
    Fd errors_;
    Source output_source_;
    Source exit_source_;
    std::string pending_;
    std::string waiting_;
    bool ready_ = false;
    bool killed_ = false;
    bool gone_ = false;
};

} // namespace

Result<std::unique_ptr<FitrimChild>> FitrimChild::start(sd_event* event, const FitrimTarget& target,
                                                        OnReply on_reply) {
    auto child = std::make_unique<Child>(target.mount_point, std::move(on_reply));
    TRY(started, child->spawn(event, target));
    (void)started;
    return std::unique_ptr<FitrimChild>(std::move(child));
}

} // namespace nvmaint::act
