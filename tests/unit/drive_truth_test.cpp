#include "core/drive_truth.hpp"
#include "host_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace nvmaint::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

HostSnapshot with_drive() {
    auto h = host::plain();
    NvmeController controller;
    controller.name = "nvme0";
    controller.state = std::string("live");
    controller.model = std::string("KXG60ZNV1T02");
    controller.serial = std::string("S1");
    controller.firmware = std::string("AGGA4102");
    controller.namespaces = {"nvme0n1"};
    nvme::IdentifyController identify;
    identify.volatile_write_cache = 1;
    identify.critical_temp_k = 358;
    controller.identify = identify;
    nvme::SmartLog smart;
    smart.temperature_c = 40;
    smart.available_spare = 100;
    smart.available_spare_threshold = 10;
    controller.smart = smart;
    h.controllers = std::map<std::string, NvmeController>{{"nvme0", controller}};
    DiskCounters counters;
    counters.flushes = DiskCounters::Flushes{};
    h.block_devices->at("nvme0n1").counters = counters;
    return h;
}
NvmeController& drive(HostSnapshot& h) {
    return h.controllers->at("nvme0");
}
std::vector<std::string> lines(const HostSnapshot& h) {
    return host::lines_of(judge_drives(h, {}).findings);
}
DriveView view(const HostSnapshot& h) {
    return judge_drives(h, {}).drives.at(0);
}

TEST(DriveTruth, AHealthyDriveHasNoFinding) {
    const auto h = with_drive();
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(view(h).health, "ok");
    EXPECT_EQ(view(h).model, "KXG60ZNV1T02");
    EXPECT_EQ(view(h).flush_source, "diskstats");
}

struct WarningCase {
    std::uint8_t bits;
    const char* line;
};
class CriticalWarning : public testing::TestWithParam<WarningCase> {};
TEST_P(CriticalWarning, IsTold) {
    auto h = with_drive();
    drive(h).smart->critical_warning = GetParam().bits;
    EXPECT_THAT(lines(h), ElementsAre(GetParam().line));
    EXPECT_NE(view(h).health, "ok");
}
INSTANTIATE_TEST_SUITE_P(
    Bits, CriticalWarning,
    testing::Values(WarningCase{1, "critical health.spare-low - drive nvme0 -"},
                    WarningCase{2, "warning health.temperature - drive nvme0 -"},
                    WarningCase{4, "critical health.reliability-degraded - drive nvme0 -"},
                    WarningCase{8, "critical health.read-only - drive nvme0 -"},
                    WarningCase{16, "critical health.plp-failed - drive nvme0 -"}));

TEST(DriveTruth, ASpareBelowItsThresholdIsLow) {
    auto h = with_drive();
    auto& smart = *drive(h).smart;
    smart.available_spare = 10;
    EXPECT_THAT(lines(h), IsEmpty()) << "at the threshold";
    smart.available_spare = 9;
    EXPECT_THAT(lines(h), ElementsAre("critical health.spare-low - drive nvme0 -"));
    EXPECT_EQ(view(h).health, "critical");
    smart.available_spare = 0;
    smart.available_spare_threshold = 0;
    EXPECT_THAT(lines(h), IsEmpty()) << "0/0 is not reported";
    smart.available_spare_threshold = 101;
    EXPECT_THAT(lines(h), IsEmpty());
}

TEST(DriveTruth, WornIsAWarningOnly) {
    auto h = with_drive();
    auto& smart = *drive(h).smart;
    smart.critical_warning = 4;
    smart.percentage_used = 100;
    EXPECT_THAT(lines(h), ElementsAre("warning health.reliability-degraded - drive nvme0 -"));
    smart.percentage_used = 99;
    EXPECT_THAT(lines(h), ElementsAre("critical health.reliability-degraded - drive nvme0 -"));
    smart.percentage_used = 110;
    smart.media_errors = 1;
    EXPECT_THAT(lines(h), ElementsAre("critical health.reliability-degraded - drive nvme0 -"));
}

TEST(DriveTruth, HeatIsCriticalAtTheCriticalThreshold) {
    auto h = with_drive();
    drive(h).smart->critical_warning = 2;
    drive(h).smart->temperature_c = 84;
    EXPECT_THAT(lines(h), ElementsAre("warning health.temperature - drive nvme0 -"));
    drive(h).smart->temperature_c = 85; // 358 K
    EXPECT_THAT(lines(h), ElementsAre("critical health.temperature - drive nvme0 -"));
    drive(h).identify->critical_temp_k = 0; // not reported
    EXPECT_THAT(lines(h), ElementsAre("warning health.temperature - drive nvme0 -"));
}

