// nvmaintctl: asks the service, or judges a host or a recording by itself.

#include "admin/nvme_admin.hpp"
#include "collect/collect.hpp"
#include "config/policy_file.hpp"
#include "ctl/bus_client.hpp"
#include "ctl/local.hpp"
#include "report/report.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace nvmaint::ctl {
namespace {

// Exit statuses, the same for every verb.
constexpr int kFine = 0;
constexpr int kFindings = 1; // findings at warning or above; a trim that did not end well
constexpr int kNoJudgement = 2;

std::atomic<bool> interrupted{false};

int fail(const Error& error) {
    fmt::print(stderr, "nvmaintctl: {}\n", error.text());
    return kNoJudgement;
}

report::Style style() {
    report::Style style;
    // Nothing in this process changes its environment.
    const char* no_colour = std::getenv("NO_COLOR"); // NOLINT(concurrency-mt-unsafe)
    style.colour = isatty(STDOUT_FILENO) != 0 && no_colour == nullptr;
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
        style.width = std::min<int>(size.ws_col, 120);
    }
    return style;
}

void print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
}
void print_json(const nlohmann::ordered_json& json) {
    print(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

int status_of(const core::Diagnosis& diagnosis) {
    const bool warned = std::any_of(
        diagnosis.findings.begin(), diagnosis.findings.end(),
        [](const core::Finding& finding) { return finding.severity <= core::Severity::Warning; });
    return warned ? kFindings : kFine;
}

Result<core::Diagnosis> parse_doctor(const std::string& text) {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded()) {
        return Error::make(ErrorKind::Malformed, "the service's answer is not JSON");
    }
    return report::doctor_from_json(json);
}

struct Source {
    std::string root;
    bool local = false;
    bool json = false;
};

// The service's own judgement where it runs, else one made here.
Result<core::Diagnosis> diagnosis_from(const Source& source) {
    if (source.root.empty() && !source.local) {
        const Result<std::unique_ptr<BusClient>> client = BusClient::connect();
        if (client) {
            TRY(text, (*client)->doctor());
            return parse_doctor(text);
        }
    }
    TRY(judged, judge(source.root));
    return std::move(judged.diagnosis);
}

int doctor(const Source& source) {
    const Result<core::Diagnosis> diagnosis = diagnosis_from(source);
    if (!diagnosis) {
        return fail(diagnosis.error());
    }
    if (source.json) {
        print_json(report::doctor_json(*diagnosis));
    } else {
        print(report::doctor_text(*diagnosis, style()));
    }
    return status_of(*diagnosis);
}

int show_part(const Source& source, const std::string& part) {
    const Result<core::Diagnosis> diagnosis = diagnosis_from(source);
    if (!diagnosis) {
        return fail(diagnosis.error());
    }
    if (source.json) {
        print_json(report::doctor_json(*diagnosis)[part]);
    } else {
        print(part == "drives" ? report::drives_text(*diagnosis, style())
                               : report::filesystems_text(*diagnosis, style()));
    }
    return kFine;
}

int explain(const Source& source, const std::string& id) {
    const Result<core::Diagnosis> diagnosis = diagnosis_from(source);
    if (!diagnosis) {
        return fail(diagnosis.error());
    }
    if (source.json) {
        nlohmann::ordered_json found = nlohmann::ordered_json::array();
        for (const core::Finding& finding : diagnosis->findings) {
            if (finding.id == id) {
                found.push_back(report::finding_json(finding));
            }
        }
        print_json(found);
        return kFine;
    }
    const std::string text = report::explain_text(*diagnosis, id, style());
    if (text.empty()) {
        return fail(Error::make(ErrorKind::Malformed, "no finding has the id " + id));
    }
    print(text);
    return kFine;
}

Result<std::vector<core::TrimRecord>> records_from(const std::string& text) {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    std::vector<core::TrimRecord> records;
    if (!json.is_array()) {
        return Error::make(ErrorKind::Malformed, "the service's answer is not a JSON array");
    }
    for (const nlohmann::json& each : json) {
        TRY(record, report::trim_record_from_json(each));
        records.push_back(std::move(record));
    }
    return records;
}

int status(bool json) {
    const Result<std::unique_ptr<BusClient>> client = BusClient::connect();
    if (!client) {
        return fail(client.error());
    }
    const Result<std::string> text = (*client)->doctor();
    const Result<std::string> mode = (*client)->mode();
    const Result<std::string> trims = (*client)->trims();
    for (const Result<std::string>* each : {&text, &mode, &trims}) {
        if (!*each) {
            return fail(each->error());
        }
    }
    const Result<core::Diagnosis> diagnosis = parse_doctor(*text);
    const Result<std::vector<core::TrimRecord>> records = records_from(*trims);
    if (!diagnosis) {
        return fail(diagnosis.error());
    }
    if (!records) {
        return fail(records.error());
    }
    if (json) {
        nlohmann::ordered_json all;
        all["mode"] = *mode;
        all["doctor"] = report::doctor_json(*diagnosis);
        all["trims"] = nlohmann::ordered_json::array();
        for (const core::TrimRecord& record : *records) {
            all["trims"].push_back(report::trim_record_json(record));
        }
        print_json(all);
    } else {
        print(report::status_text(*diagnosis, *mode, *records, style()));
    }
    return status_of(*diagnosis);
}

// ---- trim
// ---------------------------------------------------------------------------------------------------------

void show_progress(const JobState& job, bool tty) {
    const auto text = [&](const char* key) {
        const auto found = job.result.find(key);
        const auto* value =
            found == job.result.end() ? nullptr : std::get_if<std::string>(&found->second);
        return value == nullptr ? std::string() : *value;
    };
    const auto number = [&](const char* key) -> std::uint64_t {
        const auto found = job.result.find(key);
        const auto* value =
            found == job.result.end() ? nullptr : std::get_if<std::uint64_t>(&found->second);
        return value == nullptr ? 0 : *value;
    };
    std::string line;
    if (text("phase") == "watching") {
        line = fmt::format("trimmed {} in {} ranges; watching the flushes for the verdict",
                           core::humane_bytes(number("requested_bytes")), number("ranges"));
    } else {
        const int filled = static_cast<int>(job.progress / 0.9 * 30);
        line = fmt::format("[{}{}] {:3.0f} %  {} in {} ranges",
                           std::string(std::size_t(std::clamp(filled, 0, 30)), '#'),
                           std::string(std::size_t(30 - std::clamp(filled, 0, 30)), '.'),
                           std::min(job.progress / 0.9, 1.0) * 100,
                           core::humane_bytes(number("requested_bytes")), number("ranges"));
    }
    if (tty) {
        fmt::print(stderr, "\r\033[K{}", line);
    }
}

int trim(const std::string& mount, std::uint64_t watch, bool json) {
    const Result<std::unique_ptr<BusClient>> client = BusClient::connect();
    if (!client) {
        return fail(client.error());
    }
    const Result<std::string> path = (*client)->trim(mount, {{"watch", watch}});
    if (!path) {
        return fail(path.error());
    }
    const bool tty = isatty(STDERR_FILENO) != 0;
    if (!tty) {
        fmt::print(stderr, "trimming {} ({})\n", mount, *path);
    }
    std::signal(SIGINT, [](int) { interrupted = true; });
    std::signal(SIGTERM, [](int) { interrupted = true; });
    bool cancelled = false;
    bool told_watching = false;
    while (true) {
        const Result<JobState> job = (*client)->job(*path);
        if (!job) {
            if (tty) {
                fmt::print(stderr, "\n");
            }
            return fail(job.error());
        }
        show_progress(*job, tty);
        const auto phase = job->result.find("phase");
        if (!tty && !told_watching && phase != job->result.end() &&
            phase->second == Value(std::string("watching"))) {
            told_watching = true;
            fmt::print(stderr, "trimmed; watching the flushes for the verdict\n");
        }
        if (job->state != "running") {
            if (tty) {
                fmt::print(stderr, "\r\033[K");
            }
            const auto record = job->result.find("record");
            const auto* text =
                record == job->result.end() ? nullptr : std::get_if<std::string>(&record->second);
            if (text == nullptr) {
                return fail(Error::make(ErrorKind::Malformed, "the job carries no record"));
            }
            const nlohmann::ordered_json parsed =
                nlohmann::ordered_json::parse(*text, nullptr, false);
            if (json) {
                print_json(parsed);
            } else {
                const Result<core::TrimRecord> decoded =
                    report::trim_record_from_json(nlohmann::json::parse(*text, nullptr, false));
                if (!decoded) {
                    return fail(decoded.error());
                }
                print(report::trim_result_text(*decoded, style()));
            }
            return job->state == "done" ? kFine : kFindings;
        }
        if (interrupted && !cancelled) {
            cancelled = true;
            const Result<Done> asked = (*client)->cancel(*path);
            if (!asked) {
                return fail(asked.error());
            }
            continue;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
    }
}

int trim_history(bool json) {
    const Result<std::unique_ptr<BusClient>> client = BusClient::connect();
    if (!client) {
        return fail(client.error());
    }
    const Result<std::string> text = (*client)->trims();
    if (!text) {
        return fail(text.error());
    }
    if (json) {
        print_json(nlohmann::ordered_json::parse(*text, nullptr, false));
        return kFine;
    }
    const Result<std::vector<core::TrimRecord>> records = records_from(*text);
    if (!records) {
        return fail(records.error());
    }
    report::Table table;
    table.header = {"started", "mount", "outcome", "requested", "discarded", "effect"};
    for (const core::TrimRecord& record : *records) {
        table.rows.push_back(
            {core::to_rfc3339(record.started), record.mount, record.outcome,
             core::humane_bytes(record.requested_bytes),
             record.discarded_bytes ? core::humane_bytes(*record.discarded_bytes) : "unknown",
             record.effect ? std::string(core::to_string(record.effect->verdict)) : "-"});
    }
    print(records->empty() ? "No trim has been done by nvmaint on this host.\n"
                           : report::table_text(table, style()));
    return kFine;
}

// ---- metrics, record, replay, policy, monitor, report
// -----------------------------------------------------------------

int metrics() {
    const std::string path = "/run/nvmaint/metrics.prom";
    const Result<std::unique_ptr<BusClient>> client = BusClient::connect();
    if (!client) {
        return fail(client.error()); // a file that nobody keeps up to date would pass for fresh
    }
    std::ifstream file(path);
    if (!file) {
        return fail(Error::make(ErrorKind::System,
                                path + ": not written yet; the service writes it every 15 s"));
    }
    print({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
    return kFine;
}

int record(const std::string& directory, bool keep_serials) {
    const Result<collect::HostRoot> root = collect::HostRoot::live();
    if (!root) {
        return fail(root.error());
    }
    const std::unique_ptr<nvme::NvmeAdmin> admin = nvme::make_libnvme_admin();
    const Result<Done> recorded = collect::record_host(*root, *admin, directory, !keep_serials);
    if (!recorded) {
        return fail(recorded.error());
    }
    fmt::print("Recorded this host in {}.\n{}\nLook at it: nvmaintctl doctor --root {}\n",
               directory,
               keep_serials ? "Serial numbers and host names are in it as they are."
                            : "Serial numbers and host names were replaced.",
               directory);
    return kFine;
}

int replay_verb(const std::vector<std::string>& recordings, const std::string& policy, bool json) {
    const Result<std::vector<Tick>> ticks = replay(recordings, policy);
    if (!ticks) {
        return fail(ticks.error());
    }
    bool warned = false;
    if (json) {
        nlohmann::ordered_json all = nlohmann::ordered_json::array();
        for (const Tick& tick : *ticks) {
            all.push_back(report::tick_json(tick.diagnosis, tick.plan));
            warned = warned || status_of(tick.diagnosis) != kFine;
        }
        print_json(all);
    } else {
        for (std::size_t i = 0; i < ticks->size(); ++i) {
            const Tick& tick = (*ticks)[i];
            print(
                fmt::format("== {} at {}\n", recordings[i], core::to_rfc3339(tick.diagnosis.now)));
            print(report::doctor_text(tick.diagnosis, style()));
            for (const core::Action& action : tick.plan.actions) {
                print(fmt::format("would {} {}: {}\n", action.kind, action.subject.name,
                                  action.reason));
            }
            for (const core::Refusal& refusal : tick.plan.refusals) {
                print(fmt::format("would not {} {}: {}\n", refusal.kind, refusal.subject.name,
                                  refusal.reason));
            }
            warned = warned || status_of(tick.diagnosis) != kFine;
        }
    }
    return warned ? kFindings : kFine;
}

int policy_check(const std::string& root, const std::vector<std::string>& files) {
    std::vector<config::PolicySource> sources;
    if (files.empty()) {
        Result<std::vector<config::PolicySource>> read = config::read_policy_sources(root);
        if (!read) {
            return fail(read.error());
        }
        sources = std::move(*read);
    }
    for (const std::string& path : files) {
        Result<config::PolicySource> source = config::read_policy_source(path);
        if (!source) {
            return fail(source.error());
        }
        sources.push_back(std::move(*source));
    }
    const Result<core::Policy> policy = config::compile_policy(sources);
    if (!policy) {
        return fail(policy.error());
    }
    for (const config::PolicySource& source : sources) {
        fmt::print("{}: fine\n", source.path);
    }
    if (sources.empty()) {
        fmt::print("no policy file; the built-in policy holds\n");
    }
    return kFine;
}

int policy_show(const std::string& root) {
    const Result<core::Policy> policy = config::load_policy(root);
    if (!policy) {
        return fail(policy.error());
    }
    print(config::policy_to_toml(*policy));
    return kFine;
}

int monitor(bool json) {
    const Result<std::unique_ptr<BusClient>> client = BusClient::connect();
    if (!client) {
        return fail(client.error());
    }
    const Result<Done> ended = (*client)->monitor([&](const BusEvent& event) {
        if (json) {
            nlohmann::ordered_json line;
            line["event"] = event.raised ? "raised" : "cleared";
            line["id"] = event.id;
            line["reason"] = event.reason;
            line["severity"] = event.severity;
            line["subject"] = {{"kind", event.subject_kind}, {"name", event.subject_name}};
            line["summary"] = event.summary;
            print(line.dump() + "\n");
        } else {
            print(fmt::format("{:7} {:8} {}{} {}{}\n", event.raised ? "raised" : "cleared",
                              event.severity, event.id,
                              event.reason.empty() ? "" : "/" + event.reason, event.subject_name,
                              event.summary.empty() ? "" : ": " + event.summary));
        }
        std::fflush(stdout);
        return true;
    });
    return ended ? kFine : fail(ended.error());
}

int html_report(const std::string& path, const std::vector<std::string>& story) {
    const Result<std::unique_ptr<BusClient>> client = BusClient::connect();
    if (!client) {
        return fail(client.error());
    }
    const Result<std::string> text = (*client)->doctor();
    if (!text) {
        return fail(text.error());
    }
    Result<core::Diagnosis> diagnosis = parse_doctor(*text);
    if (!diagnosis) {
        return fail(diagnosis.error());
    }
    const Result<std::string> trims = (*client)->trims();
    if (!trims) {
        return fail(trims.error());
    }
    const Result<std::vector<core::TrimRecord>> records = records_from(*trims);
    if (!records) {
        return fail(records.error());
    }
    const core::WallTime now = diagnosis->now;
    report::HtmlReport page;
    page.title = "nvmaint: flush latency and trim";
    page.generated = core::to_rfc3339(now);
    page.story = story;
    const auto ago = [&](core::WallTime time) {
        return std::chrono::duration<double>(time - now).count();
    };
    for (const core::DriveView& drive : diagnosis->drives) {
        for (const std::string& disk : drive.disks) {
            const Result<FlushSeries> series = (*client)->flush_series(disk);
            if (!series || series->points.empty()) {
                continue;
            }
            report::DrivePlot plot;
            plot.title = fmt::format("{}: {} (class: {})", disk, drive.model, drive.drive_class);
            for (const auto& [t, ms] : series->points) {
                plot.flush.push_back({t, ms});
            }
            for (const core::TrimRecord& record : *records) {
                if (std::find(record.disks.begin(), record.disks.end(), disk) ==
                    record.disks.end()) {
                    continue;
                }
                const double first = plot.flush.front().t;
                const double from = ago(record.started);
                const double to = record.ended ? ago(*record.ended) : 0;
                if (to >= first) {
                    plot.trims.push_back({std::max(from, first), to, "trim of " + record.mount});
                }
                if (record.effect) {
                    plot.figures = report::effect_figures(*record.effect);
                    plot.verdict = fmt::format("{}: {}", core::to_string(record.effect->verdict),
                                               record.effect->why);
                }
            }
            page.drives.push_back(std::move(plot));
        }
    }
    page.diagnosis = std::move(*diagnosis);
    std::ofstream file(path, std::ios::trunc);
    file << report::html_report(page);
    file.close();
    if (!file) {
        return fail(Error::make(ErrorKind::System, path + ": cannot be written"));
    }
    fmt::print("wrote {}\n", path);
    return kFine;
}

int run(int argc, char** argv) {
    CLI::App app{"nvmaintctl: what the NVMe drives of this host need, and why.\n\n"
                 "Exit status: 0 nothing at warning or above; 1 findings at warning or above "
                 "(doctor, status, "
                 "replay),\nor a trim that did not end well; 2 no judgement possible (usage, "
                 "unreadable input, "
                 "no service)."};
    app.require_subcommand(1);
    app.set_version_flag("--version", NVMAINT_VERSION);
    int result = kFine;
    Source source;
    const auto add_source = [&source](CLI::App* verb) {
        verb->add_option("--root", source.root,
                         "Judge the recording in this folder, and nothing else");
        verb->add_flag("--local", source.local,
                       "Read this host here instead of asking the service");
        verb->add_flag("--json", source.json, "Print JSON");
    };
    bool json = false;

    CLI::App* verb =
        app.add_subcommand("status", "The state of drives, filesystems and trims at a glance");
    verb->add_flag("--json", json, "Print JSON");
    verb->callback([&] { result = status(json); });

    verb = app.add_subcommand("doctor", "Every finding with its evidence and its fix");
    add_source(verb);
    verb->callback([&] { result = doctor(source); });

    std::string id;
    verb = app.add_subcommand("explain", "One finding in full: evidence, rule, fix");
    verb->add_option("ID", id, "As doctor prints it: trim.not-covered, flush.device-stall, ...")
        ->required();
    add_source(verb);
    verb->callback([&] { result = explain(source, id); });

    verb = app.add_subcommand("drives", "NVMe drives: identity, class, flush cost, health");
    add_source(verb);
    verb->callback([&] { result = show_part(source, "drives"); });
    verb = app.add_subcommand("filesystems",
                              "Filesystems, what lies below them, and whether trim reaches it");
    add_source(verb);
    verb->callback([&] { result = show_part(source, "filesystems"); });

    std::string mount;
    std::uint64_t watch = 600;
    bool no_verdict = false;
    verb = app.add_subcommand("trim", "Trim one filesystem in ranges and tell whether it helped");
    verb->add_option("MOUNT", mount, "Mount point, or `history` for the trims done so far")
        ->required();
    verb->add_option("--watch", watch, "Seconds to watch the flushes afterwards, at most")
        ->check(CLI::Range(0, 3600))
        ->capture_default_str();
    verb->add_flag("--no-verdict", no_verdict, "Do not watch the flushes afterwards");
    verb->add_flag("--json", json, "Print JSON");
    verb->callback([&] {
        result =
            mount == "history" ? trim_history(json) : trim(mount, no_verdict ? 0 : watch, json);
    });

    std::string path;
    std::vector<std::string> story;
    verb = app.add_subcommand("report", "Write a page with the flush latency of the last minutes");
    verb->add_option("FILE", path, "HTML file to write")->required();
    verb->add_option("--note", story, "A paragraph for the top of the page; may be given again");
    verb->callback([&] { result = html_report(path, story); });

    verb = app.add_subcommand("metrics", "Metrics in Prometheus text format");
    verb->callback([&] { result = metrics(); });

    bool keep = false;
    verb = app.add_subcommand("record-host", "Record this host for a bug report or a test");
    verb->add_option("DIR", path, "Folder to make; must not exist")->required();
    verb->add_flag("--keep-identities", keep, "Leave serial numbers and host names as they are");
    verb->callback([&] { result = record(path, keep); });

    std::vector<std::string> recordings;
    std::string policy_file;
    verb = app.add_subcommand("replay",
                              "Run the pipeline over recordings, with nothing changed anywhere");
    verb->add_option("REC", recordings, "Recordings of one host in order")->required();
    verb->add_option("--policy", policy_file,
                     "Policy file to decide by, instead of each recording's own");
    verb->add_flag("--json", json, "Print JSON");
    verb->callback([&] { result = replay_verb(recordings, policy_file, json); });

    CLI::App* policy = app.add_subcommand("policy", "Check or show the policy");
    policy->require_subcommand(1);
    std::string policy_root = "/";
    std::vector<std::string> files;
    verb = policy->add_subcommand(
        "check", "Compile what the service would compile, and say what is wrong where");
    verb->add_option("--root", policy_root, "Where usr/lib/nvmaint and etc/nvmaint are")
        ->capture_default_str();
    verb->add_option("FILE", files, "Check these files, merged in order, instead");
    verb->callback([&] { result = policy_check(policy_root, files); });
    verb = policy->add_subcommand("show", "The policy in force: every key with its value");
    verb->add_option("--root", policy_root, "Where usr/lib/nvmaint and etc/nvmaint are")
        ->capture_default_str();
    verb->callback([&] { result = policy_show(policy_root); });

    verb = app.add_subcommand("monitor", "Print findings as they are raised and cleared");
    verb->add_flag("--json", json, "One JSON object a line");
    verb->callback([&] { result = monitor(json); });

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) {
            return app.exit(error);
        }
        fmt::print(stderr, "nvmaintctl: {} (see nvmaintctl --help)\n", error.what());
        return kNoJudgement;
    }
    return result;
}

} // namespace
} // namespace nvmaint::ctl

int main(int argc, char** argv) {
    try {
        return nvmaint::ctl::run(argc, argv);
    } catch (const std::exception& error) { // memory that is not there, or a bug
        std::fprintf(stderr, "nvmaintctl: %s\n", error.what());
        return 2;
    }
}
