// nvmaintd: puts the rooms together and runs the loop.

#include "admin/nvme_admin.hpp"
#include "collect/host_root.hpp"
#include "log/journal.hpp"
#include "loop/manager.hpp"

#include <CLI/CLI.hpp>

#include <syslog.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>

namespace {

// systemd hands over the directories it made for the unit, colon-separated where there are several.
std::string directory_from(const char* variable, const std::string& fallback) {
    // Nothing in this process changes its environment.
    const char* const value = std::getenv(variable); // NOLINT(concurrency-mt-unsafe)
    if (value == nullptr || *value == '\0') {
        return fallback;
    }
    const std::string text = value;
    return text.substr(0, text.find(':'));
}

int run(int argc, char** argv) {
    using namespace nvmaint;
    loop::Options options;
    options.version = NVMAINT_VERSION;
    options.state_directory = directory_from("STATE_DIRECTORY", options.state_directory);
    options.runtime_directory = directory_from("RUNTIME_DIRECTORY", options.runtime_directory);
    std::error_code ignored;
    options.helper_directory =
        std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();

    CLI::App app{
        "Keeps the NVMe drives of a database host fast, trimmed and healthy. Started by systemd "
        "(nvmaintd.service); asked through nvmaintctl or D-Bus (org.nvmaint1)."};
    app.set_version_flag("--version", options.version);
    app.add_option("--policy-root", options.policy_root,
                   "Where usr/lib/nvmaint and etc/nvmaint are looked for")
        ->capture_default_str();
    app.add_option("--state-directory", options.state_directory)->capture_default_str();
    app.add_option("--runtime-directory", options.runtime_directory)->capture_default_str();
    app.add_option("--helper-directory", options.helper_directory, "Where nvmaint-fitrim is")
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);

    const Result<collect::HostRoot> root = collect::HostRoot::live();
    if (!root) {
        log::write(LOG_ERR, log::MessageId::Stopped, root.error().text());
        return 1;
    }
    const std::unique_ptr<nvme::NvmeAdmin> admin = nvme::make_libnvme_admin();
    const int status = loop::run(options, *root, *admin);
    // A worker may be stuck in the kernel with references to what is above: leave without tearing
    // it down.
    std::cout.flush();
    _exit(status);
}

} // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) { // memory that is not there, or a bug
        std::fprintf(stderr, "<2>nvmaintd: %s\n", error.what());
        return 1;
    }
}
