#include "report.hpp"

#include "escape.hpp"

#include <fmt/format.h>

#include <array>

namespace nvmaint::report {

namespace {

using core::Diagnosis;
using core::Finding;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* schema_name = "nvmaint.doctor/1";

constexpr std::array severities{core::Severity::Critical, core::Severity::Warning,
                                core::Severity::Notice, core::Severity::Info};
constexpr std::array subject_kinds{core::SubjectKind::Filesystem, core::SubjectKind::Namespace,
                                   core::SubjectKind::Drive,      core::SubjectKind::Unit,
                                   core::SubjectKind::Service,    core::SubjectKind::Host};
constexpr std::array verdicts{core::Verdict::Healthy, core::Verdict::Attention,
                              core::Verdict::Critical, core::Verdict::Unknown};
constexpr std::array trim_states{core::TrimState::Covered,       core::TrimState::NotCovered,
                                 core::TrimState::Blocked,       core::TrimState::OtherAgent,
                                 core::TrimState::NotApplicable, core::TrimState::Unknown};
constexpr std::array effect_verdicts{core::EffectVerdict::Helped, core::EffectVerdict::NoChange,
                                     core::EffectVerdict::Worse,
                                     core::EffectVerdict::NotComparable};

// ---- writing ----

ordered_json texts_json(const std::vector<std::string>& texts) {
    ordered_json array = ordered_json::array();
    for (const std::string& text : texts) {
        array.push_back(utf8_text(text));
    }
    return array;
}

ordered_json subject_json(const core::Subject& subject) {
    return {{"kind", core::to_string(subject.kind)}, {"name", utf8_text(subject.name)}};
}

ordered_json filesystem_json(const core::FilesystemView& filesystem) {
    return {{"mount", utf8_text(filesystem.mount)},     {"source", utf8_text(filesystem.source)},
            {"type", utf8_text(filesystem.type)},       {"stack", texts_json(filesystem.stack)},
            {"trim", core::to_string(filesystem.trim)}, {"tier", filesystem.tier},
            {"why", utf8_text(filesystem.why)},         {"mounts", texts_json(filesystem.mounts)},
            {"uuid", utf8_text(filesystem.uuid)},       {"disks", texts_json(filesystem.disks)}};
}

ordered_json drive_json(const core::DriveView& drive) {
    ordered_json out{{"name", utf8_text(drive.name)},
                     {"model", utf8_text(drive.model)},
                     {"firmware", utf8_text(drive.firmware)},
                     {"serial", utf8_text(drive.serial)},
                     {"class", utf8_text(drive.drive_class)},
                     {"flush_source", utf8_text(drive.flush_source)},
                     {"health", utf8_text(drive.health)},
                     {"disks", texts_json(drive.disks)},
                     {"flush_source_why", utf8_text(drive.flush_source_why)}};
    if (drive.flush_median_ms) {
        out["flush_usual_ms"] = *drive.flush_median_ms;
    }
    if (drive.flush_last_ms) {
        out["flush_now_ms"] = *drive.flush_last_ms;
    }
    if (drive.flush_p50_ms) {
        out["flush_p50_ms"] = *drive.flush_p50_ms;
    }
    if (drive.flush_p99_ms) {
        out["flush_p99_ms"] = *drive.flush_p99_ms;
    }
    return out;
}

ordered_json summary_json(const core::FlushSummary& summary) {
    return {{"seconds", std::chrono::duration<double>(summary.length).count()},
            {"flushes", summary.flushes},
            {"median_ms", summary.median_ms},
            {"p99_ms", summary.p99_ms},
            {"worst_ms", summary.worst_ms},
            {"of_flushes", summary.of_flushes},
            {"stalled_flushes", summary.stalled_flushes},
            {"episodes", summary.episodes},
            {"calm_rate", summary.calm_rate}};
}

template <class Entry>
ordered_json plan_entries_json(const std::vector<Entry>& entries) {
    ordered_json array = ordered_json::array();
    for (const Entry& entry : entries) {
        array.push_back({{"kind", utf8_text(entry.kind)},
                         {"subject", subject_json(entry.subject)},
                         {"reason", utf8_text(entry.reason)},
                         {"because", texts_json(entry.because)}});
    }
    return array;
}

template <class Element, class Encode>
ordered_json array_json(const std::vector<Element>& elements, Encode encode) {
    ordered_json array = ordered_json::array();
    for (const Element& element : elements) {
        array.push_back(encode(element));
    }
    return array;
}

// ---- reading ----
// Takes fields from an object; the first failure is kept and says where. Keys that are not known
// are passed over: a newer service may say more.
class Fields {
  public:
    Fields(const json& from, std::string where) : from_(from), where_(std::move(where)) {
        if (!from.is_object()) {
            fail("", "is not an object");
        }
    }

