// The road of a call by uid 1000, with the messages it costs:
//
//   Trim ──▶ GetConnectionUnixUser(sender)      to the bus      on_uid: not 0, so
//            AddMatch(NameOwnerChanged, sender)                 know when the sender leaves
//            CheckAuthorization(…)              to polkit       a person may be asked, for minutes
//        ◀── answer                                             on_verdict: run or refuse
//
// The match is installed before polkit is asked, and the bus keeps the order of one connection's
// messages: a sender that left before it was installed is one that polkit does not find either.
#include "bus/polkit.hpp"

#include "bus/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace nvmaint::bus {

namespace {

constexpr const char* kAuthorityPath = "/org/freedesktop/PolicyKit1/Authority";
constexpr const char* kAuthorityInterface = "org.freedesktop.PolicyKit1.Authority";
// CheckAuthorizationFlags of org.freedesktop.PolicyKit1.Authority.
constexpr std::uint32_t kAllowUserInteraction = 1;

std::uint64_t usec(std::chrono::milliseconds time) {
    return static_cast<std::uint64_t>(std::chrono::microseconds(time).count());
}

std::string_view name_of(const sd_bus_error* error) {
    return error != nullptr && error->name != nullptr ? error->name : "";
}

std::string text_of(const sd_bus_error* error) {
    const bool has_text = error != nullptr && error->message != nullptr;
    return has_text ? error->message : std::string(name_of(error));
}

bool is_timeout(std::string_view error) {
    return error == SD_BUS_ERROR_NO_REPLY || error == SD_BUS_ERROR_TIMEOUT ||
           error == "org.freedesktop.DBus.Error.TimedOut";
}

// Nobody owns polkit's name, and the bus could not start it: error names of dbus-daemon and of
// systemd as its activator.
bool is_absent(std::string_view error) {
    return error == SD_BUS_ERROR_SERVICE_UNKNOWN || error == SD_BUS_ERROR_NAME_HAS_NO_OWNER ||
           error.starts_with("org.freedesktop.DBus.Error.Spawn.") ||
           error.starts_with("org.freedesktop.systemd1.");
}

struct Verdict {
    bool authorized = false;
    bool challenge = false;
    bool dismissed = false; // the person closed the dialog
};

int read_verdict(sd_bus_message* reply, Verdict& verdict) {
    int authorized = 0;
    int challenge = 0;
    int r = sd_bus_message_enter_container(reply, 'r', "bba{ss}");
    if (r >= 0) {
        r = sd_bus_message_read(reply, "bb", &authorized, &challenge);
    }
    if (r >= 0) {
        r = sd_bus_message_enter_container(reply, 'a', "{ss}");
    }
    if (r < 0) {
        return r;
    }
    const char* key = nullptr;
    const char* value = nullptr;
    while ((r = sd_bus_message_read(reply, "{ss}", &key, &value)) > 0) {
        verdict.dismissed |= std::string_view(key) == "polkit.dismissed";
    }
    verdict.authorized = authorized != 0;
    verdict.challenge = challenge != 0;
    return r;
}

} // namespace

struct Authorizer::Check {
    Authorizer& owner;
    Message call;
    std::string sender; // unique name
    Permission permission;
    bool interactive = false; // the caller allows that a person is asked
    std::function<void(sd_bus_message*)> then;
    std::uint32_t uid = 0;
    std::string cancellation_id; // empty until polkit is asked
    Slot question;               // the call that is under way
    Slot departure;              // the match on the sender's leaving
};

Authorizer::Authorizer(sd_bus* bus, std::string polkit_name, PolkitPatience patience)
    : bus_(bus), polkit_name_(std::move(polkit_name)), patience_(patience) {}

Authorizer::~Authorizer() = default;

