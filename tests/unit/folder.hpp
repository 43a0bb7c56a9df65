// A folder that a test fills with files and links, and that goes when the test does.
#pragma once

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace nvmaint::test {

class Folder {
  public:
    Folder() {
        std::string name = ::testing::TempDir() + "nvmaint-XXXXXX";
        if (mkdtemp(name.data()) == nullptr) {
            ADD_FAILURE() << "mkdtemp " << name;
        }
        path_ = name;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    Folder& file(const std::string& name, std::string_view content = "") {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name, std::ios::binary) << content;
        return *this;
    }
    Folder& folder(const std::string& name) {
        std::filesystem::create_directories(path_ / name);
        return *this;
    }
    Folder& link(const std::string& name, const std::string& target) {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::filesystem::create_symlink(target, path_ / name);
        return *this;
    }
    Folder& fifo(const std::string& name) {
        EXPECT_EQ(mkfifo((path_ / name).c_str(), 0600), 0);
        return *this;
    }

    [[nodiscard]] std::string path() const { return path_.string(); }

  private:
    std::filesystem::path path_;
};

} // namespace nvmaint::test
