#include "collect/kmod.hpp"

#include "folder.hpp"
#include "uapi/nvmaint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <random>

namespace nvmaint::collect {
namespace {

using core::LatencyClass;
using testing::HasSubstr;

constexpr std::size_t kBuckets = 418;

// As the module writes it: two classes counted, one event.
struct Raw {
    nvmaint_snapshot head{};
    struct Class {
        nvmaint_class_stats stats;
        std::uint64_t buckets[kBuckets];
    } classes[NVMAINT_CLASSES] = {};
    nvmaint_event event{};

    Raw() {
        head.magic = NVMAINT_MAGIC;
        head.size = sizeof(Raw);
        head.header_size = sizeof(nvmaint_snapshot);
        head.class_offset = offsetof(Raw, classes);
        head.class_stride = sizeof(Class);
        head.class_count = NVMAINT_CLASSES;
        head.bucket_offset = offsetof(Class, buckets);
        head.bucket_count = kBuckets;
        head.sub_bits = 4;
        head.min_exponent = 10;
        head.max_exponent = 36;
        head.event_offset = offsetof(Raw, event);
        head.event_stride = sizeof(nvmaint_event);
        head.event_count = 1;
        head.now_ns = 5'000'000'000;
        head.attached_ns = 1'000'000'000;
        head.diskseq = 9;
        head.events = 7;
        head.no_start = 2;
        head.no_slot = 1;
        std::strcpy(head.disk, "nvme0n1");
        auto& flush = classes[NVMAINT_FLUSH];
        flush.stats.count = 3;
        flush.stats.sum_ns = 6'000'000;
        flush.stats.max_ns = 2'100'000;
        flush.stats.in_flight = 1;
        flush.stats.oldest_ns = 400'000'000;
        flush.buckets[175] = 3;
        classes[NVMAINT_READ].stats.errors = 4;
        event = {.number = 7,
                 .start_ns = 4'500'000'000,
                 .duration_ns = 400'000'000,
                 .event_class = NVMAINT_FLUSH,
                 .flags = NVMAINT_EVENT_PENDING,
                 .error = -5,
                 .queue = 0};
    }
    [[nodiscard]] std::vector<std::uint8_t> bytes() const {
        std::vector<std::uint8_t> out(sizeof(Raw));
        std::memcpy(out.data(), this, sizeof(Raw));
        return out;
    }
};

TEST(KmodSnapshot, IsRead) {
    const auto latency = parse_kmod_snapshot(Raw().bytes());
    ASSERT_TRUE(latency) << latency.error().text();
    EXPECT_EQ(latency->disk, "nvme0n1");
    EXPECT_EQ(latency->now, core::seconds{5});
    EXPECT_EQ(latency->attached, core::seconds{1});
    EXPECT_EQ(latency->diskseq, 9U);
    EXPECT_EQ(latency->unseen, 3U);
    EXPECT_FALSE(latency->gone);
    const auto& flush = latency->of(LatencyClass::Flush);
    ASSERT_TRUE(flush);
    EXPECT_EQ(flush->count, 3U);
    EXPECT_EQ(flush->sum, core::milliseconds{6});
    EXPECT_EQ(flush->in_flight, 1U);
    EXPECT_EQ(flush->oldest, core::milliseconds{400});
    EXPECT_EQ(flush->buckets.at(175), 3U);
    EXPECT_EQ(latency->of(LatencyClass::Read)->errors, 4U);
    ASSERT_EQ(latency->slow.size(), 1U);
    EXPECT_EQ(latency->slow[0], (core::SlowFlush{.number = 7,
                                                 .start = core::milliseconds{4500},
                                                 .duration = core::milliseconds{400},
                                                 .pending = true,
                                                 .error = 5}));
}

TEST(KmodSnapshot, SaysWhatIsNotCounted) {
    Raw raw;
    raw.head.flags = NVMAINT_DYING | NVMAINT_WRITE_THROUGH | NVMAINT_NO_WAIT;
    const auto latency = parse_kmod_snapshot(raw.bytes());
    ASSERT_TRUE(latency);
    EXPECT_TRUE(latency->gone);
    EXPECT_TRUE(latency->write_through);
    EXPECT_FALSE(latency->of(LatencyClass::FlushWait)); // not 0
    EXPECT_FALSE(latency->of(LatencyClass::FlushSequence));
    EXPECT_TRUE(latency->of(LatencyClass::Flush));
}

TEST(KmodSnapshot, OfALaterModuleIsReadAsFarAsItIsKnown) {
    // A longer head, longer classes, one class more.
    struct Later {
        nvmaint_snapshot head;
        std::uint64_t more;
        struct Class {
            nvmaint_class_stats stats;
            std::uint64_t more;
            std::uint64_t buckets[kBuckets];
        } classes[NVMAINT_CLASSES + 1];
    };
    auto later = std::make_unique<Later>();
    std::memset(later.get(), 0, sizeof *later);
    later->head = Raw().head;
    later->head.size = sizeof(Later);
    later->head.header_size = offsetof(Later, classes);
    later->head.class_offset = offsetof(Later, classes);
    later->head.class_stride = sizeof(Later::Class);
    later->head.class_count = NVMAINT_CLASSES + 1;
    later->head.bucket_offset = offsetof(Later::Class, buckets);
    later->head.event_count = 0;
    later->classes[NVMAINT_OTHER].stats.count = 1;
    later->classes[NVMAINT_OTHER].buckets[1] = 1;
    std::vector<std::uint8_t> bytes(sizeof(Later));
    std::memcpy(bytes.data(), later.get(), sizeof(Later));
    const auto latency = parse_kmod_snapshot(bytes);
    ASSERT_TRUE(latency) << latency.error().text();
    EXPECT_EQ(latency->of(LatencyClass::Other)->buckets.at(1), 1U);
}

struct Bad {
    const char* name;
    std::function<void(Raw&)> spoil;
    const char* says;
};
class KmodSnapshotBad : public testing::TestWithParam<Bad> {};
TEST_P(KmodSnapshotBad, IsRefusedWithItsPlace) {
    Raw raw;
    GetParam().spoil(raw);
    const auto latency = parse_kmod_snapshot(raw.bytes());
    ASSERT_FALSE(latency);
    EXPECT_EQ(latency.error().kind, ErrorKind::Malformed);
    EXPECT_THAT(latency.error().text(), HasSubstr(GetParam().says));
    EXPECT_THAT(latency.error().text(), HasSubstr("at byte"));
}
INSTANTIATE_TEST_SUITE_P(
    Fields, KmodSnapshotBad,
    testing::Values(Bad{"magic", [](Raw& r) { ++r.head.magic; }, "none"},
                    Bad{"size", [](Raw& r) { ++r.head.size; }, "it says"},
                    Bad{"head", [](Raw& r) { r.head.header_size = 8; }, "it says"},
                    Bad{"buckets", [](Raw& r) { r.head.bucket_count = 417; }, "417 buckets"},
                    Bad{"no_octave", [](Raw& r) { r.head.max_exponent = 10; }, "buckets"},
                    Bad{"sub_bits", [](Raw& r) { r.head.sub_bits = 60; }, "buckets"},
                    Bad{"exponent", [](Raw& r) { r.head.max_exponent = 0xffffffff; }, "buckets"},
                    Bad{"classes", [](Raw& r) { r.head.class_count = 0xffffffff; }, "classes"},
                    Bad{"stride", [](Raw& r) { r.head.class_stride = 0; }, "classes"},
                    Bad{"class_offset", [](Raw& r) { r.head.class_offset = 0xfffffff0; },
                        "classes"},
                    Bad{"bucket_offset", [](Raw& r) { r.head.bucket_offset = 0; }, "classes"},
                    Bad{"events", [](Raw& r) { r.head.event_count = 2; }, "events"},
                    Bad{"event_stride",
                        [](Raw& r) { r.head.event_count = 9, r.head.event_stride = 0; }, "events"}),
    [](const auto& info) { return info.param.name; });

TEST(KmodSnapshot, CutAnywhereIsRefused) {
    const std::vector<std::uint8_t> whole = Raw().bytes();
    for (std::size_t length = 0; length < whole.size(); length += 7) {
        EXPECT_FALSE(parse_kmod_snapshot(std::span(whole).first(length))) << length;
    }
}

TEST(KmodSnapshot, SurvivesNoise) {
    std::mt19937_64 random(1); // NOLINT: the same noise each time
    const std::vector<std::uint8_t> whole = Raw().bytes();
    for (int round = 0; round < 20000; ++round) {
        std::vector<std::uint8_t> noisy = whole;
        for (int i = 0; i < 3; ++i) {
            noisy[random() % sizeof(nvmaint_snapshot)] = static_cast<std::uint8_t>(random());
        }
        (void)parse_kmod_snapshot(noisy);
    }
}

class KernelModuleFiles : public testing::Test {
  protected:
    void write(const std::string& path, const std::string& text) { folder_.file(path, text); }
    Reading<core::KernelModule> read() {
        const auto root = HostRoot::recording(folder_.path());
        EXPECT_TRUE(root);
        return read_kernel_module(*root, std::string("6.1.0-57-amd64"));
    }
    test::Folder folder_;
};

TEST_F(KernelModuleFiles, AreUnknownWhereNothingWasRecorded) {
    EXPECT_EQ(read().error().kind, ErrorKind::NotRecorded);
    write("proc/modules", "nvme 57344 1 - Live 0x0000000000000000\n");
    const auto module = read();
    ASSERT_TRUE(module);
    EXPECT_FALSE(module->loaded);
    EXPECT_FALSE(module->file); // nobody looked
    EXPECT_FALSE(module->source);
}

TEST_F(KernelModuleFiles, TellOfALoadedModule) {
    write("proc/modules", "xnvmaint 1 0 - Live 0x0\nnvmaint 20480 1 - Live 0x0 (OE)\n");
    EXPECT_TRUE(read()->loaded);
    write("proc/modules", "nvmaint_other 20480 1 - Live 0x0 (OE)\n");
    EXPECT_FALSE(read()->loaded);
}

TEST_F(KernelModuleFiles, TellWhereItLies) {
    write("proc/modules", "");
    write("lib/modules/6.1.0-57-amd64/updates/dkms/nvmaint.ko.xz", "");
    write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    write("sys/module/module/parameters/sig_enforce", "Y\n");
    const auto module = read();
    ASSERT_TRUE(module);
    EXPECT_EQ(module->file, std::string("lib/modules/6.1.0-57-amd64/updates/dkms/nvmaint.ko.xz"));
    EXPECT_EQ(module->lockdown, "integrity");
    EXPECT_TRUE(module->signatures_enforced);
}

TEST_F(KernelModuleFiles, TellOfItsSource) {
    write("proc/modules", "");
    write("usr/src/nvmaint-0.1.0/dkms.conf", "");
    EXPECT_EQ(read()->source, true);
}

TEST(RecordedLatency, JoinsThePathsOfAHead) {
    test::Folder folder;
    Raw raw;
    const auto put = [&](const std::string& name, const std::vector<std::uint8_t>& bytes) {
        folder.file("kmod/" + name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    };
    put("nvme0n1.bin", raw.bytes());
    std::strcpy(raw.head.disk, "nvme1c0n1");
    put("nvme1c0n1.bin", raw.bytes());
    std::strcpy(raw.head.disk, "nvme1c3n1");
    put("nvme1c3n1.bin", raw.bytes());
    put("nvme2c0n1.bin", raw.bytes());
    put("nvme2c1n1.bin", {1, 2, 3}); // a part would pass for all
    put("README", {});
    const auto root = HostRoot::recording(folder.path());
    ASSERT_TRUE(root);
    const auto all = read_recorded_latency(*root);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all.at("nvme0n1")->of(LatencyClass::Flush)->count, 3U);
    EXPECT_EQ(all.at("nvme1n1")->of(LatencyClass::Flush)->count, 6U);
    EXPECT_EQ(all.at("nvme1n1")->disk, "nvme1n1");
    EXPECT_EQ(all.at("nvme2n1").error().kind, ErrorKind::Malformed);
}

TEST(Kmod, SaysThatThereIsNoModule) {
    const auto attached = attach_kmod("/nonexistent/nvmaint", "null", ""); // a node that opens
    ASSERT_FALSE(attached);
    EXPECT_EQ(attached.error().sys_errno, ENOENT);
    EXPECT_THAT(attached.error().text(), HasSubstr("/nonexistent/nvmaint"));
}

TEST(Kmod, SaysThatANodeIsNoModule) {
    const auto attached = attach_kmod("/dev/null", "null", "");
    ASSERT_FALSE(attached);
    EXPECT_EQ(attached.error().sys_errno, ENOTTY);
}

TEST(Kmod, SaysThatThereIsNoSuchDisk) {
    const auto attached = attach_kmod("/dev/null", "nonexistent-disk", "");
    ASSERT_FALSE(attached);
    EXPECT_EQ(attached.error().sys_errno, ENOENT);
    EXPECT_THAT(attached.error().text(), HasSubstr("nonexistent-disk"));
}

} // namespace
} // namespace nvmaint::collect
