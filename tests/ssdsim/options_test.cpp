// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ssdsim {
namespace {

using namespace std::chrono_literals;

using Given = std::vector<std::pair<std::string_view, std::string_view>>;

tl::expected<Settings, std::string> settings_of(const Given& given) {
    Options options;
    for (const auto& [key, value] : given) {
        if (auto taken = options.set(key, value); !taken) {
            return tl::unexpected(taken.error());
        }
    }
    return options.resolve();
}

TEST(Options, UsesTheDefaultsOfTheMode) {
    const auto client = settings_of({{"size", "1G"}});
    ASSERT_TRUE(client) << client.error();
    EXPECT_EQ(client->size, 1ULL << 30U);
    EXPECT_EQ(client->drive.mode, Mode::Client);
    EXPECT_EQ(client->drive.flush_base, 2ms);
    EXPECT_EQ(client->drive.geometry.gc_start, 4U);
    EXPECT_EQ(client->drive.geometry.gc_stop, 44U);
    EXPECT_FALSE(client->drive.aged);
    const auto plp = settings_of({{"mode", "plp"}, {"size", "1G"}});
    ASSERT_TRUE(plp) << plp.error();
    EXPECT_EQ(plp->drive.flush_base, 40us);
    EXPECT_EQ(plp->drive.geometry.spare, 0.28);
}

TEST(Options, TakesParametersInAnyOrder) {
    const auto settings = settings_of({{"flush_us", "2500.5"},
                                       {"gc_start", "6"},
                                       {"spare", "10"},
                                       {"cache", "32M"},
                                       {"mode", "liar"},
                                       {"aged", "1"},
                                       {"seed", "9"},
                                       {"log", "/tmp/a log"},
                                       {"size", "512M"}});
    ASSERT_TRUE(settings) << settings.error();
    EXPECT_EQ(settings->drive.flush_base, 2500500ns);
    EXPECT_EQ(settings->drive.geometry.gc_start, 6U);
    EXPECT_EQ(settings->drive.geometry.spare, 0.1);
    EXPECT_EQ(settings->drive.geometry.spare_blocks(), 52U + 8U);
    EXPECT_EQ(settings->drive.geometry.gc_stop, 41U) << "follows the spare area";
    EXPECT_EQ(settings->drive.cache_pages, 8192U);
    EXPECT_EQ(settings->drive.mode, Mode::Liar);
    EXPECT_TRUE(settings->drive.aged);
    EXPECT_EQ(settings->drive.seed, 9U);
    EXPECT_EQ(settings->log, "/tmp/a log");
}

class RefusedOptions : public testing::TestWithParam<std::pair<Given, std::string_view>> {};

TEST_P(RefusedOptions, SayWhatIsWrong) {
    const auto settings = settings_of(GetParam().first);
    ASSERT_FALSE(settings);
    EXPECT_NE(settings.error().find(GetParam().second), std::string::npos) << settings.error();
    EXPECT_EQ(settings.error().find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedOptions,
    testing::Values(std::pair{Given{}, "size=SIZE is needed"},
                    std::pair{Given{{"size", ""}}, "size"}, std::pair{Given{{"size", "0"}}, "size"},
                    std::pair{Given{{"size", "1000"}}, "4096"},
                    std::pair{Given{{"size", "1T"}}, "'1T'"},
                    std::pair{Given{{"size", "-1"}}, "'-1'"},
                    std::pair{Given{{"size", "99999999999G"}}, "size"},
                    std::pair{Given{{"size", "16384G"}}, "size"},
                    std::pair{Given{{"size", "1G"}, {"mode", "fast"}}, "client, plp"},
                    std::pair{Given{{"size", "1G"}, {"colour", "red"}}, "'colour'"},
                    std::pair{Given{{"size", "1G"}, {"aged", "2"}}, "aged"},
                    std::pair{Given{{"size", "1G"}, {"aged", "yes"}}, "aged"},
                    std::pair{Given{{"size", "1G"}, {"seed", "1.5"}}, "whole"},
                    std::pair{Given{{"size", "1G"}, {"flush_us", "nan"}}, "flush_us"},
                    std::pair{Given{{"size", "1G"}, {"flush_us", "2ms"}}, "flush_us"},
                    std::pair{Given{{"size", "1G"}, {"flush_us", "-1"}}, "range"},
                    std::pair{Given{{"size", "1G"}, {"gc_stop", "400"}}, "spare area"},
                    std::pair{Given{{"size", "1G"}, {"gc_start", "50"}}, "level"},
                    std::pair{Given{{"size", "1G"}, {"cache", "4K"}}, "cache"}));

TEST(Options, HasSoundDefaultsForDrivesOfAnySize) {
    for (const std::string_view mode : {"client", "plp", "liar", "slowtrim"}) {
        for (const std::string_view size :
             {"4K", "1M", "16M", "64M", "100M", "1G", "64G", "2000G"}) {
            const auto settings = settings_of({{"size", size}, {"mode", mode}});
            EXPECT_TRUE(settings) << mode << " " << size << ": " << settings.error();
        }
    }
}

TEST(Options, HelpNamesEveryParameterOnALineOfItsOwn) {
    const std::string help = Options::help();
    for (const std::string_view key :
         {"size=", "mode=", "aged=", "seed=", "log=", "log_writes=", "hang_flush_file=", "cache=",
          "spare=", "gc_start=", "gc_stop=", "flush_us=", "trim_mib_us=", "dishonest="}) {
        EXPECT_NE(("\n" + help).find("\n" + std::string(key)), std::string::npos) << key;
    }
}

} // namespace
} // namespace ssdsim
