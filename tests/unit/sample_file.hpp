// Pages of real drives, for those who have them: the folder that NVMAINT_SAMPLES names. None are
// part of the project.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace nvmaint::test {

[[nodiscard]] inline std::optional<std::vector<std::uint8_t>> read_sample(const std::string& name) {
    const char* folder = std::getenv("NVMAINT_SAMPLES");
    if (folder == nullptr) {
        return std::nullopt;
    }
    std::ifstream file(std::string(folder) + "/" + name, std::ios::binary);
    if (!file) {
        return std::nullopt;
    }
    return std::vector<std::uint8_t>(std::istreambuf_iterator<char>(file), {});
}

#define SAMPLE_OR_SKIP(variable, name)                                                             \
    const auto variable = ::nvmaint::test::read_sample(name);                                      \
    if (!variable) {                                                                               \
        GTEST_SKIP() << "no " << (name) << ": set NVMAINT_SAMPLES to a folder that holds it";      \
    }

} // namespace nvmaint::test
