#include "collect/probes.hpp"

#include "admin/open_in_root.hpp"
#include "collect/text.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <fcntl.h>

#include <cerrno>
#include <limits>

namespace nvmaint::collect {
namespace {

bool has_own_device_number(const core::Mount& mount) {
    return mount.device.major != 0;
}

bool is_local_disk_filesystem(const core::Mount& mount) {
    if (mount.type.starts_with("fuse")) {
        return false;
    }
    return has_own_device_number(mount) || mount.type == "btrfs" || mount.type == "bcachefs";
}

std::uint64_t bytes_of(std::uint64_t blocks, std::uint64_t block_bytes) {
    std::uint64_t bytes = 0;
    return __builtin_mul_overflow(blocks, block_bytes, &bytes)
               ? std::numeric_limits<std::uint64_t>::max()
               : bytes;
}

Result<core::FilesystemProbe> probe(int root_fd, const core::Mount& mount) {
    TRY(fd, open_in_root(root_fd, mount.mount_point, O_PATH));
    struct stat status {};
    struct statvfs filesystem {};
    if (fstat(fd.get(), &status) != 0 || fstatvfs(fd.get(), &filesystem) != 0) {
        return Error::system(errno, {});
    }
    const bool same =
        major(status.st_dev) == mount.device.major && minor(status.st_dev) == mount.device.minor;
    if (has_own_device_number(mount) && !same) {
        return Error::system(ESTALE, {}); // another mount lies over it
    }
    return core::FilesystemProbe{
        .size_bytes = bytes_of(filesystem.f_blocks, filesystem.f_frsize),
        .free_bytes = bytes_of(filesystem.f_bfree, filesystem.f_frsize),
        .fitrim_errno = std::nullopt,
        .fitrim_bytes = std::nullopt,
    };
}

std::string probe_live(const HostRoot& root, const std::vector<core::Mount>& mounts) {
    Probes probes;
    for (const core::Mount& mount : mounts) {
        // TOML is UTF-8; a mount point that is not goes unprobed.
        if (is_local_disk_filesystem(mount) && is_utf8(mount.mount_point)) {
            Result<core::FilesystemProbe> result = probe(root.fd(), mount);
            probes[mount.mount_point] = std::move(result); // of several, the one on top is last
        }
    }
    return format_probe_toml(probes);
}

} // namespace

Probes read_probes(const HostRoot& root, const Reading<std::vector<core::Mount>>& mounts) {
    static const std::string kPath = "probe.toml";
    const Result<std::string> text = root.read_source(kPath, [&]() -> Result<std::string> {
        if (!mounts) {
            return mounts.error();
        }
        return probe_live(root, *mounts);
    });
    Probes all;
    Error error;
    if (text) {
        Result<Probes> probes = parse_probe_toml(*text, kPath);
        if (probes) {
            return std::move(*probes);
        }
        error = probes.error();
    } else {
        error = text.error();
    }
    if (error.kind != ErrorKind::NotRecorded && mounts) {
        for (const core::Mount& mount : *mounts) {
            if (is_local_disk_filesystem(mount)) {
                all[mount.mount_point] = error;
            }
        }
    }
    return all;
}

} // namespace nvmaint::collect
