// nvmaint-fitrim: trims ranges of one mounted filesystem on request. Started by nvmaintd only.
//
//   nvmaint-fitrim MOUNT MAJOR:MINOR
//   stdin:  "START LENGTH MINIMUM\n" per range, bytes of the filesystem's address space
//   stdout: "ready\n", then "BYTES ERRNO NANOSECONDS\n" per range
//
// No signal handlers: only a fatal signal ends a FITRIM that is under way. Dies with its parent.

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace {

// The superblock behind a mount, as the mount table names it: unlike st_dev it is one number for
// all subvolumes of a btrfs. Nothing where the mount is not in our table.
std::string device_of_mount(std::uint64_t mount_id) {
    std::ifstream table("/proc/self/mountinfo");
    std::string line;
    while (std::getline(table, line)) {
        std::istringstream fields(line);
        std::uint64_t id = 0;
        std::uint64_t parent = 0;
        std::string device;
        if (fields >> id >> parent >> device && id == mount_id) {
            return device;
        }
    }
    return {};
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: nvmaint-fitrim MOUNT MAJOR:MINOR\n");
        return 2;
    }
    // A parent that died before this line closed our stdin: the loop below ends at once.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return 2;
    }
    const int fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        std::fprintf(stderr, "%s: %m\n", argv[1]);
        return 1;
    }
    // The name may lead to another filesystem than the one that was judged: somebody may have
    // mounted over it since.
    struct statx status {};
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &status) != 0) {
        std::fprintf(stderr, "%s: %m\n", argv[1]);
        return 1;
    }
    const std::string device = device_of_mount(status.stx_mnt_id);
    if ((status.stx_mask & STATX_MNT_ID) == 0 || device != argv[2]) {
        std::fprintf(stderr, "%s: expected the filesystem on device %s, found %s\n", argv[1],
                     argv[2],
                     device.empty() ? "one that the mount table does not name" : device.c_str());
        return 1;
    }
    std::printf("ready\n");
    std::fflush(stdout);

    char line[128];
    while (std::fgets(line, sizeof line, stdin) != nullptr) {
        fstrim_range range{};
        std::uint64_t start = 0;
        std::uint64_t length = 0;
        std::uint64_t minimum = 0;
        if (std::sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &start, &length, &minimum) != 3) {
            return 2;
        }
        range.start = start;
        range.len = length;
        range.minlen = minimum;
        const auto before = std::chrono::steady_clock::now();
        const int error = ioctl(fd, FITRIM, &range) == 0 ? 0 : errno;
        const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::steady_clock::now() - before);
        std::printf("%" PRIu64 " %d %" PRId64 "\n",
                    error == 0 ? static_cast<std::uint64_t>(range.len) : std::uint64_t{0}, error,
                    static_cast<std::int64_t>(took.count()));
        std::fflush(stdout);
    }
    return 0;
}
