// What the objects show, and when they say that it changed.
#include "peers.hpp"

#include <random>

namespace nvmaint::bus_test {

namespace {

constexpr const char* kDrive = "org.nvmaint1.Drive";
constexpr const char* kFilesystem = "org.nvmaint1.Filesystem";
constexpr const char* kJob = "org.nvmaint1.Job";
constexpr const char* kDrivePath = "/org/nvmaint1/drive/KXG60ZNV1T02_20TOSHIBA_2dX9SA10AAAAAA";
constexpr const char* kFilesystemPath =
    "/org/nvmaint1/filesystem/_30b1c6f3a_2d5a55_2d4a3d_2d9f5a_2d77d1d2b3c4d5";

std::vector<std::string> read_list(const Message& message) {
    char** list = nullptr;
    EXPECT_GE(sd_bus_message_read_strv(message.get(), &list), 0);
    std::vector<std::string> texts;
    for (char** text = list; text != nullptr && *text != nullptr; ++text) {
        texts.emplace_back(*text);
        free(*text);
    }
    free(list);
    return texts;
}

// Key and value of an a{sv} as text, "t 12", lists and structures joined by "|".
std::map<std::string, std::string> read_dictionary(sd_bus_message* message) {
    std::map<std::string, std::string> values;
    EXPECT_GE(sd_bus_message_enter_container(message, 'a', "{sv}"), 0);
    while (sd_bus_message_enter_container(message, 'e', "sv") > 0) {
        const char* key = nullptr;
        const char* type = nullptr;
        EXPECT_GE(sd_bus_message_read(message, "s", &key), 0);
        EXPECT_GE(sd_bus_message_peek_type(message, nullptr, &type), 0);
        EXPECT_GE(sd_bus_message_enter_container(message, 'v', type), 0);
        const std::string signature = type;
        std::string text = signature + " ";
        if (signature == "s") {
            const char* value = nullptr;
            EXPECT_GE(sd_bus_message_read(message, "s", &value), 0);
            text += value;
        } else if (signature == "b") {
            int value = 0;
            EXPECT_GE(sd_bus_message_read(message, "b", &value), 0);
            text += value != 0 ? "true" : "false";
        } else if (signature == "t") {
            std::uint64_t value = 0;
            EXPECT_GE(sd_bus_message_read(message, "t", &value), 0);
            text += std::to_string(value);
        } else if (signature == "as") {
            char** list = nullptr;
            EXPECT_GE(sd_bus_message_read_strv(message, &list), 0);
            for (char** each = list; each != nullptr && *each != nullptr; ++each) {
                text += std::string(*each) + "|";
                free(*each);
            }
            free(list);
        } else if (signature == "a(ss)") {
            const char* source = nullptr;
            const char* says = nullptr;
            EXPECT_GE(sd_bus_message_enter_container(message, 'a', "(ss)"), 0);
            while (sd_bus_message_read(message, "(ss)", &source, &says) > 0) {
                text += std::string(source) + "=" + says + "|";
            }
            EXPECT_GE(sd_bus_message_exit_container(message), 0);
        } else {
            EXPECT_GE(sd_bus_message_skip(message, type), 0);
        }
        values[key] = text;
        EXPECT_GE(sd_bus_message_exit_container(message), 0);
        EXPECT_GE(sd_bus_message_exit_container(message), 0);
    }
    EXPECT_GE(sd_bus_message_exit_container(message), 0);
    return values;
}

std::map<std::string, std::string> details_of(sd_bus_message* message) {
    EXPECT_GE(sd_bus_message_skip(message, "sssss"), 0);
    return read_dictionary(message);
}

// Names in a PropertiesChanged.
std::vector<std::string> changed_in(const Signal& signal) {
    const char* interface = nullptr;
    EXPECT_GE(sd_bus_message_read(signal.message.get(), "s", &interface), 0);
    std::vector<std::string> names;
    EXPECT_GE(sd_bus_message_enter_container(signal.message.get(), 'a', "{sv}"), 0);
    while (sd_bus_message_enter_container(signal.message.get(), 'e', "sv") > 0) {
        const char* name = nullptr;
        EXPECT_GE(sd_bus_message_read(signal.message.get(), "s", &name), 0);
        names.emplace_back(name);
        EXPECT_GE(sd_bus_message_skip(signal.message.get(), "v"), 0);
        EXPECT_GE(sd_bus_message_exit_container(signal.message.get()), 0);
    }
    return names;
}

std::vector<std::string> managed_paths(Peer& peer) {
    const Peer::Pending answer =
        peer.call(kRoot, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects");
    EXPECT_EQ(answer->error, "");
    std::vector<std::string> paths;
    sd_bus_message* reply = answer->message.get();
    EXPECT_GE(sd_bus_message_enter_container(reply, 'a', "{oa{sa{sv}}}"), 0);
    while (sd_bus_message_enter_container(reply, 'e', "oa{sa{sv}}") > 0) {
        const char* path = nullptr;
        EXPECT_GE(sd_bus_message_read(reply, "o", &path), 0);
        paths.emplace_back(path);
        EXPECT_GE(sd_bus_message_skip(reply, "a{sa{sv}}"), 0);
        EXPECT_GE(sd_bus_message_exit_container(reply), 0);
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

} // namespace

using Objects = OnBus;

TEST_F(Objects, ManagerShowsVersionModePolicyAndVerdict) {
    model_.policy_files = {"/usr/lib/nvmaint/policy.toml", "/etc/nvmaint/policy.toml"};
    model_.diagnosis.verdict = core::Verdict::Attention;
    start();
    const auto peer = user();
    EXPECT_EQ(peer->text_property(kRoot, kManager, "Version"), "0.1.0");
    EXPECT_EQ(peer->text_property(kRoot, kManager, "Mode"), "observe");
    EXPECT_EQ(peer->text_property(kRoot, kManager, "Verdict"), "attention");
    EXPECT_EQ(read_list(peer->property(kRoot, kManager, "PolicyFiles", "as")), model_.policy_files);
}

TEST_F(Objects, DriveShowsWhatTheDiagnosisHolds) {
    model_.diagnosis.drives = {a_drive()};
    start();
    const auto peer = user();
    const std::map<std::string, std::string> expected{
        {"Name", "nvme0"},        {"Model", "KXG60ZNV1T02 TOSHIBA"},
        {"Firmware", "10604107"}, {"Serial", "X9SA10AAAAAA"},
        {"Class", "client"},      {"FlushSource", "diskstats"},
        {"Health", "ok"},         {"FlushSourceReason", "no module is loaded"},
    };
    for (const auto& [name, value] : expected) {
        EXPECT_EQ(peer->text_property(kDrivePath, kDrive, name), value) << name;
    }
    EXPECT_EQ(read_list(peer->property(kDrivePath, kDrive, "Disks", "as")),
              (std::vector<std::string>{"nvme0n1"}));
    double ms = 0;
    ASSERT_GT(
        sd_bus_message_read(
            peer->property(kDrivePath, kDrive, "FlushMedianMilliseconds", "d").get(), "d", &ms),
        0);
    EXPECT_DOUBLE_EQ(ms, 2.29); // three significant digits of 2.291
    ASSERT_GT(sd_bus_message_read(
                  peer->property(kDrivePath, kDrive, "FlushLastMilliseconds", "d").get(), "d", &ms),
              0);
    EXPECT_DOUBLE_EQ(ms, 2.5);
}

TEST_F(Objects, UnknownFlushTimesAreMinusOne) {
    core::DriveView drive = a_drive();
    drive.flush_median_ms.reset();
    drive.flush_last_ms.reset();
    model_.diagnosis.drives = {drive};
    start();
    const auto peer = user();
    for (const char* name : {"FlushMedianMilliseconds", "FlushLastMilliseconds"}) {
        double ms = 0;
        ASSERT_GT(
            sd_bus_message_read(peer->property(kDrivePath, kDrive, name, "d").get(), "d", &ms), 0);
        EXPECT_DOUBLE_EQ(ms, -1) << name;
    }
}

TEST_F(Objects, FilesystemShowsItsStackAndTrimState) {
    model_.diagnosis.filesystems = {a_filesystem()};
    start();
    const auto peer = user();
    const std::map<std::string, std::string> expected{
        {"Mount", "/var/lib/db"},
        {"Source", "/dev/mapper/vg0-db"},
        {"Type", "ext4"},
        {"UUID", "0b1c6f3a-5a55-4a3d-9f5a-77d1d2b3c4d5"},
        {"TrimState", "not-covered"},
        {"TrimReason", "fstrim reads /etc/fstab, and it is not there"},
    };
    for (const auto& [name, value] : expected) {
        EXPECT_EQ(peer->text_property(kFilesystemPath, kFilesystem, name), value) << name;
    }
    const core::FilesystemView filesystem = a_filesystem();
    EXPECT_EQ(read_list(peer->property(kFilesystemPath, kFilesystem, "Mounts", "as")),
              filesystem.mounts);
    EXPECT_EQ(read_list(peer->property(kFilesystemPath, kFilesystem, "Stack", "as")),
              filesystem.stack);
    EXPECT_EQ(read_list(peer->property(kFilesystemPath, kFilesystem, "Disks", "as")),
              filesystem.disks);
    std::int32_t tier = 0;
    ASSERT_GT(sd_bus_message_read(
                  peer->property(kFilesystemPath, kFilesystem, "TrimTier", "i").get(), "i", &tier),
              0);
    EXPECT_EQ(tier, 1);
}

TEST_F(Objects, LastTrimIsEmptyWhereNoneIsKnown) {
    model_.diagnosis.filesystems = {a_filesystem()};
    start();
    const auto peer = user();
    const Message value = peer->property(kFilesystemPath, kFilesystem, "LastTrim", "a{sv}");
    EXPECT_EQ(read_dictionary(value.get()).size(), 0U);
}

TEST_F(Objects, LastTrimIsTheNewestOfThisFilesystem) {
    model_.diagnosis.filesystems = {a_filesystem()};
    core::TrimRecord older = a_trim();
    older.outcome = "cancelled";
    core::TrimRecord other = a_trim();
    other.fs_uuid = "another";
    other.outcome = "failed: input/output error";
    model_.trims = {older, a_trim(), other};
    start();
    const auto peer = user();
    const Message value = peer->property(kFilesystemPath, kFilesystem, "LastTrim", "a{sv}");
    const std::map<std::string, std::string> expected{
        {"started", "s 2026-11-30T20:47:33Z"},
        {"ended", "s 2026-11-30T20:48:20Z"},
        {"outcome", "s done"},
        {"complete", "b true"},
        {"requested_bytes", "t 842729443328"},
        {"discarded_bytes", "t 842729000000"},
        {"verdict", "s helped"},
    };
    EXPECT_EQ(read_dictionary(value.get()), expected);
}

TEST_F(Objects, LastTrimLeavesOutWhatIsNotKnown) {
    core::FilesystemView filesystem = a_filesystem();
    filesystem.uuid.clear();
    core::TrimRecord trim = a_trim();
    trim.fs_uuid.clear();
    trim.mount = "/srv/chroot/var/lib/db"; // the same filesystem by its other mount
    trim.ended.reset();
    trim.discarded_bytes.reset();
    trim.effect.reset();
    trim.complete = false;
    model_.diagnosis.filesystems = {filesystem};
    model_.trims = {trim};
    start();
    const auto peer = user();
    const Message value = peer->property("/org/nvmaint1/filesystem/_2fvar_2flib_2fdb", kFilesystem,
                                         "LastTrim", "a{sv}");
    const std::map<std::string, std::string> expected{
        {"started", "s 2026-11-30T20:47:33Z"},
        {"outcome", "s done"},
        {"complete", "b false"},
        {"requested_bytes", "t 842729443328"},
    };
    EXPECT_EQ(read_dictionary(value.get()), expected);
}

TEST_F(Objects, JobShowsProgressAndResult) {
    model_.jobs = {
        {.id = 12,
         .kind = "trim",
         .subject = "/var/lib/db",
         .state = "done",
         .progress = 1.5, // more than all
         .result = {{"requested_bytes", std::uint64_t{4096}}, {"verdict", std::string("helped")}}}};
    start();
    const auto peer = user();
    EXPECT_EQ(peer->text_property("/org/nvmaint1/job/12", kJob, "Kind"), "trim");
    EXPECT_EQ(peer->text_property("/org/nvmaint1/job/12", kJob, "Subject"), "/var/lib/db");
    EXPECT_EQ(peer->text_property("/org/nvmaint1/job/12", kJob, "State"), "done");
    double progress = 0;
    ASSERT_GT(
        sd_bus_message_read(peer->property("/org/nvmaint1/job/12", kJob, "Progress", "d").get(),
                            "d", &progress),
        0);
    EXPECT_DOUBLE_EQ(progress, 1);
    const Message result = peer->property("/org/nvmaint1/job/12", kJob, "Result", "a{sv}");
    EXPECT_EQ(read_dictionary(result.get()),
              (std::map<std::string, std::string>{{"requested_bytes", "t 4096"},
                                                  {"verdict", "s helped"}}));
}

TEST_F(Objects, ListFindingsTellsEvidenceAndFix) {
    core::Finding bare = a_finding();
    bare.reason.clear();
    bare.layer.clear();
    bare.fix.clear();
    bare.since.reset();
    model_.diagnosis.findings = {a_finding(), bare};
    start();
    const auto peer = user();
    const Peer::Pending answer = peer->call(kRoot, kManager, "ListFindings");
    ASSERT_EQ(answer->error, "");
    sd_bus_message* reply = answer->message.get();
    ASSERT_STREQ(sd_bus_message_get_signature(reply, 1), "a(sssssa{sv})");
    ASSERT_GE(sd_bus_message_enter_container(reply, 'a', "(sssssa{sv})"), 0);

    ASSERT_GT(sd_bus_message_enter_container(reply, 'r', "sssssa{sv}"), 0);
    const char* text[5] = {};
    ASSERT_GT(sd_bus_message_read(reply, "sssss", &text[0], &text[1], &text[2], &text[3], &text[4]),
              0);
    EXPECT_EQ((std::vector<std::string>(text, text + 5)),
              (std::vector<std::string>{"trim.not-covered", "not-in-fstab", "warning", "filesystem",
                                        "/var/lib/db"}));
    const std::map<std::string, std::string> all{
        {"summary", "s fstrim.service never trims /var/lib/db"},
        {"layer", "s dm-0"},
        {"evidence", "a(ss) etc/fstab=has no line for /var/lib/db|"},
        {"fix", "as fstrim -v /var/lib/db|"},
        {"since", "s 2026-11-30T20:47:33Z"},
    };
    EXPECT_EQ(read_dictionary(reply), all);
    ASSERT_GE(sd_bus_message_exit_container(reply), 0);

    ASSERT_GT(sd_bus_message_enter_container(reply, 'r', "sssssa{sv}"), 0);
    const std::map<std::string, std::string> few{
        {"summary", "s fstrim.service never trims /var/lib/db"},
        {"evidence", "a(ss) etc/fstab=has no line for /var/lib/db|"},
        {"fix", "as "},
    };
    EXPECT_EQ(details_of(reply), few);
}

TEST_F(Objects, TextsAreReturnedAsTheyAre) {
    model_.doctor_json = R"({"schema": "nvmaint.doctor/1", "now": "…"})";
    model_.trims_json = "[]";
    start();
    const auto peer = user();
    const char* text = nullptr;
    const Peer::Pending doctor = peer->call(kRoot, kManager, "Doctor");
    ASSERT_GT(sd_bus_message_read(doctor->message.get(), "s", &text), 0);
    EXPECT_EQ(text, model_.doctor_json);
    const Peer::Pending trims = peer->call(kRoot, kManager, "ListTrims");
    ASSERT_GT(sd_bus_message_read(trims->message.get(), "s", &text), 0);
    EXPECT_STREQ(text, "[]");
}

TEST_F(Objects, FlushSeriesHasTheSecondsWithFlushes) {
    using std::chrono::seconds;
    core::FlushWatch watch;
    core::FlushSample sample;
    sample.length = seconds(1);
    sample.end = seconds(98);
    sample.flushes = 40;
    sample.flush_time = std::chrono::milliseconds(80);
    watch.recent.push_back(sample);
    sample.end = seconds(99);
    sample.flushes = 0;
    watch.recent.push_back(sample);
    std::map<std::string, core::FlushWatch> flush{{"nvme0n1", watch}};
    model_.flush = &flush;
    model_.diagnosed = seconds(100);
    start();
    const auto peer = user();
    const Peer::Pending known = peer->call(kRoot, kManager, "FlushSeries", "s", "nvme0n1");
    ASSERT_EQ(known->error, "");
    unsigned count = 0;
    double t = 0;
    double ms = 0;
    ASSERT_GE(sd_bus_message_enter_container(known->message.get(), 'a', "(dd)"), 0);
    while (sd_bus_message_read(known->message.get(), "(dd)", &t, &ms) > 0) {
        ++count;
        EXPECT_DOUBLE_EQ(t, -2);
        EXPECT_DOUBLE_EQ(ms, 2);
    }
    EXPECT_EQ(count, 1U);
    const Peer::Pending unknown = peer->call(kRoot, kManager, "FlushSeries", "s", "nvme9n1");
    EXPECT_EQ(unknown->error, "");
    ASSERT_GE(sd_bus_message_enter_container(unknown->message.get(), 'a', "(dd)"), 0);
    EXPECT_EQ(sd_bus_message_read(unknown->message.get(), "(dd)", &t, &ms), 0);
}

TEST_F(Objects, PropertiesCannotBeWritten) {
    start();
    const auto peer = client();
    const Peer::Pending answer =
        peer->call(kRoot, kProperties, "Set", "ssv", kManager, "Mode", "s", "maintain");
    EXPECT_EQ(answer->error, SD_BUS_ERROR_PROPERTY_READ_ONLY);
}

TEST_F(Objects, PathOfNoObjectIsUnknown) {
    model_.diagnosis.drives = {a_drive()};
    start();
    const auto peer = user();
    for (const char* path : {"/org/nvmaint1/drive/nvme0", "/org/nvmaint1/job/1",
                             "/org/nvmaint1/filesystem/_/x", "/org/nvmaint1/pacer"}) {
        const Peer::Pending answer = peer->call(path, kProperties, "Get", "ss", kDrive, "Model");
        EXPECT_EQ(answer->error, SD_BUS_ERROR_UNKNOWN_OBJECT) << path << ": " << answer->text;
    }
}

// ---- names that are none

TEST_F(Objects, BytesThatAreNoTextAreEscapedAndTheServiceStays) {
    core::DriveView drive = a_drive();
    drive.model = "Inno\xff\xfe";
    drive.serial = std::string("71-3\n\0x", 7);
    core::Finding finding = a_finding();
    finding.summary = "\xc3(";
    finding.evidence = {{"sys/\xf0\x28", "\xed\xa0\x80"}}; // half a surrogate
    finding.fix = {"\xc0\x80"};                            // an overlong NUL
    model_.diagnosis.drives = {drive};
    model_.diagnosis.findings = {finding};
    model_.doctor_json = "{\"model\": \"Inno\xff\"}";
    start();
    const auto peer = user();
    const std::string path = bus::drive_path(drive);
    EXPECT_EQ(path, "/org/nvmaint1/drive/Inno_ff_fe_2d71_2d3_0a_00x");
    EXPECT_EQ(peer->text_property(path, kDrive, "Model"), "Inno\\xff\\xfe");
    EXPECT_EQ(peer->text_property(path, kDrive, "Serial"), "71-3\n\\x00x");
    const Peer::Pending answer = peer->call(kRoot, kManager, "ListFindings");
    ASSERT_EQ(answer->error, "");
    ASSERT_GE(sd_bus_message_enter_container(answer->message.get(), 'a', "(sssssa{sv})"), 0);
    ASSERT_GE(sd_bus_message_enter_container(answer->message.get(), 'r', "sssssa{sv}"), 0);
    const auto details = details_of(answer->message.get());
    EXPECT_EQ(details.at("summary"), "s \\xc3(");
    EXPECT_EQ(details.at("evidence"), "a(ss) sys/\\xf0(=\\xed\\xa0\\x80|");
    EXPECT_EQ(details.at("fix"), "as \\xc0\\x80|");
    const Peer::Pending doctor = peer->call(kRoot, kManager, "Doctor");
    const char* text = nullptr;
    ASSERT_GT(sd_bus_message_read(doctor->message.get(), "s", &text), 0);
    EXPECT_STREQ(text, "{\"model\": \"Inno\xef\xbf\xbd\"}");
    EXPECT_TRUE(is_alive());
}

TEST_F(Objects, DrivesWithoutASerialStayDistinct) {
    core::DriveView first = a_drive();
    first.model = "SAMSUNG MZVPV256HDGL-000H1";
    first.serial = "";
    core::DriveView second = first;
    second.name = "nvme1";
    second.serial = std::string(20, ' ');
    core::DriveView third = first;
    third.name = "nvme2";
    third.model = "";
    model_.diagnosis.drives = {first, second, third};
    start();
    const auto peer = user();
    EXPECT_EQ(managed_paths(*peer),
              (std::vector<std::string>{
                  "/org/nvmaint1/drive/SAMSUNG_20MZVPV256HDGL_2d000H1_2dnoserial_2dnvme0",
                  "/org/nvmaint1/drive/SAMSUNG_20MZVPV256HDGL_2d000H1_2dnoserial_2dnvme1",
                  "/org/nvmaint1/drive/unknown_2dnoserial_2dnvme2"}));
}

TEST_F(Objects, DriveKeepsItsPathOverAReplugUnderAnotherName) {
    model_.diagnosis.drives = {a_drive()};
    start();
    const auto peer = user();
    const std::vector<std::string> before = managed_paths(*peer);
    model_.diagnosis.drives.clear();
    server_->publish();
    EXPECT_TRUE(managed_paths(*peer).empty());
    core::DriveView again = a_drive();
    again.name = "nvme3";
    model_.diagnosis.drives = {again};
    server_->publish();
    EXPECT_EQ(managed_paths(*peer), before);
    EXPECT_EQ(peer->text_property(before.front(), kDrive, "Name"), "nvme3");
}

TEST_F(Objects, PathsComeFromTheStableIdentityWhereItIsKnown) {
    model_.diagnosis.drives = {a_drive()};
    model_.drive_identities["nvme0"] = "nqn.2014-08.org.nvmexpress:uuid:1-S/N-1";
    start();
    const auto peer = user();
    EXPECT_EQ(managed_paths(*peer),
              (std::vector<std::string>{"/org/nvmaint1/drive/"
                                        "nqn_2e2014_2d08_2eorg_2envmexpress_3auuid_3a1_2dS_2fN_"
                                        "2d1"}));
}

TEST_F(Objects, TwinsGetPathsOfTheirOwnAndKeepThem) {
    core::DriveView twin = a_drive();
    twin.name = "nvme1";
    twin.firmware = "TWIN";
    model_.diagnosis.drives = {a_drive(), twin};
    start();
    const auto peer = user();
    const std::string twin_path = std::string(kDrivePath) + "_2dnvme1";
    EXPECT_EQ(managed_paths(*peer), (std::vector<std::string>{kDrivePath, twin_path}));
    // The first one leaves; its path must not come to mean the other drive.
    model_.diagnosis.drives = {twin};
    server_->publish();
    EXPECT_EQ(managed_paths(*peer), (std::vector<std::string>{twin_path}));
    EXPECT_EQ(peer->text_property(twin_path, kDrive, "Firmware"), "TWIN");
}

TEST_F(Objects, FilesystemsMountedOverOneAnotherAreBothShown) {
    core::FilesystemView below = a_filesystem();
    below.uuid.clear();
    core::FilesystemView above = below;
    above.source = "/dev/nvme1n1";
    model_.diagnosis.filesystems = {below, above};
    start();
    EXPECT_EQ(managed_paths(*user()).size(), 2U);
}

TEST_F(Objects, RandomBytesInEveryStringNeverEndTheConnection) {
    std::mt19937 random(20261130);
    const auto noise = [&] {
        std::string bytes(random() % 24, '\0');
        for (char& c : bytes) {
            c = static_cast<char>(random());
        }
        return bytes;
    };
    start();
    const auto peer = user();
    for (int round = 0; round < 200; ++round) {
        core::DriveView drive = a_drive();
        for (std::string* text : {&drive.name, &drive.model, &drive.firmware, &drive.serial,
                                  &drive.drive_class, &drive.flush_source_why, &drive.health}) {
            *text = noise();
        }
        core::FilesystemView filesystem = a_filesystem();
        for (std::string* text : {&filesystem.mount, &filesystem.source, &filesystem.type,
                                  &filesystem.uuid, &filesystem.why}) {
            *text = noise();
        }
        filesystem.mounts = {noise(), noise()};
        core::Finding finding = a_finding();
        for (std::string* text : {&finding.id, &finding.reason, &finding.subject.name,
                                  &finding.layer, &finding.summary}) {
            *text = noise();
        }
        model_.diagnosis.drives = {drive, a_drive(), drive};
        model_.diagnosis.filesystems = {filesystem, filesystem};
        model_.diagnosis.findings = {finding};
        model_.jobs = {{.id = random(),
                        .kind = noise(),
                        .subject = noise(),
                        .state = noise(),
                        .progress = 0.5,
                        .result = {{noise(), noise()}}}};
        model_.mode = noise();
        model_.doctor_json = noise();
        server_->publish();
        server_->finding_raised(finding);
        server_->finding_cleared(finding);
        ASSERT_EQ(managed_paths(*peer).size(), 6U) << "round " << round;
        const Peer::Pending findings = peer->call(kRoot, kManager, "ListFindings");
        ASSERT_EQ(findings->error, "") << "round " << round << ": " << findings->text;
        ASSERT_EQ(peer->call(kRoot, kManager, "Doctor")->error, "");
    }
    EXPECT_TRUE(is_alive());
}

// ---- signals

TEST_F(Objects, AddedAndRemovedObjectsAreAnnounced) {
    start();
    const auto peer = user();
    peer->listen();
    model_.diagnosis.drives = {a_drive()};
    server_->publish();
    pump_.settle();
    ASSERT_EQ(peer->signals().size(), 1U);
    Signal& added = peer->signals()[0];
    EXPECT_EQ(added.member, "InterfacesAdded");
    EXPECT_EQ(added.path, kRoot);
    const char* path = nullptr;
    ASSERT_GT(sd_bus_message_read(added.message.get(), "o", &path), 0);
    EXPECT_STREQ(path, kDrivePath);

    peer->signals().clear();
    model_.diagnosis.drives.clear();
    server_->publish();
    pump_.settle();
    ASSERT_EQ(peer->signals().size(), 1U);
    Signal& removed = peer->signals()[0];
    EXPECT_EQ(removed.member, "InterfacesRemoved");
    ASSERT_GT(sd_bus_message_read(removed.message.get(), "o", &path), 0);
    EXPECT_STREQ(path, kDrivePath);
    const std::vector<std::string> interfaces = read_list(removed.message);
    EXPECT_NE(std::find(interfaces.begin(), interfaces.end(), kDrive), interfaces.end());
}

TEST_F(Objects, OnlyWhatChangedIsNamed) {
    model_.diagnosis.drives = {a_drive()};
    model_.diagnosis.filesystems = {a_filesystem()};
    start();
    const auto peer = user();
    peer->listen();
    model_.mode = "maintain";
    model_.diagnosis.drives[0].health = "warning";
    model_.diagnosis.drives[0].flush_median_ms = 2.2909; // the same three digits
    model_.diagnosis.drives[0].flush_last_ms = 9;        // not announced
    model_.diagnosis.filesystems[0].trim = core::TrimState::Covered;
    model_.diagnosis.filesystems[0].tier = 2;
    model_.trims = {a_trim()};
    server_->publish();
    pump_.settle();
    std::map<std::string, std::vector<std::string>> changed;
    for (const Signal& signal : peer->signals()) {
        ASSERT_EQ(signal.member, "PropertiesChanged");
        changed[signal.path] = changed_in(signal);
    }
    EXPECT_EQ(changed, (std::map<std::string, std::vector<std::string>>{
                           {kRoot, {"Mode"}},
                           {kDrivePath, {"Health"}},
                           {kFilesystemPath, {"TrimState", "TrimTier", "LastTrim"}}}));
    double ms = 0;
    ASSERT_GT(sd_bus_message_read(
                  peer->property(kDrivePath, kDrive, "FlushLastMilliseconds", "d").get(), "d", &ms),
              0);
    EXPECT_DOUBLE_EQ(ms, 9);
}

TEST_F(Objects, AThousandPublishesAnnounceOnlyTheThreeChanges) {
    model_.diagnosis.drives = {a_drive()};
    model_.diagnosis.filesystems = {a_filesystem()};
    model_.jobs = {{.id = 1,
                    .kind = "trim",
                    .subject = "/var/lib/db",
                    .state = "running",
                    .progress = 0.1,
                    .result = {}}};
    start();
    const auto peer = user();
    peer->listen();
    for (int i = 0; i < 1000; ++i) {
        if (i == 300) {
            model_.jobs[0].progress = 0.2;
        } else if (i == 600) {
            model_.jobs[0].state = "done";
        } else if (i == 900) {
            model_.diagnosis.filesystems[0].why = "because";
        }
        server_->publish();
    }
    pump_.settle();
    EXPECT_EQ(peer->signals().size(), 3U);
}

TEST_F(Objects, PropertiesShowWhatWasAnnounced) {
    model_.diagnosis.drives = {a_drive()};
    start();
    const auto peer = user();
    model_.diagnosis.drives[0].health = "warning"; // not published yet
    EXPECT_EQ(peer->text_property(kDrivePath, kDrive, "Health"), "ok");
    server_->publish();
    EXPECT_EQ(peer->text_property(kDrivePath, kDrive, "Health"), "warning");
}

TEST_F(Objects, FindingsAreSignalledWithTheirDetails) {
    start();
    const auto peer = user();
    peer->listen();
    server_->finding_raised(a_finding());
    server_->finding_cleared(a_finding());
    pump_.settle();
    ASSERT_EQ(peer->signals().size(), 2U);
    EXPECT_EQ(peer->signals()[0].member, "FindingRaised");
    EXPECT_STREQ(sd_bus_message_get_signature(peer->signals()[0].message.get(), 1), "sssssa{sv}");
    EXPECT_EQ(details_of(peer->signals()[0].message.get()).at("fix"), "as fstrim -v /var/lib/db|");
    EXPECT_EQ(peer->signals()[1].member, "FindingCleared");
    EXPECT_STREQ(sd_bus_message_get_signature(peer->signals()[1].message.get(), 1), "sssss");
}

// ---- the name

TEST_F(Objects, ASecondInstanceIsRefused) {
    start();
    Peer other(pump_, daemon_.address(), 0);
    Result<std::unique_ptr<bus::Server>> second =
        bus::Server::create(other.bus(), model_, handler_);
    ASSERT_TRUE(second);
    const Result<Done> named = (*second)->request_name();
    ASSERT_FALSE(named);
    EXPECT_EQ(named.error().kind, ErrorKind::System);
    EXPECT_EQ(named.error().sys_errno, EEXIST);
    EXPECT_EQ(user()->text_property(kRoot, kManager, "Version"), "0.1.0");
}

TEST_F(Objects, OnlyRootMayOwnTheName) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "needs root, to be somebody else";
    }
    const auto peer = user();
    Result<std::unique_ptr<bus::Server>> server =
        bus::Server::create(peer->bus(), model_, handler_);
    ASSERT_TRUE(server);
    const Result<Done> named = (*server)->request_name();
    ASSERT_FALSE(named);
    EXPECT_EQ(named.error().sys_errno, EACCES);
}

TEST_F(Objects, ServerOutlivesTheBus) {
    model_.diagnosis.drives = {a_drive()};
    start();
    daemon_.kill();
    EXPECT_TRUE(pump_.until([&] { return sd_bus_is_open(service_->bus()) <= 0; }));
    model_.diagnosis.drives.clear();
    server_->publish();
    server_->finding_raised(a_finding());
    server_.reset();
}

} // namespace nvmaint::bus_test