TEST(DriveTruth, AnEmptyPageIsNotHealth) {
    auto h = with_drive();
    drive(h).smart = nvme::SmartLog{};
    EXPECT_THAT(lines(h), IsEmpty());
    EXPECT_EQ(view(h).health, "unknown");
    drive(h).smart = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_EQ(view(h).health, "unknown");
}

TEST(DriveTruth, ClassNeedsEvidence) {
    auto h = with_drive();
    EXPECT_EQ(view(h).drive_class, "unknown") << "a volatile cache alone does not tell";
    drive(h).identify->volatile_write_cache = 0;
    EXPECT_EQ(view(h).drive_class, "power-loss-protected");
    drive(h).identify = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_EQ(view(h).drive_class, "unknown");
}

TEST(DriveTruth, WithoutFlushFieldsThereIsNoSource) {
    auto h = with_drive();
    h.block_devices->at("nvme0n1").counters->flushes.reset();
    EXPECT_EQ(view(h).flush_source, "none");
    EXPECT_THAT(view(h).flush_source_why, HasSubstr("5.5"));
    h.block_devices->at("nvme0n1").counters = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_EQ(view(h).flush_source, "none");
}

TEST(DriveTruth, RefusedCommandsAreAPrivilegeOfOursNotTheDrivesHealth) {
    for (const int refused : {1, 13}) {
        auto h = with_drive();
        drive(h).identify = Error::system(refused, "Identify");
        drive(h).smart = Error::system(refused, "Get Log Page 02h");
        EXPECT_THAT(lines(h), ElementsAre("warning svc.privilege - service nvmaintd.service -"));
        EXPECT_THAT(judge_drives(h, {}).findings[0].summary, HasSubstr("CAP_SYS_ADMIN"));
        EXPECT_EQ(view(h).health, "unknown");
    }
    auto h = with_drive();
    drive(h).smart = Error::system(5, "Get Log Page 02h"); // EIO
    EXPECT_THAT(lines(h), IsEmpty());
}

TEST(DriveTruth, AMissingCapabilityMattersWhereThereIsADrive) {
    auto h = with_drive();
    h.missing_capabilities = {"CAP_SYS_ADMIN"};
    EXPECT_THAT(lines(h), ElementsAre("warning svc.privilege - service nvmaintd.service -"));
    h.controllers->clear();
    EXPECT_THAT(lines(h), IsEmpty());
}

TEST(DriveTruth, TheModuleIsTheBetterSource) {
    auto h = with_drive();
    DiskLatency latency;
    LatencyHistogram flush;
    flush.count = 100;
    flush.buckets.resize(latency.shape.buckets());
    flush.buckets[latency.shape.index_of(2'000'000)] = 98;
    flush.buckets[latency.shape.index_of(15'000'000)] = 2;
    flush.max = milliseconds{15};
    latency.classes[static_cast<std::size_t>(LatencyClass::Flush)] = flush;
    h.latency["nvme0n1"] = latency;
    EXPECT_EQ(view(h).flush_source, "module");
    EXPECT_NEAR(view(h).flush_p50_ms.value(), 2, 0.064);
    EXPECT_NEAR(view(h).flush_p99_ms.value(), 15, 0.48);
}

TEST(DriveTruth, WhereTheModuleFailsDiskstatsServesAndSaysWhy) {
    auto h = with_drive();
    h.latency["nvme0n1"] = Error::system(EOPNOTSUPP, "attaching nvme0n1");
    EXPECT_EQ(view(h).flush_source, "diskstats");
    EXPECT_THAT(view(h).flush_source_why, HasSubstr("attaching nvme0n1"));
    EXPECT_FALSE(view(h).flush_p99_ms);
}

