#include "bus/text.hpp"

#include <gtest/gtest.h>

namespace nvmaint::bus {

struct Row {
    const char* bytes;
    const char* text;
};

class BusText : public testing::TestWithParam<Row> {};

TEST_P(BusText, IsUtf8WhateverTheBytes) {
    EXPECT_EQ(to_bus_text(GetParam().bytes), GetParam().text);
}

// RFC 3629, section 4: the first and last well-formed sequence of each length, and their
// neighbours.
INSTANTIATE_TEST_SUITE_P(
    Bytes, BusText,
    testing::Values(Row{"", ""}, Row{"\x01\n\x7f", "\x01\n\x7f"}, Row{"\x80", "\\x80"},
                    Row{"\xbf", "\\xbf"}, Row{"\xc1\xbf", "\\xc1\\xbf"},
                    Row{"\xc2\x80", "\xc2\x80"}, Row{"\xc2\x7f", "\\xc2\x7f"},
                    Row{"\xc2\xc0", "\\xc2\\xc0"}, Row{"\xdf\xbf", "\xdf\xbf"},
                    Row{"\xe0\x9f\xbf", "\\xe0\\x9f\\xbf"}, Row{"\xe0\xa0\x80", "\xe0\xa0\x80"},
                    Row{"\xed\x9f\xbf", "\xed\x9f\xbf"}, Row{"\xed\xa0\x80", "\\xed\\xa0\\x80"},
                    Row{"\xee\x80\x80", "\xee\x80\x80"}, Row{"\xef\xbf\xbd", "\xef\xbf\xbd"},
                    Row{"\xef\xbf\xbe", "\\xef\\xbf\\xbe"}, Row{"\xef\xb7\x8f", "\xef\xb7\x8f"},
                    Row{"\xef\xb7\x90", "\\xef\\xb7\\x90"}, Row{"\xef\xb7\xaf", "\\xef\\xb7\\xaf"},
                    Row{"\xef\xb7\xb0", "\xef\xb7\xb0"},
                    Row{"\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf"},
                    Row{"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
                    Row{"\xf0\x9f\xbf\xbf", "\\xf0\\x9f\\xbf\\xbf"},
                    Row{"\xf4\x8f\xbf\xbd", "\xf4\x8f\xbf\xbd"},
                    Row{"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, Row{"\xf5", "\\xf5"},
                    Row{"\xff", "\\xff"}, Row{"a\xe2\x82", "a\\xe2\\x82"}, // cut off
                    Row{"\xe2\x82\xac\xe2", "\xe2\x82\xac\\xe2"}));

TEST(BusText, NulIsEscapedAndNotTheEnd) {
    EXPECT_EQ(to_bus_text(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(BusJson, StaysJson) {
    EXPECT_EQ(to_bus_json("{\"a\": \"\xff\"}"), "{\"a\": \"\xef\xbf\xbd\"}");
}

} // namespace nvmaint::bus
