// SPDX-License-Identifier: Apache-2.0
//
// The simulated drive as an nbdkit plugin: nbdkit-plugin(3) is the interface. QEMU attaches the
// server as the medium of an emulated NVMe disk, so a guest's FLUSH, FUA write and deallocate
// arrive here as NBD flush, write with FUA and trim.

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "device.hpp"
#include "options.hpp"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

namespace {

using ssdsim::Device;
using ssdsim::Options;

constexpr unsigned kHangPollNs = 20'000'000;

// What nbdkit's callbacks share; they have no other argument before a client connects.
struct Plugin {
    Options options;
    std::unique_ptr<Device> device;
};

Plugin& plugin() {
    static Plugin instance;
    return instance;
}

Device& device() {
    return *plugin().device;
}

int fail(const std::string& error) {
    nbdkit_error("ssdsim: %s", error.c_str());
    return -1;
}

struct Free {
    void operator()(char* text) const { std::free(text); }
};

int config(const char* key, const char* value) noexcept {
    std::string text = value;
    if (std::string_view(key) == "log" || std::string_view(key) == "hang_flush_file") {
        // nbdkit changes to / before it serves.
        const std::unique_ptr<char, Free> path(nbdkit_absolute_path(value));
        if (!path) {
            return -1;
        }
        text = path.get();
    }
    const auto taken = plugin().options.set(key, text);
    return taken ? 0 : fail(taken.error());
}

int config_complete() noexcept {
    const auto settings = plugin().options.resolve();
    return settings ? 0 : fail(settings.error());
}

int get_ready() noexcept {
    const auto settings = plugin().options.resolve();
    if (!settings) {
        return fail(settings.error());
    }
    auto created = Device::create(*settings);
    if (!created) {
        return fail(created.error());
    }
    plugin().device = std::move(*created);
    return 0;
}

void cleanup() noexcept {
    plugin().device.reset();
}

void* open_handle(int /*readonly*/) noexcept {
    return &plugin();
}

std::int64_t get_size(void* /*handle*/) noexcept {
    return static_cast<std::int64_t>(device().size());
}

int yes(void* /*handle*/) noexcept {
    return 1;
}

int can_fua(void* /*handle*/) noexcept {
    return NBDKIT_FUA_NATIVE;
}

int block_size(void* /*handle*/, std::uint32_t* minimum, std::uint32_t* preferred,
               std::uint32_t* maximum) noexcept {
    *minimum = 512;
    *preferred = ssdsim::kPageSize;
    *maximum = 32U << 20U;
    return 0;
}

int pread_data(void* /*handle*/, void* buffer, std::uint32_t count, std::uint64_t offset,
               std::uint32_t /*flags*/) noexcept {
    device().read(offset, std::span(static_cast<std::byte*>(buffer), count));
    return 0;
}

int pwrite_data(void* /*handle*/, const void* buffer, std::uint32_t count, std::uint64_t offset,
                std::uint32_t flags) noexcept {
    device().write(offset, std::span(static_cast<const std::byte*>(buffer), count),
                   (flags & NBDKIT_FLAG_FUA) != 0);
    return 0;
}

int flush(void* /*handle*/, std::uint32_t /*flags*/) noexcept {
    if (device().flush_hangs()) {
        device().log_hang(true);
        while (device().flush_hangs()) {
            // Fails when the server shuts down or the client is gone.
            if (nbdkit_nanosleep(0, kHangPollNs) != 0) {
                return -1;
            }
        }
        device().log_hang(false);
    }
    device().flush();
    return 0;
}

int trim(void* /*handle*/, std::uint32_t count, std::uint64_t offset,
         std::uint32_t /*flags*/) noexcept {
    // The map is updated at once and nothing can be lost, so FUA needs no more.
    device().trim(offset, count);
    return 0;
}

int extents(void* /*handle*/, std::uint32_t count, std::uint64_t offset, std::uint32_t flags,
            nbdkit_extents* list) noexcept {
    const std::uint64_t end = offset + count;
    while (offset < end) {
        const ssdsim::Extent extent = device().extent_at(offset, end);
        const std::uint32_t type = extent.has_data ? 0 : NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO;
        if (nbdkit_add_extent(list, extent.offset, extent.length, type) != 0) {
            return -1;
        }
        if ((flags & NBDKIT_FLAG_REQ_ONE) != 0) {
            return 0;
        }
        offset += extent.length;
    }
    return 0;
}

const std::string& config_help() {
    static const std::string text = Options::help();
    return text;
}

nbdkit_plugin describe() {
    nbdkit_plugin self{};
    self.name = "ssdsim";
    self.longname = "simulated SSD";
    self.description = "An SSD with a flash translation layer that takes as long as a drive would";
    self.config = config;
    self.config_complete = config_complete;
    self.config_help = config_help().c_str();
    self.get_ready = get_ready;
    self.cleanup = cleanup;
    self.open = open_handle;
    self.get_size = get_size;
    self.can_write = yes;
    self.can_flush = yes;
    self.can_trim = yes;
    self.can_fua = can_fua;
    self.can_multi_conn = yes; // all connections share one cache, a flush covers it whole
    self.can_extents = yes;
    self.block_size = block_size;
    self.pread = pread_data;
    self.pwrite = pwrite_data;
    self.flush = flush;
    self.trim = trim;
    self.extents = extents;
    return self;
}

nbdkit_plugin registration = describe();

} // namespace

NBDKIT_REGISTER_PLUGIN(registration)
