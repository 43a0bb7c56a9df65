// Files that are whole or not there: written beside, synced, renamed.
#pragma once

#include "values/result.hpp"

#include <optional>
#include <string>

namespace nvmaint::state {

enum class Durability {
    Synced, // file and folder are on stable storage when the call returns
    Cached, // only whole: for files that a reboot may lose
};

// Replaces `path` by `content`. The old file stays as it was on any failure, and no temporary file
// is left. Two writers of one path at a time are not provided for. Blocks. Errors: System.
[[nodiscard]] Result<Done> replace_whole(const std::string& path, const std::string& content,
                                         unsigned mode, Durability durability);

// Removes `path` durably; one that is not there is done. Blocks. Errors: System.
[[nodiscard]] Result<Done> remove_durably(const std::string& path);

// The content of a regular file; nothing where there is no file. Blocks. Errors: System, Malformed
// (not a regular file, larger than `largest` bytes).
[[nodiscard]] Result<std::optional<std::string>> read_whole(const std::string& path,
                                                            std::size_t largest);

// Renames `path` to the first free one of path.corrupt-1, -2, ... and returns that. Errors: System.
[[nodiscard]] Result<std::string> move_aside(const std::string& path);

} // namespace nvmaint::state
