#include "peers.hpp"

#include <algorithm>
#include <cstdarg>
#include <poll.h>
#include <system_error>
#include <unistd.h>

namespace nvmaint::bus_test {

namespace {

using Clock = std::chrono::steady_clock;

// Who asks as somebody else can only be asked where we are root.
class AsUser {
  public:
    explicit AsUser(uid_t uid) : changed_(geteuid() == 0 && uid != 0 && seteuid(uid) == 0) {}
    AsUser(const AsUser&) = delete;
    AsUser& operator=(const AsUser&) = delete;
    ~AsUser() {
        if (changed_ && seteuid(0) != 0) {
            abort();
        }
    }

  private:
    bool changed_;
};

} // namespace

bool Pump::until(const std::function<bool()>& condition) {
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (Clock::now() < deadline) {
        bool moved = false;
        for (sd_bus* bus : std::vector<sd_bus*>(buses_)) {
            while (sd_bus_process(bus, nullptr) > 0) {
                moved = true;
            }
        }
        if (condition()) {
            return true;
        }
        if (moved) {
            continue;
        }
        std::vector<pollfd> fds;
        int wait_ms = 1000;
        for (sd_bus* bus : buses_) {
            const int events = sd_bus_get_events(bus);
            if (events < 0) {
                continue; // closed
            }
            fds.push_back({sd_bus_get_fd(bus), static_cast<short>(events), 0});
            std::uint64_t due = UINT64_MAX; // CLOCK_MONOTONIC in microseconds
            if (sd_bus_get_timeout(bus, &due) >= 0 && due != UINT64_MAX) {
                const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
                                     Clock::now().time_since_epoch())
                                     .count();
                const auto left = static_cast<std::int64_t>(due) - now;
                wait_ms = static_cast<int>(std::clamp<std::int64_t>(left / 1000 + 1, 0, wait_ms));
            }
        }
        (void)poll(fds.data(), fds.size(), std::min(wait_ms, 100));
    }
    return condition();
}

void Pump::settle() {
    for (int round = 0; round < 2; ++round) {
        std::size_t missing = 0;
        const auto on_pong = [](sd_bus_message*, void* userdata, sd_bus_error*) {
            --*static_cast<std::size_t*>(userdata);
            return 0;
        };
        for (sd_bus* bus : buses_) {
            if (sd_bus_call_method_async(bus, nullptr, "org.freedesktop.DBus",
                                         "/org/freedesktop/DBus", "org.freedesktop.DBus.Peer",
                                         "Ping", on_pong, &missing, nullptr) >= 0) {
                ++missing;
            }
        }
        ASSERT_TRUE(until([&] { return missing == 0; }));
    }
}

Peer::Peer(Pump& pump, const std::string& address, uid_t uid) : pump_(pump) {
    const AsUser as(uid);
    sd_bus* bus = nullptr;
    EXPECT_GE(sd_bus_new(&bus), 0);
    bus_.reset(bus);
    EXPECT_GE(sd_bus_set_address(bus, address.c_str()), 0);
    EXPECT_GE(sd_bus_set_bus_client(bus, 1), 0);
    EXPECT_GE(sd_bus_start(bus), 0);
    pump_.add(bus);
    EXPECT_TRUE(pump_.until([&] { return sd_bus_is_ready(bus) > 0; }));
}

Peer::~Peer() {
    pump_.remove(bus_.get());
}

Message Peer::new_call(const std::string& path, const char* interface, const char* member,
                       const char* destination) {
    sd_bus_message* raw = nullptr;
    EXPECT_GE(
        sd_bus_message_new_method_call(bus(), &raw, destination, path.c_str(), interface, member),
        0);
    return Message(raw);
}

Peer::Pending Peer::send(const Message& call) {
    const auto answer = std::make_shared<Answer>();
    const auto on_reply = [](sd_bus_message* reply, void* userdata, sd_bus_error*) {
        Answer& a = **static_cast<Pending*>(userdata);
        a.there = true;
        if (const sd_bus_error* error = sd_bus_message_get_error(reply)) {
            a.error = error->name;
            a.text = error->message != nullptr ? error->message : "";
        }
        a.message.reset(sd_bus_message_ref(reply));
        return 0;
    };
    // The slot owns its share of the answer, and is dropped with the connection at the latest.
    sd_bus_slot* slot = nullptr;
    auto* held = new Pending(answer);
    const int r = sd_bus_call_async(bus(), &slot, call.get(), on_reply, held, UINT64_MAX);
    if (r < 0) {
        delete held;
        ADD_FAILURE() << "cannot send: " << std::generic_category().message(-r);
        return answer;
    }
    (void)sd_bus_slot_set_destroy_callback(
        slot, [](void* userdata) { delete static_cast<Pending*>(userdata); });
    (void)sd_bus_slot_set_floating(slot, 1);
    sd_bus_slot_unref(slot);
    return answer;
}

Peer::Pending Peer::call(const Message& message) {
    Pending answer = send(message);
    EXPECT_TRUE(pump_.until([&] { return answer->there; })) << "no answer";
    return answer;
}

