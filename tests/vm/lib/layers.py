# SPDX-License-Identifier: Apache-2.0
"""The guest's layers, each cached under the hash of what it is made of.

    base     a folder: Debian 12 with the packages of image/packages, no kernel
    kernel   vmlinuz (vmlinux too where it could be unpacked) and the modules of one release
    image    base + kernel modules + our .deb installed by apt + the runner's units, as an ext4
             image, and an initramfs
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path

import boot
import mirror
from common import (
    CHECKOUT,
    IMAGE_DIR,
    RunnerError,
    build_lock,
    cache_dir,
    content_key,
    new_layer,
    remove_tree,
    require_tools,
    run_command,
    say,
    step,
)

LIB_DIR = Path(__file__).resolve().parent

# Other suites of Debian that carry a kernel release; a release not named here is looked for in the
# machine's own.
KERNEL_SUITES = {
    "5.10": ("bullseye",),
    "6.12": ("bookworm-backports",),
    "7.3": ("trixie-backports",),
}

# Drivers of hardware that no guest has. They are two thirds of the modules and would be copied for
# every image.
UNUSED_MODULES = (
    "sound",
    "drivers/gpu",
    "drivers/media",
    "drivers/staging",
    "drivers/infiniband",
    "drivers/iio",
    "drivers/isdn",
    "drivers/net/wireless",
    "drivers/net/ethernet",
    "drivers/net/can",
    "drivers/net/usb",
    "drivers/bluetooth",
    "drivers/hwmon",
    "drivers/input",
    "drivers/hid",
    "drivers/leds",
    "drivers/mmc",
    "drivers/comedi",
    "drivers/nfc",
    "drivers/usb/serial",
    "drivers/usb/gadget",
    "drivers/video",
    "drivers/platform",
    "drivers/mtd",
    "drivers/thermal",
    "net/wireless",
    "net/mac80211",
    "net/bluetooth",
    "net/can",
    "net/nfc",
    "net/sctp",
    "net/tipc",
    "net/openvswitch",
    "fs/ocfs2",
    "fs/ceph",
    "fs/nfs",
    "fs/nfsd",
    "fs/smb",
    "fs/cifs",
    "fs/ksmbd",
    "fs/gfs2",
    "fs/afs",
    "fs/orangefs",
)

IMAGE_SIZE = "4G"
KEPT_IMAGES = 4


def package_list():
    lines = (IMAGE_DIR / "packages").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def base_name():
    return "base-" + content_key(*package_list(), LIB_DIR / "base.py", mirror.release_id())


def kernel_name(release):
    return f"kernel-{release}-" + content_key(*UNUSED_MODULES, mirror.release_id())


def find_package():
    """Our .deb: NVMAINT_DEB, else the newest of build/package, else what `./dev package` makes."""
    chosen = os.environ.get("NVMAINT_DEB")
    if chosen:
        path = Path(chosen).resolve()
        if not path.is_file():
            raise RunnerError(f"NVMAINT_DEB: {chosen} is not a file")
        return path

    def newest():
        return max(
            (CHECKOUT / "build/package").glob("nvmaint_*.deb"),
            key=lambda path: path.stat().st_mtime,
            default=None,
        )

    if newest() is None:
        say("no package in build/package: ./dev package")
        try:
            status = subprocess.run([CHECKOUT / "dev", "package"], stdout=2, check=False).returncode
        except OSError as error:
            raise RunnerError(f"./dev package cannot be started: {error.strerror}") from error
        if status != 0:
            raise RunnerError(f"./dev package failed with status {status}")
    path = newest()
    if path is None:
        raise RunnerError("./dev package left no build/package/nvmaint_*.deb")
    return path


def prune_layers(pattern):
    """Makes place for a new layer; one older stays for others who share the cache."""
    paths = sorted(cache_dir().glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in paths[1:]:
        remove_tree(path)


def build_base():
    """Makes the base layer unless it is there. Needs the build lock."""
    path = cache_dir() / base_name()
    if not path.exists():
        require_tools("mmdebstrap")
        prune_layers("base-*")
        with step("guest base: Debian 12 by mmdebstrap"), new_layer(path.name) as work:
            import base

            base.build(work / "root", package_list())
    return path


def build_kernel(release):
    """Makes a kernel layer unless it is there. Needs the build lock."""
    path = cache_dir() / kernel_name(release)
    if path.exists():
        return path
    require_tools("dpkg-deb", "depmod")
    prune_layers(f"kernel-{release}-*")
    with step(f"guest kernel {release}"), new_layer(path.name) as work:
        apt = mirror.PrivateApt(work / "apt")
        apt.update()
        package = apt.kernel_package(release)
        if package is None:
            suites = KERNEL_SUITES.get(release)
            if suites is None:
                raise RunnerError(f"no kernel {release} in this machine's Debian suites")
            apt = mirror.PrivateApt(work / "apt-more", suites)
            try:
                apt.update()
            except RunnerError as error:
                raise RunnerError(
                    f"kernel {release}: suite {', '.join(suites)} cannot be reached"
                ) from error
            package = apt.kernel_package(release)
            if package is None:
                raise RunnerError(f"no kernel {release} in suite {', '.join(suites)}")
        files = work / "files"
        files.mkdir()
        for part in apt.with_parts(package):
            say(f"guest kernel {release}: {part}")
            mirror.extract(apt.download(part, work / "apt"), files)
        version = package.removeprefix("linux-image-")
        found = next(
            (
                p
                for p in (
                    files / f"boot/vmlinuz-{version}",
                    files / f"usr/lib/modules/{version}/vmlinuz",
                )
                if p.exists()
            ),
            None,
        )
        if found is None:
            raise RunnerError(f"{package} has no vmlinuz")
        os.replace(found, work / "vmlinuz")
        modules = (
            next(p for p in (files / "lib/modules", files / "usr/lib/modules") if p.is_dir())
            / version
        )
        for unused in UNUSED_MODULES:
            remove_tree(modules / "kernel" / unused)
        (work / "root/lib/modules").mkdir(parents=True)
        os.rename(modules, work / "root/lib/modules" / version)
        run_command("depmod", "-b", work / "root", version)
        (work / "version").write_text(version, encoding="ascii")
        boot.unpack_kernel(work / "vmlinuz", work / "vmlinux")
        for rest in (files, work / "apt", work / "apt-more"):
            remove_tree(rest)
    return path


def enter(root, *command, **options):
    """Runs a command inside a tree, with /proc, /sys and /dev there if mounting is allowed."""
    script = (
        'for m in proc sys dev; do mount --rbind "/$m" "$0/$m" 2>/dev/null || true; done; '
        'exec chroot "$0" "$@"'
    )
    prefix = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        prefix, script = [], 'exec chroot "$0" "$@"'
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "DEBIAN_FRONTEND": "noninteractive",
        "LC_ALL": "C.UTF-8",
    }
    return run_command(*prefix, "sh", "-c", script, root, *command, env=environment, **options)


def install_product(root, package):
    """Installs the .deb by apt inside the tree and enables its service, as people would."""
    shutil.copy(package, root / "root" / package.name)
    resolver = root / "etc/resolv.conf"
    resolver.unlink(missing_ok=True)
    if Path("/etc/resolv.conf").exists():
        shutil.copy("/etc/resolv.conf", resolver)
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
    policy.chmod(0o755)
    install = (
        "apt-get",
        "install",
        "-y",
        "--no-install-recommends",
        "-o",
        "Dpkg::Options::=--force-unsafe-io",
        f"./root/{package.name}",
    )
    try:
        enter(root, *install)
    except RunnerError:
        say("apt failed: once more with fresh package lists")
        enter(root, "apt-get", "update")
        enter(root, *install)
    policy.unlink()
    (root / "root" / package.name).unlink()
    resolver.unlink(missing_ok=True)
    resolver.touch()
    if any(
        (root / folder / "nvmaintd.service").exists()
        for folder in ("usr/lib/systemd/system", "etc/systemd/system")
    ):
        enter(root, "systemctl", "enable", "nvmaintd.service")


def furnish(root, key):
    """Puts in what makes the tree a guest of the runner."""
    units = root / "etc/systemd/system"
    for line in (IMAGE_DIR / "masked-units").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            (units / line).unlink(missing_ok=True)
            (units / line).symlink_to("/dev/null")
    (root / "usr/lib/nvmaint-vm").mkdir()
    shutil.copy(IMAGE_DIR / "agent", root / "usr/lib/nvmaint-vm/agent")
    for unit, target in (
        ("nvmaint-vm.service", "multi-user.target"),
        ("nvmaint-vm-journal.service", "sysinit.target"),
    ):
        shutil.copy(IMAGE_DIR / unit, units / unit)
        (units / f"{target}.wants").mkdir(exist_ok=True)
        (units / f"{target}.wants" / unit).symlink_to(f"../{unit}")
    default = units / "default.target"
    default.unlink(missing_ok=True)
    default.symlink_to("/usr/lib/systemd/system/multi-user.target")
    # A machine id keeps systemd from taking the boot for the first one, in which it would apply
    # presets.
    (root / "etc/machine-id").write_text(
        content_key(key) + content_key(key, "machine") + "\n", encoding="ascii"
    )
    (root / "etc/hostname").write_text("guest\n", encoding="ascii")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 guest\n", encoding="ascii")
    (root / "etc/fstab").write_text("/dev/vda / ext4 errors=remount-ro 0 0\n", encoding="ascii")
    (root / "var/log/journal").mkdir(exist_ok=True)
    for rest in ("var/lib/apt/lists", "var/cache/apt"):
        remove_tree(root / rest)
        (root / rest).mkdir()
    # Says that /etc and /var are newer than /usr, or each boot would rebuild caches
    # (systemd-update-done.service(8)).
    now = time.time()
    os.utime(root / "usr", (now, now))
    for name in ("etc/.updated", "var/.updated"):
        (root / name).touch()
        os.utime(root / name, (now, now))


def image_name(release, package):
    sources = sorted(
        path for path in IMAGE_DIR.iterdir() if path.name != "packages" and path.is_file()
    )
    return "image-" + content_key(
        base_name(),
        kernel_name(release),
        package,
        LIB_DIR / "layers.py",
        LIB_DIR / "boot.py",
        *sources,
    )


class Image:
    """A finished image; holding it keeps it from being pruned."""

    def __init__(self, path):
        self._lock = open(
            path / "lock", "w", encoding="ascii"
        )  # pylint: disable=consider-using-with
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        os.utime(path / "root.ext4")
        self.root = path / "root.ext4"
        self.initrd = path / "initrd"
        self.kernel = path / "vmlinux" if (path / "vmlinux").exists() else path / "vmlinuz"


def prune_images(keep):
    """Removes the longest unused images that no run holds."""
    paths = sorted(
        cache_dir().glob("image-*"),
        key=lambda path: (path / "root.ext4").stat().st_mtime,
        reverse=True,
    )
    for path in paths[keep:]:
        with open(path / "lock", "w", encoding="ascii") as lock, contextlib.suppress(
            BlockingIOError
        ):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(path)


def build_image(release):
    """The image of a kernel release with our package, built if it is not there. Returns it held."""
    package = find_package()
    path = cache_dir() / image_name(release, package)
    with build_lock():
        if not path.exists():
            require_tools("mke2fs", "unshare", "chroot", "modprobe")
            base, kernel = build_base(), build_kernel(release)
            prune_images(KEPT_IMAGES - 1)
            with new_layer(path.name) as work:
                root = work / "root"
                with step(f"guest image: {package.name} installed by apt"):
                    run_command("cp", "-a", "--reflink=auto", base / "root", root)
                    install_product(root, package)
                with step("guest image: ext4 by mke2fs"):
                    furnish(root, path.name)
                    run_command("cp", "-a", kernel / "root/lib/modules", root / "usr/lib/")
                    version = (kernel / "version").read_text(encoding="ascii")
                    boot.build_initrd(
                        kernel / "root",
                        version,
                        root / "bin/busybox",
                        IMAGE_DIR / "init",
                        work / "initrd",
                    )
                    for name in ("vmlinuz", "vmlinux"):
                        if (kernel / name).exists():
                            os.link(kernel / name, work / name)
                    run_command(
                        "mke2fs",
                        "-q",
                        "-t",
                        "ext4",
                        "-L",
                        "root",
                        "-m",
                        "0",
                        "-J",
                        "size=16",
                        "-d",
                        root,
                        "-E",
                        "lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0",
                        work / "root.ext4",
                        IMAGE_SIZE,
                    )
                    remove_tree(root)
        return Image(path)
