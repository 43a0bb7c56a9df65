// Device-mapper tables. They may carry encryption keys: those are made zeros before a table becomes
// a string that anybody else sees.
#pragma once

#include "values/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::collect {

// One table line's parameters with key material as zeros: the key of "crypt", and every long run of
// hexadecimal digits of any target. A key in the kernel's keyring (":64:logon:...") is only a
// reference and stays.
[[nodiscard]] std::string without_keys(std::string_view target, std::string_view parameters);

// Lines as `dmsetup table` prints them, "NAME: START LENGTH TARGET PARAMETERS", by name without the
// name. Lines of another form are passed over.
[[nodiscard]] std::map<std::string, std::vector<std::string>>
parse_dm_tables(std::string_view text);

// Tables of these devices from the running kernel, in the form above. A device that is gone
// meanwhile has no line. Needs CAP_SYS_ADMIN. Errors: System.
[[nodiscard]] Result<std::string> read_dm_tables_live(const std::vector<std::string>& names);

} // namespace nvmaint::collect