void Authorizer::authorize(sd_bus_message* call, Permission permission,
                           std::function<void(sd_bus_message*)> then) {
    const char* sender = sd_bus_message_get_sender(call);
    auto made = std::make_unique<Check>(Check{
        .owner = *this,
        .call = Message(sd_bus_message_ref(call)),
        .sender = sender != nullptr ? sender : "",
        .permission = std::move(permission),
        .interactive = sd_bus_message_get_allow_interactive_authorization(call) > 0,
        .then = std::move(then),
        .cancellation_id = {},
        .question = nullptr,
        .departure = nullptr,
    });
    Check& check = *made;
    const auto of_peer = std::count_if(checks_.begin(), checks_.end(), [&](const auto& other) {
        return other->sender == check.sender;
    });
    checks_.push_back(std::move(made));
    if (check.sender.empty()) {
        refuse(check, SD_BUS_ERROR_ACCESS_DENIED, "the call does not say whom it is from");
        return;
    }
    if (static_cast<std::size_t>(of_peer) >= kPendingCallsPerPeer) {
        refuse(check, SD_BUS_ERROR_LIMITS_EXCEEDED, "too many calls of this client are waiting");
        return;
    }
    // Not sd_bus_query_sender_creds(): it waits for the bus.
    sd_bus_slot* slot = nullptr;
    const int r = sd_bus_call_method_async(
        bus_, &slot, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
        "GetConnectionUnixUser", on_uid, &check, "s", check.sender.c_str());
    check.question.reset(slot);
    if (r < 0) {
        refuse(check, SD_BUS_ERROR_ACCESS_DENIED, "cannot ask the bus who calls");
    }
}

int Authorizer::on_uid(sd_bus_message* reply, void* userdata, sd_bus_error*) noexcept {
    Check& check = *static_cast<Check*>(userdata);
    Authorizer& self = check.owner;
    if (const sd_bus_error* error = sd_bus_message_get_error(reply)) {
        self.refuse(check, SD_BUS_ERROR_ACCESS_DENIED,
                    "the bus does not say who calls: " + text_of(error));
        return 0;
    }
    if (sd_bus_message_read(reply, "u", &check.uid) < 0) {
        self.refuse(check, SD_BUS_ERROR_ACCESS_DENIED, "the bus does not say who calls");
        return 0;
    }
    if (check.uid == 0) {
        const auto done = self.take(check);
        done->then(done->call.get());
        return 0;
    }
    self.ask_polkit(check);
    return 0;
}

void Authorizer::ask_polkit(Check& check) {
    const auto asked = [](const auto& other) { return !other->cancellation_id.empty(); };
    const auto in_all = std::count_if(checks_.begin(), checks_.end(), asked);
    const auto of_user = std::count_if(checks_.begin(), checks_.end(), [&](const auto& other) {
        return asked(other) && other->uid == check.uid;
    });
    if (static_cast<std::size_t>(in_all) >= kPendingChecks ||
        static_cast<std::size_t>(of_user) >= kPendingChecksPerUser) {
        refuse(check, SD_BUS_ERROR_LIMITS_EXCEEDED,
               "too many calls are waiting for an authorisation");
        return;
    }
    check.cancellation_id = fmt::format("nvmaint-{}", ++last_cancellation_);
    if (send_check(check) < 0) {
        refuse(check, SD_BUS_ERROR_ACCESS_DENIED, "cannot ask polkit");
    }
}

int Authorizer::send_check(Check& check) {
    const std::string match =
        fmt::format("type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
                    "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='{}'",
                    check.sender);
    // Without a callback a bus that refuses the match would end the connection.
    const auto installed = [](sd_bus_message*, void*, sd_bus_error*) noexcept { return 0; };
    sd_bus_slot* slot = nullptr;
    int r = sd_bus_add_match_async(bus_, &slot, match.c_str(), on_sender_gone, installed, &check);
    check.departure.reset(slot);
    if (r < 0) {
        return r;
    }
    sd_bus_message* raw = nullptr;
    r = sd_bus_message_new_method_call(bus_, &raw, polkit_name_.c_str(), kAuthorityPath,
                                       kAuthorityInterface, "CheckAuthorization");
    const Message question(raw);
    if (r >= 0) {
        r = sd_bus_message_append(raw, "(sa{sv})s", "system-bus-name", 1, "name", "s",
                                  check.sender.c_str(), check.permission.action.c_str());
    }
    if (r >= 0) {
        r = sd_bus_message_open_container(raw, 'a', "{ss}");
    }
    for (const auto& [key, value] : check.permission.details) {
        if (r >= 0) {
            r = sd_bus_message_append(raw, "{ss}", key.c_str(), to_bus_text(value).c_str());
        }
    }
    if (r >= 0) {
        r = sd_bus_message_close_container(raw);
    }
    if (r >= 0) {
        r = sd_bus_message_append(raw, "us", check.interactive ? kAllowUserInteraction : 0U,
                                  check.cancellation_id.c_str());
    }
    if (r >= 0) {
        slot = nullptr;
        r = sd_bus_call_async(bus_, &slot, raw, on_verdict, &check,
                              usec(check.interactive ? patience_.interactive : patience_.silent));
        check.question.reset(slot);
    }
    return r;
}

