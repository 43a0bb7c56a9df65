#include "values/errno_name.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>

namespace nvmaint {
namespace {

constexpr int kMaxErrno = 4095; // Linux include/linux/err.h, MAX_ERRNO

} // namespace

std::string errno_name(int number) {
    const char* name = strerrorname_np(number);
    return name != nullptr ? std::string(name) : std::to_string(number);
}

std::optional<int> parse_errno_name(std::string_view name) {
    int number = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (problem == std::errc() && end == name.data() + name.size()) {
        return number > 0 && number <= kMaxErrno ? std::optional(number) : std::nullopt;
    }
    for (int candidate = 1; candidate <= kMaxErrno; ++candidate) {
        const char* known = strerrorname_np(candidate);
        if (known != nullptr && name == known) {
            return candidate;
        }
    }
    if (name == "EWOULDBLOCK") { // names that share a number with another
        return EAGAIN;
    }
    if (name == "ENOTSUP") {
        return EOPNOTSUPP;
    }
    return std::nullopt;
}

} // namespace nvmaint
