#include "collect/redact.hpp"

#include "collect/text.hpp"
#include "values/identify.hpp"

#include <algorithm>
#include <bit>
#include <cctype>

namespace nvmaint::collect {
namespace {

constexpr std::size_t kPseudonymLetters = 12; // 60 bits
constexpr std::size_t kAnywhere = 8;          // a secret this long is itself wherever it stands
constexpr std::size_t kShortest = 6;          // shorter ones are ordinary words and numbers
constexpr std::size_t kShortestNumber = 10;
constexpr std::size_t kShortestHostName = 3;

// Host names that mean something else in a recording.
constexpr std::array<std::string_view, 18> kCommonWords = {
    "localhost", "localdomain", "debian",  "ubuntu", "fedora", "linux",
    "root",      "systemd",     "fstrim",  "nvme",   "loop",   "ext4",
    "xfs",       "btrfs",       "default", "disk",   "none",   "host",
};

struct SipState {
    std::uint64_t v0, v1, v2, v3;
    void rounds(int count) {
        for (int i = 0; i < count; ++i) {
            v0 += v1;
            v1 = std::rotl(v1, 13) ^ v0;
            v0 = std::rotl(v0, 32);
            v2 += v3;
            v3 = std::rotl(v3, 16) ^ v2;
            v0 += v3;
            v3 = std::rotl(v3, 21) ^ v0;
            v2 += v1;
            v1 = std::rotl(v1, 17) ^ v2;
            v2 = std::rotl(v2, 32);
        }
    }
    [[nodiscard]] std::uint64_t sum() const { return v0 ^ v1 ^ v2 ^ v3; }
};

std::uint64_t load_word(const char* bytes, std::size_t count) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < count; ++i) {
        word |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return word;
}

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool is_number(std::string_view text) {
    return text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
    const std::size_t nul = text.find('\0');
    text = text.substr(0, nul);
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    text.remove_prefix(begin);
    return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

// Whether udev's property names one device of its kind.
bool is_identity(std::string_view key) {
    return key.find("SERIAL") != std::string_view::npos ||
           key.find("WWN") != std::string_view::npos || key.starts_with("SCSI_IDENT_") ||
           key == "ID_NVME_EUI64" || key == "ID_NVME_NGUID";
}

// udev replaces blanks in what becomes part of a name.
std::string with_underscores(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c != ' ' && c != '\t') {
            out += c;
        } else if (out.empty() || out.back() != '_') {
            out += '_';
        }
    }
    return out;
}

bool ends_by_id_name(char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\'' || c == ',' || c == ':' ||
           c == ';' || c == ')' || c == ']';
}

} // namespace

std::array<std::uint8_t, 16> sip_hash_128(const HashKey& key, std::string_view data) {
    std::array<char, 16> bytes{};
    std::copy(key.begin(), key.end(), bytes.begin());
    const std::uint64_t k0 = load_word(bytes.data(), 8);
    const std::uint64_t k1 = load_word(bytes.data() + 8, 8);
    SipState s{k0 ^ 0x736f6d6570736575U, k1 ^ 0x646f72616e646f6dU ^ 0xeeU, k0 ^ 0x6c7967656e657261U,
               k1 ^ 0x7465646279746573U};
    const std::size_t whole = data.size() / 8 * 8;
    for (std::size_t at = 0; at <= whole; at += 8) {
        const bool last = at == whole;
        const std::uint64_t word =
            load_word(data.data() + at, last ? data.size() - whole : 8) |
            (last ? static_cast<std::uint64_t>(data.size() & 0xffU) << 56U : 0);
        s.v3 ^= word;
        s.rounds(2);
        s.v0 ^= word;
    }
    std::array<std::uint8_t, 16> hash{};
    for (std::size_t half = 0; half < 2; ++half) {
        (half == 0 ? s.v2 : s.v1) ^= half == 0 ? 0xeeU : 0xddU;
        s.rounds(4);
        for (std::size_t i = 0; i < 8; ++i) {
            hash[half * 8 + i] = static_cast<std::uint8_t>(s.sum() >> (8 * i));
        }
    }
    return hash;
}

std::string Redactor::pseudonym(Kind kind, std::string_view secret) const {
    static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    const std::array<std::uint8_t, 16> hash = sip_hash_128(key_, secret);
    std::string name = kind == Kind::Nqn ? "nqn.2014-08.org.nvmexpress:redacted:" : "";
    for (std::size_t i = 0; i < kPseudonymLetters; ++i) {
        name += kLetters[hash[i] % kLetters.size()];
    }
    return name;
}

void Redactor::learn(Kind kind, std::string_view secret) {
    secret = trimmed(secret);
    const bool host = kind == Kind::HostName;
    const std::size_t shortest = is_number(secret) ? kShortestNumber
                                 : host            ? kShortestHostName
                                                   : kShortest;
    if (secret.size() < shortest || (host && std::find(kCommonWords.begin(), kCommonWords.end(),
                                                       secret) != kCommonWords.end())) {
        return;
    }
    const Replacement replacement{pseudonym(kind, secret),
                                  secret.size() >= kAnywhere && !is_number(secret) && !host};
    secrets_.insert_or_assign(std::string(secret), replacement);
    secrets_.insert_or_assign(with_underscores(secret), replacement);
}

void Redactor::learn_udev(std::string_view data) {
    for (const std::string_view line : split_lines(data)) {
        const std::size_t equals = line.find('=');
        if (!line.starts_with("E:") || equals == std::string_view::npos) {
            continue;
        }
        const std::string_view key = line.substr(2, equals - 2);
        if (is_identity(key)) {
            learn(key.find("WWN") == std::string_view::npos ? Kind::Serial : Kind::WorldWideName,
                  line.substr(equals + 1));
        }
    }
}

