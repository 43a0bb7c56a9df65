#include "collect/diskstats.hpp"

#include "collect/collect.hpp"
#include "folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nvmaint::collect {
namespace {

using core::DiskCounters;
using test::Folder;
using testing::HasSubstr;

// A client drive's own line.
constexpr std::string_view kClient =
    "7731414 116833 314007178 10514681 3532674 2267531 183863530 18134021 0 1271210 28816046 0 0 0 "
    "0 74497 167343";

TEST(Stat, ReadsElevenFieldsWithoutDiscardsAndFlushes) {
    const Result<DiskCounters> counters = parse_stat("  1 2 3 4 5 6 7 8 9 10 11\n");
    ASSERT_TRUE(counters) << counters.error().text();
    EXPECT_EQ(*counters, (DiskCounters{.reads = 1,
                                       .reads_merged = 2,
                                       .read_sectors = 3,
                                       .read_ms = 4,
                                       .writes = 5,
                                       .writes_merged = 6,
                                       .write_sectors = 7,
                                       .write_ms = 8,
                                       .in_flight = 9,
                                       .io_ms = 10,
                                       .weighted_ms = 11,
                                       .discards = std::nullopt,
                                       .flushes = std::nullopt}));
}

TEST(Stat, ReadsFifteenFieldsWithoutFlushes) {
    const Result<DiskCounters> counters = parse_stat("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
    ASSERT_TRUE(counters);
    EXPECT_EQ(counters->discards, (DiskCounters::Discards{12, 13, 14, 15}));
    EXPECT_EQ(counters->flushes, std::nullopt);
}

TEST(Stat, ReadsSeventeenFields) {
    const Result<DiskCounters> counters = parse_stat(kClient);
    ASSERT_TRUE(counters);
    EXPECT_EQ(counters->reads, 7731414U);
    EXPECT_EQ(counters->discards, (DiskCounters::Discards{}));
    EXPECT_EQ(counters->flushes, (DiskCounters::Flushes{74497, 167343}));
}

TEST(Stat, PassesOverFieldsOfLaterKernels) {
    EXPECT_EQ(parse_stat(std::string(kClient) + " 99 98"), parse_stat(kClient));
}

TEST(Stat, RefusesCutLinesAndWords) {
    for (const char* text :
         {"", "1", "1 2 3 4 5 6 7 8 9 10", "1 2 3 4 5 6 7 8 9 10 11 12",
          "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "a b c d e f g h i j k",
          "1 2 3 4 5 6 7 8 -9 10 11", "1 2 3 4 5 6 7 8 9 10 18446744073709551616"}) {
        const Result<DiskCounters> counters = parse_stat(text);
        ASSERT_FALSE(counters) << text;
        EXPECT_EQ(counters.error().kind, ErrorKind::Malformed);
    }
}

TEST(Diskstats, ReadsLinesOfEveryKernel) {
    const auto disks = parse_diskstats("   8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n"
                                       "   8 16 sdb 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n"
                                       " 259 0 nvme0n1 " +
                                       std::string(kClient) + "\n");
    ASSERT_TRUE(disks) << disks.error().text();
    EXPECT_FALSE(disks->at("sda").discards);
    EXPECT_FALSE(disks->at("sdb").flushes);
    EXPECT_EQ(disks->at("nvme0n1").flushes->count, 74497U);
}

TEST(Diskstats, NamesDisksAsSysfsDoes) {
    EXPECT_TRUE(
        parse_diskstats("104 0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11")->contains("cciss!c0d0"));
}

TEST(Diskstats, NamesTheBadLine) {
    const auto disks = parse_diskstats("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n8 16 sdb 1 2\n");
    ASSERT_FALSE(disks);
    EXPECT_THAT(disks.error().text(), HasSubstr("line 2"));
}

TEST(Diskstats, CountsTheFlushesOfAMultipathHeadOnItsPaths) {
    const auto disks =
        parse_diskstats("259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 0 0\n"
                        "259 1 nvme0c0n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 100 200\n"
                        "259 2 nvme0c1n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 10 20\n"
                        "259 3 nvme1n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 7 8\n");
    ASSERT_TRUE(disks);
    EXPECT_EQ(disks->size(), 2U);
    EXPECT_EQ(disks->at("nvme0n1").flushes, (DiskCounters::Flushes{110, 220}));
    EXPECT_EQ(disks->at("nvme0n1").discards->count, 12U);
    EXPECT_EQ(disks->at("nvme1n1").flushes, (DiskCounters::Flushes{7, 8}));
}

TEST(HeadOfPath, CutsThePathOut) {
    EXPECT_EQ(head_of_path("nvme0c12n3"), "nvme0n3");
    EXPECT_EQ(head_of_path("nvme0n3"), "");
    EXPECT_EQ(head_of_path("nvme0"), "");
}

// ---- series ----

std::string point(double time, const std::string& disk, int flushes, int ms) {
    return "{\"t\": " + std::to_string(time) + ", \"disk\": \"" + disk +
           "\", \"stat\": [1,0,1,1,1,0,1,1,0,1,1,0,0,0,0," + std::to_string(flushes) + "," +
           std::to_string(ms) + "]}\n";
}

Result<std::map<std::string, core::FlushWatch>> read_series(const std::string& text) {
    Folder folder;
    folder.file("series/diskstats.jsonl", text);
    const Result<HostRoot> root = HostRoot::recording(folder.path());
    return read_flush_series(*root);
}

TEST(FlushSeries, FeedsAWatchPerDisk) {
    const auto watches = read_series(point(-3, "nvme0n1", 100, 200) + point(-3, "sda", 0, 0) +
                                     point(-2, "nvme0n1", 110, 220) + "\n" +
                                     point(-1, "nvme0n1", 110, 220) + point(0, "sda", 5, 50));
    ASSERT_TRUE(watches) << watches.error().text();
    ASSERT_EQ(watches->size(), 2U);
    const auto& recent = watches->at("nvme0n1").recent;
    ASSERT_EQ(recent.size(), 2U);
    EXPECT_EQ(recent[0].flushes, 10U);
    EXPECT_EQ(recent[0].flush_time, core::milliseconds(20));
    EXPECT_EQ(recent[0].end, core::seconds(-2));
    EXPECT_EQ(recent[0].length, core::seconds(1));
    EXPECT_EQ(recent[1].flushes, 0U);
    EXPECT_EQ(watches->at("sda").recent.front().length, core::seconds(3));
}

TEST(FlushSeries, OfOnePointSaysNothing) {
    EXPECT_TRUE(read_series(point(-3, "nvme0n1", 1, 1))->empty());
}

TEST(FlushSeries, TakesStatLinesAsText) {
    const auto watches =
        read_series("{\"t\":-1,\"disk\":\"a\",\"stat\":\"" + std::string(kClient) +
                    "\"}\n{\"t\":0,\"disk\":\"a\",\"stat\":\"" + std::string(kClient) + "\"}\n");
    ASSERT_TRUE(watches) << watches.error().text();
    EXPECT_EQ(watches->at("a").recent.size(), 1U);
}

TEST(FlushSeries, IsNotRecordedWhereThereIsNone) {
    Folder folder;
    folder.file("manifest.toml");
    const Result<HostRoot> root = HostRoot::recording(folder.path());
    EXPECT_EQ(read_flush_series(*root).error().kind, ErrorKind::NotRecorded);
}

class BadSeries : public testing::TestWithParam<const char*> {};
TEST_P(BadSeries, NamesItsLine) {
    const auto watches = read_series(point(-9, "a", 1, 1) + GetParam() + "\n");
    ASSERT_FALSE(watches);
    EXPECT_EQ(watches.error().kind, ErrorKind::Malformed);
    EXPECT_THAT(watches.error().text(), HasSubstr("series/diskstats.jsonl:2"));
}
INSTANTIATE_TEST_SUITE_P(
    Lines, BadSeries,
    testing::Values("x", "[]", "{}", R"({"t":"-1","disk":"a","stat":[]})",
                    R"({"t":-1,"disk":7,"stat":[]})", R"({"t":-1,"disk":"a","stat":[1,2]})",
                    R"({"t":-1,"disk":"a","stat":[1,2,3,4,5,6,7,8,9,10,-11]})",
                    R"({"t":-1,"disk":"a","stat":[1,2,3,4,5,6,7,8,9,10,1.5]})",
                    R"({"t":1e300,"disk":"a","stat":[1,2,3,4,5,6,7,8,9,10,11]})",
                    R"({"t":-9,"disk":"a","stat":[1,2,3,4,5,6,7,8,9,10,11]})",
                    R"({"t":-10,"disk":"a","stat":[1,2,3,4,5,6,7,8,9,10,11]})"));

} // namespace
} // namespace nvmaint::collect
