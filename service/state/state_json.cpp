#include "state_json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace nvmaint::state {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

Error malformed(std::string what) {
    return Error::make(ErrorKind::Malformed, std::move(what));
}

// ---- writing ----

// nlohmann's own check of what it is about to write, asked beforehand: dump() throws on a string
// that is not UTF-8.
bool is_utf8(const std::string& text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::ignore) ==
           json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

ordered_json text_json(const std::string& text) {
    if (is_utf8(text)) {
        return text;
    }
    std::string hex;
    for (char c : text) {
        hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    }
    return {{"hex", hex}};
}

ordered_json texts_json(const std::vector<std::string>& texts) {
    ordered_json array = ordered_json::array();
    for (const std::string& text : texts) {
        array.push_back(text_json(text));
    }
    return array;
}

ordered_json time_json(core::WallTime time) {
    return time.time_since_epoch().count();
}

ordered_json summary_json(const core::FlushSummary& summary) {
    return {{"length_ns", summary.length.count()}, {"flushes", summary.flushes},
            {"median_ms", summary.median_ms},      {"p99_ms", summary.p99_ms},
            {"worst_ms", summary.worst_ms},        {"stalled_flushes", summary.stalled_flushes},
            {"episodes", summary.episodes},        {"calm_rate", summary.calm_rate},
            {"of_flushes", summary.of_flushes}};
}

ordered_json effect_json(const core::TrimEffect& effect) {
    return {{"verdict", core::to_string(effect.verdict)},
            {"before", summary_json(effect.before)},
            {"after", summary_json(effect.after)},
            {"confidence", effect.confidence},
            {"why", text_json(effect.why)}};
}

ordered_json trim_json(const core::TrimRecord& record) {
    ordered_json out{{"mount", text_json(record.mount)},
                     {"fs_uuid", text_json(record.fs_uuid)},
                     {"disks", texts_json(record.disks)},
                     {"started_us", time_json(record.started)}};
    if (record.ended) {
        out["ended_us"] = time_json(*record.ended);
    }
    out["complete"] = record.complete;
    out["outcome"] = text_json(record.outcome);
    out["requested_bytes"] = record.requested_bytes;
    if (record.discarded_bytes) {
        out["discarded_bytes"] = *record.discarded_bytes;
    }
    if (record.effect) {
        out["effect"] = effect_json(*record.effect);
    }
    return out;
}

bool all_finite(const ordered_json& value) {
    if (value.is_structured()) {
        for (const ordered_json& inner : value) {
            if (!all_finite(inner)) {
                return false;
            }
        }
        return true;
    }
    return !value.is_number_float() || std::isfinite(value.get<double>());
}

Result<std::string> finish(std::string_view name, ordered_json content) {
    if (!all_finite(content)) {
        return malformed(fmt::format("{}: a number is not finite", name));
    }
    ordered_json file;
    file["schema"] = schema;
    file[std::string(name)] = std::move(content);
    return file.dump(1) + "\n";
}

// ---- reading ----
// A reader takes a JSON value to a field or says what is wrong with it. Absent keys are errors
// unless the field is optional: a file of this schema has them all.

