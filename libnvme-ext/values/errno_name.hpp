// errno numbers and the names people write in recordings ("ENOENT"). The numbers are those of the
// machine this runs on; recordings hold names, so that they mean the same everywhere.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nvmaint {

// "ENOENT"; the decimal number where the C library knows no name.
[[nodiscard]] std::string errno_name(int number);
// Accepts what errno_name() gives. Nothing for anything else.
[[nodiscard]] std::optional<int> parse_errno_name(std::string_view name);

} // namespace nvmaint
