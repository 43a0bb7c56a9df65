// Who may change something. The calls here run against a mock of polkit; root's do not.
#include "peers.hpp"

#include <algorithm>
#include <unistd.h>

namespace nvmaint::bus_test {

namespace {

using Says = MockPolkit::Says;
using std::chrono::milliseconds;

constexpr const char* kJob = "org.nvmaint1.Job";
constexpr const char* kJobPath = "/org/nvmaint1/job/7";

// Users 1 to 5 of every Debian host (base-passwd); the bus does not let in a uid without a name.
constexpr uid_t kOtherUsers = 1;

} // namespace

class Authorization : public OnBus {
  protected:
    void polkit(Says says) {
        polkit_ = std::make_unique<MockPolkit>(pump_, daemon_.address(), says);
    }
    void TearDown() override {
        OnBus::TearDown();
        polkit_.reset();
    }

    std::unique_ptr<MockPolkit> polkit_;
};

#define SKIP_UNLESS_ROOT()                                                                         \
    if (geteuid() != 0) {                                                                          \
        GTEST_SKIP() << "needs root, to call as uid 0";                                            \
    }                                                                                              \
    static_assert(true)

TEST_F(Authorization, RootNeedsNoPolkit) {
    SKIP_UNLESS_ROOT();
    start(); // nobody owns polkit's name
    const auto peer = client();
    const Peer::Pending answer = peer->call(trim_call(*peer, "/var/lib/db"));
    ASSERT_EQ(answer->error, "");
    const char* job = nullptr;
    ASSERT_GT(sd_bus_message_read(answer->message.get(), "o", &job), 0);
    EXPECT_STREQ(job, kJobPath);
    EXPECT_EQ(peer->call(kRoot, kManager, "Reload")->error, "");
    EXPECT_EQ(handler_.trims.size(), 1U);
    EXPECT_EQ(handler_.reloads, 1U);
}

TEST_F(Authorization, RootIsNotAskedAbout) {
    SKIP_UNLESS_ROOT();
    polkit(Says::No);
    start();
    const auto peer = client();
    EXPECT_EQ(peer->call(trim_call(*peer, "/", true))->error, "");
    EXPECT_TRUE(polkit_->checks().empty());
}

TEST_F(Authorization, OthersAreRefusedWherePolkitIsAbsent) {
    start();
    const auto peer = user();
    const Peer::Pending answer = peer->call(trim_call(*peer, "/var/lib/db", true));
    EXPECT_EQ(answer->error, SD_BUS_ERROR_ACCESS_DENIED);
    EXPECT_NE(answer->text.find("polkit is not there"), std::string::npos) << answer->text;
    EXPECT_TRUE(handler_.trims.empty());
}

TEST_F(Authorization, PolkitIsToldWhoAsksForWhat) {
    polkit(Says::Yes);
    start();
    const auto peer = user();
    ASSERT_EQ(peer->call(trim_call(*peer, "/var/lib/db"))->error, "");
    ASSERT_EQ(polkit_->checks().size(), 1U);
    const MockPolkit::Check& check = polkit_->checks()[0];
    const char* name = nullptr;
    ASSERT_GE(sd_bus_get_unique_name(peer->bus(), &name), 0);
    EXPECT_EQ(check.sender, name);
    EXPECT_EQ(check.action, "org.nvmaint1.trim");
    EXPECT_EQ(check.details, (std::map<std::string, std::string>{{"mount", "/var/lib/db"}}));
    EXPECT_EQ(check.flags, 0U);
    EXPECT_NE(check.cancellation_id, "");
    EXPECT_EQ(handler_.trims, (std::vector<FakeHandler::TrimCall>{{"/var/lib/db", {}}}));
}

TEST_F(Authorization, EachVerbHasItsAction) {
    polkit(Says::Yes);
    model_.jobs = {{.id = 7,
                    .kind = "trim",
                    .subject = "/srv",
                    .state = "running",
                    .progress = 0,
                    .result = {}}};
    start();
    const auto peer = user();
    EXPECT_EQ(peer->call(kRoot, kManager, "Reload")->error, "");
    EXPECT_EQ(peer->call(kJobPath, kJob, "Cancel")->error, "");
    ASSERT_EQ(polkit_->checks().size(), 2U);
    EXPECT_EQ(polkit_->checks()[0].action, "org.nvmaint1.reload");
    EXPECT_EQ(polkit_->checks()[1].action, "org.nvmaint1.trim");
    EXPECT_EQ(polkit_->checks()[1].details.at("mount"), "/srv");
    EXPECT_EQ(handler_.reloads, 1U);
    EXPECT_EQ(handler_.cancelled, (std::vector<std::uint64_t>{7}));
}

TEST_F(Authorization, ReadingIsNeverAskedAbout) {
    polkit(Says::No);
    model_.diagnosis.drives = {a_drive()};
    start();
    const auto peer = user();
    for (const char* method : {"ListFindings", "Doctor", "ListTrims"}) {
        EXPECT_EQ(peer->call(kRoot, kManager, method)->error, "") << method;
    }
    EXPECT_EQ(peer->call(kRoot, kManager, "FlushSeries", "s", "nvme0n1")->error, "");
    EXPECT_EQ(peer->call(kRoot, kProperties, "GetAll", "s", kManager)->error, "");
    EXPECT_EQ(peer->call(kRoot, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")->error,
              "");
    EXPECT_TRUE(polkit_->checks().empty());
}

TEST_F(Authorization, ChallengeWithoutTheFlagAsksForTheFlag) {
    polkit(Says::AskAnAgent);
    start();
    const auto peer = user();
    const Peer::Pending silent = peer->call(trim_call(*peer, "/", false));
    EXPECT_EQ(silent->error, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED);
    EXPECT_TRUE(handler_.trims.empty());
    const Peer::Pending interactive = peer->call(trim_call(*peer, "/", true));
    EXPECT_EQ(interactive->error, "");
    EXPECT_EQ(polkit_->checks().at(1).flags, 1U);
    EXPECT_EQ(handler_.trims.size(), 1U);
}

TEST_F(Authorization, EveryOtherAnswerIsARefusalWithItsReason) {
    start();
    const auto peer = user();
    const struct {
        Says says;
        const char* text;
    } rows[] = {
        {Says::No, "not authorised"},   {Says::NoAgent, "no agent"},
        {Says::Dismissed, "dismissed"}, {Says::Error, "not registered"},
        {Says::Nonsense, "malformed"},
    };
    polkit(Says::No);
    for (const auto& row : rows) {
        polkit_->say(row.says);
        const Peer::Pending answer = peer->call(trim_call(*peer, "/", true));
        EXPECT_EQ(answer->error, SD_BUS_ERROR_ACCESS_DENIED) << row.text;
        EXPECT_NE(answer->text.find(row.text), std::string::npos) << answer->text;
    }
    EXPECT_TRUE(handler_.trims.empty());
}

TEST_F(Authorization, APolkitThatIsSilentHoldsUpNobodyElse) {
    polkit(Says::Nothing);
    start();
    const auto waiting = user();
    const Peer::Pending trim = waiting->send(trim_call(*waiting, "/", true));
    ASSERT_TRUE(pump_.until([&] { return polkit_->checks().size() == 1; }));
    const auto other = user();
    EXPECT_EQ(other->call(kRoot, kManager, "Doctor")->error, "");
    EXPECT_EQ(waiting->call(kRoot, kManager, "Doctor")->error, "");
    EXPECT_FALSE(trim->there);
    polkit_->answer(0, Says::Yes);
    ASSERT_TRUE(pump_.until([&] { return trim->there; }));
    EXPECT_EQ(trim->error, "");
}

TEST_F(Authorization, PatienceWithPolkitEnds) {
    polkit(Says::Nothing);
    start({.silent = milliseconds(50), .interactive = milliseconds(100)});
    const auto peer = user();
    for (const bool interactive : {false, true}) {
        const Peer::Pending answer = peer->call(trim_call(*peer, "/", interactive));
        EXPECT_EQ(answer->error, SD_BUS_ERROR_ACCESS_DENIED);
        EXPECT_NE(answer->text.find("did not answer"), std::string::npos) << answer->text;
    }
    pump_.settle();
    ASSERT_EQ(polkit_->cancelled().size(), 2U);
    EXPECT_EQ(polkit_->cancelled()[0], polkit_->checks()[0].cancellation_id);
    polkit_->answer(0, Says::Yes); // too late
    pump_.settle();
    EXPECT_TRUE(handler_.trims.empty());
}

TEST_F(Authorization, ACallerThatLeavesTakesItsCallAlong) {
    polkit(Says::Nothing);
    start();
    auto peer = user();
    (void)peer->send(trim_call(*peer, "/", true));
    ASSERT_TRUE(pump_.until([&] { return polkit_->checks().size() == 1; }));
    peer.reset();
    ASSERT_TRUE(pump_.until([&] { return polkit_->cancelled().size() == 1; }));
    EXPECT_EQ(polkit_->cancelled()[0], polkit_->checks()[0].cancellation_id);
    polkit_->answer(0, Says::Yes);
    pump_.settle();
    EXPECT_TRUE(handler_.trims.empty());
    EXPECT_TRUE(is_alive());
}

TEST_F(Authorization, APolkitThatDiesRefuses) {
    polkit(Says::Nothing);
    start();
    const auto peer = user();
    const Peer::Pending answer = peer->send(trim_call(*peer, "/", true));
    ASSERT_TRUE(pump_.until([&] { return polkit_->checks().size() == 1; }));
    polkit_.reset();
    ASSERT_TRUE(pump_.until([&] { return answer->there; }));
    EXPECT_EQ(answer->error, SD_BUS_ERROR_ACCESS_DENIED);
    EXPECT_TRUE(handler_.trims.empty());
}

TEST_F(Authorization, WaitingCallsAreBoundedPerUser) {
    constexpr std::size_t kBound = 16;
    polkit(Says::Nothing);
    start();
    const auto first = user();
    const auto second = user(); // another connection of the same user
    std::vector<Peer::Pending> waiting;
    for (std::size_t i = 0; i < kBound; ++i) {
        Peer& peer = i % 2 == 0 ? *first : *second;
        waiting.push_back(peer.send(trim_call(peer, "/", true)));
    }
    ASSERT_TRUE(pump_.until([&] { return polkit_->checks().size() == kBound; }));
    const Peer::Pending refused = first->call(trim_call(*first, "/", true));
    EXPECT_EQ(refused->error, SD_BUS_ERROR_LIMITS_EXCEEDED);
    EXPECT_EQ(polkit_->checks().size(), kBound);
    // One is answered, one more may wait.
    polkit_->answer(3, Says::No);
    ASSERT_TRUE(pump_.until([&] {
        return std::any_of(waiting.begin(), waiting.end(), [](const auto& w) { return w->there; });
    }));
    (void)first->send(trim_call(*first, "/", true));
    EXPECT_TRUE(pump_.until([&] { return polkit_->checks().size() == kBound + 1; }));
    if (geteuid() == 0) {
        const auto root = client();
        EXPECT_EQ(root->call(trim_call(*root, "/"))->error, "");
        const auto another = client(kOtherUsers);
        (void)another->send(trim_call(*another, "/", true));
        EXPECT_TRUE(pump_.until([&] { return polkit_->checks().size() == kBound + 2; }));
    }
}

TEST_F(Authorization, WaitingCallsAreBoundedInAll) {
    SKIP_UNLESS_ROOT();
    constexpr std::size_t kBound = 64;
    polkit(Says::Nothing);
    start();
    std::vector<std::unique_ptr<Peer>> users;
    for (uid_t i = 0; i < 5; ++i) {
        users.push_back(client(kOtherUsers + i));
    }
    for (std::size_t i = 0; i < kBound; ++i) {
        Peer& peer = *users[i / 16];
        (void)peer.send(trim_call(peer, "/", true));
    }
    ASSERT_TRUE(pump_.until([&] { return polkit_->checks().size() == kBound; }));
    EXPECT_EQ(users[4]->call(trim_call(*users[4], "/", true))->error, SD_BUS_ERROR_LIMITS_EXCEEDED);
    const auto root = client();
    EXPECT_EQ(root->call(trim_call(*root, "/"))->error, "");
}

TEST_F(Authorization, ServerMayEndWhileCallsWait) {
    polkit(Says::Nothing);
    start();
    const auto peer = user();
    (void)peer->send(trim_call(*peer, "/", true));
    ASSERT_TRUE(pump_.until([&] { return polkit_->checks().size() == 1; }));
    (void)peer->send(trim_call(*peer, "/", true)); // on its way to the bus
    server_.reset();
    polkit_->answer(0, Says::Yes);
    pump_.settle();
    EXPECT_TRUE(handler_.trims.empty());
}

TEST_F(Authorization, BusMayEndWhileCallsWait) {
    polkit(Says::Nothing);
    start();
    const auto peer = user();
    (void)peer->send(trim_call(*peer, "/", true));
    ASSERT_TRUE(pump_.until([&] { return polkit_->checks().size() == 1; }));
    daemon_.kill();
    EXPECT_TRUE(pump_.until([&] { return sd_bus_is_open(service_->bus()) <= 0; }));
    EXPECT_TRUE(handler_.trims.empty());
}

TEST_F(Authorization, ACallThatWantsNoReplyIsCarriedOut) {
    polkit(Says::Yes);
    start();
    const auto peer = user();
    const Message call = trim_call(*peer, "/");
    ASSERT_GE(sd_bus_message_set_expect_reply(call.get(), 0), 0);
    ASSERT_GE(sd_bus_send(peer->bus(), call.get(), nullptr), 0);
    EXPECT_TRUE(pump_.until([&] { return handler_.trims.size() == 1; }));
    pump_.settle();
    EXPECT_TRUE(is_alive());
}

// ---- what becomes of an authorised call

class Calls : public Authorization {
  protected:
    void SetUp() override {
        Authorization::SetUp();
        if (IsSkipped() || HasFatalFailure()) {
            return;
        }
        polkit(Says::Yes);
        start();
    }
};

TEST_F(Calls, HandlerErrorsGetTheirNames) {
    const auto peer = user();
    const struct {
        Error error;
        const char* name;
    } rows[] = {
        {Error::make(ErrorKind::Denied, "no discard below dm-0"), "org.nvmaint1.Error.Refused"},
        {Error::make(ErrorKind::Malformed, "no such mount"), SD_BUS_ERROR_INVALID_ARGS},
        {Error::system(EEXIST, "job 3"), "org.nvmaint1.Error.AlreadyRunning"},
        {Error::system(EIO, "fork"), SD_BUS_ERROR_FAILED},
        {Error::make(ErrorKind::Unsupported, "x"), SD_BUS_ERROR_FAILED},
    };
    for (const auto& row : rows) {
        handler_.next_trim = row.error;
        const Peer::Pending answer = peer->call(trim_call(*peer, "/"));
        EXPECT_EQ(answer->error, row.name);
        EXPECT_EQ(answer->text, row.error.text());
        handler_.next_done = row.error;
        EXPECT_EQ(peer->call(kRoot, kManager, "Reload")->error, row.name);
    }
}

TEST_F(Calls, ErrorTextsAreFitForTheBus) {
    handler_.next_trim = Error::make(ErrorKind::Denied, "100 % of \xff is %s");
    const auto peer = user();
    EXPECT_EQ(peer->call(trim_call(*peer, "/"))->text, "100 % of \\xff is %s");
    EXPECT_TRUE(is_alive());
}

TEST_F(Calls, OptionsArriveWidened) {
    const auto peer = user();
    EXPECT_EQ(peer->call(kRoot, kManager, "Trim", "sa{sv}", "/", 6, "a", "b", 1, "b", "y", 7, "c",
                         "u", 8, "d", "x", std::int64_t{-9}, "e", "d", 0.5, "f", "s", "text")
                  ->error,
              "");
    const std::map<std::string, bus::Value> expected{
        {"a", true}, {"b", std::uint64_t{7}},    {"c", std::uint64_t{8}}, {"d", std::int64_t{-9}},
        {"e", 0.5},  {"f", std::string("text")},
    };
    EXPECT_EQ(handler_.trims, (std::vector<FakeHandler::TrimCall>{{"/", expected}}));
}

TEST_F(Calls, OptionsThatCannotBeMeantAreRefusedBeforeAnybodyIsAsked) {
    const auto peer = user();
    for (const auto& answer : {
             peer->call(kRoot, kManager, "Trim", "sa{sv}", "/", 2, "a", "b", 1, "a", "b", 0),
             peer->call(kRoot, kManager, "Trim", "sa{sv}", "/", 1, "a", "as", 1, "x"),
             peer->call(kRoot, kManager, "Trim", "sa{sv}", "/", 1, "a", "o", "/"),
             peer->call(kRoot, kManager, "Trim", "sa{sv}", "relative", 0),
             peer->call(kRoot, kManager, "Trim", "sa{sv}", "", 0),
             peer->call(kRoot, kManager, "Trim", "s", "/"),
         }) {
        EXPECT_EQ(answer->error, SD_BUS_ERROR_INVALID_ARGS) << answer->text;
    }
    EXPECT_TRUE(polkit_->checks().empty());
    EXPECT_TRUE(handler_.trims.empty());
}

TEST_F(Calls, AMountThatIsNoTextIsReachedByWhatItsPropertySays) {
    core::FilesystemView filesystem = a_filesystem();
    filesystem.mounts = {"/mnt/caf\xe9"};
    filesystem.mount = filesystem.mounts[0];
    model_.diagnosis.filesystems = {filesystem};
    server_->publish();
    const auto peer = user();
    EXPECT_EQ(peer->call(trim_call(*peer, "/mnt/caf\\xe9"))->error, "");
    // A mount point that really reads so comes first.
    filesystem.mounts.emplace_back("/mnt/caf\\xe9");
    model_.diagnosis.filesystems = {filesystem};
    EXPECT_EQ(peer->call(trim_call(*peer, "/mnt/caf\\xe9"))->error, "");
    EXPECT_EQ(handler_.trims,
              (std::vector<FakeHandler::TrimCall>{{"/mnt/caf\xe9", {}}, {"/mnt/caf\\xe9", {}}}));
}

TEST_F(Calls, TheJobIsThereWhenItsPathIsTold) {
    const auto peer = user();
    peer->listen();
    model_.jobs = {{.id = 7,
                    .kind = "trim",
                    .subject = "/",
                    .state = "running",
                    .progress = 0,
                    .result = {}}}; // as the handler would leave it
    ASSERT_EQ(peer->call(trim_call(*peer, "/"))->error, "");
    ASSERT_EQ(peer->signals().size(), 1U);
    EXPECT_EQ(peer->signals()[0].member, "InterfacesAdded");
    EXPECT_EQ(peer->text_property(kJobPath, kJob, "State"), "running");
}

TEST_F(Calls, AJobThatIsGoneCannotBeCancelled) {
    const auto peer = user();
    EXPECT_EQ(peer->call(kJobPath, kJob, "Cancel")->error, SD_BUS_ERROR_UNKNOWN_OBJECT);
    EXPECT_TRUE(handler_.cancelled.empty());
}

} // namespace nvmaint::bus_test
