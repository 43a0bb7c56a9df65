#include "state_store.hpp"

#include "atomic_file.hpp"
#include "state_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nvmaint::state {

namespace {

// Each record is below 1 KiB; the limit only keeps a file that is not ours from filling memory.
constexpr std::size_t largest_file = std::size_t{16} << 20;
constexpr std::size_t most_trims = 500;

std::string trims_file(const std::string& directory) {
    return directory + "/trims.json";
}
std::string baselines_file(const std::string& directory) {
    return directory + "/baselines.json";
}
std::string marker_file(const std::string& directory) {
    return directory + "/trim-marker.json";
}

enum class Look { MayMoveAside, Only };

// Decodes one file. What is malformed is moved aside; what is newer or cannot be read stays.
template <class T>
std::optional<T> load(const std::string& path, Result<T> (*decode)(const std::string&),
                      std::vector<std::string>& problems, Look look) {
    const auto text = read_whole(path, largest_file);
    if (text && !*text) {
        return std::nullopt;
    }
    std::optional<Error> error;
    if (!text) {
        error = text.error();
    } else {
        auto value = decode(**text);
        if (value) {
            return std::move(*value);
        }
        error = value.error().in(path);
    }
    if (error->kind != ErrorKind::Malformed || look == Look::Only) {
        problems.push_back(error->text() + "; left alone and not used");
    } else if (const auto aside = move_aside(path)) {
        problems.push_back(fmt::format("{}; moved aside to {}", error->text(), *aside));
    } else {
        problems.push_back(fmt::format("{}; {}", error->text(), aside.error().text()));
    }
    return std::nullopt;
}

// Nothing that this version does not understand is lost by writing over it.
Result<Done> make_way(const std::string& path) {
    const auto text = read_whole(path, largest_file);
    if (text && !*text) {
        return Done{};
    }
    const Result<Done> known = text ? check_schema(**text) : Result<Done>(text.error());
    if (known) {
        return Done{};
    }
    if (known.error().kind == ErrorKind::Unsupported) {
        return Error::make(ErrorKind::Denied,
                           fmt::format("{}: {}; not overwritten", path, known.error().text()));
    }
    if (known.error().kind != ErrorKind::Malformed) {
        return known;
    }
    TRY(aside, move_aside(path));
    (void)aside;
    return Done{};
}

Result<Done> save(const std::string& path, const Result<std::string>& content) {
    if (!content) {
        return content.error().in("writing " + path);
    }
    TRY(clear, make_way(path));
    (void)clear;
    return replace_whole(path, *content, 0600, Durability::Synced);
}

Loaded load_all(const std::string& directory, Look look) {
    Loaded loaded;
    if (auto trims = load(trims_file(directory), decode_trims, loaded.problems, look)) {
        loaded.trims = std::move(*trims);
    }
    if (auto baselines = load(baselines_file(directory), decode_baselines, loaded.problems, look)) {
        loaded.baselines = std::move(*baselines);
    }
    const std::size_t problems_before = loaded.problems.size();
    // Stays where it is even if it cannot be used: that a trim was cut off must be known at every
    // start until somebody acts.
    loaded.marker = load(marker_file(directory), decode_marker, loaded.problems, Look::Only);
    loaded.marker_lost = loaded.problems.size() != problems_before;
    return loaded;
}

} // namespace

Loaded load_state(const std::string& directory) {
    return load_all(directory, Look::MayMoveAside);
}

Loaded load_state_read_only(const std::string& directory) {
    return load_all(directory, Look::Only);
}

Result<Done> save_trims(const std::string& directory, const std::vector<core::TrimRecord>& trims) {
    const auto surplus =
        static_cast<std::ptrdiff_t>(trims.size() - std::min(trims.size(), most_trims));
    return save(trims_file(directory), encode_trims({trims.begin() + surplus, trims.end()}));
}

Result<Done> save_baselines(const std::string& directory,
                            const std::map<std::string, core::FlushBaseline>& baselines) {
    return save(baselines_file(directory), encode_baselines(baselines));
}

Result<Done> save_marker(const std::string& directory, const core::TrimMarker& marker) {
    return save(marker_file(directory), encode_marker(marker));
}

Result<Done> clear_marker(const std::string& directory) {
    TRY(clear, make_way(marker_file(directory)));
    (void)clear;
    return remove_durably(marker_file(directory));
}

Result<Done> replace_file(const std::string& path, const std::string& content, unsigned mode) {
    return replace_whole(path, content, mode, Durability::Cached);
}

} // namespace nvmaint::state
