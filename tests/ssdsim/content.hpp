// SPDX-License-Identifier: Apache-2.0
//
// What the pages of the simulated drive hold: what the host wrote, in sparse memory; zeros where
// nothing is mapped; and on an aged drive, where an earlier owner's data are still mapped, noise
// that is made up on reading instead of being stored.
#pragma once

#include "ftl.hpp"

#include <tl/expected.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ssdsim {

class Content {
  public:
    // For so many pages, all without data. Error: no memory, in one line.
    [[nodiscard]] static tl::expected<Content, std::string> create(std::uint32_t pages,
                                                                   std::uint64_t seed);

    // Copies `into.size()` bytes from byte `offset`. `has_data(page)` says whether a page is
    // mapped; pages that are read as zeros, mapped ones that the host never wrote as noise (no zero
    // byte, the same for the same seed and page).
    template <typename HasData>
    void read(std::uint64_t offset, std::span<std::byte> into, const HasData& has_data) const {
        for_pages(offset, into.size(),
                  [&](LogicalPage page, std::uint32_t at, std::size_t done, std::uint32_t length) {
                      read_page(page, at, into.subspan(done, length), has_data(page));
                  });
    }

    // Stores `from` at byte `offset`. A page that is written in part keeps what it held, noise too.
    template <typename HasData>
    void write(std::uint64_t offset, std::span<const std::byte> from, const HasData& has_data) {
        for_pages(offset, from.size(),
                  [&](LogicalPage page, std::uint32_t at, std::size_t done, std::uint32_t length) {
                      write_page(page, at, from.subspan(done, length), has_data(page));
                  });
    }

    // Forgets whole pages and gives their memory back.
    void discard(LogicalPage first, std::uint32_t count);

  private:
    struct Unmap {
        std::size_t length;
        void operator()(std::byte* memory) const;
    };
    using Memory = std::unique_ptr<std::byte, Unmap>;

    Content(Memory memory, std::uint32_t pages, std::uint64_t seed);

    template <typename Visit>
    static void for_pages(std::uint64_t offset, std::size_t size, const Visit& visit) {
        std::size_t done = 0;
        while (done < size) {
            const std::uint64_t position = offset + done;
            const auto at = static_cast<std::uint32_t>(position % kPageSize);
            const auto length =
                static_cast<std::uint32_t>(std::min<std::size_t>(kPageSize - at, size - done));
            visit(static_cast<LogicalPage>(position / kPageSize), at, done, length);
            done += length;
        }
    }

    void read_page(LogicalPage page, std::uint32_t at, std::span<std::byte> into,
                   bool has_data) const;
    void write_page(LogicalPage page, std::uint32_t at, std::span<const std::byte> from,
                    bool has_data);
    void make_noise(LogicalPage page, std::span<std::byte, kPageSize> into) const;
    [[nodiscard]] std::byte* page_memory(LogicalPage page) const;

    Memory memory_;
    std::vector<bool> written_; // by the host since the page was last discarded
    std::uint64_t seed_;
};

} // namespace ssdsim
