#include "core/diagnose.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

namespace nvmaint::core {
namespace {

HostSnapshot empty_host() {
    HostSnapshot snapshot;
    snapshot.mounts = std::vector<Mount>{};
    snapshot.block_devices = std::map<std::string, BlockDevice>{};
    snapshot.controllers = std::map<std::string, NvmeController>{};
    return snapshot;
}

bool has(const Diagnosis& diagnosis, const std::string& id) {
    return std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(),
                       [&](const Finding& finding) { return finding.id == id; });
}

TEST(Diagnose, CallsAHostWithoutFilesystemsAndDrivesHealthy) {
    const Diagnosis diagnosis = diagnose(empty_host(), {}, {});
    EXPECT_EQ(diagnosis.verdict, Verdict::Healthy);
    EXPECT_FALSE(has(diagnosis, "svc.sandbox"));
}

// A seccomp filter that refuses a system call must not make a host look healthy.
TEST(Diagnose, SaysWhatItCouldNotReadInsteadOfCallingTheHostHealthy) {
    for (const int error : {ENOSYS, EPERM, EACCES, EIO}) {
        HostSnapshot snapshot = empty_host();
        snapshot.mounts = Error::system(error, "proc/1/mountinfo");
        const Diagnosis diagnosis = diagnose(snapshot, {}, {});
        EXPECT_TRUE(has(diagnosis, "svc.sandbox")) << error;
        EXPECT_EQ(diagnosis.verdict, Verdict::Attention) << error;
    }
}

TEST(Diagnose, TakesAnAbsentFolderForAFact) {
    HostSnapshot snapshot = empty_host();
    snapshot.controllers = Error::system(ENOENT, "sys/class/nvme");
    EXPECT_FALSE(has(diagnose(snapshot, {}, {}), "svc.sandbox"));
    snapshot.controllers = Reading<std::map<std::string, NvmeController>>();
    EXPECT_FALSE(has(diagnose(snapshot, {}, {}), "svc.sandbox"));
}

} // namespace
} // namespace nvmaint::core
