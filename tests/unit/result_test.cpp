#include "values/result.hpp"

#include "values/errno_name.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace nvmaint {
namespace {

Result<int> half(int number) {
    if (number % 2 != 0) {
        return Error::make(ErrorKind::Malformed, "an odd number");
    }
    return number / 2;
}

Result<int> quarter(int number) {
    TRY(first, half(number));
    TRY(second, half(first));
    return second;
}

TEST(Error, SaysContextAndErrno) {
    EXPECT_EQ(Error::system(EIO, "Get Log Page 02h").in("reading SMART log of nvme1").text(),
              "reading SMART log of nvme1: Get Log Page 02h: Input/output error");
}

TEST(Error, SaysTheStatusOfACommand) {
    Error error = Error::make(ErrorKind::NvmeStatus, "Identify Controller");
    error.nvme_status = 0x109;
    EXPECT_EQ(error.text(), "Identify Controller: NVMe status 0x109");
}

TEST(Error, NeverSaysNothing) {
    EXPECT_EQ(Error::make(ErrorKind::NotRecorded, "").text(), "not recorded");
    EXPECT_EQ(Error::system(ENOENT, "").text(), "No such file or directory");
    EXPECT_FALSE(Error{}.text().empty());
}

TEST(Error, InLeavesTheRestAlone) {
    const Error inner = Error::system(EACCES, "opening /dev/nvme0");
    const Error outer = inner.in("Identify");
    EXPECT_EQ(outer.kind, ErrorKind::System);
    EXPECT_EQ(outer.sys_errno, EACCES);
    EXPECT_EQ(inner.context, "opening /dev/nvme0");
}

TEST(Result, TryHandsOnValuesAndErrors) {
    EXPECT_EQ(quarter(12), Result<int>(3));
    EXPECT_EQ(quarter(6).error().context, "an odd number");
}

TEST(Result, ComparesValuesWithValuesAndErrorsWithErrors) {
    EXPECT_EQ(half(4), half(4));
    EXPECT_FALSE(half(4) == half(3));
    EXPECT_FALSE(half(3) == Result<int>(Error::system(EIO, "an odd number")));
}

TEST(Reading, IsNotRecordedUntilSomebodyReads) {
    const Reading<int> reading;
    EXPECT_TRUE(reading.is_not_recorded());
    EXPECT_FALSE(reading.is_known_absent());
}

TEST(Reading, TellsAbsenceFromFailure) {
    EXPECT_TRUE(Reading<int>(Error::system(ENOENT, "etc/fstab")).is_known_absent());
    EXPECT_FALSE(Reading<int>(Error::system(EACCES, "etc/fstab")).is_known_absent());
    EXPECT_FALSE(Reading<int>(Error::system(EIO, "etc/fstab")).is_not_recorded());
}

TEST(ErrnoName, GoesBothWays) {
    for (const int number : {EPERM, ENOENT, EIO, EACCES, EOPNOTSUPP, EREMOTEIO, ENODATA}) {
        EXPECT_EQ(parse_errno_name(errno_name(number)), number) << errno_name(number);
    }
    EXPECT_EQ(errno_name(ENOENT), "ENOENT");
    EXPECT_EQ(errno_name(4000), "4000");
}

TEST(ErrnoName, AcceptsAliasesAndNumbers) {
    EXPECT_EQ(parse_errno_name("EWOULDBLOCK"), EAGAIN);
    EXPECT_EQ(parse_errno_name("ENOTSUP"), EOPNOTSUPP);
    EXPECT_EQ(parse_errno_name("2"), ENOENT);
    EXPECT_EQ(parse_errno_name("4095"), 4095);
}

TEST(ErrnoName, RefusesWhatIsNone) {
    for (const char* name : {"", "0", "-1", "4096", "enoent", "ENOENT ", "EVERYTHING", "2x"}) {
        EXPECT_EQ(parse_errno_name(name), std::nullopt) << name;
    }
}

} // namespace
} // namespace nvmaint
