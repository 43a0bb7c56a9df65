#include "core/time.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace nvmaint::core {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;

WallTime at(std::int64_t s, std::int64_t us = 0) {
    return WallTime{seconds{s} + microseconds{us}};
}

TEST(Time, PrintsRfc3339InUtcWithoutFractions) {
    EXPECT_EQ(to_rfc3339(at(0)), "1970-01-01T00:00:00Z");
    EXPECT_EQ(to_rfc3339(at(1796071653, 999'999)), "2026-11-30T20:47:33Z");
    EXPECT_EQ(to_rfc3339(at(-1, 500'000)), "1969-12-31T23:59:59Z");
}

struct Good {
    std::string text;
    WallTime time;
};
class TimeGood : public testing::TestWithParam<Good> {};
TEST_P(TimeGood, IsParsed) {
    const auto parsed = parse_rfc3339(GetParam().text);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().text();
    EXPECT_EQ(*parsed, GetParam().time);
}
INSTANTIATE_TEST_SUITE_P(
    Rfc3339, TimeGood,
    testing::Values(Good{"1970-01-01T00:00:00Z", at(0)},
                    Good{"2026-11-30T20:47:33Z", at(1796071653)},
                    Good{"2026-11-30t20:47:33z", at(1796071653)},
                    Good{"2026-11-30 20:47:33Z", at(1796071653)},
                    Good{"2026-11-30T20:47:33.5Z", at(1796071653, 500'000)},
                    Good{"2026-11-30T20:47:33.123456789Z", at(1796071653, 123'456)},
                    Good{"2026-11-30T22:17:33+01:30", at(1796071653)},
                    Good{"2026-11-30T18:47:33-02:00", at(1796071653)},
                    Good{"2024-02-29T00:00:00Z", at(1709164800)},
                    Good{"2016-12-31T23:59:60Z", at(1483228800)}, // a leap second
                    Good{"1969-12-31T23:59:59Z", at(-1)}));

class TimeBad : public testing::TestWithParam<std::string> {};
TEST_P(TimeBad, IsMalformed) {
    const auto parsed = parse_rfc3339(GetParam());
    ASSERT_FALSE(parsed.has_value());
    EXPECT_EQ(parsed.error().kind, ErrorKind::Malformed);
}
INSTANTIATE_TEST_SUITE_P(
    Rfc3339, TimeBad,
    testing::Values("", "2026", "2026-11-30", "2026-11-30T20:47Z", "2026-11-30T20:47:33",
                    "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z",
                    "2026-11-31T00:00:00Z", "2026-11-30T24:00:00Z", "2026-11-30T20:60:00Z",
                    "2026-11-30T20:47:61Z", "2026-11-30T20:47:33.Z", "2026-11-30T20:47:33+24:00",
                    "2026-11-30T20:47:33+1:00", "2026-11-30T20:47:33+01:60",
                    "2026-11-30T20:47:33Zx", " 2026-11-30T20:47:33Z", "-026-11-30T20:47:33Z",
                    "2026/11/30T20:47:33Z", "+2026-11-30T20:47:33Z",
                    std::string(5000, '9') + "-01-01T00:00:00Z",
                    std::string("2026-11-30T20:47:33Z\0", 21)));

TEST(Time, RoundTrips) {
    for (std::int64_t s = -4'000'000'000; s < 8'000'000'000; s += 123'456'789) {
        const auto parsed = parse_rfc3339(to_rfc3339(at(s)));
        ASSERT_TRUE(parsed.has_value());
        EXPECT_EQ(*parsed, at(s));
    }
}

struct Span {
    nanoseconds span;
    std::string text;
};
class TimeHumane : public testing::TestWithParam<Span> {};
TEST_P(TimeHumane, UsesTwoUnitsAtMost) {
    EXPECT_EQ(humane(GetParam().span), GetParam().text);
}
INSTANTIATE_TEST_SUITE_P(
    Spans, TimeHumane,
    testing::Values(Span{days{3} + hours{4} + minutes{59}, "3 days 4 h"}, Span{days{1}, "1 day"},
                    Span{days{1} + minutes{59}, "1 day"}, Span{hours{2} + minutes{5}, "2 h 5 min"},
                    Span{minutes{1}, "1 min"}, Span{seconds{90}, "1 min 30 s"},
                    Span{seconds{59}, "59 s"}, Span{seconds{40}, "40 s"},
                    Span{milliseconds{12}, "12 ms"}, Span{milliseconds{1500}, "1.5 s"},
                    Span{microseconds{2300}, "2.3 ms"}, Span{microseconds{2001}, "2 ms"},
                    Span{nanoseconds{564'000}, "564 us"}, Span{nanoseconds{1}, "1 ns"},
                    Span{nanoseconds{0}, "0 s"}, Span{-seconds{90}, "-1 min 30 s"},
                    Span{nanoseconds{std::numeric_limits<std::int64_t>::max()}, "106751 days 23 h"},
                    Span{nanoseconds{std::numeric_limits<std::int64_t>::min()},
                         "-106751 days 23 h"}));

struct Size {
    std::uint64_t bytes;
    std::string text;
};
class TimeBytes : public testing::TestWithParam<Size> {};
TEST_P(TimeBytes, AreBinary) {
    EXPECT_EQ(humane_bytes(GetParam().bytes), GetParam().text);
}
INSTANTIATE_TEST_SUITE_P(
    Sizes, TimeBytes,
    testing::Values(Size{0, "0 B"}, Size{512, "512 B"}, Size{1023, "1023 B"}, Size{1024, "1.0 KiB"},
                    Size{842'729'443'328, "784.9 GiB"}, Size{978'735'104, "933.4 MiB"},
                    Size{(1ULL << 20) - 1, "1.0 MiB"}, Size{1ULL << 40, "1.0 TiB"},
                    Size{std::numeric_limits<std::uint64_t>::max(), "16.0 EiB"}));

} // namespace
} // namespace nvmaint::core