std::string Redactor::by_id_name(std::string_view name) const {
    // Names and UUIDs of volumes, which also stand elsewhere.
    for (const std::string_view kept : {"dm-", "md-", "lvm-"}) {
        if (name.starts_with(kept)) {
            return std::string(name);
        }
    }
    const std::size_t bus = name.find('-');
    const std::size_t begin = bus == std::string_view::npos ? 0 : bus + 1;
    std::string_view part;
    const std::size_t dash = name.rfind("-part");
    if (dash != std::string_view::npos && dash >= begin && dash + 5 < name.size() &&
        is_number(name.substr(dash + 5))) {
        part = name.substr(dash);
    }
    const std::string_view secret = name.substr(begin, name.size() - part.size() - begin);
    return std::string(name.substr(0, begin)) + pseudonym(Kind::Serial, secret) + std::string(part);
}

std::string Redactor::text(std::string_view content) const {
    static constexpr std::string_view kById = "disk/by-id/";
    std::string out;
    for (std::size_t i = 0; i < content.size();) {
        if (content.substr(i).starts_with(kById)) {
            const std::size_t begin = i + kById.size();
            const auto end_of_name =
                std::find_if(content.begin() + static_cast<std::ptrdiff_t>(begin), content.end(),
                             ends_by_id_name);
            const auto end = static_cast<std::size_t>(end_of_name - content.begin());
            out += kById;
            if (end > begin) {
                out += by_id_name(content.substr(begin, end - begin));
            }
            i = end;
        } else {
            out += content[i++];
        }
    }
    for (const auto& [secret, replacement] : secrets_) {
        for (std::size_t at = out.find(secret); at != std::string::npos;
             at = out.find(secret, at)) {
            const std::size_t end = at + secret.size();
            const bool alone =
                (at == 0 || !is_word(out[at - 1])) && (end == out.size() || !is_word(out[end]));
            if (alone || replacement.anywhere) {
                out.replace(at, secret.size(), replacement.pseudonym);
                at += replacement.pseudonym.size();
            } else {
                at = end;
            }
        }
    }
    return out;
}

std::string Redactor::udev(std::string_view data) const {
    std::string out;
    for (const std::string_view line : split_lines(data)) {
        const std::size_t equals = line.find('=');
        if (line.starts_with("E:") && equals != std::string_view::npos &&
            is_identity(line.substr(2, equals - 2))) {
            out += std::string(line.substr(0, equals + 1)) +
                   pseudonym(Kind::Serial, line.substr(equals + 1));
        } else {
            out += text(line);
        }
        out += '\n';
    }
    return out;
}

std::string Redactor::file(const std::string& path, std::string_view content) const {
    if (path.starts_with("run/udev/data/")) {
        return udev(content);
    }
    if (!path.starts_with("sys/")) {
        return text(content);
    }
    const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    // As the Identify page's own field is cleaned, so that both get the same pseudonym.
    const std::string value =
        nvme::identity_text(std::vector<std::uint8_t>(content.begin(), content.end()));
    if (value.empty()) {
        return std::string(content);
    }
    if (name == "serial" || name == "wwid" || name == "nguid" || name == "eui" || name == "uuid") {
        return pseudonym(Kind::Serial, value) + "\n";
    }
    if (name == "subsysnqn" || name == "hostnqn") {
        return pseudonym(Kind::Nqn, value) + "\n";
    }
    // Numbers stay as they are, whatever they look like.
    const bool has_letters = std::any_of(value.begin(), value.end(), [](char c) {
        return std::isalpha(static_cast<unsigned char>(c)) != 0;
    });
    return has_letters ? text(content) : std::string(content);
}

void Redactor::identify_controller(std::span<std::uint8_t> page) const {
    const auto replace = [&](std::size_t offset, std::size_t width, Kind kind, std::uint8_t pad) {
        const std::span<std::uint8_t> field = page.subspan(offset, width);
        const std::string secret = nvme::identity_text(field);
        std::fill(field.begin(), field.end(), pad);
        if (!secret.empty()) {
            const std::string name = pseudonym(kind, secret);
            std::copy_n(name.begin(), std::min(name.size(), width), field.begin());
        }
    };
    replace(4, 20, Kind::Serial, ' ');
    replace(768, 256, Kind::Nqn, 0);
    const auto zero = [&](std::size_t offset, std::size_t width) {
        const std::span<std::uint8_t> field = page.subspan(offset, width);
        std::fill(field.begin(), field.end(), std::uint8_t{0});
    };
    zero(112, 16);    // FGUID
    zero(3072, 1024); // vendor specific
}

void Redactor::identify_namespace(std::span<std::uint8_t> page) const {
    for (const auto& [offset, width] : {std::pair(104U, 16U), std::pair(120U, 8U)}) {
        const std::span<std::uint8_t> field = page.subspan(offset, width);
        if (std::any_of(field.begin(), field.end(), [](std::uint8_t byte) { return byte != 0; })) {
            const std::array<std::uint8_t, 16> hash =
                sip_hash_128(key_, std::string(field.begin(), field.end()));
            std::copy_n(hash.begin(), width, field.begin());
        }
    }
    const std::span<std::uint8_t> vendor = page.subspan(384, 4096 - 384);
    std::fill(vendor.begin(), vendor.end(), std::uint8_t{0});
}

std::vector<std::string> Redactor::kinds() {
    return {"serial numbers", "world-wide names", "NQNs",
            "host names",     "machine ids",      "network addresses"};
}

} // namespace nvmaint::collect
