// The parties on the private bus, all in one thread and driven by one pump, so that each step
// happens when the test says so: the server under test with a fake handler behind it, clients of
// one user or another, and a mock of polkit.
#pragma once

#include "private_bus.hpp"

#include "bus/server.hpp"

#include <gtest/gtest.h>
#include <systemd/sd-bus.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace nvmaint::bus_test {

inline constexpr uid_t kNobody = 65534;
inline constexpr const char* kService = "org.nvmaint1";
inline constexpr const char* kRoot = "/org/nvmaint1";
inline constexpr const char* kManager = "org.nvmaint1.Manager";
inline constexpr const char* kProperties = "org.freedesktop.DBus.Properties";

struct BusClose {
    void operator()(sd_bus* bus) const { sd_bus_close_unref(bus); }
};
using Bus = std::unique_ptr<sd_bus, BusClose>;
struct MessageUnref {
    void operator()(sd_bus_message* message) const { sd_bus_message_unref(message); }
};
using Message = std::unique_ptr<sd_bus_message, MessageUnref>;

// Moves messages on all connections until something is so.
class Pump {
  public:
    void add(sd_bus* bus) { buses_.push_back(bus); }
    void remove(sd_bus* bus) { std::erase(buses_, bus); }
    // False where it is not so within ten seconds.
    [[nodiscard]] bool until(const std::function<bool()>& condition);
    // Until every message sent so far has arrived and was answered, as far as parties answer:
    // a call to the bus on each connection, twice, comes back behind what was queued before.
    void settle();

  private:
    std::vector<sd_bus*> buses_;
};

struct Signal {
    std::string path;
    std::string interface;
    std::string member;
    Message message;
};

// One connection of one user.
class Peer {
  public:
    Peer(Pump& pump, const std::string& address, uid_t uid);
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    ~Peer();

    [[nodiscard]] sd_bus* bus() const { return bus_.get(); }
    [[nodiscard]] Pump& pump() const { return pump_; }

    // An answer that is waited for. Empty error = it is a return.
    struct Answer {
        bool there = false;
        std::string error;
        std::string text;
        Message message;
    };
    using Pending = std::shared_ptr<Answer>;

    [[nodiscard]] Message new_call(const std::string& path, const char* interface,
                                   const char* member, const char* destination = kService);
    [[nodiscard]] Pending send(const Message& call);
    [[nodiscard]] Pending call(const Message& call); // and waits for it
    // Waits; `types` and what follows as in sd_bus_message_append(3).
    Pending call(const std::string& path, const char* interface, const char* member,
                 const char* types = "", ...);

    // The value of a property, entered, so that it can be read.
    [[nodiscard]] Message property(const std::string& path, const std::string& interface,
                                   const std::string& name, const char* type);
    [[nodiscard]] std::string text_property(const std::string& path, const std::string& interface,
                                            const std::string& name);

    // From now on keeps the signals of the service.
    void listen();
    [[nodiscard]] std::vector<Signal>& signals() { return signals_; }

  private:
    static int on_signal(sd_bus_message* message, void* userdata, sd_bus_error*);

    Pump& pump_;
    Bus bus_;
    std::vector<Signal> signals_;
};

// A call of Trim() that is ready to be sent.
[[nodiscard]] Message trim_call(Peer& peer, const std::string& mount, bool interactive = false);

// org.freedesktop.PolicyKit1.Authority.
class MockPolkit {
  public:
    enum class Says {
        Yes,
        No,
        AskAnAgent, // yes where a person may be asked, else a challenge
        NoAgent,    // a challenge, whatever the flags
        Dismissed,  // the person closed the dialog
        Nothing,    // keeps the call
        Error,
        Nonsense,
    };
    struct Check {
        std::string sender;
        std::string action;
        std::map<std::string, std::string> details;
        std::uint32_t flags = 0;
        std::string cancellation_id;
        Message call;
    };

    MockPolkit(Pump& pump, const std::string& address, Says says);

    void say(Says says) { says_ = says; }
    // Answers a check that was kept.
    void answer(std::size_t check, Says says);
    [[nodiscard]] const std::vector<Check>& checks() const { return checks_; }
    [[nodiscard]] const std::vector<std::string>& cancelled() const { return cancelled_; }

  private:
    static int on_call(sd_bus_message* call, void* userdata, sd_bus_error*);
    static int on_check(sd_bus_message* call, void* userdata, sd_bus_error*);
    static int on_cancel(sd_bus_message* call, void* userdata, sd_bus_error*);

    Says says_;
    std::vector<Check> checks_;
    std::vector<std::string> cancelled_;
    Peer peer_;
};

// Does what it is told, and remembers what it was asked.
class FakeHandler final : public bus::Handler {
  public:
    struct TrimCall {
        std::string mount;
        std::map<std::string, bus::Value> options;
        bool operator==(const TrimCall&) const = default;
    };
    [[nodiscard]] Result<std::uint64_t>
    trim(const std::string& mount, const std::map<std::string, bus::Value>& options) override {
        trims.push_back({mount, options});
        return next_trim;
    }
    [[nodiscard]] Result<Done> cancel(std::uint64_t job) override {
        cancelled.push_back(job);
        return next_done;
    }
    [[nodiscard]] Result<Done> reload() override {
        ++reloads;
        return next_done;
    }

    Result<std::uint64_t> next_trim{7};
    Result<Done> next_done{Done{}};
    std::vector<TrimCall> trims;
    std::vector<std::uint64_t> cancelled;
    unsigned reloads = 0;
};

// A bus with the service on it. `model` may be changed before start() and afterwards.
class OnBus : public testing::Test {
  protected:
    void SetUp() override;
    void TearDown() override;

    // Starts the server on a connection of its own and requests the name.
    void start(bus::PolkitPatience patience = {});
    [[nodiscard]] std::unique_ptr<Peer> client(uid_t uid = 0);
    // A user whom the service has to ask polkit about: nobody, where we can be that; else
    // ourselves, unless we are root.
    [[nodiscard]] std::unique_ptr<Peer> user() { return client(kNobody); }
    // The service, still connected.
    [[nodiscard]] bool is_alive() { return sd_bus_is_ready(service_->bus()) > 0; }

    PrivateBus daemon_;
    Pump pump_;
    bus::Model model_;
    FakeHandler handler_;
    std::unique_ptr<Peer> service_;
    std::unique_ptr<bus::Server> server_;
};

// Literals to change a field of.
[[nodiscard]] core::DriveView a_drive();
[[nodiscard]] core::FilesystemView a_filesystem();
[[nodiscard]] core::Finding a_finding();
[[nodiscard]] core::TrimRecord a_trim();

} // namespace nvmaint::bus_test