    void text(const char* key, std::string& into, bool required = true) {
        const json* value = find(key, required);
        if (value == nullptr) {
            return;
        }
        if (!value->is_string()) {
            fail(key, "is not a string");
            return;
        }
        into = value->get<std::string>();
    }

    void texts(const char* key, std::vector<std::string>& into, bool required = true) {
        const json* value = find(key, required);
        if (value == nullptr) {
            return;
        }
        if (!value->is_array()) {
            fail(key, "is not an array");
            return;
        }
        for (const json& element : *value) {
            if (!element.is_string()) {
                fail(key, "holds what is not a string");
                return;
            }
            into.push_back(element.get<std::string>());
        }
    }

    // One of the names that core::to_string() gives to `candidates`.
    template <class Enum, std::size_t N>
    void name(const char* key, Enum& into, const std::array<Enum, N>& candidates) {
        std::string written;
        text(key, written);
        for (Enum candidate : candidates) {
            if (written == core::to_string(candidate)) {
                into = candidate;
                return;
            }
        }
        fail(key, fmt::format("has the unknown value \"{}\"", printable(written)));
    }

    void time(const char* key, core::WallTime& into) {
        std::string written;
        text(key, written);
        if (error_) {
            return;
        }
        const auto time = core::parse_rfc3339(written);
        if (!time) {
            fail(key, "is not an RFC 3339 time");
            return;
        }
        into = *time;
    }
    void time(const char* key, std::optional<core::WallTime>& into) {
        if (find(key, false) != nullptr) {
            time(key, into.emplace());
        }
    }

    void number(const char* key, std::optional<double>& into) {
        const json* value = find(key, false);
        if (value == nullptr) {
            return;
        }
        if (!value->is_number()) {
            fail(key, "is not a number");
            return;
        }
        into = value->get<double>();
    }
    void number(const char* key, double& into) {
        std::optional<double> value;
        number(key, value);
        if (!value) {
            fail(key, "is missing");
            return;
        }
        into = *value;
    }
    template <class Whole>
    void whole(const char* key, Whole& into) {
        const json* value = find(key, true);
        if (value == nullptr) {
            return;
        }
        if (!value->is_number_unsigned() ||
            value->get<std::uint64_t>() >
                static_cast<std::uint64_t>(std::numeric_limits<Whole>::max())) {
            fail(key, "is not a whole number in range");
            return;
        }
        into = static_cast<Whole>(value->get<std::uint64_t>());
    }
    void whole(const char* key, std::optional<std::uint64_t>& into) {
        if (find(key, false) != nullptr) {
            whole(key, into.emplace());
        }
    }
    void truth(const char* key, bool& into) {
        const json* value = find(key, true);
        if (value == nullptr) {
            return;
        }
        if (!value->is_boolean()) {
            fail(key, "is not true or false");
            return;
        }
        into = value->get<bool>();
    }

    // The object below `key`, read by `take(Fields&)`.
    template <class Take>
    void object(const char* key, Take take, bool required = true) {
        if (const json* value = find(key, required)) {
            Fields inner(*value, fmt::format("{}{}.", where_, key));
            take(inner);
            adopt(inner);
        }
    }

