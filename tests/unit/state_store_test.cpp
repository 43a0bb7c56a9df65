#include "state/atomic_file.hpp"
#include "state/state_json.hpp"
#include "state/state_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nvmaint::state {
namespace {

namespace fs = std::filesystem;
using core::WallTime;
using std::chrono::microseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

WallTime at(std::int64_t us) {
    return WallTime{microseconds{us}};
}

core::TrimRecord full_record() {
    core::TrimRecord record;
    record.mount = std::string("/srv/\xff odd \"\\\n\x01 m\xc3\xa4", 18);
    record.fs_uuid = "1b9f0d5e";
    record.disks = {"nvme0n1", "nvme1n1"};
    record.started = at(1796000000123456);
    record.ended = at(1796000100000001);
    record.complete = true;
    record.outcome = "done";
    record.requested_bytes = std::numeric_limits<std::uint64_t>::max();
    record.discarded_bytes = 842729443328;
    record.effect = core::TrimEffect{core::EffectVerdict::Helped,
                                     {seconds{180}, 7200, 2.1, 16.9, 18.25, 900, 5, 40.1},
                                     {seconds{120}, 4800, 2.0 / 3, 2.7, 8, 0, 0, 39.9},
                                     0.952,
                                     "5 stalls before, none after"};
    return record;
}

core::TrimMarker marker() {
    return {"/var/lib/db", "uuid", {"nvme0n1"}, {"S1"}, "boot", at(1796000000000000), 1U << 30U};
}

std::map<std::string, core::FlushBaseline> baselines() {
    return {{"KXG60 S1", {2.29, 100000, at(1796000000000000), "AGGA", "diskstats"}},
            {"\xfe", {0.05, 1, at(-1), "", "diskstats"}}};
}

class StateStore : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "nvmaint-state-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    void TearDown() override {
        std::error_code ignored;
        fs::remove_all(directory_, ignored);
    }
    [[nodiscard]] std::string path(const std::string& name) const {
        return directory_ + "/" + name;
    }
    [[nodiscard]] std::string content(const std::string& name) const {
        std::ifstream file(path(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary | std::ios::trunc) << text;
    }
    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (const auto& entry : fs::directory_iterator(directory_)) {
            all.push_back(entry.path().filename().string());
        }
        std::sort(all.begin(), all.end());
        return all;
    }
    std::string directory_;
};

// Runs `act` as a user to whom permissions apply. False where that is not possible.
template <class Act>
bool without_privilege(Act act) {
    if (geteuid() != 0) {
        act();
        return true;
    }
    if (seteuid(65534) != 0) {
        return false;
    }
    act();
    return seteuid(0) == 0;
}

TEST_F(StateStore, AnAbsentFolderIsAnEmptyState) {
    const Loaded loaded = load_state(directory_ + "/gone");
    EXPECT_THAT(loaded.trims, IsEmpty());
    EXPECT_THAT(loaded.baselines, IsEmpty());
    EXPECT_EQ(loaded.marker, std::nullopt);
    EXPECT_FALSE(loaded.marker_lost);
    EXPECT_THAT(loaded.problems, IsEmpty());
}

TEST_F(StateStore, GivesBackWhatWasSaved) {
    core::TrimRecord bare;
    bare.mount = "/";
    bare.outcome = "interrupted";
    const std::vector<core::TrimRecord> trims{full_record(), bare};
    ASSERT_TRUE(save_trims(directory_, trims));
    ASSERT_TRUE(save_baselines(directory_, baselines()));
    ASSERT_TRUE(save_marker(directory_, marker()));
    const Loaded loaded = load_state(directory_);
    EXPECT_EQ(loaded.trims, trims);
    EXPECT_EQ(loaded.baselines, baselines());
    EXPECT_EQ(loaded.marker, marker());
    EXPECT_THAT(loaded.problems, IsEmpty());
    EXPECT_THAT(names(), ElementsAre("baselines.json", "trim-marker.json", "trims.json"));
}

TEST_F(StateStore, GivesBackEachVerdict) {
    for (core::EffectVerdict verdict :
         {core::EffectVerdict::Helped, core::EffectVerdict::NoChange, core::EffectVerdict::Worse,
          core::EffectVerdict::NotComparable}) {
        core::TrimRecord record = full_record();
        record.effect->verdict = verdict;
        ASSERT_TRUE(save_trims(directory_, {record}));
        EXPECT_THAT(load_state(directory_).trims, ElementsAre(record));
    }
}

