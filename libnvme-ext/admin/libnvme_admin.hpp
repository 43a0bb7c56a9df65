// The commands of make_libnvme_admin() over descriptors from elsewhere.
#pragma once

#include "admin/nvme_admin.hpp"
#include "admin/open_in_root.hpp"

#include <functional>
#include <memory>
#include <string>

namespace nvmaint::nvme {

// Opens a node that takes this controller's admin commands.
using NodeOpener = std::function<Result<UniqueFd>(const std::string& controller)>;
[[nodiscard]] std::unique_ptr<NvmeAdmin> make_libnvme_admin(NodeOpener open);

} // namespace nvmaint::nvme
