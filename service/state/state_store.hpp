// What outlives the service: trim records, baselines and the marker of a trim in progress, in the
// state directory
// (/var/lib/nvmaint). Files are JSON with a schema number, written to a temporary name, fsynced and
// renamed; a file that cannot be understood is moved aside (".corrupt-<n>") and reported, never
// deleted and never guessed at.
#pragma once

#include "core/diagnose.hpp"
#include "values/result.hpp"

#include <map>
#include <string>
#include <vector>

namespace nvmaint::state {

struct Loaded {
    std::vector<core::TrimRecord> trims;
    std::map<std::string, core::FlushBaseline> baselines;
    std::optional<core::TrimMarker> marker;
    std::vector<std::string> problems; // one line each: what was moved aside and why
};

// Blocks: called at start-up only, or from the writer thread. A missing directory or file is an
// empty state.
[[nodiscard]] Loaded load_state(const std::string& directory);
[[nodiscard]] Result<Done> save_trims(const std::string& directory,
                                      const std::vector<core::TrimRecord>& trims);
[[nodiscard]] Result<Done>
save_baselines(const std::string& directory,
               const std::map<std::string, core::FlushBaseline>& baselines);
// Durable when it returns: file and directory are synced.
[[nodiscard]] Result<Done> save_marker(const std::string& directory,
                                       const core::TrimMarker& marker);
[[nodiscard]] Result<Done> clear_marker(const std::string& directory);

// Replaces a file as a whole, by a temporary name and rename; not synced. Errors: System.
[[nodiscard]] Result<Done> replace_file(const std::string& path, const std::string& content,
                                        unsigned mode);

} // namespace nvmaint::state