    // Each object of the array below `key`, read by `take(Fields&, element)`.
    template <class Element, class Take>
    void objects(const char* key, std::vector<Element>& into, Take take) {
        const json* value = find(key, true);
        if (value == nullptr) {
            return;
        }
        if (!value->is_array()) {
            fail(key, "is not an array");
            return;
        }
        for (const json& element : *value) {
            Fields inner(element, fmt::format("{}{}[{}].", where_, key, into.size()));
            take(inner, into.emplace_back());
            adopt(inner);
        }
    }

    void fail(const std::string& key, const std::string& what) {
        if (!error_) {
            error_ = Error::make(ErrorKind::Malformed, fmt::format("{}{} {}", where_, key, what));
        }
    }
    [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  private:
    const json* find(const char* key, bool required) {
        if (error_) {
            return nullptr;
        }
        const auto found = from_.find(key);
        if (found != from_.end()) {
            return &*found;
        }
        if (required) {
            fail(key, "is missing");
        }
        return nullptr;
    }
    void adopt(const Fields& inner) {
        if (!error_) {
            error_ = inner.error_;
        }
    }

    const json& from_;
    std::string where_;
    std::optional<Error> error_;
};

void read_finding(Fields& from, Finding& into) {
    from.text("id", into.id);
    from.text("reason", into.reason, false);
    from.name("severity", into.severity, severities);
    from.time("since", into.since);
    from.object("subject", [&](Fields& subject) {
        subject.name("kind", into.subject.kind, subject_kinds);
        subject.text("name", into.subject.name);
    });
    from.text("layer", into.layer, false);
    from.text("summary", into.summary);
    from.objects("evidence", into.evidence, [](Fields& element, core::Evidence& evidence) {
        element.text("source", evidence.source);
        element.text("says", evidence.says);
    });
    from.texts("fix", into.fix);
}

void read_filesystem(Fields& from, core::FilesystemView& into) {
    from.text("mount", into.mount);
    from.text("source", into.source);
    from.text("type", into.type);
    from.texts("stack", into.stack);
    from.name("trim", into.trim, trim_states);
    from.whole("tier", into.tier);
    from.text("why", into.why, false);
    from.texts("mounts", into.mounts, false);
    from.text("uuid", into.uuid, false);
    from.texts("disks", into.disks, false);
}

void read_drive(Fields& from, core::DriveView& into) {
    from.text("name", into.name);
    from.text("model", into.model);
    from.text("firmware", into.firmware);
    from.text("serial", into.serial);
    from.text("class", into.drive_class);
    from.text("flush_source", into.flush_source);
    from.text("health", into.health);
    from.texts("disks", into.disks, false);
    from.text("flush_source_why", into.flush_source_why, false);
    from.number("flush_usual_ms", into.flush_median_ms);
    from.number("flush_now_ms", into.flush_last_ms);
    from.number("flush_p50_ms", into.flush_p50_ms);
    from.number("flush_p99_ms", into.flush_p99_ms);
}

void read_summary(Fields& from, core::FlushSummary& into) {
    double length = 0;
    from.number("seconds", length);
    // A year bounds the cast below; no experiment lasts longer than minutes.
    if (!(length >= 0 && length < 366.0 * 24 * 3600)) {
        from.fail("seconds", "is out of range");
        return;
    }
    into.length = std::chrono::round<core::nanoseconds>(std::chrono::duration<double>(length));
    from.whole("flushes", into.flushes);
    from.number("median_ms", into.median_ms);
    from.number("p99_ms", into.p99_ms);
    from.number("worst_ms", into.worst_ms);
    from.whole("stalled_flushes", into.stalled_flushes);
    from.whole("episodes", into.episodes);
    from.number("calm_rate", into.calm_rate);
    from.truth("of_flushes", into.of_flushes);
}

} // namespace

ordered_json finding_json(const Finding& finding) {
    ordered_json out;
    out["id"] = utf8_text(finding.id);
    if (!finding.reason.empty()) {
        out["reason"] = utf8_text(finding.reason);
    }
    out["severity"] = core::to_string(finding.severity);
    if (finding.since) {
        out["since"] = core::to_rfc3339(*finding.since);
    }
    out["subject"] = subject_json(finding.subject);
    if (!finding.layer.empty()) {
        out["layer"] = utf8_text(finding.layer);
    }
    out["summary"] = utf8_text(finding.summary);
    out["evidence"] = array_json(finding.evidence, [](const core::Evidence& evidence) {
        return ordered_json{{"source", utf8_text(evidence.source)},
                            {"says", utf8_text(evidence.says)}};
    });
    out["fix"] = texts_json(finding.fix);
    return out;
}

ordered_json doctor_json(const Diagnosis& diagnosis) {
    ordered_json out;
    out["schema"] = schema_name;
    out["now"] = core::to_rfc3339(diagnosis.now);
    out["verdict"] = core::to_string(diagnosis.verdict);
    out["findings"] = array_json(diagnosis.findings, finding_json);
    out["filesystems"] = array_json(diagnosis.filesystems, filesystem_json);
    out["drives"] = array_json(diagnosis.drives, drive_json);
    return out;
}

Result<Diagnosis> doctor_from_json(const json& from) {
    Diagnosis diagnosis;
    Fields fields(from, "");
    std::string schema;
    fields.text("schema", schema);
    if (schema != schema_name) {
        fields.fail("schema",
                    fmt::format("is \"{}\" and not \"{}\"", printable(schema), schema_name));
    }
    fields.time("now", diagnosis.now);
    fields.name("verdict", diagnosis.verdict, verdicts);
    fields.objects("findings", diagnosis.findings, read_finding);
    fields.objects("filesystems", diagnosis.filesystems, read_filesystem);
    fields.objects("drives", diagnosis.drives, read_drive);
    if (fields.error()) {
        return fields.error()->in("doctor JSON");
    }
    return diagnosis;
}

ordered_json tick_json(const Diagnosis& diagnosis, const core::Plan& plan) {
    ordered_json out;
    out["now"] = core::to_rfc3339(diagnosis.now);
    out["findings"] = array_json(diagnosis.findings, finding_json);
    out["plan"] = {{"actions", plan_entries_json(plan.actions)},
                   {"refusals", plan_entries_json(plan.refusals)}};
    return out;
}

ordered_json trim_record_json(const core::TrimRecord& record) {
    ordered_json out;
    out["mount"] = utf8_text(record.mount);
    out["uuid"] = utf8_text(record.fs_uuid);
    out["disks"] = texts_json(record.disks);
    out["started"] = core::to_rfc3339(record.started);
    if (record.ended) {
        out["ended"] = core::to_rfc3339(*record.ended);
    }
    out["complete"] = record.complete;
    out["outcome"] = utf8_text(record.outcome);
    out["requested_bytes"] = record.requested_bytes;
    if (record.discarded_bytes) {
        out["discarded_bytes"] = *record.discarded_bytes;
    }
    if (record.effect) {
        out["effect"] = {{"verdict", core::to_string(record.effect->verdict)},
                         {"before", summary_json(record.effect->before)},
                         {"after", summary_json(record.effect->after)},
                         {"confidence", record.effect->confidence},
                         {"why", utf8_text(record.effect->why)}};
    }
    return out;
}

Result<core::TrimRecord> trim_record_from_json(const json& from) {
    core::TrimRecord record;
    Fields fields(from, "");
    fields.text("mount", record.mount);
    fields.text("uuid", record.fs_uuid, false);
    fields.texts("disks", record.disks);
    fields.time("started", record.started);
    fields.time("ended", record.ended);
    fields.truth("complete", record.complete);
    fields.text("outcome", record.outcome);
    fields.whole("requested_bytes", record.requested_bytes);
    fields.whole("discarded_bytes", record.discarded_bytes);
    fields.object(
        "effect",
        [&](Fields& effect) {
            core::TrimEffect& into = record.effect.emplace();
            effect.name("verdict", into.verdict, effect_verdicts);
            effect.object("before", [&](Fields& summary) { read_summary(summary, into.before); });
            effect.object("after", [&](Fields& summary) { read_summary(summary, into.after); });
            effect.number("confidence", into.confidence);
            effect.text("why", into.why);
        },
        false);
    if (fields.error()) {
        return fields.error()->in("trim record");
    }
    return record;
}

} // namespace nvmaint::report
