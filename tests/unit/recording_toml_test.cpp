#include "collect/recording_toml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace nvmaint::collect {
namespace {

using core::FilesystemProbe;
using testing::ElementsAre;
using testing::HasSubstr;

core::WallTime at(const char* text) {
    return *core::parse_rfc3339(text);
}

TEST(Manifest, NeedsOnlySchemaAndNow) {
    const Result<Manifest> manifest =
        parse_manifest_toml("schema = 1\nnow = \"2026-11-30T20:47:33Z\"\n", "m");
    ASSERT_TRUE(manifest) << manifest.error().text();
    EXPECT_EQ(*manifest, (Manifest{.now = at("2026-11-30T20:47:33Z"),
                                   .uptime = {},
                                   .utc_offset = {},
                                   .boot_id = {},
                                   .kernel = {},
                                   .container = {},
                                   .virtualization = {},
                                   .init = {},
                                   .redactions = {}}));
}

TEST(Manifest, ReadsWhatElseItKnows) {
    const Result<Manifest> manifest = parse_manifest_toml(
        "schema = 1\nnow = 2026-11-30T21:47:33.25+01:00\nuptime_seconds = 12.9\n"
        "utc_offset_seconds = -3600\nboot_id = \"b\"\nkernel = \"6.1.0\"\ncontainer = \"\"\n"
        "virtualization = \"kvm\"\ninit = \"systemd\"\nredactions = [\"serial numbers\"]\n"
        "something_new = true\n",
        "m");
    ASSERT_TRUE(manifest) << manifest.error().text();
    EXPECT_EQ(manifest->now, at("2026-11-30T20:47:33.25Z"));
    EXPECT_EQ(manifest->uptime, core::seconds(12));
    EXPECT_EQ(manifest->utc_offset, core::seconds(-3600));
    EXPECT_EQ(manifest->container, "");
    EXPECT_EQ(manifest->init, "systemd");
    EXPECT_THAT(manifest->redactions, ElementsAre("serial numbers"));
}

TEST(Manifest, ComesBackAsItWasWritten) {
    const Manifest manifest{.now = at("2026-11-30T20:47:33.000007Z"),
                            .uptime = core::seconds(5),
                            .utc_offset = core::seconds(-1),
                            .boot_id = "a\"b\\c\n\x01",
                            .kernel = "6.1.0-57-amd64",
                            .container = "",
                            .virtualization = "none",
                            .init = "systemd",
                            .redactions = {"a", "b"}};
    EXPECT_EQ(parse_manifest_toml(format_manifest_toml(manifest), "m"), Result<Manifest>(manifest));
}

class BadManifest : public testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(BadManifest, SaysWhatIsWrongAndWhere) {
    const Result<Manifest> manifest = parse_manifest_toml(GetParam().first, "rec/manifest.toml");
    ASSERT_FALSE(manifest);
    EXPECT_EQ(manifest.error().kind, ErrorKind::Malformed);
    EXPECT_THAT(manifest.error().text(), HasSubstr(GetParam().second));
    EXPECT_THAT(manifest.error().text(), HasSubstr("rec/manifest.toml:"));
}
INSTANTIATE_TEST_SUITE_P(
    Texts, BadManifest,
    testing::Values(
        std::pair("", "schema is missing"), std::pair("schema = 1\n", "now is missing"),
        std::pair("schema = 2\nnow = \"2026-11-30T20:47:33Z\"\n", ":1:10: schema 2"),
        std::pair("schema = \"1\"\nnow = \"2026-11-30T20:47:33Z\"\n", "schema must be a number"),
        std::pair("schema = 1\nnow = \"yesterday\"\n", ":2:7: now must be a time"),
        std::pair("schema = 1\nnow = 2026-11-30T20:47:33\n", "now must be a time"),
        std::pair("schema = 1\nnow = \"2026-11-30T20:47:33Z\"\nuptime_seconds = \"1\"\n",
                  ":3:18: uptime_seconds"),
        std::pair("schema = 1\nnow = \"2026-11-30T20:47:33Z\"\nuptime_seconds = nan\n", ":3:"),
        std::pair("schema = 1\nnow = \"2026-11-30T20:47:33Z\"\nredactions = [1]\n", ":3:"),
        std::pair("schema = 1\nnow = \n", ":2:"), std::pair("\xff\xfe", ":1:"),
        std::pair("schema = 1\nschema = 1\n", ":2:"), std::pair("[=\n", ":1:")));

TEST(RecordingToml, RefusesKeysThatWouldOverflowTheStack) {
    std::string deep = "schema = 1\n";
    for (int i = 0; i < 200000; ++i) {
        deep += "a.";
    }
    EXPECT_THAT(parse_manifest_toml(deep + "a = 1\n", "m").error().text(), HasSubstr("m:2:"));
    const std::string hidden = "x = { k = \"\"\"\n\"\"\", " + deep.substr(11) + "a = 1 }\n";
    EXPECT_FALSE(parse_manifest_toml(hidden, "m"));
    std::string brackets(200000, '[');
    EXPECT_FALSE(parse_manifest_toml(brackets, "m"));
}

TEST(RecordingToml, AllowsDotsInPaths) {
    const auto entries = parse_stat_toml(
        "[\"sys/a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r/x\"]\nerrno = \"EIO\" # a.b.c.d.e.f.g.h.i.j.k.l"
        ".m.n.o.p.q.r.s\n['lit.er.al.1.2.3.4.5.6.7.8.9.0.1.2.3.4.5']\nerrno = 5\n",
        "s");
    ASSERT_TRUE(entries) << entries.error().text();
    EXPECT_EQ(entries->size(), 2U);
}

TEST(StatToml, ComesBackAsItWasWritten) {
    const std::map<std::string, StatEntry> entries = {
        {"sys/block/vdb/queue/zoned", {.sys_errno = ENOENT, .unsupported = {}, .mtime = {}}},
        {"systemd/units.json", {.sys_errno = {}, .unsupported = "no \"bus\"", .mtime = {}}},
        {"var/lib/systemd/timers/stamp-x",
         {.sys_errno = {}, .unsupported = {}, .mtime = 1795396327}},
    };
    const auto back = parse_stat_toml(format_stat_toml(entries), "s");
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(*back, entries);
}

TEST(StatToml, RefusesWhatIsNoTable) {
    EXPECT_THAT(parse_stat_toml("a = 1\n", "s").error().text(), HasSubstr("s:1:"));
    EXPECT_FALSE(parse_stat_toml("[a]\nerrno = 0\n", "s"));
    EXPECT_FALSE(parse_stat_toml("[a]\nmtime = 12\n", "s"));
}

TEST(ProbeToml, ReadsFactsAndFailures) {
    const auto probes = parse_probe_toml("[\"/\"]\nsize_bytes = 1000\nfree_bytes = 10\n"
                                         "[\"/mnt/old\"]\nfitrim_errno = \"EREMOTEIO\"\n"
                                         "[\"/srv\"]\nfitrim_errno = 0\nfitrim_bytes = 7\n"
                                         "[\"/gone\"]\nerrno = \"ESTALE\"\n",
                                         "p");
    ASSERT_TRUE(probes) << probes.error().text();
    EXPECT_EQ(*probes->at("/"), (FilesystemProbe{1000, 10, std::nullopt, std::nullopt}));
    EXPECT_EQ(probes->at("/mnt/old")->fitrim_errno, EREMOTEIO);
    EXPECT_EQ(*probes->at("/srv"), (FilesystemProbe{std::nullopt, std::nullopt, 0, 7}));
    EXPECT_EQ(probes->at("/gone").error().sys_errno, ESTALE);
    EXPECT_EQ(parse_probe_toml(format_probe_toml(*probes), "p"), Result<Probes>(*probes));
}

TEST(ProbeToml, RefusesNegativeSizes) {
    EXPECT_THAT(parse_probe_toml("[\"/\"]\nsize_bytes = -1\n", "p").error().text(),
                HasSubstr("p:2:14"));
}

TEST(FormatTime, ShowsMicrosecondsOnlyWhereThereAreAny) {
    EXPECT_EQ(format_time(at("2026-11-30T20:47:33Z")), "2026-11-30T20:47:33Z");
    EXPECT_EQ(format_time(at("2026-11-30T20:47:33.000120Z")), "2026-11-30T20:47:33.000120Z");
}

} // namespace
} // namespace nvmaint::collect
