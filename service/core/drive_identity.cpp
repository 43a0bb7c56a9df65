#include "core/diagnose.hpp"

namespace nvmaint::core {

std::string drive_identity(const DriveView& drive) {
    return drive.serial.empty() ? std::string() : drive.model + " " + drive.serial;
}

} // namespace nvmaint::core
