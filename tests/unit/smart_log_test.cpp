#include "values/smart_log.hpp"

#include "sample_file.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace nvmaint::nvme {
namespace {

using Page = std::vector<std::uint8_t>;

void put(Page& page, std::size_t offset, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
        page[offset + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(value >> (8 * i));
    }
}

Page page_at_kelvin(std::uint16_t kelvin) {
    Page page(512);
    put(page, 1, kelvin, 2);
    return page;
}

TEST(SmartLog, ReadsEachFieldFromItsOffset) {
    Page page(512);
    page[0] = 0x05;
    put(page, 1, 310, 2);
    page[3] = 93;
    page[4] = 10;
    page[5] = 51;
    put(page, 32, 64663716, 8);
    put(page, 48, 64663717, 8);
    put(page, 64, 1001, 8);
    put(page, 80, 1002, 8);
    put(page, 112, 3693, 8);
    put(page, 128, 15000, 8);
    put(page, 144, 3682, 8);
    put(page, 160, 3, 8);
    put(page, 176, 4804, 8);
    put(page, 192, 19451, 4);
    put(page, 196, 2, 4);
    EXPECT_EQ(decode_smart_log(page), Result<SmartLog>(SmartLog{.critical_warning = 5,
                                                                .temperature_c = 37,
                                                                .available_spare = 93,
                                                                .available_spare_threshold = 10,
                                                                .percentage_used = 51,
                                                                .data_units_read = 64663716,
                                                                .data_units_written = 64663717,
                                                                .host_reads = 1001,
                                                                .host_writes = 1002,
                                                                .power_cycles = 3693,
                                                                .power_on_hours = 15000,
                                                                .unsafe_shutdowns = 3682,
                                                                .media_errors = 3,
                                                                .error_log_entries = 4804,
                                                                .warning_temp_minutes = 19451,
                                                                .critical_temp_minutes = 2}));
}

TEST(SmartLog, OfZeroKelvinHasNoTemperature) {
    EXPECT_EQ(decode_smart_log(page_at_kelvin(0))->temperature_c, std::nullopt);
}

class Celsius : public testing::TestWithParam<std::pair<int, int>> {};
TEST_P(Celsius, IsSigned) {
    const auto [kelvin, celsius] = GetParam();
    EXPECT_EQ(decode_smart_log(page_at_kelvin(static_cast<std::uint16_t>(kelvin)))->temperature_c,
              celsius);
}
INSTANTIATE_TEST_SUITE_P(Kelvin, Celsius,
                         testing::Values(std::pair(1, -272), std::pair(255, -18),
                                         std::pair(268, -5), std::pair(273, 0), std::pair(274, 1),
                                         std::pair(398, 125), std::pair(65535, 65262)));

TEST(SmartLog, DataUnitsMeanTheSameWhateverTheBlockSize) {
    Page page(512);
    put(page, 48, 64663716, 8);
    EXPECT_EQ(decode_smart_log(page)->data_units_written * 512000, 33107822592000U);
}

TEST(SmartLog, SaturatesCountersBeyond64Bits) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    Page page(512);
    put(page, 160, kMost, 8);
    EXPECT_EQ(decode_smart_log(page)->media_errors, kMost);
    put(page, 160, 7, 8);
    page[168] = 1; // 2^64 + 7
    EXPECT_EQ(decode_smart_log(page)->media_errors, kMost);
    page[168] = 0;
    page[175] = 0x80; // 2^127 + 7
    EXPECT_EQ(decode_smart_log(page)->media_errors, kMost);
    page[175] = 0;
    EXPECT_EQ(decode_smart_log(page)->media_errors, 7U);
}

TEST(SmartLog, OfFullBytesIsRead) {
    const Result<SmartLog> log = decode_smart_log(Page(512, 0xff));
    ASSERT_TRUE(log);
    EXPECT_EQ(log->percentage_used, 255);
    EXPECT_EQ(log->warning_temp_minutes, 0xffffffffU);
}

TEST(SmartLog, RefusesEveryOtherLength) {
    for (const std::size_t bytes : {0U, 511U, 513U, 4096U}) {
        const Result<SmartLog> log = decode_smart_log(Page(bytes));
        ASSERT_FALSE(log) << bytes;
        EXPECT_EQ(log.error().kind, ErrorKind::Malformed);
    }
}

TEST(SmartLogSamples, ClientDriveInUse) {
    SAMPLE_OR_SKIP(page, "wd-sn550-log02-smart.bin");
    EXPECT_EQ(decode_smart_log(*page), Result<SmartLog>(SmartLog{.critical_warning = 0,
                                                                 .temperature_c = 0x131 - 273,
                                                                 .available_spare = 100,
                                                                 .available_spare_threshold = 10,
                                                                 .percentage_used = 17,
                                                                 .data_units_read = 697073929,
                                                                 .data_units_written = 236226636,
                                                                 .host_reads = 9314262073,
                                                                 .host_writes = 5212102971,
                                                                 .power_cycles = 153,
                                                                 .power_on_hours = 1779,
                                                                 .unsafe_shutdowns = 23,
                                                                 .media_errors = 0,
                                                                 .error_log_entries = 1,
                                                                 .warning_temp_minutes = 53,
                                                                 .critical_temp_minutes = 2}));
}

} // namespace
} // namespace nvmaint::nvme