Result<Done> read(const json& from, std::string& into) {
    if (from.is_string()) {
        into = from.get<std::string>();
        return Done{};
    }
    if (!from.is_object() || from.size() != 1 || !from.contains("hex") ||
        !from["hex"].is_string()) {
        return malformed("not a text");
    }
    const std::string hex = from["hex"].get<std::string>();
    if (hex.size() % 2 != 0 || hex.find_first_not_of("0123456789abcdef") != std::string::npos) {
        return malformed("not hexadecimal");
    }
    into.clear();
    for (std::size_t i = 0; i < hex.size(); i += 2) {
        into += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    return Done{};
}

Result<Done> read(const json& from, bool& into) {
    if (!from.is_boolean()) {
        return malformed("not true or false");
    }
    into = from.get<bool>();
    return Done{};
}

Result<Done> read(const json& from, double& into) {
    if (!from.is_number()) {
        return malformed("not a number");
    }
    into = from.get<double>();
    return Done{};
}

Result<Done> read(const json& from, std::uint64_t& into) {
    if (!from.is_number_unsigned()) {
        return malformed("not a whole number");
    }
    into = from.get<std::uint64_t>();
    return Done{};
}

Result<Done> read(const json& from, std::int64_t& into) {
    if (!from.is_number_integer() ||
        (from.is_number_unsigned() && from.get<std::uint64_t>() > std::uint64_t{INT64_MAX})) {
        return malformed("not a whole number");
    }
    into = from.get<std::int64_t>();
    return Done{};
}

Result<Done> read(const json& from, unsigned& into) {
    std::uint64_t wide = 0;
    if (const auto done = read(from, wide); !done || wide > UINT32_MAX) {
        return malformed("not a whole number");
    }
    into = static_cast<unsigned>(wide);
    return Done{};
}

Result<Done> read(const json& from, core::WallTime& into) {
    std::int64_t count = 0;
    TRY(done, read(from, count));
    into = core::WallTime{core::microseconds{count}};
    return done;
}

Result<Done> read(const json& from, core::nanoseconds& into) {
    std::int64_t count = 0;
    TRY(done, read(from, count));
    into = core::nanoseconds{count};
    return done;
}

Result<Done> read(const json& from, core::EffectVerdict& into) {
    using core::EffectVerdict;
    for (EffectVerdict verdict : {EffectVerdict::Helped, EffectVerdict::NoChange,
                                  EffectVerdict::Worse, EffectVerdict::NotComparable}) {
        if (from == core::to_string(verdict)) {
            into = verdict;
            return Done{};
        }
    }
    return malformed("not a verdict");
}

Result<Done> read(const json& from, std::vector<std::string>& into) {
    if (!from.is_array()) {
        return malformed("not an array");
    }
    into.clear();
    for (const json& element : from) {
        TRY(done, read(element, into.emplace_back()));
        (void)done;
    }
    return Done{};
}

Result<Done> read(const json& from, core::FlushSummary& into);
Result<Done> read(const json& from, core::TrimEffect& into);

// Reads the fields of one object; the first failure is kept and names the key.
class Fields {
  public:
    explicit Fields(const json& from) : from_(from) {
        if (!from.is_object()) {
            result_ = malformed("not an object");
        }
    }
    template <class T>
    Fields& take(const char* key, T& into) {
        if (!result_) {
            return *this;
        }
        const auto found = from_.find(key);
        if (found == from_.end()) {
            result_ = malformed(fmt::format("{} is missing", key));
        } else if (const auto done = read(*found, into); !done) {
            result_ = done.error().in(key);
        }
        return *this;
    }
    template <class T>
    Fields& take(const char* key, std::optional<T>& into) {
        into.reset();
        if (result_ && from_.contains(key)) {
            take(key, into.emplace());
        }
        return *this;
    }
    [[nodiscard]] Result<Done> done() const { return result_; }

  private:
    const json& from_;
    Result<Done> result_ = Done{};
};

Result<Done> read(const json& from, core::FlushSummary& into) {
    std::optional<bool> of_flushes; // not in files of the first version
    const auto done = Fields(from)
                          .take("length_ns", into.length)
                          .take("flushes", into.flushes)
                          .take("median_ms", into.median_ms)
                          .take("p99_ms", into.p99_ms)
                          .take("worst_ms", into.worst_ms)
                          .take("stalled_flushes", into.stalled_flushes)
                          .take("episodes", into.episodes)
                          .take("calm_rate", into.calm_rate)
                          .take("of_flushes", of_flushes)
                          .done();
    into.of_flushes = of_flushes.value_or(false);
    return done;
}

Result<Done> read(const json& from, core::TrimEffect& into) {
    return Fields(from)
        .take("verdict", into.verdict)
        .take("before", into.before)
        .take("after", into.after)
        .take("confidence", into.confidence)
        .take("why", into.why)
        .done();
}

Result<Done> read(const json& from, core::TrimRecord& into) {
    return Fields(from)
        .take("mount", into.mount)
        .take("fs_uuid", into.fs_uuid)
        .take("disks", into.disks)
        .take("started_us", into.started)
        .take("ended_us", into.ended)
        .take("complete", into.complete)
        .take("outcome", into.outcome)
        .take("requested_bytes", into.requested_bytes)
        .take("discarded_bytes", into.discarded_bytes)
        .take("effect", into.effect)
        .done();
}

Result<json> parse(const std::string& text) {
    // What nests deeper than any state is not even built: freeing a million levels takes seconds.
    constexpr int deepest = 8;
    bool too_deep = false;
    const auto keep = [&](int depth, json::parse_event_t, const json&) {
        too_deep = too_deep || depth > deepest;
        return depth <= deepest;
    };
    json file = json::parse(text, keep, false);
    if (file.is_discarded() || too_deep) {
        return malformed("not JSON");
    }
    if (!file.is_object() || !file.contains("schema") || !file["schema"].is_number_integer()) {
        return malformed("no schema number");
    }
    if (file["schema"] > schema) {
        return Error::make(ErrorKind::Unsupported,
                           fmt::format("written by a newer version (schema {}, this one knows {})",
                                       file["schema"].dump(), schema));
    }
    if (file["schema"] != schema) {
        return malformed("unknown schema number");
    }
    return file;
}

Result<json> parse(const std::string& text, const char* name) {
    TRY(file, parse(text));
    if (!file.contains(name)) {
        return malformed(fmt::format("{} is missing", name));
    }
    return json(std::move(file[name]));
}

} // namespace