TEST_F(StateStore, KeepsTheNewestFiveHundredTrims) {
    for (std::size_t count : {std::size_t{499}, std::size_t{500}, std::size_t{501}}) {
        std::vector<core::TrimRecord> trims(count);
        for (std::size_t i = 0; i < count; ++i) {
            trims[i].requested_bytes = i;
        }
        ASSERT_TRUE(save_trims(directory_, trims));
        const Loaded loaded = load_state(directory_);
        ASSERT_EQ(loaded.trims.size(), std::min<std::size_t>(count, 500));
        EXPECT_EQ(loaded.trims.back().requested_bytes, count - 1);
    }
}

TEST_F(StateStore, IsForItsOwnerOnly) {
    const mode_t old = umask(0);
    ASSERT_TRUE(save_marker(directory_, marker()));
    umask(old);
    struct stat status {};
    ASSERT_EQ(stat(path("trim-marker.json").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST_F(StateStore, ClearsAMarkerAndOneThatIsNotThere) {
    ASSERT_TRUE(save_marker(directory_, marker()));
    EXPECT_TRUE(clear_marker(directory_));
    EXPECT_TRUE(clear_marker(directory_));
    EXPECT_EQ(load_state(directory_).marker, std::nullopt);
    EXPECT_THAT(names(), IsEmpty());
}

// A file that ends anywhere before its last brace is no state, wherever it ends.
TEST_F(StateStore, MovesAFileAsideThatIsCutOffAtAnyLength) {
    ASSERT_TRUE(save_trims(directory_, {full_record()}));
    const std::string whole = content("trims.json");
    const std::size_t brace = whole.rfind('}');
    for (std::size_t length = 0; length <= brace; ++length) {
        write("trims.json", whole.substr(0, length));
        const Loaded loaded = load_state(directory_);
        ASSERT_THAT(loaded.trims, IsEmpty()) << length;
        ASSERT_THAT(loaded.problems, ElementsAre(HasSubstr("moved aside to"))) << length;
        ASSERT_FALSE(fs::exists(path("trims.json")));
        ASSERT_EQ(content("trims.json.corrupt-1"), whole.substr(0, length));
        fs::remove(path("trims.json.corrupt-1"));
    }
}

TEST_F(StateStore, DamagedFilesNeverLoadAsSomethingUnreadable) {
    ASSERT_TRUE(save_trims(directory_, {full_record()}));
    const std::string whole = content("trims.json");
    std::mt19937 random(5);
    for (int round = 0; round < 3000; ++round) {
        std::string damaged = whole;
        for (std::size_t i = random() % 4 + 1; i > 0; --i) {
            damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
        }
        // Decoded, or refused in one line of words.
        const auto trims = decode_trims(damaged);
        if (trims) {
            EXPECT_TRUE(encode_trims(*trims)) << damaged;
        } else {
            EXPECT_FALSE(trims.error().text().empty());
        }
    }
}

TEST_F(StateStore, EachCorruptFileGetsANameOfItsOwn) {
    for (int n = 1; n <= 3; ++n) {
        write("baselines.json", "broken " + std::to_string(n));
        EXPECT_THAT(load_state(directory_).problems,
                    ElementsAre(HasSubstr("baselines.json.corrupt-" + std::to_string(n))));
    }
    EXPECT_EQ(content("baselines.json.corrupt-1"), "broken 1");
    EXPECT_EQ(content("baselines.json.corrupt-3"), "broken 3");
}

TEST_F(StateStore, OneCorruptFileDoesNotCostTheOthers) {
    ASSERT_TRUE(save_trims(directory_, {full_record()}));
    ASSERT_TRUE(save_marker(directory_, marker()));
    write("baselines.json", "{}");
    const Loaded loaded = load_state(directory_);
    EXPECT_EQ(loaded.trims.size(), 1U);
    EXPECT_TRUE(loaded.marker);
    EXPECT_EQ(loaded.problems.size(), 1U);
}

TEST_F(StateStore, AMarkerThatCannotBeUsedIsToldFromNone) {
    write("trim-marker.json", "{\"schema\": 1}");
    const Loaded loaded = load_state(directory_);
    EXPECT_EQ(loaded.marker, std::nullopt);
    EXPECT_TRUE(loaded.marker_lost);
    EXPECT_TRUE(load_state(directory_).marker_lost) << "it stays until a new trim takes its place";
    ASSERT_TRUE(save_marker(directory_, marker()));
    EXPECT_FALSE(load_state(directory_).marker_lost);
}

class WrongState : public testing::TestWithParam<const char*> {};
TEST_P(WrongState, IsRefused) {
    const auto trims = decode_trims(GetParam());
    ASSERT_FALSE(trims);
    EXPECT_EQ(trims.error().kind, ErrorKind::Malformed) << GetParam();
}
INSTANTIATE_TEST_SUITE_P(
    Each, WrongState,
    testing::Values("", " ", "null", "[]", "1", "{", "{}", "{\"schema\": \"1\", \"trims\": []}",
                    "{\"schema\": 1.0, \"trims\": []}", "{\"schema\": 0, \"trims\": []}",
                    "{\"schema\": -1, \"trims\": []}", "{\"schema\": 1}",
                    "{\"schema\": 1, \"trims\": {}}", "{\"schema\": 1, \"trims\": [1]}",
                    "{\"schema\": 1, \"trims\": [{}]}", "{\"schema\": 1, \"trims\": []} trailing"));

TEST(StateJson, NamesThePlaceOfWhatIsWrong) {
    std::string text = encode_trims({core::TrimRecord{}, full_record()}).value();
    text.replace(text.find("7200"), 4, "-720");
    const auto trims = decode_trims(text);
    ASSERT_FALSE(trims);
    EXPECT_EQ(trims.error().text(), "trims[1]: effect: before: flushes: not a whole number");
}

TEST(StateJson, RefusesNumbersThatAreNotFinite) {
    core::TrimRecord record = full_record();
    record.effect->after.p99_ms = std::nan("");
    EXPECT_FALSE(encode_trims({record}));
    EXPECT_FALSE(encode_baselines({{"x", {.median_ms = INFINITY}}}));
}

TEST(StateJson, DeepNestingIsRefusedWithoutRecursion) {
    EXPECT_FALSE(decode_trims(std::string(1000000, '[')));
    EXPECT_FALSE(decode_trims("{\"schema\": 1, \"trims\": " + std::string(1000000, '[') +
                              std::string(1000000, ']') + "}"));
}

TEST_F(StateStore, AFileOfANewerVersionIsLeftAloneAndNeverOverwritten) {
    const std::string newer = "{\"schema\": 2, \"marker\": {\"all\": \"new\"}}";
    for (const char* name : {"trims.json", "baselines.json", "trim-marker.json"}) {
        write(name, newer);
    }
    const Loaded loaded = load_state(directory_);
    EXPECT_EQ(loaded.problems.size(), 3U);
    EXPECT_THAT(loaded.problems[0], AllOf(HasSubstr("newer version"), HasSubstr("left alone")));
    EXPECT_TRUE(loaded.marker_lost);
    for (const Result<Done>& saved :
         {save_trims(directory_, {}), save_baselines(directory_, {}),
          save_marker(directory_, marker()), clear_marker(directory_)}) {
        ASSERT_FALSE(saved);
        EXPECT_EQ(saved.error().kind, ErrorKind::Denied);
    }
    for (const char* name : {"trims.json", "baselines.json", "trim-marker.json"}) {
        EXPECT_EQ(content(name), newer);
    }
    EXPECT_EQ(names().size(), 3U);
}

TEST_F(StateStore, AFileThatWentBadWhileRunningIsMovedAsideBeforeItIsReplaced) {
    write("trims.json", "went bad");
    ASSERT_TRUE(save_trims(directory_, {full_record()}));
    EXPECT_EQ(content("trims.json.corrupt-1"), "went bad");
    EXPECT_THAT(load_state(directory_).trims, ElementsAre(full_record()));
}

TEST_F(StateStore, AFolderInPlaceOfAFileIsMovedAside) {
    fs::create_directory(path("trims.json"));
    EXPECT_THAT(load_state(directory_).problems, ElementsAre(HasSubstr("not a regular file")));
    EXPECT_TRUE(fs::is_directory(path("trims.json.corrupt-1")));
}

TEST_F(StateStore, AFileFarTooLargeIsMovedAside) {
    write("trims.json", "");
    fs::resize_file(path("trims.json"), (std::uintmax_t{16} << 20U) + 1);
    EXPECT_THAT(load_state(directory_).problems, ElementsAre(HasSubstr("larger than")));
}

TEST_F(StateStore, AMissingFolderIsAnErrorOfSaving) {
    const Result<Done> saved = save_marker(directory_ + "/gone", marker());
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().sys_errno, ENOENT);
}

TEST_F(StateStore, AFolderThatIsReadOnlyIsAnErrorAndKeepsTheOldState) {
    ASSERT_TRUE(save_trims(directory_, {full_record()}));
    ASSERT_EQ(chmod(path("trims.json").c_str(), 0644), 0);
    ASSERT_EQ(chmod(directory_.c_str(), 0555), 0);
    Result<Done> saved = Done{};
    Loaded loaded;
    if (!without_privilege([&] {
            saved = save_trims(directory_, {});
            loaded = load_state(directory_);
        })) {
        GTEST_SKIP() << "root writes everywhere, and the identity cannot be dropped here";
    }
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().sys_errno, EACCES);
    EXPECT_THAT(loaded.trims, ElementsAre(full_record()));
}

TEST_F(StateStore, ACorruptFileInAReadOnlyFolderIsToldAndStays) {
    write("trims.json", "broken");
    ASSERT_EQ(chmod(directory_.c_str(), 0555), 0);
    Loaded loaded;
    if (!without_privilege([&] { loaded = load_state(directory_); })) {
        GTEST_SKIP() << "root writes everywhere, and the identity cannot be dropped here";
    }
    EXPECT_THAT(loaded.problems, ElementsAre(AllOf(HasSubstr("not JSON"), HasSubstr("moving"))));
    EXPECT_EQ(content("trims.json"), "broken");
}

TEST_F(StateStore, AFileThatCannotBeReadIsLeftAloneAndNotOverwritten) {
    ASSERT_TRUE(save_trims(directory_, {full_record()}));
    ASSERT_EQ(chmod(path("trims.json").c_str(), 0), 0);
    ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
    Loaded loaded;
    Result<Done> saved = Done{};
    if (!without_privilege([&] {
            loaded = load_state(directory_);
            saved = save_trims(directory_, {});
        })) {
        GTEST_SKIP() << "root reads everything, and the identity cannot be dropped here";
    }
    EXPECT_THAT(loaded.problems, ElementsAre(HasSubstr("left alone")));
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().sys_errno, EACCES);
    ASSERT_EQ(chmod(path("trims.json").c_str(), 0600), 0);
    EXPECT_THAT(load_state(directory_).trims, ElementsAre(full_record()));
}

