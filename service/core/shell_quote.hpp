// Words for lines that people paste into a shell. Mount points and mapping names are chosen by
// others, also by whoever labels a memory stick.
#pragma once

#include <string>
#include <string_view>

namespace nvmaint::core {

// The word as a shell takes it (bash, zsh; also dash where it has no control characters): as it is
// where every byte is harmless, else in quotes; control characters only as escapes, so that the
// result is one line.
[[nodiscard]] std::string shell_quoted(std::string_view word);

// The word as a field of fstab(5): blanks, backslashes and control characters as octal escapes.
[[nodiscard]] std::string fstab_field(std::string_view word);

} // namespace nvmaint::core
