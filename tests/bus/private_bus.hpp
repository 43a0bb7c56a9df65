// A dbus-daemon of our own, with the rules of a system bus and the policy file that the package
// installs; gone when the object is.
#pragma once

#include <string>
#include <sys/types.h>

namespace nvmaint::bus_test {

class PrivateBus {
  public:
    // `problem()` says why where there is no bus.
    PrivateBus();
    PrivateBus(const PrivateBus&) = delete;
    PrivateBus& operator=(const PrivateBus&) = delete;
    ~PrivateBus();

    [[nodiscard]] const std::string& address() const { return address_; }
    [[nodiscard]] const std::string& directory() const { return directory_; }
    // Empty where the bus runs; else what is missing.
    [[nodiscard]] const std::string& problem() const { return problem_; }
    [[nodiscard]] bool is_missing() const { return is_missing_; } // the program itself
    // Ends the daemon as a crash would.
    void kill();

  private:
    void start(const std::string& config);

    std::string directory_;
    std::string address_;
    std::string problem_;
    bool is_missing_ = false;
    pid_t pid_ = -1;
};

} // namespace nvmaint::bus_test