Peer::Pending Peer::call(const std::string& path, const char* interface, const char* member,
                         const char* types, ...) {
    const Message message = new_call(path, interface, member);
    va_list arguments;
    va_start(arguments, types);
    EXPECT_GE(sd_bus_message_appendv(message.get(), types, arguments), 0);
    va_end(arguments);
    return call(message);
}

Message Peer::property(const std::string& path, const std::string& interface,
                       const std::string& name, const char* type) {
    const Pending answer = call(path, kProperties, "Get", "ss", interface.c_str(), name.c_str());
    EXPECT_EQ(answer->error, "") << name << ": " << answer->text;
    EXPECT_GT(sd_bus_message_enter_container(answer->message.get(), 'v', type), 0)
        << name << " is not of type " << type;
    return std::move(answer->message);
}

std::string Peer::text_property(const std::string& path, const std::string& interface,
                                const std::string& name) {
    const Message value = property(path, interface, name, "s");
    const char* text = "";
    EXPECT_GT(sd_bus_message_read(value.get(), "s", &text), 0) << name;
    return text;
}

int Peer::on_signal(sd_bus_message* message, void* userdata, sd_bus_error*) {
    const auto text = [](const char* maybe) { return std::string(maybe != nullptr ? maybe : ""); };
    static_cast<Peer*>(userdata)->signals_.push_back(
        {text(sd_bus_message_get_path(message)), text(sd_bus_message_get_interface(message)),
         text(sd_bus_message_get_member(message)), Message(sd_bus_message_ref(message))});
    return 0;
}

void Peer::listen() {
    const auto on_installed = [](sd_bus_message*, void*, sd_bus_error*) { return 0; };
    ASSERT_GE(sd_bus_add_match_async(bus(), nullptr,
                                     "type='signal',sender='org.nvmaint1',"
                                     "path_namespace='/org/nvmaint1'",
                                     on_signal, on_installed, this),
              0);
    pump_.settle();
}

Message trim_call(Peer& peer, const std::string& mount, bool interactive) {
    Message call = peer.new_call(kRoot, kManager, "Trim");
    EXPECT_GE(sd_bus_message_append(call.get(), "sa{sv}", mount.c_str(), 0), 0);
    EXPECT_GE(sd_bus_message_set_allow_interactive_authorization(call.get(), interactive), 0);
    return call;
}

// ---- polkit

// No vtable: sd-bus would hold the mock to the declared signatures, and a test wants it not to be.
MockPolkit::MockPolkit(Pump& pump, const std::string& address, Says says)
    : says_(says), peer_(pump, address, 0) {
    EXPECT_GE(sd_bus_add_object(peer_.bus(), nullptr, "/org/freedesktop/PolicyKit1/Authority",
                                on_call, this),
              0);
    EXPECT_GE(sd_bus_request_name(peer_.bus(), "org.freedesktop.PolicyKit1", 0), 0);
}

int MockPolkit::on_call(sd_bus_message* call, void* userdata, sd_bus_error* error) {
    constexpr const char* kAuthority = "org.freedesktop.PolicyKit1.Authority";
    if (sd_bus_message_is_method_call(call, kAuthority, "CheckAuthorization") > 0) {
        EXPECT_STREQ(sd_bus_message_get_signature(call, 1), "(sa{sv})sa{ss}us");
        return on_check(call, userdata, error);
    }
    if (sd_bus_message_is_method_call(call, kAuthority, "CancelCheckAuthorization") > 0) {
        return on_cancel(call, userdata, error);
    }
    return 0;
}

int MockPolkit::on_check(sd_bus_message* call, void* userdata, sd_bus_error*) {
    auto& self = *static_cast<MockPolkit*>(userdata);
    Check check;
    const char* kind = nullptr;
    const char* key = nullptr;
    const char* text = nullptr;
    EXPECT_GE(sd_bus_message_enter_container(call, 'r', "sa{sv}"), 0);
    EXPECT_GE(sd_bus_message_read(call, "s", &kind), 0);
    EXPECT_STREQ(kind, "system-bus-name");
    EXPECT_GE(sd_bus_message_read(call, "a{sv}", 1, &key, "s", &text), 0);
    EXPECT_STREQ(key, "name");
    check.sender = text;
    EXPECT_GE(sd_bus_message_exit_container(call), 0);
    EXPECT_GE(sd_bus_message_read(call, "s", &text), 0);
    check.action = text;
    EXPECT_GE(sd_bus_message_enter_container(call, 'a', "{ss}"), 0);
    while (sd_bus_message_read(call, "{ss}", &key, &text) > 0) {
        check.details[key] = text;
    }
    EXPECT_GE(sd_bus_message_exit_container(call), 0);
    EXPECT_GE(sd_bus_message_read(call, "us", &check.flags, &text), 0);
    check.cancellation_id = text;
    check.call.reset(sd_bus_message_ref(call));
    self.checks_.push_back(std::move(check));
    self.answer(self.checks_.size() - 1, self.says_);
    return 1;
}

