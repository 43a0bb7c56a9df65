// What each id of a finding means, whether it stands or not.
#pragma once

#include <string_view>
#include <vector>

namespace nvmaint::report {

struct CatalogueEntry {
    std::string_view id;
    std::string_view meaning; // what is the case when it stands, and how it is judged
    std::string_view remedy;  // what to do then; empty where nothing is to be done
};

// Null for an id that this version does not know.
[[nodiscard]] const CatalogueEntry* catalogue_entry(std::string_view id);

// Every id of the catalogue, in its order.
[[nodiscard]] std::vector<std::string_view> catalogue_ids();

} // namespace nvmaint::report