Result<std::string> encode_trims(const std::vector<core::TrimRecord>& trims) {
    ordered_json array = ordered_json::array();
    for (const core::TrimRecord& record : trims) {
        array.push_back(trim_json(record));
    }
    return finish("trims", std::move(array));
}

Result<std::string> encode_baselines(const std::map<std::string, core::FlushBaseline>& baselines) {
    ordered_json array = ordered_json::array();
    for (const auto& [drive, baseline] : baselines) {
        array.push_back({{"drive", text_json(drive)},
                         {"median_ms", baseline.median_ms},
                         {"flushes", baseline.flushes},
                         {"learned_us", time_json(baseline.learned)},
                         {"firmware", text_json(baseline.firmware)},
                         {"method", text_json(baseline.method)}});
    }
    return finish("baselines", std::move(array));
}

Result<std::string> encode_marker(const core::TrimMarker& marker) {
    return finish("marker", {{"mount", text_json(marker.mount)},
                             {"fs_uuid", text_json(marker.fs_uuid)},
                             {"disks", texts_json(marker.disks)},
                             {"serials", texts_json(marker.serials)},
                             {"boot_id", text_json(marker.boot_id)},
                             {"started_us", time_json(marker.started)},
                             {"next_start", marker.next_start}});
}

Result<std::vector<core::TrimRecord>> decode_trims(const std::string& text) {
    TRY(array, parse(text, "trims"));
    if (!array.is_array()) {
        return malformed("trims: not an array");
    }
    std::vector<core::TrimRecord> trims;
    for (const json& element : array) {
        if (const auto done = read(element, trims.emplace_back()); !done) {
            return done.error().in(fmt::format("trims[{}]", trims.size() - 1));
        }
    }
    return trims;
}

Result<std::map<std::string, core::FlushBaseline>> decode_baselines(const std::string& text) {
    TRY(array, parse(text, "baselines"));
    if (!array.is_array()) {
        return malformed("baselines: not an array");
    }
    std::map<std::string, core::FlushBaseline> baselines;
    for (const json& element : array) {
        std::string drive;
        core::FlushBaseline baseline;
        const auto done = Fields(element)
                              .take("drive", drive)
                              .take("median_ms", baseline.median_ms)
                              .take("flushes", baseline.flushes)
                              .take("learned_us", baseline.learned)
                              .take("firmware", baseline.firmware)
                              .take("method", baseline.method)
                              .done();
        if (!done) {
            return done.error().in(fmt::format("baselines[{}]", baselines.size()));
        }
        if (!baselines.emplace(drive, baseline).second) {
            return malformed("baselines: one drive twice");
        }
    }
    return baselines;
}

Result<core::TrimMarker> decode_marker(const std::string& text) {
    TRY(object, parse(text, "marker"));
    core::TrimMarker marker;
    const auto done = Fields(object)
                          .take("mount", marker.mount)
                          .take("fs_uuid", marker.fs_uuid)
                          .take("disks", marker.disks)
                          .take("serials", marker.serials)
                          .take("boot_id", marker.boot_id)
                          .take("started_us", marker.started)
                          .take("next_start", marker.next_start)
                          .done();
    if (!done) {
        return done.error().in("marker");
    }
    return marker;
}

Result<Done> check_schema(const std::string& text) {
    TRY(file, parse(text));
    (void)file;
    return Done{};
}

} // namespace nvmaint::state
