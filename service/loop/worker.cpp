#include "loop/worker.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace nvmaint::loop {
namespace {

constexpr std::size_t kQueue = 64;

struct Box {
    std::mutex mutex;
    std::vector<Mailbox::Completion> waiting;
    int fd = -1;
    bool closed = false;

    ~Box() {
        if (fd >= 0) {
            close(fd);
        }
    }
    void post(Mailbox::Completion completion) {
        const std::lock_guard lock(mutex);
        if (closed || !completion) {
            return;
        }
        waiting.push_back(std::move(completion));
        const std::uint64_t one = 1;
        (void)!write(fd, &one, sizeof one); // a full counter wakes the loop just as well
    }
};

class EventMailbox final : public Mailbox {
  public:
    explicit EventMailbox(std::shared_ptr<Box> box) : box_(std::move(box)) {}
    ~EventMailbox() override {
        sd_event_source_disable_unref(source_);
        const std::lock_guard lock(box_->mutex);
        box_->closed = true;
        box_->waiting.clear();
    }
    Result<Done> attach(sd_event* event) {
        const int r =
            sd_event_add_io(event, &source_, box_->fd, EPOLLIN, &EventMailbox::on_wake, this);
        if (r < 0) {
            return Error::system(-r, "watching the workers' mailbox");
        }
        return Done{};
    }
    void post(Completion completion) override { box_->post(std::move(completion)); }
    std::function<void(Completion)> poster() override {
        return [box = box_](Completion completion) { box->post(std::move(completion)); };
    }

  private:
    static int on_wake(sd_event_source*, int fd, std::uint32_t, void* data) noexcept {
        auto* self = static_cast<EventMailbox*>(data);
        std::uint64_t count = 0;
        (void)!read(fd, &count, sizeof count);
        std::vector<Completion> ready;
        {
            const std::lock_guard lock(self->box_->mutex);
            ready.swap(self->box_->waiting);
        }
        for (const Completion& completion : ready) {
            completion();
        }
        return 0;
    }

    std::shared_ptr<Box> box_; // shared with posters in threads that may outlive us
    sd_event_source* source_ = nullptr;
};

} // namespace

Result<std::unique_ptr<Mailbox>> Mailbox::create(sd_event* event) {
    auto box = std::make_shared<Box>();
    box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (box->fd < 0) {
        return Error::system(errno, "eventfd");
    }
    auto mailbox = std::make_unique<EventMailbox>(std::move(box));
    TRY(attached, mailbox->attach(event));
    (void)attached;
    return std::unique_ptr<Mailbox>(std::move(mailbox));
}

struct Worker::State {
    mutable std::mutex mutex;
    std::condition_variable wake;
    std::deque<std::pair<std::string, Task>> queue;
    std::function<void(Mailbox::Completion)> post;
    bool stop = false;
    bool running = false;
    std::string what;
    std::chrono::steady_clock::time_point since;

    void run() {
        std::unique_lock lock(mutex);
        while (true) {
            wake.wait(lock, [this] { return stop || !queue.empty(); });
            if (stop) {
                return;
            }
            Task task = std::move(queue.front().second);
            what = std::move(queue.front().first);
            queue.pop_front();
            running = true;
            since = std::chrono::steady_clock::now();
            lock.unlock();
            Mailbox::Completion completion = task();
            post(std::move(completion));
            lock.lock();
            running = false;
            wake.notify_all();
        }
    }
};

Worker::Worker(std::string name, Mailbox& mailbox) : state_(std::make_shared<State>()) {
    state_->post = mailbox.poster();
    std::thread thread([state = state_, name = std::move(name)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        state->run();
    });
    thread.detach();
}

Worker::~Worker() {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->queue.clear();
    state_->wake.notify_all();
}

bool Worker::post(std::string what, Task task) {
    const std::lock_guard lock(state_->mutex);
    if (state_->queue.size() >= kQueue) {
        return false;
    }
    state_->queue.emplace_back(std::move(what), std::move(task));
    state_->wake.notify_all();
    return true;
}

std::optional<Worker::Busy> Worker::busy() const {
    const std::lock_guard lock(state_->mutex);
    if (!state_->running) {
        return std::nullopt;
    }
    return Busy{std::chrono::steady_clock::now() - state_->since, state_->what};
}

bool Worker::idle() const {
    const std::lock_guard lock(state_->mutex);
    return !state_->running && state_->queue.empty();
}

bool Worker::drain(core::milliseconds at_most) const {
    std::unique_lock lock(state_->mutex);
    return state_->wake.wait_for(lock, at_most,
                                 [this] { return !state_->running && state_->queue.empty(); });
}

} // namespace nvmaint::loop
