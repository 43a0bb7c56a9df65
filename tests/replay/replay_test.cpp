// Recordings of hosts, judged from their files to the findings. Each folder of tests/fixtures/hosts
// is a recording with two files of ours in it: README says why its answer is right, expect.txt what
// the answer is. A line of expect.txt is one of
//
//     verdict VERDICT
//     filesystem MOUNT STATE
//     drive CONTROLLER HEALTH
//     SEVERITY ID REASON KIND NAME LAYER          a finding; "-" stands for nothing
//
// Findings are always compared, all of them; of the other three only what is listed, but
// filesystems all or none. Each recording is judged twice to the same result, and then once with
// every single read failing: what is lost must never turn into an alarm.
#include "admin/nvme_admin.hpp"
#include "collect/collect.hpp"
#include "core/diagnose.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

namespace nvmaint {
namespace {

using core::Diagnosis;
using core::Finding;
using core::Severity;

const std::string kHosts = std::string(NVMAINT_SOURCE_DIR) + "/tests/fixtures/hosts";

std::vector<std::string> recordings() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(kHosts)) {
        if (entry.is_directory()) {
            names.push_back(entry.path().filename());
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

struct Judged {
    Result<Diagnosis> diagnosis;
    std::vector<std::string> reads; // paths, in order
    std::uint64_t commands = 0;     // admin commands sent
};

// Nothing fails where both are absent.
struct Faults {
    std::optional<std::uint64_t> read;
    std::optional<std::uint64_t> command;
};

Judged judge(const std::string& name, const Faults& faults = {}) {
    Judged judged{Error{}, {}, 0};
    auto root = collect::HostRoot::recording(kHosts + "/" + name);
    if (!root) {
        judged.diagnosis = root.error();
        return judged;
    }
    root->set_fault([&](std::uint64_t call, const std::string& path) -> std::optional<Error> {
        judged.reads.push_back(path);
        return faults.read == call ? std::optional(Error::system(EIO, path)) : std::nullopt;
    });
    const auto admin = nvme::make_faulty_admin(
        nvme::make_replay_admin(root->fd()), [&](std::uint64_t call) -> std::unique_ptr<Error> {
            judged.commands = call + 1;
            return faults.command == call ? std::make_unique<Error>(Error::system(EIO, "injected"))
                                          : nullptr;
        });
    const auto snapshot = collect::collect_host(*root, *admin);
    if (!snapshot) {
        judged.diagnosis = snapshot.error();
        return judged;
    }
    core::Memory memory;
    if (auto series = collect::read_flush_series(*root)) {
        memory.flush = std::move(*series);
    }
    judged.diagnosis = core::diagnose(*snapshot, memory, core::Policy{});
    return judged;
}

std::string line_of(const Finding& finding) {
    const auto dash = [](const std::string& text) { return text.empty() ? "-" : text; };
    std::ostringstream line;
    line << to_string(finding.severity) << ' ' << finding.id << ' ' << dash(finding.reason) << ' '
         << to_string(finding.subject.kind) << ' ' << dash(finding.subject.name) << ' '
         << dash(finding.layer);
    return line.str();
}

std::vector<std::string> lines_of(const std::vector<Finding>& findings) {
    std::vector<std::string> lines;
    std::transform(findings.begin(), findings.end(), std::back_inserter(lines), line_of);
    return lines;
}

struct Expected {
    std::vector<std::string> findings;
    std::vector<std::string> filesystems; // "MOUNT STATE"
    std::vector<std::string> drives;      // "CONTROLLER HEALTH"
    std::string verdict;
};

Expected read_expected(const std::string& name) {
    Expected expected;
    std::ifstream file(kHosts + "/" + name + "/expect.txt");
    EXPECT_TRUE(file.is_open()) << name << "/expect.txt is missing";
    for (std::string line; std::getline(file, line);) {
        const auto rest = [&](std::string_view word) { return line.substr(word.size()); };
        if (line.empty() || line[0] == '#') {
            continue;
        }
        if (line.starts_with("verdict ")) {
            expected.verdict = rest("verdict ");
        } else if (line.starts_with("filesystem ")) {
            expected.filesystems.push_back(rest("filesystem "));
        } else if (line.starts_with("drive ")) {
            expected.drives.push_back(rest("drive "));
        } else {
            expected.findings.push_back(line);
        }
    }
    return expected;
}

bool is_alarm(const Finding& finding) {
    return finding.severity == Severity::Critical || finding.severity == Severity::Warning;
}

class Recording : public testing::TestWithParam<std::string> {};

TEST_P(Recording, GivesTheFindingsThatItsExpectationLists) {
    const auto judged = judge(GetParam());
    ASSERT_TRUE(judged.diagnosis.has_value()) << judged.diagnosis.error().text();
    const auto& diagnosis = *judged.diagnosis;
    const auto expected = read_expected(GetParam());
    EXPECT_THAT(lines_of(diagnosis.findings),
                testing::UnorderedElementsAreArray(expected.findings));
    if (!expected.verdict.empty()) {
        EXPECT_EQ(to_string(diagnosis.verdict), expected.verdict);
    }
    if (!expected.filesystems.empty()) {
        std::vector<std::string> filesystems;
        for (const auto& view : diagnosis.filesystems) {
            filesystems.push_back(view.mount + " " + std::string(to_string(view.trim)));
        }
        EXPECT_THAT(filesystems, testing::UnorderedElementsAreArray(expected.filesystems));
    }
    for (const auto& line : expected.drives) {
        const bool found =
            std::any_of(diagnosis.drives.begin(), diagnosis.drives.end(),
                        [&](const auto& view) { return view.name + " " + view.health == line; });
        EXPECT_TRUE(found) << line;
    }
}

TEST_P(Recording, ExplainsItselfInItsReadme) {
    std::ifstream file(kHosts + "/" + GetParam() + "/README");
    std::string first;
    EXPECT_TRUE(std::getline(file, first) && !first.empty());
}

TEST_P(Recording, GivesTheSameTwice) {
    const auto first = judge(GetParam());
    const auto second = judge(GetParam());
    ASSERT_TRUE(first.diagnosis.has_value());
    EXPECT_EQ(first.diagnosis, second.diagnosis);
    EXPECT_EQ(first.reads, second.reads);
}

TEST_P(Recording, ShowsEvidenceForEachFindingAndAFixForEachAlarm) {
    const auto judged = judge(GetParam());
    ASSERT_TRUE(judged.diagnosis.has_value());
    for (const auto& finding : judged.diagnosis->findings) {
        EXPECT_FALSE(finding.summary.empty()) << finding.id;
        EXPECT_FALSE(finding.evidence.empty()) << finding.id;
        for (const auto& evidence : finding.evidence) {
            EXPECT_FALSE(evidence.source.empty() || evidence.says.empty()) << finding.id;
        }
        EXPECT_TRUE(!is_alarm(finding) || !finding.fix.empty()) << finding.id;
        for (const auto& fix : finding.fix) {
            EXPECT_EQ(fix.find('\n'), std::string::npos) << finding.id << ": " << fix;
        }
    }
}

// Alarms that may appear when a read fails, each because what it rests on was read all the same.
bool is_justified(const std::string& alarm, const std::set<std::string>& without_fault) {
    // That something could not be read at all, which is what happened.
    if (alarm == "warning svc.sandbox - service nvmaintd.service -") {
        return true;
    }
    // Whether a volume needs the timer became unknown; that the timer is off did not.
    if (alarm == "warning trim.timer.disabled - unit fstrim.timer -") {
        return true;
    }
    // Without the journal the timer is not known to have never fired, but still to be late: its
    // last trigger says so.
    return alarm == "warning trim.timer.overdue - unit fstrim.timer -" &&
           without_fault.contains("warning trim.timer.never-fired - unit fstrim.timer -");
}

void expect_no_new_alarm(const Judged& faulty, const std::set<std::string>& without_fault,
                         const std::string& fault) {
    if (!faulty.diagnosis) {
        return; // refused as a whole, with the reason: no alarm either
    }
    for (const auto& finding : faulty.diagnosis->findings) {
        const auto line = line_of(finding);
        EXPECT_TRUE(!is_alarm(finding) || without_fault.contains(line) ||
                    is_justified(line, without_fault))
            << line << " appeared when " << fault << " failed";
    }
}

TEST_P(Recording, LosesFindingsWithTheirEvidenceAndGainsNoAlarm) {
    const auto whole = judge(GetParam());
    ASSERT_TRUE(whole.diagnosis.has_value());
    const auto lines = lines_of(whole.diagnosis->findings);
    const std::set<std::string> without_fault(lines.begin(), lines.end());
    ASSERT_GT(whole.reads.size(), 10U);
    for (std::uint64_t i = 0; i < whole.reads.size(); ++i) {
        expect_no_new_alarm(judge(GetParam(), {.read = i}), without_fault, whole.reads[i]);
    }
    for (std::uint64_t i = 0; i < whole.commands; ++i) {
        expect_no_new_alarm(judge(GetParam(), {.command = i}), without_fault, "a command");
    }
}

INSTANTIATE_TEST_SUITE_P(Hosts, Recording, testing::ValuesIn(recordings()), [](const auto& info) {
    std::string name = info.param;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
    return name;
});

TEST(Recordings, AreThere) {
    EXPECT_GE(recordings().size(), 20U);
}

} // namespace
} // namespace nvmaint
