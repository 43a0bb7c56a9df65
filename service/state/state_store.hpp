// What outlives the service: trim records, baselines and the marker of a trim in progress, in the
// state directory (/var/lib/nvmaint). Files are JSON with a schema number, written to a temporary
// name, fsynced and renamed. A file that cannot be understood is moved aside (".corrupt-<n>") and
// reported, never deleted and never guessed at; one of a newer version, or one that cannot be read,
// is left alone and never overwritten.
#pragma once

#include "core/diagnose.hpp"
#include "values/result.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nvmaint::state {

struct Loaded {
    std::vector<core::TrimRecord> trims;
    std::map<std::string, core::FlushBaseline> baselines;
    std::optional<core::TrimMarker> marker;
    // There was a marker that could not be used: a trim was cut off, and it is not known which one.
    bool marker_lost = false;
    std::vector<std::string> problems; // one line each: what was moved aside and why
};

// Blocks: called at start-up only, or from the writer thread. A missing directory or file is an
// empty state.
[[nodiscard]] Loaded load_state(const std::string& directory);

// All durable when they return: file and directory are synced. They block. Errors: System (a
// missing directory, a full disk, ...), Denied (the file there is of a newer version), Malformed (a
// number that is not finite); the file stays as it was. Keeps the newest 500.
// The same without moving anything aside: for whoever only looks.
[[nodiscard]] Loaded load_state_read_only(const std::string& directory);
[[nodiscard]] Result<Done> save_trims(const std::string& directory,
                                      const std::vector<core::TrimRecord>& trims);
[[nodiscard]] Result<Done>
save_baselines(const std::string& directory,
               const std::map<std::string, core::FlushBaseline>& baselines);
[[nodiscard]] Result<Done> save_marker(const std::string& directory,
                                       const core::TrimMarker& marker);
[[nodiscard]] Result<Done> clear_marker(const std::string& directory);

// Replaces a file as a whole, by a temporary name and rename; not synced. Errors: System.
[[nodiscard]] Result<Done> replace_file(const std::string& path, const std::string& content,
                                        unsigned mode);

} // namespace nvmaint::state
