#include "core/shell_quote.hpp"

#include <gtest/gtest.h>

namespace nvmaint::core {
namespace {

TEST(ShellQuote, LeavesHarmlessWordsAlone) {
    EXPECT_EQ(shell_quoted("/var/lib/db"), "/var/lib/db");
    EXPECT_EQ(shell_quoted("--listed-in"), "--listed-in");
}

TEST(ShellQuote, QuotesWhatAShellWouldRead) {
    EXPECT_EQ(shell_quoted(""), "''");
    EXPECT_EQ(shell_quoted("/media/MY DISK"), "'/media/MY DISK'");
    EXPECT_EQ(shell_quoted("/m/$(reboot)"), "'/m/$(reboot)'");
    EXPECT_EQ(shell_quoted("/m/it's"), R"('/m/it'\''s')");
    EXPECT_EQ(shell_quoted("/m/\xff"), "'/m/\xff'");
}

TEST(ShellQuote, KeepsControlCharactersFromTheTerminal) {
    EXPECT_EQ(shell_quoted("/m/a\nb'\\"), R"($'/m/a\012b\'\\')");
    EXPECT_EQ(shell_quoted(std::string_view("\x1b[2J\x7f", 5)), R"($'\033[2J\177')");
}

TEST(FstabField, EscapesAsTheManualSays) {
    EXPECT_EQ(fstab_field("/media/MY DISK"), R"(/media/MY\040DISK)");
    EXPECT_EQ(fstab_field("a\tb\\c#"), R"(a\011b\134c\043)");
}

} // namespace
} // namespace nvmaint::core