int MockPolkit::on_cancel(sd_bus_message* call, void* userdata, sd_bus_error*) {
    const char* id = nullptr;
    EXPECT_GE(sd_bus_message_read(call, "s", &id), 0);
    static_cast<MockPolkit*>(userdata)->cancelled_.emplace_back(id);
    return sd_bus_reply_method_return(call, "");
}

void MockPolkit::answer(std::size_t index, Says says) {
    sd_bus_message* call = checks_[index].call.get();
    const bool may_ask = (checks_[index].flags & 1) != 0;
    const auto reply = [&](int authorized, int challenge) {
        (void)sd_bus_reply_method_return(call, "(bba{ss})", authorized, challenge, 0);
    };
    switch (says) {
    case Says::Yes:
        return reply(1, 0);
    case Says::No:
        return reply(0, 0);
    case Says::AskAnAgent:
        return may_ask ? reply(1, 0) : reply(0, 1);
    case Says::NoAgent:
        return reply(0, 1);
    case Says::Dismissed:
        (void)sd_bus_reply_method_return(call, "(bba{ss})", 0, 0, 1, "polkit.dismissed", "true");
        return;
    case Says::Nothing:
        return;
    case Says::Error:
        (void)sd_bus_reply_method_errorf(call, "org.freedesktop.PolicyKit1.Error.Failed",
                                         "Action org.nvmaint1.trim is not registered");
        return;
    case Says::Nonsense:
        (void)sd_bus_reply_method_return(call, "s", "maybe");
        return;
    }
}

// ---- the service

void OnBus::SetUp() {
    if (daemon_.is_missing()) {
        GTEST_SKIP() << daemon_.problem();
    }
    ASSERT_EQ(daemon_.problem(), "");
    model_.version = "0.1.0";
    model_.mode = "observe";
    model_.doctor_json = "{}";
}

void OnBus::TearDown() {
    server_.reset();
    service_.reset();
}

void OnBus::start(bus::PolkitPatience patience) {
    service_ = std::make_unique<Peer>(pump_, daemon_.address(), 0);
    Result<std::unique_ptr<bus::Server>> made = bus::Server::create(
        service_->bus(), model_, handler_, "org.freedesktop.PolicyKit1", patience);
    ASSERT_TRUE(made) << made.error().text();
    server_ = std::move(*made);
    const Result<Done> named = server_->request_name();
    ASSERT_TRUE(named) << named.error().text();
}

std::unique_ptr<Peer> OnBus::client(uid_t uid) {
    return std::make_unique<Peer>(pump_, daemon_.address(), uid);
}

core::DriveView a_drive() {
    return {
        .name = "nvme0",
        .model = "KXG60ZNV1T02 TOSHIBA",
        .firmware = "10604107",
        .serial = "X9SA10AAAAAA",
        .disks = {"nvme0n1"},
        .drive_class = "client",
        .flush_source = "diskstats",
        .flush_source_why = "no module is loaded",
        .health = "ok",
        .flush_median_ms = 2.291,
        .flush_last_ms = 2.5,
    };
}

core::FilesystemView a_filesystem() {
    return {
        .mount = "/var/lib/db",
        .mounts = {"/var/lib/db", "/srv/chroot/var/lib/db"},
        .source = "/dev/mapper/vg0-db",
        .type = "ext4",
        .uuid = "0b1c6f3a-5a55-4a3d-9f5a-77d1d2b3c4d5",
        .stack = {"dm-0", "nvme0n1p2", "nvme0n1"},
        .disks = {"nvme0n1"},
        .trim = core::TrimState::NotCovered,
        .tier = 1,
        .why = "fstrim reads /etc/fstab, and it is not there",
    };
}

core::Finding a_finding() {
    return {
        .id = "trim.not-covered",
        .reason = "not-in-fstab",
        .severity = core::Severity::Warning,
        .subject = {core::SubjectKind::Filesystem, "/var/lib/db"},
        .layer = "dm-0",
        .summary = "fstrim.service never trims /var/lib/db",
        .evidence = {{"etc/fstab", "has no line for /var/lib/db"}},
        .fix = {"fstrim -v /var/lib/db"},
        .since = core::WallTime(std::chrono::seconds(1796071653)), // 2026-11-30T20:47:33Z
    };
}

core::TrimRecord a_trim() {
    return {
        .mount = "/var/lib/db",
        .fs_uuid = "0b1c6f3a-5a55-4a3d-9f5a-77d1d2b3c4d5",
        .disks = {"nvme0n1"},
        .started = core::WallTime(std::chrono::seconds(1796071653)),
        .ended = core::WallTime(std::chrono::seconds(1796071700)),
        .complete = true,
        .outcome = "done",
        .requested_bytes = 842729443328,
        .discarded_bytes = 842729000000,
        .effect = core::TrimEffect{.verdict = core::EffectVerdict::Helped,
                                   .before = {},
                                   .after = {},
                                   .confidence = 0.99,
                                   .why = "stalls ended"},
    };
}

} // namespace nvmaint::bus_test
