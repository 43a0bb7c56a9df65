// Identify data structures, decoded: the fields this project judges by. Layout: NVM Express Base
// Specification 2.0, "Identify Controller data structure (CNS 01h)" and NVM Command Set
// Specification, "Identify Namespace data structure (CNS 00h)".
#pragma once

#include "values/result.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace nvmaint::nvme {

struct IdentifyController {
    std::uint16_t vendor_id = 0;
    std::string serial; // cleaned by identity_text(): printable, trimmed, foreign bytes as \xNN
    std::string model;
    std::string firmware;
    std::uint16_t controller_id = 0;
    std::uint32_t version = 0;             // VER; 0 before NVMe 1.2
    std::uint16_t warning_temp_k = 0;      // WCTEMP, kelvin; 0 = not reported
    std::uint16_t critical_temp_k = 0;     // CCTEMP, kelvin; 0 = not reported
    std::uint8_t error_log_entries = 0;    // ELPE, 0-based
    std::uint8_t log_page_attributes = 0;  // LPA
    std::uint16_t optional_commands = 0;   // ONCS; bit 2: Dataset Management
    std::uint8_t volatile_write_cache = 0; // VWC; bit 0: present
    std::uint32_t namespace_count = 0;     // NN
    std::uint8_t multipath = 0;            // CMIC
    std::string subsystem_nqn;             // cleaned likewise

    [[nodiscard]] bool supports_dataset_management() const { return (optional_commands & 4U) != 0; }
    [[nodiscard]] bool has_volatile_write_cache() const { return (volatile_write_cache & 1U) != 0; }
    bool operator==(const IdentifyController&) const = default;
};

struct IdentifyNamespace {
    std::uint64_t size_blocks = 0;        // NSZE, logical blocks
    std::uint64_t capacity_blocks = 0;    // NCAP
    std::uint64_t utilization_blocks = 0; // NUSE; a constant on most drives, so a hint at best
    std::uint8_t features = 0;            // NSFEAT
    std::uint32_t block_bytes = 0;        // 2^LBADS of the format in use; 0 = not a valid format
    std::uint16_t metadata_bytes = 0;     // MS of the format in use
    bool metadata_extended = false;       // FLBAS bit 4
    std::uint8_t deallocate_features = 0; // DLFEAT
    std::optional<std::uint32_t>
        preferred_deallocate_blocks;      // NPDG + 1, where OPTPERF says it holds
    std::array<std::uint8_t, 16> nguid{}; // all zero = not reported
    std::array<std::uint8_t, 8> eui64{};  // all zero = not reported

    bool operator==(const IdentifyNamespace&) const = default;
};

// `page` is exactly 4096 bytes. Errors: Malformed (other length).
[[nodiscard]] Result<IdentifyController>
decode_identify_controller(std::span<const std::uint8_t> page);
[[nodiscard]] Result<IdentifyNamespace>
decode_identify_namespace(std::span<const std::uint8_t> page);

// A fixed-width identity field as text for people, JSON and D-Bus: cut at the first NUL or newline,
// trimmed of blanks on the right and left, every byte outside 20h-7Eh written as \xNN, always valid
// UTF-8.
[[nodiscard]] std::string identity_text(std::span<const std::uint8_t> field);

} // namespace nvmaint::nvme
