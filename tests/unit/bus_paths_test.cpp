#include "bus/paths.hpp"

#include <gtest/gtest.h>
#include <systemd/sd-bus.h>

namespace nvmaint::bus {

namespace {

std::string drive(const char* model, const char* serial, const char* name = "nvme0") {
    core::DriveView view;
    view.name = name;
    view.model = model;
    view.serial = serial;
    return drive_path(view);
}

std::string filesystem(const char* uuid, const char* mount) {
    core::FilesystemView view;
    view.uuid = uuid;
    view.mount = mount;
    return filesystem_path(view);
}

} // namespace

TEST(BusPaths, EncodeAsSystemdDoes) {
    std::string every;
    for (int byte = 1; byte < 256; ++byte) {
        every += static_cast<char>(byte);
    }
    for (const std::string& text :
         {every, std::string("9lives"), std::string("a9"), std::string("_"), std::string("")}) {
        char* path = nullptr;
        ASSERT_GE(sd_bus_path_encode("/x", text.c_str(), &path), 0);
        EXPECT_EQ("/x/" + encode_element(text), path);
        EXPECT_TRUE(sd_bus_object_path_is_valid(path));
        free(path);
    }
}

TEST(BusPaths, NulIsEscaped) {
    EXPECT_EQ(encode_element(std::string_view("a\0b", 3)), "a_00b");
}

TEST(BusPaths, HostileNamesAreLegal) {
    for (const std::string& path :
         {drive("SAMSUNG MZVPV256HDGL-000H1", ""), drive("", ""), drive("", "", ""),
          drive("Inno\xff\xfe", "S/N 1"), drive("../..", "//"), filesystem("", ""),
          filesystem("", "/"), filesystem("../x", "/"), job_path(0), job_path(UINT64_MAX)}) {
        EXPECT_TRUE(sd_bus_object_path_is_valid(path.c_str())) << path;
    }
}

TEST(BusPaths, DependOnIdentityAndNotOnTheName) {
    EXPECT_EQ(drive("M", "S", "nvme0"), drive("M", "S", "nvme5"));
    EXPECT_NE(drive("M", "S1"), drive("M", "S2"));
    EXPECT_NE(drive("M1", "S"), drive("M2", "S"));
    EXPECT_EQ(filesystem("u", "/a"), filesystem("u", "/b"));
    EXPECT_NE(filesystem("", "/a"), filesystem("", "/b"));
}

TEST(BusPaths, ABlankSerialIsNone) {
    EXPECT_NE(drive("M", "", "nvme0"), drive("M", "", "nvme1"));
    EXPECT_NE(drive("M", "    ", "nvme0"), drive("M", "    ", "nvme1"));
}

using Wishes = std::vector<PathBook::Wish>;
using Paths = std::vector<std::string>;

TEST(PathBook, GivesWhatIsWishedWhereItIsFree) {
    PathBook book;
    EXPECT_EQ(book.assign(Wishes{{"nvme0", "/a"}, {"nvme1", "/b"}}), (Paths{"/a", "/b"}));
}

TEST(PathBook, LaterTwinGetsItsNameAppended) {
    PathBook book;
    EXPECT_EQ(book.assign(Wishes{{"nvme0", "/a"}, {"nvme1", "/a"}}), (Paths{"/a", "/a_2dnvme1"}));
}

TEST(PathBook, ATwinThatComesFirstInOrderDoesNotTakeTheOthersPath) {
    PathBook book;
    EXPECT_EQ(book.assign(Wishes{{"nvme1", "/a"}}), (Paths{"/a"}));
    EXPECT_EQ(book.assign(Wishes{{"nvme0", "/a"}, {"nvme1", "/a"}}), (Paths{"/a_2dnvme0", "/a"}));
}

TEST(PathBook, ATwinThatStaysKeepsItsPath) {
    PathBook book;
    (void)book.assign(Wishes{{"nvme0", "/a"}, {"nvme1", "/a"}});
    EXPECT_EQ(book.assign(Wishes{{"nvme1", "/a"}}), (Paths{"/a_2dnvme1"}));
    EXPECT_EQ(book.assign(Wishes{{"nvme0", "/a"}, {"nvme1", "/a"}}), (Paths{"/a", "/a_2dnvme1"}));
}

TEST(PathBook, AnIdentityThatChangesChangesThePath) {
    PathBook book;
    (void)book.assign(Wishes{{"nvme0", "/a"}});
    EXPECT_EQ(book.assign(Wishes{{"nvme0", "/b"}}), (Paths{"/b"}));
}

TEST(PathBook, AnIdentityThatLooksLikeATwinsStaysDistinct) {
    PathBook book;
    const Paths paths = book.assign(Wishes{{"x", "/a_2dnvme1"}, {"nvme0", "/a"}, {"nvme1", "/a"}});
    EXPECT_EQ(paths, (Paths{"/a_2dnvme1", "/a", "/a_2dnvme1_2dnvme1"}));
}

TEST(PathBook, SameNamesStayDistinct) {
    PathBook book;
    const Paths paths = book.assign(Wishes{{"/mnt", "/a"}, {"/mnt", "/a"}, {"/mnt", "/a"}});
    EXPECT_EQ(paths, (Paths{"/a", "/a_2d_2fmnt_2b", "/a_2d_2fmnt_2b_2b"}));
}

} // namespace nvmaint::bus