int Authorizer::on_verdict(sd_bus_message* reply, void* userdata, sd_bus_error*) noexcept {
    Check& check = *static_cast<Check*>(userdata);
    Authorizer& self = check.owner;
    const std::string& action = check.permission.action;
    if (const sd_bus_error* error = sd_bus_message_get_error(reply)) {
        std::string text;
        if (is_timeout(name_of(error))) {
            self.cancel_at_polkit(check);
            text = "polkit did not answer: " + text_of(error);
        } else if (is_absent(name_of(error))) {
            text = "polkit is not there to authorise it; without polkit only root may";
        } else {
            text = "polkit could not judge: " + text_of(error);
        }
        self.refuse(check, SD_BUS_ERROR_ACCESS_DENIED, action + ": " + text);
        return 0;
    }
    Verdict verdict;
    if (read_verdict(reply, verdict) < 0) {
        self.refuse(check, SD_BUS_ERROR_ACCESS_DENIED, action + ": polkit's answer is malformed");
        return 0;
    }
    if (verdict.authorized) {
        const auto done = self.take(check);
        done->then(done->call.get());
    } else if (verdict.challenge && !check.interactive) {
        self.refuse(check, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED,
                    action + ": needs authentication; call again with interactive authorisation "
                             "allowed, or as root");
    } else if (verdict.challenge) {
        self.refuse(check, SD_BUS_ERROR_ACCESS_DENIED,
                    action + ": needs authentication, and no agent is there to ask for it");
    } else {
        self.refuse(check, SD_BUS_ERROR_ACCESS_DENIED,
                    action + (verdict.dismissed ? ": the authentication was dismissed"
                                                : ": not authorised"));
    }
    return 0;
}

int Authorizer::on_sender_gone(sd_bus_message* signal, void* userdata, sd_bus_error*) noexcept {
    Check& check = *static_cast<Check*>(userdata);
    const char* name = nullptr;
    const char* old_owner = nullptr;
    const char* new_owner = nullptr;
    if (sd_bus_message_read(signal, "sss", &name, &old_owner, &new_owner) < 0 ||
        check.sender != name || *new_owner != '\0') {
        return 0;
    }
    Authorizer& self = check.owner;
    self.cancel_at_polkit(check);
    const auto gone = self.take(check); // nobody is left to answer
    return 0;
}

// The dialog of a call that nobody waits for any more should not stay on the screen.
void Authorizer::cancel_at_polkit(const Check& check) {
    // Best effort: without a slot no answer is asked for, and a polkit that left needs no telling.
    (void)sd_bus_call_method_async(bus_, nullptr, polkit_name_.c_str(), kAuthorityPath,
                                   kAuthorityInterface, "CancelCheckAuthorization", nullptr,
                                   nullptr, "s", check.cancellation_id.c_str());
}

void Authorizer::refuse(Check& check, const char* error_name, const std::string& text) {
    const auto refused = take(check);
    // A sender that left, or a connection that is closing, gets no answer.
    (void)sd_bus_reply_method_errorf(refused->call.get(), error_name, "%s",
                                     to_bus_text(text).c_str());
}

std::unique_ptr<Authorizer::Check> Authorizer::take(Check& check) {
    const auto at = std::find_if(checks_.begin(), checks_.end(),
                                 [&](const auto& other) { return other.get() == &check; });
    auto taken = std::move(*at);
    checks_.erase(at);
    return taken;
}

} // namespace nvmaint::bus
