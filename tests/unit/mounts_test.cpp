#include "collect/mounts.hpp"

#include "collect/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nvmaint::collect {
namespace {

using core::CrypttabEntry;
using core::FstabEntry;
using core::Mount;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DecodeOctal, ResolvesThreeDigitsOnly) {
    EXPECT_EQ(decode_octal("/my\\040disk\\134x"), "/my disk\\x");
    EXPECT_EQ(decode_octal("a\\04"), "a\\04");
    EXPECT_EQ(decode_octal("a\\"), "a\\");
    EXPECT_EQ(decode_octal("a\\089"), "a\\089");
    EXPECT_EQ(decode_octal("\\303\\244"), "\xc3\xa4");
}

TEST(SplitOptions, KeepsQuotedCommas) {
    EXPECT_THAT(split_options("rw,context=\"a,b\",noatime"),
                ElementsAre("rw", "context=\"a,b\"", "noatime"));
    EXPECT_THAT(split_options(""), IsEmpty());
    EXPECT_THAT(split_options(",,ro,"), ElementsAre("ro"));
}

TEST(IsUtf8, TellsTextFromBytes) {
    for (const char* text : {"", "plain", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
        EXPECT_TRUE(is_utf8(text)) << text;
    }
    for (const char* text : {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                             "\xe2\x82", "\xe0\x80\x80"}) {
        EXPECT_FALSE(is_utf8(text)) << text;
    }
}

TEST(WallTime, IsAbsentForNeverAndBeyondAllCalendars) {
    EXPECT_EQ(wall_time_of(0), std::nullopt);
    EXPECT_EQ(wall_time_of(~std::uint64_t{0}), std::nullopt);
    EXPECT_EQ(wall_time_of(253402300800'000000), std::nullopt);
    EXPECT_TRUE(wall_time_of(253402300799'999999));
    EXPECT_EQ(wall_time_of(1), core::WallTime(core::microseconds(1)));
}

TEST(Mountinfo, ReadsEveryField) {
    EXPECT_EQ(parse_mountinfo("36 35 98:0 /sub /mnt/my\\040db rw,noatime master:1 shared:2 - ext3 "
                              "/dev/root rw,errors=continue\n"),
              Result<std::vector<Mount>>({Mount{.id = 36,
                                                .parent = 35,
                                                .device = {98, 0},
                                                .root = "/sub",
                                                .mount_point = "/mnt/my db",
                                                .options = {"rw", "noatime"},
                                                .type = "ext3",
                                                .source = "/dev/root",
                                                .super_options = {"rw", "errors=continue"}}}));
}

TEST(Mountinfo, AcceptsEmptySourcesAndNoOptionalFields) {
    const Result<std::vector<Mount>> mounts =
        parse_mountinfo("1 0 0:5 / /run rw - tmpfs  rw,size=1k\n2 0 0:6 / /a rw - overlay none\n");
    ASSERT_TRUE(mounts) << mounts.error().text();
    EXPECT_EQ((*mounts)[0].source, "");
    EXPECT_THAT((*mounts)[0].super_options, ElementsAre("rw", "size=1k"));
    EXPECT_THAT((*mounts)[1].super_options, IsEmpty());
}

TEST(Mountinfo, OfNothingIsNoMounts) {
    EXPECT_EQ(parse_mountinfo(""), Result<std::vector<Mount>>(std::vector<Mount>{}));
}

class BadMountinfo : public testing::TestWithParam<const char*> {};
TEST_P(BadMountinfo, NamesItsLine) {
    const std::string good = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n";
    const Result<std::vector<Mount>> mounts = parse_mountinfo(good + GetParam() + "\n" + good);
    ASSERT_FALSE(mounts);
    EXPECT_EQ(mounts.error().kind, ErrorKind::Malformed);
    EXPECT_THAT(mounts.error().text(), HasSubstr("line 2"));
}
INSTANTIATE_TEST_SUITE_P(Lines, BadMountinfo,
                         testing::Values("x", "1 0 8:1 / / rw", "1 0 8:1 / / rw - ext4",
                                         "1 0 8 / / rw - ext4 a rw", "1 0 : / / rw - ext4 a rw",
                                         "1 0 8:x / / rw - ext4 a rw", "a 0 8:1 / / rw - ext4 a rw",
                                         "1 0 8:1 / / rw ext4 /dev/sda1 rw", "- - - - - - - - -",
                                         "1 0 8:99999999999999 / / rw - ext4 a rw",
                                         "1 0 8:1 / / - ext4 /dev/sda1"));

TEST(Fstab, ReadsEntriesWithTheirLines) {
    EXPECT_THAT(parse_fstab("# comment\n\nUUID=aa-bb / ext4 defaults,noatime 0 1\n"
                            "\t/dev/nvme1n1\t/srv/my\\040db xfs\tX-fstrim.notrim\t0\t2\r\n"
                            "none swap swap sw\n"),
                ElementsAre(FstabEntry{3, "UUID=aa-bb", "/", "ext4", {"defaults", "noatime"}},
                            FstabEntry{4, "/dev/nvme1n1", "/srv/my db", "xfs", {"X-fstrim.notrim"}},
                            FstabEntry{5, "none", "swap", "swap", {"sw"}}));
}

TEST(Fstab, OptionsMayBeMissing) {
    EXPECT_THAT(parse_fstab("/dev/sda1 / ext4"),
                ElementsAre(FstabEntry{1, "/dev/sda1", "/", "ext4", {}}));
}

TEST(Fstab, PassesOverWhatLibmountCannotParse) {
    EXPECT_THAT(parse_fstab("/dev/sda1 /\n/dev/sda2 /a ext4 rw zero\n/dev/sda3 /b ext4 rw 0 two\n"
                            "/dev/sda4 /c ext4 rw 0 2\n"),
                ElementsAre(FstabEntry{4, "/dev/sda4", "/c", "ext4", {"rw"}}));
}

TEST(Fstab, OfCommentsOnlyIsEmpty) {
    EXPECT_THAT(parse_fstab("# nothing\n   \n\t# here\n"), IsEmpty());
}

TEST(Fstab, MayBeAMountinfo) {
    EXPECT_THAT(parse_fstab("36 35 98:0 / /mnt rw,noatime - ext4 /dev/sda1 rw\n"),
                ElementsAre(FstabEntry{1, "/dev/sda1", "/mnt", "ext4", {"rw", "noatime"}}));
}

TEST(Crypttab, ReadsOptionsWhereThereAreAny) {
    EXPECT_THAT(parse_crypttab("# c\nroot UUID=x none luks,discard\nswap /dev/sda2 /dev/urandom\n"
                               "data /dev/sdb1\nbroken\n"),
                ElementsAre(CrypttabEntry{2, "root", "UUID=x", {"luks", "discard"}},
                            CrypttabEntry{3, "swap", "/dev/sda2", {}},
                            CrypttabEntry{4, "data", "/dev/sdb1", {}}));
}

TEST(MountFiles, OfNoiseDoNotHarm) {
    std::string noise;
    for (unsigned i = 0; i < 100000; ++i) {
        noise += static_cast<char>(i * 2654435761U >> 13U);
    }
    EXPECT_FALSE(parse_mountinfo(noise));
    (void)parse_fstab(noise);    // any result will do, as long as there is one
    (void)parse_crypttab(noise); // likewise
}

} // namespace
} // namespace nvmaint::collect
