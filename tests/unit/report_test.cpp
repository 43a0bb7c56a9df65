#include "report/catalogue.hpp"
#include "report/escape.hpp"
#include "report/layout.hpp"
#include "report/plot.hpp"
#include "report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <regex>
#include <sstream>

namespace nvmaint::report {
namespace {

using core::Diagnosis;
using core::DriveView;
using core::FilesystemView;
using core::Finding;
using core::Severity;
using core::SubjectKind;
using nlohmann::json;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace std::string_literals;

core::WallTime time_of(const char* text) {
    return core::parse_rfc3339(text).value();
}

Finding not_covered() {
    return {.id = "trim.not-covered",
            .reason = "not-in-fstab",
            .severity = Severity::Warning,
            .subject = {SubjectKind::Filesystem, "/var/lib/db"},
            .layer = {},
            .summary = "Nothing trims /var/lib/db.",
            .evidence = {{"etc/fstab", "no line for it"}},
            .fix = {"echo '/dev/nvme1n1 /var/lib/db xfs defaults 0 2' >> /etc/fstab"},
            .since = time_of("2026-11-28T10:00:00Z")};
}

Finding blocked() {
    return {.id = "trim.blocked",
            .reason = "dm-crypt",
            .severity = Severity::Warning,
            .subject = {SubjectKind::Filesystem, "/home"},
            .layer = "dm-0",
            .summary = "dm-0 lets no discard through.",
            .evidence = {{"sys/block/dm-0/queue/discard_max_bytes", "0"}},
            .fix = {},
            .since = {}};
}

DriveView drive() {
    return {.name = "nvme1",
            .model = "KXG60ZNV1T02",
            .firmware = "AGGA4103",
            .serial = "S1",
            .disks = {"nvme1n1"},
            .drive_class = "client",
            .flush_source = "diskstats",
            .flush_source_why = "no module",
            .health = "ok",
            .flush_median_ms = 2.29,
            .flush_last_ms = 12.5};
}

Diagnosis diagnosis() {
    Diagnosis out;
    out.now = time_of("2026-11-30T20:47:33Z");
    out.verdict = core::Verdict::Attention;
    out.findings = {blocked(), not_covered()};
    FilesystemView db;
    db.mount = "/var/lib/db";
    db.mounts = {"/var/lib/db", "/mnt/db-again"};
    db.source = "/dev/nvme1n1";
    db.type = "xfs";
    db.uuid = "u1";
    db.stack = {"nvme1n1"};
    db.disks = {"nvme1n1"};
    db.trim = core::TrimState::NotCovered;
    db.tier = 1;
    db.why = "not in /etc/fstab";
    out.filesystems = {db};
    out.drives = {drive()};
    return out;
}

core::TrimRecord record() {
    core::TrimRecord out;
    out.mount = "/var/lib/db";
    out.fs_uuid = "u1";
    out.disks = {"nvme1n1"};
    out.started = time_of("2026-11-30T20:30:00Z");
    out.ended = time_of("2026-11-30T20:32:00Z");
    out.complete = true;
    out.outcome = "done";
    out.requested_bytes = 842729443328;
    out.discarded_bytes = 842729443328;
    out.effect = core::TrimEffect{core::EffectVerdict::Helped,
                                  {seconds{180}, 7200, 2.1, 16.9, 18.25, 900, 5, 40},
                                  {seconds{120}, 4800, 2.0, 2.7, 8, 0, 0, 40},
                                  0.952,
                                  "5 stalls before, none after"};
    return out;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
    }
    return lines;
}

int widest(const std::string& text) {
    int width = 0;
    for (const std::string& line : lines_of(text)) {
        width = std::max(width, columns(line));
    }
    return width;
}

// ---- strings from anywhere ----

TEST(Escape, Utf8TextKeepsWhatIsWellFormedAndEscapesTheRest) {
    EXPECT_EQ(utf8_text("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
              "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    EXPECT_EQ(utf8_text("Inno\xff\xfe"), "Inno\\xff\\xfe");
    EXPECT_EQ(utf8_text("\xc3"), "\\xc3");                            // cut off
    EXPECT_EQ(utf8_text("\xc0\xaf"), "\\xc0\\xaf");                   // overlong
    EXPECT_EQ(utf8_text("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");          // overlong
    EXPECT_EQ(utf8_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");          // surrogate
    EXPECT_EQ(utf8_text("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); // above U+10FFFF
    EXPECT_EQ(utf8_text("\x80z"), "\\x80z");
    EXPECT_EQ(utf8_text("\n\x1b"), "\n\x1b"); // JSON escapes controls itself
}

TEST(Escape, PrintableLeavesNothingThatCommandsATerminal) {
    EXPECT_EQ(printable("a\x1b[31m\n\t\x7f"), "a\\x1b[31m\\x0a\\x09\\x7f");
    EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");          // C1 control sequence introducer
    EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae"); // right-to-left override
    EXPECT_EQ(printable("\xe2\x81\xa7"), "\\xe2\\x81\\xa7"); // isolate
    EXPECT_EQ(printable("\xef\xbb\xbf"), "\\xef\\xbb\\xbf"); // byte order mark
    EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
    EXPECT_EQ(printable("m\xc3\xa4kel \xe6\x97\xa5"), "m\xc3\xa4kel \xe6\x97\xa5");
}

TEST(Escape, HtmlTextCannotLeaveTheTextOrTheAttribute) {
    EXPECT_EQ(html_text("<a href='x'>\"&\x1b"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;\\x1b");
}

TEST(Escape, ColumnsCountWideAndCombiningCharacters) {
    EXPECT_EQ(columns("abc"), 3);
    EXPECT_EQ(columns("\xc3\xa4"), 1);
    EXPECT_EQ(columns("\xe6\x97\xa5\xe6\x9c\xac"), 4);
    EXPECT_EQ(columns("e\xcc\x81"), 1);
    EXPECT_EQ(prefix_of_columns("a\xe6\x97\xa5z", 2), "a");
    EXPECT_EQ(prefix_of_columns("a\xe6\x97\xa5z", 3), "a\xe6\x97\xa5");
}

// ---- JSON ----

TEST(DoctorJson, HasTheKeysOfItsSchemaInTheirOrder) {
    Diagnosis from = diagnosis();
    from.findings = {not_covered(), blocked()};
    const auto out = doctor_json(from);
    EXPECT_EQ(
        out["findings"][0].dump(),
        R"({"id":"trim.not-covered","reason":"not-in-fstab","severity":"warning",)"
        R"("since":"2026-11-28T10:00:00Z","subject":{"kind":"filesystem","name":"/var/lib/db"},)"
        R"("summary":"Nothing trims /var/lib/db.","evidence":[{"source":"etc/fstab",)"
        R"("says":"no line for it"}],"fix":["echo '/dev/nvme1n1 /var/lib/db xfs defaults 0 2' )"
        R"(>> /etc/fstab"]})");
    EXPECT_EQ(out["findings"][1].dump(),
              R"({"id":"trim.blocked","reason":"dm-crypt","severity":"warning",)"
              R"("subject":{"kind":"filesystem","name":"/home"},"layer":"dm-0",)"
              R"("summary":"dm-0 lets no discard through.","evidence":[{"source":)"
              R"("sys/block/dm-0/queue/discard_max_bytes","says":"0"}],"fix":[]})");
    EXPECT_THAT(out["filesystems"][0].dump(),
                StartsWith(R"({"mount":"/var/lib/db","source":"/dev/nvme1n1","type":"xfs",)"
                           R"("stack":["nvme1n1"],"trim":"not-covered","tier":1,)"));
    EXPECT_THAT(out["drives"][0].dump(),
                StartsWith(R"({"name":"nvme1","model":"KXG60ZNV1T02","firmware":"AGGA4103",)"
                           R"("serial":"S1","class":"client","flush_source":"diskstats",)"
                           R"("health":"ok",)"));
    std::vector<std::string> keys;
    for (const auto& [key, value] : out.items()) {
        keys.push_back(key);
    }
    EXPECT_THAT(keys, ElementsAre("schema", "now", "verdict", "findings", "filesystems", "drives"));
    EXPECT_EQ(out["schema"], "nvmaint.doctor/1");
    EXPECT_EQ(out["now"], "2026-11-30T20:47:33Z");
    EXPECT_EQ(out["verdict"], "attention");
}

TEST(DoctorJson, LeavesOutReasonLayerAndSinceWhereThereIsNone) {
    Finding finding = not_covered();
    finding.reason.clear();
    finding.since.reset();
    const auto out = finding_json(finding);
    for (const char* key : {"reason", "layer", "since"}) {
        EXPECT_FALSE(out.contains(key)) << key;
    }
    EXPECT_TRUE(out.contains("fix"));
}

TEST(DoctorJson, IsReadBackAsTheSameDiagnosis) {
    Diagnosis from = diagnosis();
    for (core::Verdict verdict : {core::Verdict::Healthy, core::Verdict::Attention,
                                  core::Verdict::Critical, core::Verdict::Unknown}) {
        from.verdict = verdict;
        const Result<Diagnosis> back = doctor_from_json(json::parse(doctor_json(from).dump()));
        ASSERT_TRUE(back) << back.error().text();
        EXPECT_EQ(*back, from);
    }
    DriveView silent = drive();
    silent.flush_median_ms.reset();
    silent.flush_last_ms.reset();
    from.drives.push_back(silent);
    EXPECT_EQ(doctor_from_json(json::parse(doctor_json(from).dump())).value(), from);
}

TEST(DoctorJson, IsReadWithoutTheKeysThatTheSchemaDoesNotPromise) {
    json from = json::parse(doctor_json(diagnosis()).dump());
    for (const char* key : {"why", "mounts", "uuid", "disks"}) {
        from["filesystems"][0].erase(key);
    }
    for (const char* key : {"disks", "flush_source_why", "flush_usual_ms", "flush_now_ms"}) {
        from["drives"][0].erase(key);
    }
    from["new"] = 1;
    from["findings"][0]["new"] = {1};
    const Result<Diagnosis> back = doctor_from_json(from);
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(back->findings, diagnosis().findings);
}

TEST(DoctorJson, IsValidUtf8WhateverTheHostHolds) {
    Diagnosis from = diagnosis();
    from.filesystems[0].mount = "/srv/\xff\xfe";
    from.findings[0].subject.name = "\xc3(";
    from.findings[0].evidence[0].says = "\x80";
    from.findings[0].fix = {"\xf0\x9f"};
    from.drives[0].model = "Inno\xff";
    const std::string text = doctor_json(from).dump(); // throws on invalid UTF-8
    EXPECT_THAT(text, HasSubstr("/srv/\\\\xff\\\\xfe"));
}

TEST(DoctorJson, SaysWhereItCannotBeRead) {
    const json good = json::parse(doctor_json(diagnosis()).dump());
    const auto error = [&](const char* pointer, const json& value) {
        json bad = good;
        bad[json::json_pointer(pointer)] = value;
        const Result<Diagnosis> back = doctor_from_json(bad);
        return back ? std::string("(read)") : back.error().text();
    };
    EXPECT_EQ(error("/schema", "nvmaint.doctor/2"),
              "doctor JSON: schema is \"nvmaint.doctor/2\" and not \"nvmaint.doctor/1\"");
    EXPECT_EQ(error("/verdict", "fine"), "doctor JSON: verdict has the unknown value \"fine\"");
    EXPECT_EQ(error("/now", "yesterday"), "doctor JSON: now is not an RFC 3339 time");
    EXPECT_EQ(error("/findings", 1), "doctor JSON: findings is not an array");
    EXPECT_EQ(error("/findings/1/severity", 7),
              "doctor JSON: findings[1].severity is not a string");
    EXPECT_EQ(error("/findings/1/subject/kind", "disk"),
              "doctor JSON: findings[1].subject.kind has the unknown value \"disk\"");
    EXPECT_EQ(error("/findings/0/evidence/0", "text"),
              "doctor JSON: findings[0].evidence[0]. is not an object");
    EXPECT_EQ(error("/filesystems/0/tier", -1),
              "doctor JSON: filesystems[0].tier is not a whole number in range");
    EXPECT_EQ(error("/drives/0/flush_now_ms", "fast"),
              "doctor JSON: drives[0].flush_now_ms is not a number");
    for (const json& wrong : {json(), json::array(), json(1), json::object()}) {
        EXPECT_FALSE(doctor_from_json(wrong));
    }
}

TEST(TickJson, ListsFindingsActionsAndRefusals) {
    core::Plan plan;
    plan.actions = {{"trim", {SubjectKind::Filesystem, "/a"}, "not covered", {"trim.not-covered"}}};
    plan.refusals = {{"trim", {SubjectKind::Filesystem, "/b"}, "mode is observe", {}}};
    const auto out = tick_json(diagnosis(), plan);
    EXPECT_EQ(
        out["plan"].dump(),
        R"({"actions":[{"kind":"trim","subject":{"kind":"filesystem","name":"/a"},)"
        R"("reason":"not covered","because":["trim.not-covered"]}],"refusals":[{"kind":"trim",)"
        R"("subject":{"kind":"filesystem","name":"/b"},"reason":"mode is observe",)"
        R"("because":[]}]})");
    EXPECT_EQ(out["findings"].size(), 2U);
    EXPECT_EQ(out["now"], "2026-11-30T20:47:33Z");
}

TEST(TrimRecordJson, IsReadBackAsTheSameRecord) {
    core::TrimRecord bare;
    bare.mount = "/";
    bare.started = time_of("2026-11-30T20:30:00Z");
    for (const core::TrimRecord& from : {record(), bare}) {
        const Result<core::TrimRecord> back =
            trim_record_from_json(json::parse(trim_record_json(from).dump()));
        ASSERT_TRUE(back) << back.error().text();
        EXPECT_EQ(*back, from);
    }
}

TEST(TrimRecordJson, SaysWhereItCannotBeRead) {
    json from = json::parse(trim_record_json(record()).dump());
    from["effect"]["before"]["seconds"] = 1e300;
    EXPECT_EQ(trim_record_from_json(from).error().text(),
              "trim record: effect.before.seconds is out of range");
    from["effect"]["before"]["seconds"] = 180;
    from["effect"]["verdict"] = "cured";
    EXPECT_THAT(trim_record_from_json(from).error().text(), HasSubstr("\"cured\""));
}

// ---- metrics ----

MetricsInput metrics_input() {
    MetricsInput input;
    input.diagnosis = diagnosis();
    input.version = "0.1.0";
    core::DiskCounters counters;
    counters.reads = 10;
    counters.read_sectors = 80;
    counters.read_ms = 5;
    counters.writes = 20;
    counters.write_sectors = 160;
    counters.write_ms = 40;
    counters.in_flight = 3;
    counters.discards = core::DiskCounters::Discards{7, 0, 2048, 9};
    counters.flushes = core::DiskCounters::Flushes{434, 1000};
    input.counters = {{"nvme1n1", counters}};
    input.drive_identity = {{"nvme1n1", "KXG60ZNV1T02 S1"}};
    input.trims = {record()};
    nvme::SmartLog smart;
    smart.temperature_c = -5;
    smart.available_spare = 100;
    smart.available_spare_threshold = 10;
    smart.percentage_used = 200;
    smart.data_units_written = 64663716;
    smart.power_on_hours = 2;
    smart.unsafe_shutdowns = 4;
    smart.media_errors = 1;
    input.smart = {{"nvme1", smart}};
    return input;
}

TEST(Metrics, AreInBaseUnitsWithStableLabels) {
    const std::string text = metrics_text(metrics_input());
    const std::string disk = "{drive=\"KXG60ZNV1T02 S1\",device=\"nvme1n1\"} ";
    const std::string controller = "{drive=\"KXG60ZNV1T02 S1\",device=\"nvme1\"} ";
    for (const std::string& line :
         {"nvmaint_build_info{version=\"0.1.0\"} 1\n"s, "nvmaint_flushes_total" + disk + "434\n",
          "nvmaint_flush_seconds_total" + disk + "1\n",
          "nvmaint_discarded_bytes_total" + disk + "1048576\n",
          "nvmaint_discard_seconds_total" + disk + "0.009\n",
          "nvmaint_written_bytes_total" + disk + "81920\n",
          "nvmaint_read_seconds_total" + disk + "0.005\n",
          "nvmaint_requests_in_flight" + disk + "3\n",
          "nvmaint_flush_usual_seconds" + controller + "0.00229\n",
          "nvmaint_health_temperature_celsius" + controller + "-5\n",
          "nvmaint_health_available_spare_ratio" + controller + "1\n",
          "nvmaint_health_percentage_used_ratio" + controller + "2\n",
          "nvmaint_health_data_units_written_bytes_total" + controller + "33107822592000\n",
          "nvmaint_health_power_on_seconds_total" + controller + "7200\n",
          "nvmaint_health_media_errors_total" + controller + "1\n",
          "nvmaint_finding{id=\"trim.blocked\",reason=\"dm-crypt\",severity=\"warning\","
          "subject_kind=\"filesystem\",subject=\"/home\"} 1\n"s,
          "nvmaint_trim_requested_bytes{mount=\"/var/lib/db\"} 842729443328\n"s,
          "nvmaint_trim_last_complete{mount=\"/var/lib/db\"} 1\n"s}) {
        EXPECT_THAT(text, HasSubstr(line));
    }
    EXPECT_THAT(text, Not(HasSubstr("nvmaint_flush_latency_seconds")));
}

TEST(Metrics, AHistogramHasOneLimitAnOctave) {
    MetricsInput input = metrics_input();
    core::DiskLatency latency;
    core::LatencyHistogram flush;
    flush.buckets.resize(latency.shape.buckets());
    flush.buckets[0] = 1;                                      // below 1.024 us
    flush.buckets[latency.shape.index_of(2'000'000)] = 5;      // 2 ms
    flush.buckets[latency.shape.index_of((1 << 21) - 1)] += 1; // the end of that octave
    flush.buckets[latency.shape.index_of(1 << 21)] += 1;       // the beginning of the next
    flush.buckets.back() = 2;                                  // beyond 68.7 s
    flush.count = 10;
    flush.sum = std::chrono::milliseconds{150500};
    latency.classes[static_cast<std::size_t>(core::LatencyClass::Flush)] = flush;
    input.latency = {{"nvme1n1", latency}};
    const std::string text = metrics_text(input);
    const std::string disk = "drive=\"KXG60ZNV1T02 S1\",device=\"nvme1n1\"";
    for (const std::string& line :
         {"# TYPE nvmaint_flush_latency_seconds histogram\n"s,
          "nvmaint_flush_latency_seconds_bucket{" + disk + ",le=\"1.024e-06\"} 1\n",
          "nvmaint_flush_latency_seconds_bucket{" + disk + ",le=\"0.001048576\"} 1\n",
          "nvmaint_flush_latency_seconds_bucket{" + disk + ",le=\"0.002097152\"} 7\n",
          "nvmaint_flush_latency_seconds_bucket{" + disk + ",le=\"0.004194304\"} 8\n",
          "nvmaint_flush_latency_seconds_bucket{" + disk + ",le=\"68.7194767\"} 8\n",
          "nvmaint_flush_latency_seconds_bucket{" + disk + ",le=\"+Inf\"} 10\n",
          "nvmaint_flush_latency_seconds_sum{" + disk + "} 150.5\n",
          "nvmaint_flush_latency_seconds_count{" + disk + "} 10\n"}) {
        EXPECT_THAT(text, HasSubstr(line));
    }
    EXPECT_THAT(text, Not(HasSubstr("nvmaint_read_latency_seconds"))); // not counted
}

TEST(Metrics, WhatIsNotReportedHasNoSample) {
    MetricsInput input = metrics_input();
    input.smart["nvme1"] = {}; // an emulated controller: all zero
    input.counters["nvme1n1"].flushes.reset();
    input.counters["nvme1n1"].discards.reset();
    input.diagnosis.drives[0].flush_median_ms.reset();
    const std::string text = metrics_text(input);
    for (const char* name : {"temperature", "spare", "percentage_used", "data_units", "power_on"}) {
        EXPECT_THAT(text, Not(HasSubstr(std::string("nvmaint_health_") + name))) << name;
    }
    for (const char* name : {"nvmaint_flush", "nvmaint_discard", "nvmaint_health_available"}) {
        EXPECT_THAT(text, Not(HasSubstr(name))) << name;
    }
    EXPECT_THAT(text, HasSubstr("nvmaint_health_media_errors_total"));
    EXPECT_THAT(text, HasSubstr("nvmaint_health_critical_warning"));
}

TEST(Metrics, ATrimIsProvenByTheDisksOnly) {
    const auto proven = [](const core::TrimRecord& trim) {
        MetricsInput input = metrics_input();
        input.trims = {trim};
        return metrics_text(input).find("nvmaint_trim_last_proven_timestamp_seconds{") !=
               std::string::npos;
    };
    EXPECT_TRUE(proven(record()));
    core::TrimRecord trim = record();
    trim.requested_bytes = 1000;
    trim.discarded_bytes = 500;
    EXPECT_TRUE(proven(trim));
    trim.discarded_bytes = 499;
    EXPECT_FALSE(proven(trim));
    trim.discarded_bytes = 0;
    trim.requested_bytes = 0;
    EXPECT_FALSE(proven(trim)); // nothing was asked: nothing is shown
    trim = record();
    trim.discarded_bytes.reset();
    EXPECT_FALSE(proven(trim));
    trim = record();
    trim.complete = false;
    EXPECT_FALSE(proven(trim));
    trim = record();
    trim.ended.reset();
    EXPECT_FALSE(proven(trim));
}

TEST(Metrics, ALaterTrimThatProvesNothingKeepsTheProofBeforeIt) {
    MetricsInput input = metrics_input();
    core::TrimRecord later = record();
    later.started += minutes{60};
    *later.ended += minutes{60};
    later.discarded_bytes = 0;
    input.trims.push_back(later);
    const std::string text = metrics_text(input);
    EXPECT_THAT(text, HasSubstr("nvmaint_trim_last_proven_timestamp_seconds{mount=\"/var/lib/db\"} "
                                "1796070720\n"));
    EXPECT_THAT(text, HasSubstr("nvmaint_trim_last_end_timestamp_seconds{mount=\"/var/lib/db\"} "
                                "1796074320\n"));
}

TEST(Metrics, LabelsAreEscapedAndNoSeriesIsThereTwice) {
    MetricsInput input = metrics_input();
    Finding odd = not_covered();
    odd.subject.name = "/a\"b\\c\nd\xff";
    Finding other_layer = odd;
    other_layer.layer = "dm-1";
    input.diagnosis.findings = {odd, other_layer};
    const std::string text = metrics_text(input);
    const std::string series = "subject=\"/a\\\"b\\\\c\\nd\\\\xff\"} 1\n";
    EXPECT_THAT(text, HasSubstr(series));
    EXPECT_EQ(text.find(series, text.find(series) + 1), std::string::npos);
}

// Each family: HELP, TYPE, then its samples and no other's.
TEST(Metrics, EachFamilyIsAnnouncedOnceBeforeItsSamples) {
    std::vector<std::string> announced;
    for (const std::string& line : lines_of(metrics_text(metrics_input()))) {
        std::istringstream words(line);
        std::string hash;
        std::string kind;
        std::string name;
        if (line.starts_with("# ")) {
            words >> hash >> kind >> name;
            if (kind == "HELP") {
                EXPECT_EQ(std::count(announced.begin(), announced.end(), name), 0) << name;
                announced.push_back(name);
            }
            continue;
        }
        name = line.substr(0, line.find_first_of("{ "));
        ASSERT_FALSE(announced.empty());
        EXPECT_EQ(name, announced.back());
    }
    EXPECT_GT(announced.size(), 25U);
}

TEST(Metrics, PromtoolFindsNothingToSay) {
    // The test has one thread.
    // NOLINTBEGIN(cert-env33-c, concurrency-mt-unsafe)
    if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
        GTEST_SKIP() << "promtool (package prometheus) is not installed";
    }
    FILE* pipe = popen("promtool check metrics 2>&1", "w");
    // NOLINTEND(cert-env33-c, concurrency-mt-unsafe)
    ASSERT_NE(pipe, nullptr);
    const std::string text = metrics_text(metrics_input());
    EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), pipe), text.size());
    EXPECT_EQ(pclose(pipe), 0);
}

// ---- text ----

TEST(Table, FitsItsColumnsToTheContent) {
    EXPECT_EQ(table_text({{"A", "BB"}, {{"long cell", "x"}, {"y", ""}}}, {}),
              "A          BB\nlong cell  x\ny\n");
    EXPECT_EQ(table_text({{"A", "B"}, {{"1", "2"}, {"10", "200"}}, {0, 1}}, {}),
              " A    B\n 1    2\n10  200\n");
    EXPECT_EQ(table_text({}, {}), "");
}

TEST(Table, WrapsOrCutsWhatIsTooWide) {
    const Table table{{"NAME", "WHY"},
                      {{"short", "a sentence that is much longer than what is left of the line"}}};
    const Style narrow{.colour = false, .width = 40};
    EXPECT_EQ(table_text(table, narrow), "NAME   WHY\n"
                                         "short  a sentence that is much longer\n"
                                         "       than what is left of the line\n");
    Table cut = table;
    cut.cut = true;
    EXPECT_EQ(table_text(cut, narrow), "NAME   WHY\nshort  a sentence that is much longer...\n");
}

TEST(Table, NeverExceedsItsWidthAndNeverEndsALineInBlanks) {
    const std::string word(200, 'x');
    for (int width : {40, 60, 80, 120}) {
        for (bool cut : {false, true}) {
            Table table{{"ONE", "TWO", "THREE", "FOUR"}, {}, {1}, cut};
            for (const std::string& cell :
                 {word, std::string("a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3"),
                  std::string(
                      "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"),
                  std::string("\x1b[31m\n"), std::string()}) {
                table.rows.push_back({cell, cell, cell, cell});
            }
            const std::string text = table_text(table, {.colour = false, .width = width});
            EXPECT_LE(widest(text), width);
            EXPECT_EQ(text.find(" \n"), std::string::npos);
            EXPECT_EQ(text.find('\x1b'), std::string::npos);
        }
    }
}

TEST(Table, IsColouredOnlyWhereAsked) {
    const Table table{{"SEVERITY"}, {{"critical"}, {"other"}}};
    EXPECT_EQ(table_text(table, {.colour = false}).find('\x1b'), std::string::npos);
    EXPECT_EQ(table_text(table, {.colour = true}),
              "\x1b[1mSEVERITY\x1b[0m\n\x1b[31;1mcritical\x1b[0m\nother\n");
}

TEST(Layout, WrapsAtBlanksAndBreaksLongWords) {
    EXPECT_THAT(wrapped_lines("one two three", 7), ElementsAre("one two", "three"));
    EXPECT_THAT(wrapped_lines("abcdefghij", 4), ElementsAre("abcd", "efgh", "ij"));
    EXPECT_THAT(wrapped_lines("a   b", 3), ElementsAre("a", "b"));
    EXPECT_THAT(wrapped_lines("", 10), ElementsAre(""));
    EXPECT_THAT(wrapped_lines("\xe6\x97\xa5\xe6\x9c\xac", 1),
                ElementsAre("\xe6\x97\xa5", "\xe6\x9c\xac"));
}

TEST(DoctorText, BeginsWithTheVerdictAndShowsEachFindingInFull) {
    const std::string text = doctor_text(diagnosis(), {});
    EXPECT_THAT(text, StartsWith("Verdict: attention - 2 warnings\n"));
    EXPECT_THAT(text, AllOf(HasSubstr("trim.not-covered/not-in-fstab filesystem /var/lib/db\n"),
                            HasSubstr("  Nothing trims /var/lib/db.\n"),
                            HasSubstr("since:    2026-11-28T10:00:00Z (2 days 10 h)"),
                            HasSubstr("seen in:  etc/fstab: no line for it\n"),
                            HasSubstr("at layer: dm-0\n")));
    Diagnosis first_look = diagnosis();
    first_look.findings[1].since = first_look.now;
    EXPECT_THAT(doctor_text(first_look, {}), Not(HasSubstr("since:")));
    EXPECT_THAT(doctor_text({}, {}), StartsWith("Verdict: unknown - no findings\n"));
}

TEST(DoctorText, KeepsCommandsWholeSoThatTheyCanBePasted) {
    Diagnosis from = diagnosis();
    const std::string command = "cryptsetup refresh --allow-discards --persistent " +
                                std::string(100, 'x') + " && systemctl restart something";
    const std::string prose =
        "Ask whoever owns the host before you let discards through: they show "
        "which blocks are unused.";
    from.findings[0].fix = {command, prose};
    const std::string text = doctor_text(from, {.colour = false, .width = 80});
    EXPECT_THAT(text, HasSubstr("\n    " + command + "\n"));
    EXPECT_THAT(text, HasSubstr("\n    Ask whoever owns"));
    for (const std::string& line : lines_of(text)) {
        EXPECT_TRUE(columns(line) <= 80 || line == "    " + command) << line;
    }
}

TEST(DoctorText, PutsProseCommandAndCommentOfALongFixOnLinesOfTheirOwn) {
    Diagnosis from = diagnosis();
    from.findings[0].fix = {
        "short: systemctl restart fstrim.timer   # a comment",
        "let nvmaint trim it: mode = \"maintain\" in /etc/nvmaint/policy.toml, or once: nvmaintctl "
        "trim /var/lib/db",
        "or read the kernel's table only: systemctl edit fstrim.service   # under [Service]: the "
        "line ExecStart= and then ExecStart=/sbin/fstrim --listed-in /proc/self/mountinfo"};
    EXPECT_THAT(doctor_text(from, {.colour = false, .width = 80}),
                HasSubstr("    short: systemctl restart fstrim.timer   # a comment\n"
                          "    let nvmaint trim it: mode = \"maintain\" in "
                          "/etc/nvmaint/policy.toml, or once:\n"
                          "      nvmaintctl trim /var/lib/db\n"
                          "    or read the kernel's table only:\n"
                          "      systemctl edit fstrim.service\n"
                          "      # under [Service]: the line ExecStart= and then "
                          "ExecStart=/sbin/fstrim\n"
                          "      # --listed-in /proc/self/mountinfo\n"));
}

TEST(DoctorText, HostileBytesDoNotReachTheTerminal) {
    Diagnosis from = diagnosis();
    for (Finding& finding : from.findings) {
        finding.subject.name = "/a\x1b]0;x\a\n";
        finding.summary = "\x1b[2J\xff";
        finding.evidence = {{"\r", "\xc2\x9b"
                                   "31m"}};
        finding.fix = {"\x1b[31m", "A\x1b"};
        finding.layer = "\b";
    }
    from.drives[0].model = "\x1b[7m";
    from.filesystems[0].mount = "\t\x1b";
    const auto has_controls = [](const std::string& text) {
        return std::any_of(text.begin(), text.end(), [](char c) {
            return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f ||
                   static_cast<unsigned char>(c) >= 0x80;
        });
    };
    core::TrimRecord trim = record();
    trim.mount = trim.outcome = trim.disks[0] = trim.effect->why = "\x1b\xff\n";
    EXPECT_FALSE(has_controls(doctor_text(from, {})));
    EXPECT_FALSE(has_controls(status_text(from, "\x1b", {trim}, {})));
    EXPECT_FALSE(has_controls(drives_text(from, {})));
    EXPECT_FALSE(has_controls(filesystems_text(from, {})));
    EXPECT_FALSE(has_controls(explain_text(from, "trim.blocked", {})));
    EXPECT_FALSE(has_controls(trim_result_text(trim, {})));
}

TEST(DoctorText, SurvivesTimesThatAreFarApart) {
    Diagnosis from = diagnosis();
    from.findings[0].since = core::WallTime::min();
    from.findings[1].since = core::WallTime::max();
    EXPECT_THAT(doctor_text(from, {}), HasSubstr("a very long time"));
}

TEST(StatusText, FitsATerminalOfTwentyFiveLines) {
    for (std::size_t drives : {0U, 1U, 3U, 40U}) {
        for (std::size_t findings : {0U, 2U, 60U}) {
            for (std::size_t trims : {0U, 1U, 30U}) {
                Diagnosis from = diagnosis();
                from.drives.assign(drives, drive());
                from.filesystems.assign(drives * 2, diagnosis().filesystems[0]);
                from.findings.assign(findings, not_covered());
                std::vector<core::TrimRecord> records(trims, record());
                for (std::size_t i = 0; i < trims; ++i) {
                    records[i].mount = "/srv/" + std::to_string(i);
                }
                const std::string text = status_text(from, "observe", records, {});
                EXPECT_LE(lines_of(text).size(), 24U) << text;
                EXPECT_LE(widest(text), 80);
            }
        }
    }
}

TEST(StatusText, ShowsAllOfAShortListAndSaysWhatIsLeftOutOfALongOne) {
    Diagnosis from = diagnosis();
    from.findings.assign(60, not_covered());
    const std::string text = status_text(from, "maintain", {record()}, {});
    EXPECT_THAT(text,
                AllOf(StartsWith("nvmaint: attention - 60 warnings; mode maintain; 2026-"),
                      HasSubstr("nvme1  KXG60ZNV1T02  client    12.5 ms  2.29 ms  diskstats  ok"),
                      HasSubstr("/var/lib/db  xfs   not-covered  not in /etc/fstab"),
                      HasSubstr("784.9 GiB  784.9 GiB  helped"),
                      HasSubstr("more: nvmaintctl doctor)")));
    EXPECT_EQ(lines_of(text).size(), 24U);
}

TEST(StatusText, ShowsTheLastTrimOfEachFilesystem) {
    core::TrimRecord newer = record();
    newer.started += minutes{5};
    newer.discarded_bytes.reset();
    newer.effect.reset();
    const std::string text = status_text(diagnosis(), "observe", {record(), newer}, {});
    EXPECT_THAT(text, HasSubstr("2026-11-30T20:35:00Z  done     784.9 GiB    unknown  -"));
    EXPECT_THAT(text, Not(HasSubstr("2026-11-30T20:30:00Z")));
}

TEST(StatusText, ColoursTheVerdictWithoutChangingTheText) {
    const std::string plain = status_text(diagnosis(), "observe", {record()}, {.colour = false});
    std::string coloured = status_text(diagnosis(), "observe", {record()}, {.colour = true});
    EXPECT_THAT(coloured, HasSubstr("\x1b[33mattention\x1b[0m"));
    for (std::size_t at = coloured.find('\x1b'); at != std::string::npos;
         at = coloured.find('\x1b')) {
        coloured.erase(at, coloured.find('m', at) - at + 1);
    }
    EXPECT_EQ(coloured, plain);
}

TEST(ExplainText, ShowsMeaningAndWhatStands) {
    const std::string text = explain_text(diagnosis(), "trim.blocked", {});
    EXPECT_THAT(text, AllOf(StartsWith("trim.blocked\n"), HasSubstr("A discard cannot get through"),
                            HasSubstr("seen in:  sys/block/dm-0/queue/discard_max_bytes: 0")));
    EXPECT_THAT(explain_text(diagnosis(), "trim.blocked/dm-crypt", {}),
                HasSubstr("at layer: dm-0"));
    EXPECT_THAT(explain_text(diagnosis(), "trim.blocked/md", {}), HasSubstr("does not stand"));
    EXPECT_THAT(explain_text(diagnosis(), "trim.timer.masked", {}),
                AllOf(HasSubstr("systemctl unmask"), HasSubstr("does not stand")));
    EXPECT_EQ(explain_text(diagnosis(), "no.such-id", {}), "");
}

TEST(Catalogue, HasEachIdOnceWithAMeaning) {
    std::vector<std::string_view> ids = catalogue_ids();
    for (std::string_view id : ids) {
        EXPECT_GT(catalogue_entry(id)->meaning.size(), 30U) << id;
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

// Whatever the diagnosis can report can be explained: each string of its sources that looks like an
// id.
TEST(Catalogue, KnowsEachIdOfTheDiagnosis) {
    const std::regex literal("\"((trim|flush|health|ctrl|ident|svc)\\.[a-z_.-]*[a-z])\"");
    std::size_t seen = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(NVMAINT_SOURCE_DIR) + "/service/core")) {
        if (entry.path().extension() != ".cpp") {
            continue;
        }
        std::ifstream file(entry.path());
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        for (std::sregex_iterator at(text.begin(), text.end(), literal), end; at != end; ++at) {
            ++seen;
            EXPECT_NE(catalogue_entry((*at)[1].str()), nullptr) << (*at)[1];
        }
    }
    EXPECT_GT(seen, 20U);
}

TEST(TrimResultText, PutsBeforeBesideAfter) {
    const std::string text = trim_result_text(record(), {});
    EXPECT_THAT(text, StartsWith("Trim of /var/lib/db on nvme1n1: done after 2 min\n"));
    EXPECT_THAT(text, AllOf(HasSubstr("requested by the filesystem  784.9 GiB\n"),
                            HasSubstr("discarded at the drive       784.9 GiB\n"),
                            HasSubstr("stalled flushes  900 (12.5 %)  0 (0.0 %)\n"),
                            HasSubstr("Verdict: helped (confidence 95.2 %)\n"),
                            HasSubstr("5 stalls before, none after\n")));
}

TEST(TrimResultText, DoesNotMakeANumberOfWhatIsNotKnown) {
    core::TrimRecord trim = record();
    trim.discarded_bytes.reset();
    trim.effect.reset();
    trim.complete = false;
    trim.outcome = "cancelled";
    const std::string text = trim_result_text(trim, {});
    EXPECT_THAT(text, AllOf(HasSubstr("unknown: no discard counter"),
                            HasSubstr("not all of it was"), Not(HasSubstr("Verdict"))));
    trim.effect = core::TrimEffect{.why = "the load changed"};
    EXPECT_THAT(trim_result_text(trim, {}), AllOf(HasSubstr("Verdict: not-comparable\n"),
                                                  HasSubstr("median                -      -\n")));
}

// ---- HTML ----

DrivePlot stalling_plot() {
    DrivePlot plot;
    plot.title = "nvme0n1 <client>";
    for (int t = 0; t < 700; ++t) {
        plot.flush.push_back({static_cast<double>(t), t % 30 < 4 && t < 400 ? 12.0 : 2.0});
    }
    plot.trims = {{400, 416, "trim of /srv/\"x\""}};
    plot.stalls = {{0, 4, "stall"}, {30, 34, "stall"}};
    plot.figures = {{"Flushes", "before", "after"}, {"median", "2.0 ms", "2.0 ms"}};
    plot.verdict = "helped: fewer & shorter";
    return plot;
}

TEST(HtmlReport, IsOnePageWithoutScriptAndWithoutReferences) {
    HtmlReport report;
    report.title = "t<script>alert(1)</script>";
    report.story = {"<img src=x>"};
    report.drives = {stalling_plot()};
    report.diagnosis = diagnosis();
    report.diagnosis->findings[0].summary = "</div><script src=//x>";
    report.diagnosis->drives[0].model = "<svg onload=x>";
    const std::string page = html_report(report);
    EXPECT_THAT(page, StartsWith("<!DOCTYPE html>\n<html lang=\"en\">"));
    // Nothing that runs, loads or leads elsewhere; what strangers wrote is there as text only.
    for (const char* never : {"<script", "<img", "<link", "<svg onload",
                              "http:", "https:", "@import", "url(", " src=\"", " href="}) {
        EXPECT_THAT(page, Not(HasSubstr(never)));
    }
    EXPECT_THAT(page, HasSubstr("&lt;svg onload=x&gt;"));
    EXPECT_THAT(page, AllOf(HasSubstr("prefers-color-scheme: dark"), HasSubstr("<desc id="),
                            HasSubstr("is-helped"), HasSubstr("helped: fewer &amp; shorter"),
                            HasSubstr("trim of /srv/&quot;x&quot;")));
    EXPECT_EQ(std::count(page.begin(), page.end(), '\0'), 0);
}

TEST(HtmlReport, IdsAreUnique) {
    HtmlReport report;
    report.drives = {stalling_plot(), stalling_plot()};
    const std::string page = html_report(report);
    std::vector<std::string> ids;
    for (std::size_t at = page.find(" id=\""); at != std::string::npos;
         at = page.find(" id=\"", at + 1)) {
        ids.push_back(page.substr(at + 5, page.find('"', at + 5) - at - 5));
    }
    EXPECT_EQ(ids.size(), 8U); // title and description, in two shapes, of two drives
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

TEST(HtmlReport, SaysWhereThereIsNothing) {
    HtmlReport report;
    DrivePlot plot;
    plot.title = "nvme0n1";
    report.drives = {plot};
    report.diagnosis = Diagnosis{};
    EXPECT_THAT(html_report(report), AllOf(HasSubstr("No flush was seen on this disk."),
                                           HasSubstr("There is nothing to report.")));
}

std::vector<double> numbers_of(const std::string& svg) {
    std::vector<double> numbers;
    const std::size_t begin = svg.find("class=\"series\" d=\"") + 18;
    std::istringstream path(svg.substr(begin, svg.find('"', begin) - begin));
    std::string text = path.str();
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == 'M' || c == 'L'; }, ' ');
    std::istringstream words(text);
    for (double number = 0; words >> number;) {
        numbers.push_back(number);
    }
    return numbers;
}

TEST(Plot, StaysWithinItsFrameForAnyPoints) {
    const double huge = std::numeric_limits<double>::max();
    const double nan = std::nan("");
    for (const std::vector<PlotPoint>& points : std::vector<std::vector<PlotPoint>>{
             {{0, 2}},
             {{0, 0}},
             {{0, 0}, {1, 0}, {2, 0}},
             {{5, 1}, {3, 2}, {4, 1e-6}},
             {{0, 1}, {nan, 1}, {1, nan}, {2, -1}, {3, INFINITY}, {4, 1}},
             {{-1e9, 1}, {0, 1000000}},
             {{0, 1}, {1, 1}, {2, 1}, {3, huge}},
             {{0, 1e-300}, {1, 1e-300}, {2, 1}},
             {{-1e10, 1}, {1e10, 1e9}},
             {{0, 1}, {huge, 1}}}) {
        DrivePlot plot = stalling_plot();
        plot.flush = points;
        plot.trims.push_back({nan, 1, "x"});
        plot.stalls.push_back({-huge, huge, "x"});
        for (PlotShape shape : {PlotShape::Wide, PlotShape::Narrow}) {
            const std::string svg = plot_svg(plot, "p", shape);
            ASSERT_THAT(svg, StartsWith("<svg "));
            EXPECT_EQ(svg.find("nan"), std::string::npos);
            EXPECT_EQ(svg.find("inf"), std::string::npos);
            EXPECT_LT(svg.size(), 50000U);
            const std::vector<double> numbers = numbers_of(svg);
            for (std::size_t i = 0; i < numbers.size(); ++i) {
                EXPECT_GE(numbers[i], 0) << svg;
                EXPECT_LE(numbers[i], i % 2 == 0 ? 960 : 320) << svg;
            }
        }
    }
}

TEST(Plot, KeepsEveryBurstWhenPointsAreMany) {
    DrivePlot plot;
    for (int t = 0; t < 86400; ++t) {
        plot.flush.push_back({static_cast<double>(t), t == 43210 ? 9.5 : 2.0});
    }
    const std::string svg = plot_svg(plot, "p", PlotShape::Wide);
    EXPECT_LT(svg.size(), 60000U);
    const std::vector<double> numbers = numbers_of(svg);
    double top = 1000;
    double floor = 0;
    for (std::size_t i = 1; i < numbers.size(); i += 2) {
        top = std::min(top, numbers[i]);
        floor = std::max(floor, numbers[i]);
    }
    // 9.5 of 10 against 2 of 10, on an inner height of 230.
    EXPECT_NEAR(floor - top, 230 * 0.75, 1);
    EXPECT_THAT(svg, HasSubstr("class=\"far\""));
}

TEST(Plot, BreaksTheLineWhereNothingWasSeen) {
    DrivePlot plot;
    for (int t = 0; t < 100; ++t) {
        if (t < 40 || t > 60) {
            plot.flush.push_back({static_cast<double>(t), 2.0});
        }
    }
    const std::string svg = plot_svg(plot, "p", PlotShape::Wide);
    const std::size_t begin = svg.find("class=\"series\" d=\"") + 18;
    const std::string path = svg.substr(begin, svg.find('"', begin) - begin);
    EXPECT_EQ(std::count(path.begin(), path.end(), 'M'), 2);
}

TEST(Plot, TheUsualIsWhatItIsGivenOrTheMedian) {
    DrivePlot plot = stalling_plot();
    EXPECT_EQ(plot_usual_ms(plot), 2.0);
    plot.usual_ms = 2.5;
    EXPECT_EQ(plot_usual_ms(plot), 2.5);
    plot.usual_ms = -1;
    EXPECT_EQ(plot_usual_ms(plot), 2.0);
    EXPECT_EQ(plot_usual_ms({}), std::nullopt);
}

TEST(Plot, LatenciesReadAsPeopleSayThem) {
    EXPECT_EQ(latency_text(0.0123), "12 \u00b5s");
    EXPECT_EQ(latency_text(2.1), "2.10 ms");
    EXPECT_EQ(latency_text(18.26), "18.3 ms");
    EXPECT_EQ(latency_text(1234.5), "1234 ms");
    EXPECT_EQ(latency_text(std::nan("")), "unknown");
}

} // namespace
} // namespace nvmaint::report
