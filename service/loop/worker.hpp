// Threads for what may block, and the way their results come home. One worker per controller, one
// for reading the host, one for writing state: a drive that does not answer stalls its own worker
// and nothing else.
#pragma once

#include "core/time.hpp"
#include "values/result.hpp"

#include <systemd/sd-event.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace nvmaint::loop {

// Runs completions on the loop thread. Any thread may post.
class Mailbox {
  public:
    using Completion = std::function<void()>;
    [[nodiscard]] static Result<std::unique_ptr<Mailbox>> create(sd_event* event);
    Mailbox() = default;
    Mailbox(const Mailbox&) = delete;
    Mailbox& operator=(const Mailbox&) = delete;
    virtual ~Mailbox() = default;
    virtual void post(Completion completion) = 0;
    // A handle that a thread may keep: posts while the mailbox lives, drops afterwards.
    [[nodiscard]] virtual std::function<void(Completion)> poster() = 0;
};

class Worker {
  public:
    // Runs in the worker's thread; what it returns runs on the loop thread afterwards.
    using Task = std::function<Mailbox::Completion()>;

    Worker(std::string name, Mailbox& mailbox);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    // Never waits: a thread that is stuck in the kernel is left to end by itself.
    ~Worker();

    // False where the queue is full (64): the caller tries again at its next occasion.
    bool post(std::string what, Task task);
    // How long the current task has been running, and what it is.
    struct Busy {
        core::nanoseconds since_start{};
        std::string what;
    };
    [[nodiscard]] std::optional<Busy> busy() const;
    [[nodiscard]] bool idle() const; // nothing running, nothing queued
    // Waits until idle, at most that long. True if it is. For the end of the service only.
    [[nodiscard]] bool drain(core::milliseconds at_most) const;

  private:
    struct State;
    std::shared_ptr<State> state_; // shared with the thread, which may outlive us
};

} // namespace nvmaint::loop
