// The JSON of the state files. Lossless: a mount point may hold any byte but NUL, which JSON text
// may not.
#pragma once

#include "core/history.hpp"
#include "values/result.hpp"

#include <map>
#include <string>
#include <vector>

namespace nvmaint::state {

inline constexpr int schema = 1;

// Errors of the encoders: Malformed, where a number is not finite, since JSON has no such numbers.
[[nodiscard]] Result<std::string> encode_trims(const std::vector<core::TrimRecord>& trims);
[[nodiscard]] Result<std::string>
encode_baselines(const std::map<std::string, core::FlushBaseline>& baselines);
[[nodiscard]] Result<std::string> encode_marker(const core::TrimMarker& marker);

// Errors of the decoders: Malformed, with what is wrong; Unsupported for a schema newer than this.
[[nodiscard]] Result<std::vector<core::TrimRecord>> decode_trims(const std::string& text);
[[nodiscard]] Result<std::map<std::string, core::FlushBaseline>>
decode_baselines(const std::string& text);
[[nodiscard]] Result<core::TrimMarker> decode_marker(const std::string& text);

// The schema check alone, for a file that is about to be replaced. Errors as the decoders'.
[[nodiscard]] Result<Done> check_schema(const std::string& text);

} // namespace nvmaint::state