struct ModuleCase {
    const char* name;
    KernelModule module;
    const char* line; // nullptr: no finding
};
class WhyNoModule : public testing::TestWithParam<ModuleCase> {};
TEST_P(WhyNoModule, IsSaidAsFarAsItIsKnown) {
    auto h = with_drive();
    h.module = GetParam().module;
    if (GetParam().line == nullptr) {
        EXPECT_THAT(lines(h), IsEmpty());
    } else {
        EXPECT_THAT(lines(h), ElementsAre(HasSubstr(GetParam().line)));
        EXPECT_FALSE(judge_drives(h, {}).findings.at(0).fix.empty());
    }
}
const Error kUnread = Error::system(EACCES, "lib/modules");
INSTANTIATE_TEST_SUITE_P(
    Files, WhyNoModule,
    testing::Values(
        ModuleCase{"loaded", {.loaded = true, .file = std::string("x"), .source = true}, nullptr},
        ModuleCase{"absent", {.file = std::string(), .source = false}, "not-installed"},
        ModuleCase{"no_source", {.file = std::string(), .source = true}, "not-built"},
        ModuleCase{"built", {.file = std::string("x"), .source = true}, "not-loaded"},
        ModuleCase{
            "open", {.file = std::string("x"), .source = true, .lockdown = "none"}, "not-loaded"},
        ModuleCase{"locked",
                   {.file = std::string("x"), .source = true, .lockdown = "integrity"},
                   "refused"},
        ModuleCase{"signed",
                   {.file = std::string("x"), .source = true, .signatures_enforced = true},
                   "refused"},
        ModuleCase{"unread", {.file = kUnread, .source = false}, nullptr},
        ModuleCase{"unread_source", {.file = std::string(), .source = kUnread}, nullptr}),
    [](const auto& info) { return info.param.name; });

TEST(DriveTruth, AModuleOfAnotherVersionIsAMismatch) {
    auto h = with_drive();
    h.module = KernelModule{.loaded = true, .file = std::string("x"), .source = true};
    h.latency["nvme0n1"] = Error::make(ErrorKind::Malformed, "snapshot of nvmaint.ko: 8 bytes");
    EXPECT_THAT(lines(h), ElementsAre(HasSubstr("abi-mismatch")));
}

TEST(DriveTruth, NobodyMissesAModuleWithoutADrive) {
    auto h = host::plain();
    h.controllers = std::map<std::string, NvmeController>{};
    h.module = KernelModule{.file = std::string(), .source = false};
    EXPECT_THAT(lines(h), IsEmpty());
}

TEST(DriveTruth, AContainerIsARole) {
    auto h = with_drive();
    h.container = std::string("lxc");
    drive(h).smart = Error::system(1, "");
    EXPECT_THAT(lines(h), ElementsAre("info svc.role - service nvmaintd.service -"));
}

TEST(DriveTruth, IoUringSwitchedOffForAllIsInformation) {
    auto h = with_drive();
    h.io_uring_disabled = "1";
    EXPECT_THAT(lines(h), IsEmpty()) << "the service is privileged";
    h.io_uring_disabled = "2";
    EXPECT_THAT(lines(h), ElementsAre("info svc.io_uring - service nvmaintd.service -"));
}

TEST(DriveTruth, ACommandThatWaitsAsLongAsTheKernelIsATimeout) {
    auto h = with_drive();
    drive(h).commands_pending = seconds{59};
    EXPECT_THAT(lines(h), IsEmpty());
    drive(h).commands_pending = seconds{60};
    EXPECT_THAT(lines(h), ElementsAre("warning ctrl.timeout - drive nvme0 -"));
}

TEST(DriveTruth, AControllerWithoutANamespaceIsListed) {
    auto h = with_drive();
    drive(h).namespaces.clear();
    EXPECT_THAT(lines(h), ElementsAre("info ctrl.no-namespace - drive nvme0 -"));
    drive(h).state = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_THAT(lines(h), IsEmpty());
}

TEST(DriveTruth, AFormatThatTheKernelCannotUse) {
    auto h = with_drive();
    nvme::IdentifyNamespace identify;
    identify.size_blocks = 468843606;
    identify.block_bytes = 4096;
    identify.metadata_bytes = 16;
    identify.metadata_extended = true;
    drive(h).identify_namespaces["nvme0n1"] = identify;
    EXPECT_THAT(lines(h), IsEmpty()) << "the kernel has a size for it";
    h.block_devices->at("nvme0n1").size_bytes = std::uint64_t{0};
    EXPECT_THAT(lines(h), ElementsAre("notice ctrl.format-unusable - namespace nvme0n1 -"));
    EXPECT_THAT(judge_drives(h, {}).findings[0].fix.back(), HasSubstr("ERASES EVERYTHING"));
    h.block_devices->at("nvme0n1").size_bytes = Error::make(ErrorKind::NotRecorded, "");
    EXPECT_THAT(lines(h), IsEmpty());
}

TEST(DriveTruth, BytesThatAreNoTextAreTold) {
    auto h = with_drive();
    drive(h).identify->model = "Inno\\xff\\xfe";
    EXPECT_THAT(lines(h), ElementsAre("info ident.bad-string - drive nvme0 -"));
}

} // namespace
} // namespace nvmaint::core
