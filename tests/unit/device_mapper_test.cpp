#include "collect/device_mapper.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nvmaint::collect {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kKey[] = "3f8a1c5e9b7d2046f1e3a5c7d9b0284613f8a1c5e9b7d2046f1e3a5c7d9b028a";

TEST(WithoutKeys, BlanksTheKeyOfACryptTarget) {
    const std::string parameters = std::string("aes-xts-plain64 ") + kKey + " 0 259:3 32768 1 x";
    EXPECT_EQ(without_keys("crypt", parameters),
              "aes-xts-plain64 " + std::string(64, '0') + " 0 259:3 32768 1 x");
}

TEST(WithoutKeys, BlanksShortKeysOfACryptTargetToo) {
    EXPECT_EQ(without_keys("crypt", "cipher_null-ecb 1a2b 0 8:1 0"),
              "cipher_null-ecb 0000 0 8:1 0");
    EXPECT_EQ(without_keys("crypt", "cipher_null-ecb - 0 8:1 0"), "cipher_null-ecb 0 0 8:1 0");
}

TEST(WithoutKeys, KeepsReferencesToTheKeyring) {
    const std::string parameters =
        "aes-xts-plain64 :64:logon:cryptsetup:aabbccdd-d0 0 259:3 32768 1 allow_discards";
    EXPECT_EQ(without_keys("crypt", parameters), parameters);
}

TEST(WithoutKeys, BlanksKeysOfOtherTargets) {
    EXPECT_THAT(
        without_keys("integrity", std::string("8:1 0 4 J 1 journal_mac:hmac(sha256):") + kKey),
        Not(HasSubstr(kKey)));
    EXPECT_EQ(without_keys("linear", "259:3 2048"), "259:3 2048");
}

TEST(WithoutKeys, BearsCutLines) {
    for (const char* text : {"", " ", "aes", "aes ", "aes  "}) {
        EXPECT_EQ(without_keys("crypt", text), text);
    }
}

TEST(DmTables, GroupsLinesByName) {
    const auto tables = parse_dm_tables("vg-root: 0 2048 linear 259:3 2048\n"
                                        "vg-root: 2048 4096 linear 259:4 0\n"
                                        "luks: 0 100 crypt aes 00 0 259:3 0 1 allow_discards\n"
                                        "empty: \nodd: a: 0 8 zero\n\nnonsense\n");
    EXPECT_EQ(tables.size(), 3U);
    EXPECT_THAT(tables.at("vg-root"),
                ElementsAre("0 2048 linear 259:3 2048", "2048 4096 linear 259:4 0"));
    EXPECT_THAT(tables.at("luks"), ElementsAre("0 100 crypt aes 00 0 259:3 0 1 allow_discards"));
    EXPECT_THAT(tables.at("odd: a"), ElementsAre("0 8 zero"));
}

TEST(DmTables, BlankKeysThatARecordingStillHolds) {
    const auto tables = parse_dm_tables("luks: 0 100 crypt aes " + std::string(kKey) + " 0 8:1 0");
    EXPECT_THAT(tables.at("luks").front(), Not(HasSubstr(kKey)));
}

TEST(DmTables, OfNothingAreNone) {
    EXPECT_THAT(parse_dm_tables(""), IsEmpty());
    EXPECT_THAT(parse_dm_tables("No devices found\n"), IsEmpty());
}

} // namespace
} // namespace nvmaint::collect
