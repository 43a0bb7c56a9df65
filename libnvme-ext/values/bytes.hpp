// Little-endian loads from a page. Pages come from drives and from files people send: the caller
// has checked the page's length once, offsets are constants of the specification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace nvmaint::nvme {

[[nodiscard]] constexpr std::uint64_t load_little(std::span<const std::uint8_t> page,
                                                  std::size_t offset, std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i > 0; --i) {
        value = value << 8U | page[offset + i - 1];
    }
    return value;
}

[[nodiscard]] constexpr std::uint8_t load_u8(std::span<const std::uint8_t> page,
                                             std::size_t offset) {
    return page[offset];
}
[[nodiscard]] constexpr std::uint16_t load_u16(std::span<const std::uint8_t> page,
                                               std::size_t offset) {
    return static_cast<std::uint16_t>(load_little(page, offset, 2));
}
[[nodiscard]] constexpr std::uint32_t load_u32(std::span<const std::uint8_t> page,
                                               std::size_t offset) {
    return static_cast<std::uint32_t>(load_little(page, offset, 4));
}
[[nodiscard]] constexpr std::uint64_t load_u64(std::span<const std::uint8_t> page,
                                               std::size_t offset) {
    return load_little(page, offset, 8);
}
// A 128-bit counter; saturates at 2^64 - 1.
[[nodiscard]] constexpr std::uint64_t load_u128_saturating(std::span<const std::uint8_t> page,
                                                           std::size_t offset) {
    return load_u64(page, offset + 8) != 0 ? std::numeric_limits<std::uint64_t>::max()
                                           : load_u64(page, offset);
}

} // namespace nvmaint::nvme
