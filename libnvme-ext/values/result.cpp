#include "values/result.hpp"

#include <fmt/format.h>

#include <system_error>

namespace nvmaint {

std::string Error::text() const {
    std::string tail;
    if (sys_errno != 0) {
        tail = std::generic_category().message(sys_errno);
    } else if (nvme_status != 0) {
        tail = fmt::format("NVMe status {:#x}", nvme_status);
    }
    if (context.empty()) {
        if (!tail.empty()) {
            return tail;
        }
        return kind == ErrorKind::NotRecorded ? "not recorded" : "unknown error";
    }
    return tail.empty() ? context : context + ": " + tail;
}

Error Error::in(const std::string& phrase) const& {
    Error outer = *this;
    outer.context = context.empty() ? phrase : phrase + ": " + context;
    return outer;
}

Error Error::system(int sys_errno, std::string context) {
    return {ErrorKind::System, sys_errno, 0, std::move(context)};
}

Error Error::make(ErrorKind kind, std::string context) {
    return {kind, 0, 0, std::move(context)};
}

} // namespace nvmaint