// A limit on the size of files breaks a write off in the middle, as a full disk does.
TEST_F(StateStore, AWriteThatBreaksOffIsAnErrorAndKeepsTheOldState) {
    ASSERT_TRUE(save_trims(directory_, {full_record()}));
    rlimit old{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit small = old;
    small.rlim_cur = 4096;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const Result<Done> saved =
        save_trims(directory_, std::vector<core::TrimRecord>(100, full_record()));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)std::signal(SIGXFSZ, old_handler);
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().sys_errno, EFBIG);
    EXPECT_THAT(saved.error().text(), HasSubstr("trims.json"));
    EXPECT_THAT(load_state(directory_).trims, ElementsAre(full_record()));
    EXPECT_THAT(names(), ElementsAre("trims.json"));
}

// Whoever may write to the folder could point it at a device or at somebody's file.
TEST_F(StateStore, ALinkInPlaceOfTheTemporaryFileIsNotFollowed) {
    write("victim", "untouched");
    fs::create_symlink("victim", path(".trims.json.tmp"));
    EXPECT_TRUE(save_trims(directory_, {full_record()}));
    EXPECT_EQ(content("victim"), "untouched");
    EXPECT_THAT(names(), ElementsAre("trims.json", "victim"));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path("trims.json"))));
}

TEST_F(StateStore, ATemporaryFileOfAnEarlierRunIsNoHindrance) {
    write(".trim-marker.json.tmp", "half");
    ASSERT_TRUE(save_marker(directory_, marker()));
    EXPECT_EQ(load_state(directory_).marker, marker());
    EXPECT_THAT(names(), ElementsAre("trim-marker.json"));
}

TEST_F(StateStore, ReplaceFileWritesWholeFilesWithTheirMode) {
    ASSERT_TRUE(replace_file(path("metrics.prom"), "one\n", 0644));
    ASSERT_TRUE(replace_file(path("metrics.prom"), "two\n", 0644));
    EXPECT_EQ(content("metrics.prom"), "two\n");
    struct stat status {};
    ASSERT_EQ(stat(path("metrics.prom").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0644U);
    EXPECT_THAT(names(), ElementsAre("metrics.prom"));
    EXPECT_EQ(replace_file(directory_ + "/gone/x", "", 0644).error().sys_errno, ENOENT);
}

} // namespace
} // namespace nvmaint::state
