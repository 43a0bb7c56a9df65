#include "collect/redact.hpp"

#include "values/identify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace nvmaint::collect {
namespace {

using testing::HasSubstr;
using testing::Not;
using Kind = Redactor::Kind;

constexpr HashKey kKey = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

TEST(SipHash, GivesThePublishedVectors) {
    HashKey key{};
    std::string data;
    for (std::uint8_t i = 0; i < 16; ++i) {
        key[i] = i;
    }
    // vectors.h of the reference implementation, SipHash-2-4-128, messages of 0, 1 and 15 bytes.
    EXPECT_EQ(sip_hash_128(key, ""),
              (std::array<std::uint8_t, 16>{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d,
                                            0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93}));
    data += '\0';
    EXPECT_EQ(sip_hash_128(key, data),
              (std::array<std::uint8_t, 16>{0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34,
                                            0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45}));
    for (char i = 1; i < 15; ++i) {
        data += i;
    }
    EXPECT_EQ(sip_hash_128(key, data),
              (std::array<std::uint8_t, 16>{0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e,
                                            0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9}));
}

TEST(Pseudonym, IsStableForOneKeyAndForThatOnly) {
    HashKey other = kKey;
    other[0] = 0;
    const std::string name = Redactor(kKey).pseudonym(Kind::Serial, "S1234567890");
    EXPECT_EQ(name.size(), 12U);
    EXPECT_EQ(name, Redactor(kKey).pseudonym(Kind::Serial, "S1234567890"));
    EXPECT_NE(name, Redactor(kKey).pseudonym(Kind::Serial, "S1234567891"));
    EXPECT_NE(name, Redactor(other).pseudonym(Kind::Serial, "S1234567890"));
    EXPECT_THAT(Redactor(kKey).pseudonym(Kind::Nqn, "nqn.x"), HasSubstr("nqn."));
}

class Redacting : public testing::Test {
  protected:
    Redacting() {
        redactor_.learn(Kind::Serial, "S64DMX0R123456");
        redactor_.learn(Kind::HostName, "db7");
        redactor_.learn(Kind::Nqn, "nqn.2014.08.org:144dS64DMX0R123456 SSD");
    }
    std::string serial() const { return redactor_.pseudonym(Kind::Serial, "S64DMX0R123456"); }
    Redactor redactor_{kKey};
};

TEST_F(Redacting, ReplacesLongSecretsAnywhere) {
    EXPECT_EQ(redactor_.text("xS64DMX0R123456y S64DMX0R123456"), "x" + serial() + "y " + serial());
}

TEST_F(Redacting, ReplacesHostNamesAsWordsOnly) {
    const std::string host = redactor_.pseudonym(Kind::HostName, "db7");
    EXPECT_EQ(redactor_.text("db7 db7-vg db77 sdb7 /srv/db7"),
              host + " " + host + "-vg db77 sdb7 /srv/" + host);
}

TEST_F(Redacting, ReplacesTheLongestSecretFirst) {
    const std::string text = redactor_.text("nqn.2014.08.org:144dS64DMX0R123456 SSD");
    EXPECT_EQ(text, redactor_.pseudonym(Kind::Nqn, "nqn.2014.08.org:144dS64DMX0R123456 SSD"));
}

TEST_F(Redacting, LeavesCommonWordsAndSmallNumbersAlone) {
    redactor_.learn(Kind::HostName, "localhost");
    redactor_.learn(Kind::HostName, "ext4");
    redactor_.learn(Kind::Serial, "1");
    redactor_.learn(Kind::Serial, "vm0");
    redactor_.learn(Kind::Serial, "123456");
    redactor_.learn(Kind::Serial, "");
    const std::string text = "localhost ext4 1 vm0 123456 ";
    EXPECT_EQ(redactor_.text(text), text);
}

TEST_F(Redacting, ReplacesLongNumbersAsWordsOnly) {
    redactor_.learn(Kind::Serial, "1234567890");
    EXPECT_EQ(redactor_.text("12345678901 1234567890"),
              "12345678901 " + redactor_.pseudonym(Kind::Serial, "1234567890"));
}

TEST_F(Redacting, NamesById) {
    const std::string name = redactor_.by_id_name("nvme-Model_S64DMX0R123456");
    EXPECT_THAT(name, testing::StartsWith("nvme-"));
    EXPECT_THAT(name, Not(HasSubstr("S64DMX0R123456")));
    EXPECT_EQ(redactor_.by_id_name("nvme-Model_S64DMX0R123456-part2"), name + "-part2");
    EXPECT_EQ(redactor_.by_id_name("dm-uuid-LVM-x"), "dm-uuid-LVM-x");
    EXPECT_EQ(redactor_.text("/dev/disk/by-id/nvme-Model_S64DMX0R123456-part2 / ext4\n"),
              "/dev/disk/by-id/" + name + "-part2 / ext4\n");
    EXPECT_EQ(redactor_.text("\"/dev/disk/by-id/nvme-Model_S64DMX0R123456\","),
              "\"/dev/disk/by-id/" + name + "\",");
    EXPECT_EQ(redactor_.text("/dev/disk/by-id/"), "/dev/disk/by-id/");
}

TEST_F(Redacting, UdevPropertiesThatNameADevice) {
    const std::string data = "S:disk/by-id/nvme-eui.0025385a\nE:ID_SERIAL_SHORT=vm0\n"
                             "E:ID_WWN=eui.0025385a\nE:ID_FS_UUID=aaaa-bbbb\nE:ID_MODEL=SSD 980\n";
    redactor_.learn_udev(data);
    const std::string out = redactor_.file("run/udev/data/b259:0", data);
    EXPECT_THAT(out, Not(HasSubstr("0025385a")));
    EXPECT_THAT(out, HasSubstr("E:ID_SERIAL_SHORT=" + redactor_.pseudonym(Kind::Serial, "vm0")));
    EXPECT_THAT(out, HasSubstr("E:ID_FS_UUID=aaaa-bbbb\n"));
    EXPECT_THAT(out, HasSubstr("E:ID_MODEL=SSD 980\n"));
}

TEST_F(Redacting, AttributesOfSysfs) {
    const std::string path = "sys/class/nvme/nvme0/";
    // Short serials too, and the same pseudonym as in udev's record.
    EXPECT_EQ(redactor_.file(path + "serial", "vm0                 \n"),
              redactor_.pseudonym(Kind::Serial, "vm0") + "\n");
    EXPECT_EQ(redactor_.file(path + "model", "SSD 980   \n"), "SSD 980   \n");
    EXPECT_EQ(redactor_.file("sys/block/nvme0n1/size", "1234567890\n"), "1234567890\n");
    EXPECT_EQ(redactor_.file(path + "serial", "\n"), "\n");
}

TEST_F(Redacting, IdentifyPages) {
    std::vector<std::uint8_t> page(4096, 0x41);
    const std::string serial_field = "S64DMX0R123456      ";
    std::copy(serial_field.begin(), serial_field.end(), page.begin() + 4);
    redactor_.identify_controller(page);
    const Result<nvme::IdentifyController> identify = nvme::decode_identify_controller(page);
    ASSERT_TRUE(identify);
    EXPECT_EQ(identify->serial, serial());
    EXPECT_EQ(identify->model, std::string(40, 'A'));
    EXPECT_EQ(page[4095], 0);
}

TEST_F(Redacting, NamespaceIdentifiersButNotTheirAbsence) {
    std::vector<std::uint8_t> page(4096);
    std::fill(page.begin() + 104, page.begin() + 120, std::uint8_t{0xee});
    redactor_.identify_namespace(page);
    const Result<nvme::IdentifyNamespace> ns = nvme::decode_identify_namespace(page);
    ASSERT_TRUE(ns);
    EXPECT_NE(ns->nguid.front(), 0xee);
    EXPECT_EQ(ns->eui64, (std::array<std::uint8_t, 8>{}));
}

} // namespace
} // namespace nvmaint::collect
