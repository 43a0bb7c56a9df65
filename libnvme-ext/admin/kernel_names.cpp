#include "admin/kernel_names.hpp"

#include "admin/open_in_root.hpp"

#include <algorithm>
#include <optional>

namespace nvmaint::nvme {
namespace {

// Takes `letter` and the digits behind it off the front.
bool take(std::string_view& text, std::string_view word) {
    if (!text.starts_with(word)) {
        return false;
    }
    text.remove_prefix(word.size());
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(digits);
    return digits > 0 && digits <= 9;
}

} // namespace

bool is_controller_name(std::string_view name) {
    return take(name, "nvme") && name.empty();
}

bool is_namespace_name(std::string_view name) {
    return take(name, "nvme") && take(name, "n") && name.empty();
}

bool is_hidden_path_name(std::string_view name) {
    return take(name, "nvme") && take(name, "c") && take(name, "n") && name.empty();
}

Result<std::vector<std::string>> read_namespace_nodes(int root_fd, const std::string& controller) {
    TRY(children, list_in_root(root_fd, "sys/class/nvme/" + controller));
    std::erase_if(children, [](const std::string& name) { return !is_namespace_name(name); });
    if (!children.empty()) {
        return children;
    }
    const Result<std::vector<std::string>> subsystems =
        list_in_root(root_fd, "sys/class/nvme-subsystem");
    if (!subsystems) {
        return subsystems.error();
    }
    for (const std::string& subsystem : *subsystems) {
        const Result<std::vector<std::string>> members =
            list_in_root(root_fd, "sys/class/nvme-subsystem/" + subsystem);
        if (!members || std::find(members->begin(), members->end(), controller) == members->end()) {
            continue;
        }
        if (std::count_if(members->begin(), members->end(), is_controller_name) != 1) {
            return std::vector<std::string>{};
        }
        std::vector<std::string> heads;
        std::copy_if(members->begin(), members->end(), std::back_inserter(heads),
                     is_namespace_name);
        return heads;
    }
    return std::vector<std::string>{};
}

} // namespace nvmaint::nvme
