#include "values/identify.hpp"

#include "values/bytes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nvmaint::nvme {
namespace {

constexpr std::size_t kIdentifyBytes = 4096;
constexpr std::uint8_t kOptPerf = 1U << 4U; // NSFEAT: NPWG, NPWA, NPDG, NPDA and NOWS are defined

bool is_blank(std::uint8_t byte) {
    return byte == ' ' || byte == '\t' || byte == '\r';
}

// The format in use. FLBAS bits 6:5 extend the index only where more than 16 formats exist.
std::size_t format_index(std::uint8_t format_count_0based, std::uint8_t flbas) {
    const std::size_t low = flbas & 0x0fU;
    return format_count_0based > 15 ? low | ((flbas & 0x60U) >> 1U) : low;
}

} // namespace

std::string identity_text(std::span<const std::uint8_t> field) {
    const auto end_of_text = std::find_if(
        field.begin(), field.end(), [](std::uint8_t byte) { return byte == 0 || byte == '\n'; });
    std::span<const std::uint8_t> text(field.begin(), end_of_text);
    while (!text.empty() && is_blank(text.back())) {
        text = text.first(text.size() - 1);
    }
    while (!text.empty() && is_blank(text.front())) {
        text = text.subspan(1);
    }
    std::string clean;
    for (const std::uint8_t byte : text) {
        if (byte >= 0x20 && byte <= 0x7e) {
            clean += static_cast<char>(byte);
        } else {
            clean += fmt::format("\\x{:02x}", byte);
        }
    }
    return clean;
}

Result<IdentifyController> decode_identify_controller(std::span<const std::uint8_t> page) {
    if (page.size() != kIdentifyBytes) {
        return Error::make(ErrorKind::Malformed,
                           fmt::format("Identify Controller page of {} bytes", page.size()));
    }
    return IdentifyController{
        .vendor_id = load_u16(page, 0),
        .serial = identity_text(page.subspan(4, 20)),
        .model = identity_text(page.subspan(24, 40)),
        .firmware = identity_text(page.subspan(64, 8)),
        .controller_id = load_u16(page, 78),
        .version = load_u32(page, 80),
        .warning_temp_k = load_u16(page, 266),
        .critical_temp_k = load_u16(page, 268),
        .error_log_entries = load_u8(page, 262),
        .log_page_attributes = load_u8(page, 261),
        .optional_commands = load_u16(page, 520),
        .volatile_write_cache = load_u8(page, 525),
        .namespace_count = load_u32(page, 516),
        .multipath = load_u8(page, 76),
        .subsystem_nqn = identity_text(page.subspan(768, 256)),
    };
}

Result<IdentifyNamespace> decode_identify_namespace(std::span<const std::uint8_t> page) {
    if (page.size() != kIdentifyBytes) {
        return Error::make(ErrorKind::Malformed,
                           fmt::format("Identify Namespace page of {} bytes", page.size()));
    }
    const std::uint8_t flbas = load_u8(page, 26);
    const std::size_t format = 128 + 4 * format_index(load_u8(page, 25), flbas);
    const std::uint8_t lbads = load_u8(page, format + 2);
    IdentifyNamespace ns{
        .size_blocks = load_u64(page, 0),
        .capacity_blocks = load_u64(page, 8),
        .utilization_blocks = load_u64(page, 16),
        .features = load_u8(page, 24),
        // "A value less than 9 is not supported" (LBADS); over 31 is no power of two we can hold.
        .block_bytes = lbads >= 9 && lbads <= 31 ? 1U << lbads : 0U,
        .metadata_bytes = load_u16(page, format),
        .metadata_extended = (flbas & 0x10U) != 0,
        .deallocate_features = load_u8(page, 33),
        .preferred_deallocate_blocks = std::nullopt,
        .nguid = {},
        .eui64 = {},
    };
    if ((ns.features & kOptPerf) != 0) {
        ns.preferred_deallocate_blocks = load_u16(page, 68) + 1U;
    }
    std::copy_n(page.begin() + 104, ns.nguid.size(), ns.nguid.begin());
    std::copy_n(page.begin() + 120, ns.eui64.size(), ns.eui64.begin());
    return ns;
}

} // namespace nvmaint::nvme
