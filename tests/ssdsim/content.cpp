// SPDX-License-Identifier: Apache-2.0
#include "content.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>

namespace ssdsim {

namespace {

constexpr std::uint64_t kNoZeroByte = 0x0101010101010101ULL;

} // namespace

tl::expected<Content, std::string> Content::create(std::uint32_t pages, std::uint64_t seed) {
    const std::size_t length = std::size_t{pages} * kPageSize;
    void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return tl::unexpected(std::string("memory for the drive's content: ") +
                              strerrordesc_np(errno));
    }
    return Content(Memory(static_cast<std::byte*>(memory), Unmap{length}), pages, seed);
}

Content::Content(Memory memory, std::uint32_t pages, std::uint64_t seed)
    : memory_(std::move(memory)), written_(pages, false), seed_(seed) {}

void Content::Unmap::operator()(std::byte* memory) const {
    munmap(memory, length);
}

void Content::discard(LogicalPage first, std::uint32_t count) {
    if (count == 0) {
        return;
    }
    for (LogicalPage page = first; page < first + count; ++page) {
        written_[page] = false;
    }
    // Pages of private anonymous memory read as zeros after this; it cannot fail on a mapping that
    // is not locked.
    madvise(page_memory(first), std::size_t{count} * kPageSize, MADV_DONTNEED);
}

void Content::read_page(LogicalPage page, std::uint32_t at, std::span<std::byte> into,
                        bool has_data) const {
    if (!has_data) {
        std::fill(into.begin(), into.end(), std::byte{0});
    } else if (written_[page]) {
        std::memcpy(into.data(), page_memory(page) + at, into.size());
    } else {
        std::array<std::byte, kPageSize> noise{};
        make_noise(page, noise);
        std::memcpy(into.data(), noise.data() + at, into.size());
    }
}

void Content::write_page(LogicalPage page, std::uint32_t at, std::span<const std::byte> from,
                         bool has_data) {
    if (from.size() < kPageSize && has_data && !written_[page]) {
        make_noise(page, std::span<std::byte, kPageSize>(page_memory(page), kPageSize));
    }
    std::memcpy(page_memory(page) + at, from.data(), from.size());
    written_[page] = true;
}

void Content::make_noise(LogicalPage page, std::span<std::byte, kPageSize> into) const {
    Random random(seed_ * 0x100000001b3ULL + page);
    for (std::size_t at = 0; at < kPageSize; at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random.next() | kNoZeroByte;
        std::memcpy(into.data() + at, &word, sizeof word);
    }
}

std::byte* Content::page_memory(LogicalPage page) const {
    return memory_.get() + std::size_t{page} * kPageSize;
}

} // namespace ssdsim
