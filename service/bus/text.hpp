// Text at the border to D-Bus. A bus disconnects a peer that sends a string which is not UTF-8
// (D-Bus specification, "Valid UTF-8"), and a string cannot hold a NUL; what devices and mount
// tables give us may be neither.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::bus {

// Valid UTF-8 stays as it is, each byte that is none becomes "\xff" in four characters; so do
// NUL and the bytes of Unicode's noncharacters, which sd-bus refuses.
[[nodiscard]] std::string to_bus_text(std::string_view bytes);
[[nodiscard]] std::vector<std::string> to_bus_text(const std::vector<std::string>& list);

// The same for text that is JSON, where "\x" would be a syntax error: U+FFFD for each such byte.
[[nodiscard]] std::string to_bus_json(std::string_view bytes);

} // namespace nvmaint::bus
