#include "values/identify.hpp"

#include "sample_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string_view>

namespace nvmaint::nvme {
namespace {

using Page = std::vector<std::uint8_t>;

void put(Page& page, std::size_t offset, std::string_view text, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) {
        page[offset + i] = i < text.size() ? static_cast<std::uint8_t>(text[i]) : ' ';
    }
}

void put(Page& page, std::size_t offset, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
        page[offset + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(value >> (8 * i));
    }
}

Page controller_page() {
    Page page(4096);
    put(page, 0, 0x15b7, 2);
    put(page, 4, "S1234567890", 20);
    put(page, 24, "Example SSD 1TB", 40);
    put(page, 64, "FW001122", 8);
    page[76] = 0x02;
    put(page, 78, 0x0102, 2);
    put(page, 80, 0x00010400, 4);
    page[261] = 0x1e;
    page[262] = 0xff;
    put(page, 266, 353, 2);
    put(page, 268, 358, 2);
    put(page, 516, 32, 4);
    put(page, 520, 0x5f, 2);
    page[525] = 0x07;
    const std::string_view nqn = "nqn.2014-08.org.example:drive";
    std::copy(nqn.begin(), nqn.end(), page.begin() + 768);
    return page;
}

// 8 formats; the one in use is `index`.
Page namespace_page(std::uint8_t index, std::uint8_t lbads, std::uint16_t metadata) {
    Page page(4096);
    put(page, 0, 937684566, 8);
    put(page, 8, 937684566, 8);
    put(page, 16, 12345678, 8);
    page[25] = 7;
    page[26] = index;
    put(page, 128 + 4U * index, metadata, 2);
    page[128 + 4U * index + 2] = lbads;
    return page;
}

std::string text_of(std::string_view bytes) {
    return identity_text(Page(bytes.begin(), bytes.end()));
}

TEST(IdentityText, TrimsBlanksAndKeepsInnerOnes) {
    EXPECT_EQ(text_of("  Samsung SSD 970 PRO   "), "Samsung SSD 970 PRO");
    EXPECT_EQ(text_of(std::string(40, ' ')), "");
    EXPECT_EQ(text_of(""), "");
}

TEST(IdentityText, StopsAtTheFirstNulOrNewline) {
    EXPECT_EQ(text_of(std::string_view("71-3\nrest", 9)), "71-3");
    EXPECT_EQ(text_of(std::string_view("71-3\0rest", 9)), "71-3");
}

TEST(IdentityText, UsesAllBytesOfAFullField) {
    EXPECT_EQ(text_of("2B4QFXO7"), "2B4QFXO7");
}

TEST(IdentityText, WritesForeignBytesAsHex) {
    EXPECT_EQ(text_of("Inno\xff\xfe "), "Inno\\xff\\xfe");
    EXPECT_EQ(text_of("a\x7f\x01z"), "a\\x7f\\x01z");
}

TEST(IdentifyController, ReadsEachFieldFromItsOffset) {
    const Result<IdentifyController> identify = decode_identify_controller(controller_page());
    ASSERT_TRUE(identify);
    EXPECT_EQ(*identify, (IdentifyController{.vendor_id = 0x15b7,
                                             .serial = "S1234567890",
                                             .model = "Example SSD 1TB",
                                             .firmware = "FW001122",
                                             .controller_id = 0x0102,
                                             .version = 0x00010400,
                                             .warning_temp_k = 353,
                                             .critical_temp_k = 358,
                                             .error_log_entries = 255,
                                             .log_page_attributes = 0x1e,
                                             .optional_commands = 0x5f,
                                             .volatile_write_cache = 7,
                                             .namespace_count = 32,
                                             .multipath = 2,
                                             .subsystem_nqn = "nqn.2014-08.org.example:drive"}));
    EXPECT_TRUE(identify->supports_dataset_management());
    EXPECT_TRUE(identify->has_volatile_write_cache());
}

TEST(IdentifyController, OfZeroesClaimsNothing) {
    const Result<IdentifyController> identify = decode_identify_controller(Page(4096));
    ASSERT_TRUE(identify);
    EXPECT_EQ(*identify, IdentifyController{});
    EXPECT_FALSE(identify->supports_dataset_management());
    EXPECT_FALSE(identify->has_volatile_write_cache());
}

TEST(IdentifyController, RefusesEveryOtherLength) {
    for (const std::size_t bytes : {0U, 1U, 4095U, 4097U, 8192U}) {
        const Result<IdentifyController> identify = decode_identify_controller(Page(bytes));
        ASSERT_FALSE(identify) << bytes;
        EXPECT_EQ(identify.error().kind, ErrorKind::Malformed);
    }
}

TEST(IdentifyNamespace, ScalesBlocksByTheFormatInUse) {
    const Result<IdentifyNamespace> large = decode_identify_namespace(namespace_page(1, 12, 0));
    ASSERT_TRUE(large);
    EXPECT_EQ(large->size_blocks, 937684566U);
    EXPECT_EQ(large->block_bytes, 4096U);
    EXPECT_EQ(large->size_blocks * large->block_bytes, 3840755982336U);
    const Result<IdentifyNamespace> small = decode_identify_namespace(namespace_page(0, 9, 0));
    ASSERT_TRUE(small);
    EXPECT_EQ(small->block_bytes, 512U);
    EXPECT_EQ(small->utilization_blocks, 12345678U);
}

TEST(IdentifyNamespace, TellsExtendedFromSeparateMetadata) {
    Page page = namespace_page(3, 12, 16);
    page[26] |= 0x10;
    const Result<IdentifyNamespace> extended = decode_identify_namespace(page);
    ASSERT_TRUE(extended);
    EXPECT_TRUE(extended->metadata_extended);
    EXPECT_EQ(extended->metadata_bytes, 16);
    EXPECT_EQ(extended->block_bytes, 4096U);
    const Result<IdentifyNamespace> separate = decode_identify_namespace(namespace_page(1, 9, 8));
    ASSERT_TRUE(separate);
    EXPECT_FALSE(separate->metadata_extended);
    EXPECT_EQ(separate->metadata_bytes, 8);
}

TEST(IdentifyNamespace, ExtendsTheFormatIndexOnlyWhereThereAreMoreThan16) {
    Page page = namespace_page(2, 9, 0);
    page[26] = 0x20 | 2; // upper bits: index 18
    page[128 + 4 * 18 + 2] = 12;
    EXPECT_EQ(decode_identify_namespace(page)->block_bytes, 512U);
    page[25] = 18;
    EXPECT_EQ(decode_identify_namespace(page)->block_bytes, 4096U);
}

TEST(IdentifyNamespace, ReadsTheLastFormatThatAPageCanHold) {
    Page page(4096);
    page[25] = 63;
    page[26] = 0x6f;
    page[128 + 4 * 63 + 2] = 9;
    EXPECT_EQ(decode_identify_namespace(page)->block_bytes, 512U);
}

class BlockSize : public testing::TestWithParam<std::pair<int, std::uint32_t>> {};
TEST_P(BlockSize, IsZeroWhereNoSuchBlockExists) {
    const auto [lbads, bytes] = GetParam();
    const Page page = namespace_page(0, static_cast<std::uint8_t>(lbads), 0);
    EXPECT_EQ(decode_identify_namespace(page)->block_bytes, bytes);
}
INSTANTIATE_TEST_SUITE_P(Lbads, BlockSize,
                         testing::Values(std::pair(0, 0U), std::pair(8, 0U), std::pair(9, 512U),
                                         std::pair(31, 0x80000000U), std::pair(32, 0U),
                                         std::pair(255, 0U)));

TEST(IdentifyNamespace, BelievesNpdgOnlyWhereOptperfIsSet) {
    Page page = namespace_page(0, 9, 0);
    put(page, 68, 7, 2);
    EXPECT_EQ(decode_identify_namespace(page)->preferred_deallocate_blocks, std::nullopt);
    page[24] = 0x10;
    EXPECT_EQ(decode_identify_namespace(page)->preferred_deallocate_blocks, 8U);
    put(page, 68, 0xffff, 2);
    EXPECT_EQ(decode_identify_namespace(page)->preferred_deallocate_blocks, 65536U);
}

TEST(IdentifyNamespace, KeepsBothIdentifiers) {
    Page page = namespace_page(0, 9, 0);
    for (std::size_t i = 0; i < 24; ++i) {
        page[104 + i] = static_cast<std::uint8_t>(i + 1);
    }
    const Result<IdentifyNamespace> ns = decode_identify_namespace(page);
    ASSERT_TRUE(ns);
    EXPECT_EQ(ns->nguid.front(), 1);
    EXPECT_EQ(ns->nguid.back(), 16);
    EXPECT_EQ(ns->eui64.front(), 17);
    EXPECT_EQ(ns->eui64.back(), 24);
}

TEST(IdentifyNamespace, OfFullBytesStaysWithinThePage) {
    const Result<IdentifyNamespace> ns = decode_identify_namespace(Page(4096, 0xff));
    ASSERT_TRUE(ns);
    EXPECT_EQ(ns->size_blocks, std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(ns->block_bytes, 0U);
}

TEST(IdentifyNamespace, RefusesEveryOtherLength) {
    for (const std::size_t bytes : {0U, 512U, 4095U, 4097U}) {
        EXPECT_FALSE(decode_identify_namespace(Page(bytes))) << bytes;
    }
}

TEST(IdentifySamples, ClientDriveOf2019) {
    SAMPLE_OR_SKIP(page, "wd-sn550-id-ctrl.bin");
    const Result<IdentifyController> identify = decode_identify_controller(*page);
    ASSERT_TRUE(identify);
    EXPECT_EQ(identify->model, "WDC WDS250G2B0C-00PXH0");
    EXPECT_EQ(identify->firmware, "211070WD");
    EXPECT_EQ(identify->version, 0x10400U);
    EXPECT_EQ(identify->warning_temp_k, 353);
    EXPECT_EQ(identify->critical_temp_k, 358);
    EXPECT_EQ(identify->optional_commands, 0x5f);
    EXPECT_EQ(identify->volatile_write_cache, 7);
    SAMPLE_OR_SKIP(ns_page, "wd-sn550-id-ns1.bin");
    const Result<IdentifyNamespace> ns = decode_identify_namespace(*ns_page);
    ASSERT_TRUE(ns);
    EXPECT_EQ(ns->size_blocks, 488397168U);
    EXPECT_EQ(ns->utilization_blocks, ns->capacity_blocks);
    EXPECT_EQ(ns->block_bytes, 512U);
    EXPECT_EQ(ns->deallocate_features, 9);
    EXPECT_EQ(ns->preferred_deallocate_blocks, std::nullopt);
}

TEST(IdentifySamples, DriveOlderThanTheVersionField) {
    SAMPLE_OR_SKIP(page, "toshiba-thnsn5512gpu7-id-ctrl.bin");
    const Result<IdentifyController> identify = decode_identify_controller(*page);
    ASSERT_TRUE(identify);
    EXPECT_EQ(identify->model, "THNSN5512GPU7 TOSHIBA");
    EXPECT_EQ(identify->firmware, "410557LA");
    EXPECT_EQ(identify->version, 0U);
    EXPECT_TRUE(identify->has_volatile_write_cache());
}

TEST(IdentifySamples, EmulatedNamespaceStatesItsGranularity) {
    SAMPLE_OR_SKIP(page, "qemu72-id-ns1.bin");
    const Result<IdentifyNamespace> ns = decode_identify_namespace(*page);
    ASSERT_TRUE(ns);
    EXPECT_EQ(ns->features, 0x14);
    EXPECT_EQ(ns->preferred_deallocate_blocks, 8U);
    EXPECT_EQ(ns->block_bytes, 512U);
}

} // namespace
} // namespace nvmaint::nvme
