#include "values/smart_log.hpp"

#include "values/bytes.hpp"

#include <fmt/format.h>

namespace nvmaint::nvme {
namespace {

constexpr std::size_t kSmartBytes = 512;

// Kelvin as Celsius. Virtual controllers leave 0 K: not a temperature. Signed: cold chambers exist.
std::optional<std::int32_t> celsius(std::uint16_t kelvin) {
    if (kelvin == 0) {
        return std::nullopt;
    }
    return static_cast<std::int32_t>(kelvin) - 273;
}

} // namespace

Result<SmartLog> decode_smart_log(std::span<const std::uint8_t> page) {
    if (page.size() != kSmartBytes) {
        return Error::make(ErrorKind::Malformed,
                           fmt::format("SMART log page of {} bytes", page.size()));
    }
    return SmartLog{
        .critical_warning = load_u8(page, 0),
        .temperature_c = celsius(load_u16(page, 1)),
        .available_spare = load_u8(page, 3),
        .available_spare_threshold = load_u8(page, 4),
        .percentage_used = load_u8(page, 5),
        .data_units_read = load_u128_saturating(page, 32),
        .data_units_written = load_u128_saturating(page, 48),
        .host_reads = load_u128_saturating(page, 64),
        .host_writes = load_u128_saturating(page, 80),
        .power_cycles = load_u128_saturating(page, 112),
        .power_on_hours = load_u128_saturating(page, 128),
        .unsafe_shutdowns = load_u128_saturating(page, 144),
        .media_errors = load_u128_saturating(page, 160),
        .error_log_entries = load_u128_saturating(page, 176),
        .warning_temp_minutes = load_u32(page, 192),
        .critical_temp_minutes = load_u32(page, 196),
    };
}

} // namespace nvmaint::nvme
