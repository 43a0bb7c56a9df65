#include "act/hook.hpp"

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <vector>

extern char** environ;

namespace nvmaint::act {
namespace {

constexpr std::size_t kAtOnce = 8;
constexpr std::size_t kWaiting = 64;

struct Request {
    std::string program;
    core::seconds timeout{};
    std::string input;
};

class Runner final : public HookRunner {
  public:
    Runner(sd_event* event, OnFailure on_failure, std::string launcher)
        : event_(event), on_failure_(std::move(on_failure)), launcher_(std::move(launcher)) {}

    ~Runner() override {
        for (Run& run : runs_) {
            sd_event_source_disable_unref(run.source);
        }
    }

    void run(const std::string& program, core::seconds timeout, const std::string& input) override {
        waiting_.push_back({program, timeout, input});
        if (waiting_.size() > kWaiting) {
            on_failure_(fmt::format("{}: dropped, {} hooks were waiting", waiting_.front().program,
                                    kWaiting));
            waiting_.pop_front();
        }
        start_waiting();
    }

  private:
    struct Run {
        Runner* runner = nullptr;
        std::string program;
        sd_event_source* source = nullptr;
    };

    void start_waiting() {
        while (!waiting_.empty() && runs_.size() < kAtOnce) {
            const Request request = std::move(waiting_.front());
            waiting_.pop_front();
            const Result<Done> started = start(request);
            if (!started) {
                on_failure_(started.error().in(request.program).text());
            }
        }
    }

    Result<Done> start(const Request& request) {
        const int input = memfd_create("nvmaint-hook", MFD_CLOEXEC);
        if (input < 0) {
            return Error::system(errno, "memfd_create");
        }
        const bool written = write(input, request.input.data(), request.input.size()) ==
                                 static_cast<ssize_t>(request.input.size()) &&
                             lseek(input, 0, SEEK_SET) == 0;
        if (!written) {
            const int error = errno;
            close(input);
            return Error::system(error, "writing the finding");
        }
        std::vector<std::string> words{
            launcher_,
            "--quiet",
            "--wait",
            "--collect",
            "--pipe",
            "--property=DynamicUser=yes",
            fmt::format("--property=RuntimeMaxSec={}", request.timeout.count()),
            "--property=TimeoutStopSec=2",
            "--",
            request.program};
        std::vector<char*> argv;
        argv.reserve(words.size() + 1);
        for (std::string& word : words) {
            argv.push_back(word.data());
        }
        argv.push_back(nullptr);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, input, 0);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, 1, 2);
        posix_spawnattr_t attributes;
        posix_spawnattr_init(&attributes);
        sigset_t none;
        sigemptyset(&none);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        pid_t pid = -1;
        const int failed =
            posix_spawn(&pid, launcher_.c_str(), &actions, &attributes, argv.data(), environ);
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
        close(input);
        if (failed != 0) {
            return Error::system(failed, launcher_);
        }
        const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
        if (pidfd < 0) {
            return Error::system(errno, "pidfd_open");
        }
        runs_.push_back({this, request.program, nullptr});
        Run& run = runs_.back();
        const int r =
            sd_event_add_child_pidfd(event_, &run.source, pidfd, WEXITED, &Runner::on_exit, &run);
        if (r < 0) {
            close(pidfd);
            runs_.pop_back();
            return Error::system(-r, "watching the hook");
        }
        sd_event_source_set_child_pidfd_own(run.source, 1);
        return Done{};
    }

    static int on_exit(sd_event_source*, const siginfo_t* info, void* data) noexcept {
        auto* run = static_cast<Run*>(data);
        Runner* const self = run->runner;
        if (info->si_code != CLD_EXITED || info->si_status != 0) {
            self->on_failure_(fmt::format("{}: {} {}", run->program,
                                          info->si_code == CLD_EXITED ? "exit status" : "signal",
                                          info->si_status));
        }
        sd_event_source_disable_unref(run->source);
        self->runs_.remove_if([run](const Run& each) { return &each == run; });
        self->start_waiting();
        return 0;
    }

    sd_event* event_;
    OnFailure on_failure_;
    std::string launcher_;
    std::deque<Request> waiting_;
    std::list<Run> runs_;
};

} // namespace

std::unique_ptr<HookRunner> HookRunner::create(sd_event* event, OnFailure on_failure,
                                               const std::string& launcher) {
    return std::make_unique<Runner>(event, std::move(on_failure), launcher);
}

} // namespace nvmaint::act
