// Takes what names a machine out of a recording: serial numbers, world-wide names, NQNs, host
// names, machine ids, network addresses. Each is replaced by a pseudonym, the same for the same
// secret, so that what belonged together still does, and two recordings of one host can be
// compared. A pseudonym is a keyed hash (SipHash-2-4 with 128 bits); the key comes from the host's
// machine-id, which is not recorded, or from chance where there is none.
//
// UUIDs of filesystems, names of volumes and mount points, and PCI addresses stay.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nvmaint::collect {

using HashKey = std::array<std::uint8_t, 16>;
// SipHash-2-4 with 128 bits of result (Aumasson and Bernstein, https://github.com/veorq/SipHash).
[[nodiscard]] std::array<std::uint8_t, 16> sip_hash_128(const HashKey& key, std::string_view data);

class Redactor {
  public:
    enum class Kind { Serial, WorldWideName, Nqn, HostName, MachineId, Address };

    explicit Redactor(const HashKey& key) : key_(key) {}

    // From now on `secret` is replaced wherever it stands. Short ones and plain small numbers are
    // not looked for in text, where they would mean something else.
    void learn(Kind kind, std::string_view secret);
    // Learns what udev's record of a device, or a list of mounts, gives away.
    void learn_udev(std::string_view data);

    // Twelve capital letters and digits; as a NQN for those.
    [[nodiscard]] std::string pseudonym(Kind kind, std::string_view secret) const;

    // A file of the recording. `path` decides what its content is.
    [[nodiscard]] std::string file(const std::string& path, std::string_view content) const;
    // Any text: names of /dev/disk/by-id, and every learned secret.
    [[nodiscard]] std::string text(std::string_view content) const;
    // The last part of a link in /dev/disk/by-id.
    [[nodiscard]] std::string by_id_name(std::string_view name) const;
    // Identify pages, in place; `page` is 4096 bytes. The vendor's own bytes become zero.
    void identify_controller(std::span<std::uint8_t> page) const;
    void identify_namespace(std::span<std::uint8_t> page) const;

    // What was looked for: the manifest's list.
    [[nodiscard]] static std::vector<std::string> kinds();

  private:
    struct Replacement {
        std::string pseudonym;
        bool anywhere = false; // also within a longer word
    };
    struct LongestFirst {
        bool operator()(const std::string& a, const std::string& b) const {
            return a.size() != b.size() ? a.size() > b.size() : a < b;
        }
    };
    [[nodiscard]] std::string udev(std::string_view data) const;

    HashKey key_;
    std::map<std::string, Replacement, LongestFirst> secrets_;
};

} // namespace nvmaint::collect
