// Who may call what changes something. uid 0 may, without polkit being there; everybody else is
// polkit's to judge. All of it is asynchronous: the question who the caller is, the question
// whether it may, and a person who types a password meanwhile.
#pragma once

#include "bus/server.hpp"
#include "bus/wire.hpp"

#include <systemd/sd-bus.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

namespace nvmaint::bus {

// Bounds on calls that wait for an authorisation, so that nobody can fill the service with them. A
// caller that exceeds one gets org.freedesktop.DBus.Error.LimitsExceeded. Judgement: a person
// answers one dialog at a time, and a script that starts trims in parallel has a few dozen
// filesystems.
inline constexpr std::size_t kPendingChecks = 64;        // that polkit has not answered, in all
inline constexpr std::size_t kPendingChecksPerUser = 16; // of one uid, so that it cannot lock
                                                         // others out
inline constexpr std::size_t kPendingCallsPerPeer = 64;  // of one connection, uid 0 included

struct Permission {
    std::string action;                         // "org.nvmaint1.trim"
    std::map<std::string, std::string> details; // shown to the person who is asked: $(mount)
};

class Authorizer {
  public:
    Authorizer(sd_bus* bus, std::string polkit_name, PolkitPatience patience);
    Authorizer(const Authorizer&) = delete;
    Authorizer& operator=(const Authorizer&) = delete;
    ~Authorizer();

    // Runs `then` with the call once its sender may make it, else answers the call with an error:
    // AccessDenied, InteractiveAuthorizationRequired or LimitsExceeded. A sender that leaves the
    // bus meanwhile takes its call with it.
    void authorize(sd_bus_message* call, Permission permission,
                   std::function<void(sd_bus_message*)> then);

  private:
    struct Check;

    static int on_uid(sd_bus_message* reply, void* userdata, sd_bus_error*) noexcept;
    static int on_verdict(sd_bus_message* reply, void* userdata, sd_bus_error*) noexcept;
    static int on_sender_gone(sd_bus_message* signal, void* userdata, sd_bus_error*) noexcept;

    void ask_polkit(Check& check);
    int send_check(Check& check);
    void cancel_at_polkit(const Check& check);
    void refuse(Check& check, const char* error_name, const std::string& text);
    // Takes the check off the list; the caller keeps it alive until it returns.
    std::unique_ptr<Check> take(Check& check);

    sd_bus* bus_;
    std::string polkit_name_;
    PolkitPatience patience_;
    std::list<std::unique_ptr<Check>> checks_;
    std::uint64_t last_cancellation_ = 0;
};

} // namespace nvmaint::bus
