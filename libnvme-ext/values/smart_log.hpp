// SMART / Health Information log (Log Identifier 02h), decoded. Layout: NVM Express Base
// Specification 2.0, figure "SMART / Health Information Log Page".
#pragma once

#include "values/result.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace nvmaint::nvme {

// 128-bit counters of the log saturate at 2^64 - 1 here; no real drive comes near.
struct SmartLog {
    std::uint8_t critical_warning = 0;          // bits 0..5
    std::optional<std::int32_t> temperature_c;  // Celsius, signed; 0 K = not reported
    std::uint8_t available_spare = 0;           // percent
    std::uint8_t available_spare_threshold = 0; // percent; compare only where 1..100
    std::uint8_t percentage_used = 0;           // 0..255, 255 = 255 or more
    std::uint64_t data_units_read = 0;          // x 512000 bytes; 0 = not reported
    std::uint64_t data_units_written = 0;       // x 512000 bytes; 0 = not reported
    std::uint64_t host_reads = 0;
    std::uint64_t host_writes = 0;
    std::uint64_t power_cycles = 0;
    std::uint64_t power_on_hours = 0;
    std::uint64_t unsafe_shutdowns = 0;
    std::uint64_t media_errors = 0;
    std::uint64_t error_log_entries = 0;
    std::uint32_t warning_temp_minutes = 0;
    std::uint32_t critical_temp_minutes = 0;

    bool operator==(const SmartLog&) const = default;
};

// `page` is exactly 512 bytes. Errors: Malformed (other length).
[[nodiscard]] Result<SmartLog> decode_smart_log(std::span<const std::uint8_t> page);

} // namespace nvmaint::nvme
