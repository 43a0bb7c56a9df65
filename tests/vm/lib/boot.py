# SPDX-License-Identifier: Apache-2.0
"""What QEMU boots the guest with: an unpacked kernel and a small initramfs."""

import lzma
import shutil
import struct
import subprocess
from pathlib import Path

from common import RunnerError

# Needed before the root disk is there, in load order; what each depends on comes before it.
ROOT_MODULES = (
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "crc32c_intel",
    "crc32c_generic",
    "ext4",
)
NVME_MODULES = ("crct10dif_generic", "crc64_rocksoft_generic", "nvme")


def unpack_kernel(vmlinuz, vmlinux):
    """Unpacks the ELF kernel out of a bzImage: the guest would take seconds for it under emulation.

    QEMU boots an ELF kernel through its PVH note. Where the payload is in a format this cannot
    unpack, or has no such note, nothing is written and the bzImage is booted. Layout: Linux
    Documentation/arch/x86/boot.rst, payload_offset.
    """
    image = vmlinuz.read_bytes()
    if image[0x202:0x206] != b"HdrS":
        raise RunnerError(f"{vmlinuz} is not a bzImage")
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length - 4]  # the last four bytes are the unpacked size
    if payload.startswith(b"\xfd7zXZ\0"):
        kernel = lzma.decompress(payload)
    elif payload.startswith(b"\x28\xb5\x2f\xfd") and shutil.which("zstd"):
        kernel = subprocess.run(
            ["zstd", "-dc"],
            input=payload,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        ).stdout
    else:
        return
    # The note: name "Xen", type 18 (XEN_ELFNOTE_PHYS32_ENTRY), include/xen/interface/elfnote.h.
    if kernel.startswith(b"\x7fELF") and struct.pack("<I", 18) + b"Xen\0" in kernel:
        vmlinux.write_bytes(kernel)


def _module_files(root, version, names):
    files = []
    for name in names:
        done = subprocess.run(
            ["modprobe", "-d", root, "-S", version, "--show-depends", name],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            continue  # not in this kernel: either built in or of another release
        for line in done.stdout.splitlines():
            if line.startswith("insmod "):
                path = Path(line.split()[1])
                if path not in files:
                    files.append(path)
    return files


def _unpacked(path):
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".zst":
        return subprocess.run(
            ["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True
        ).stdout
    return data


class _Cpio:
    """Writes "newc" (Linux Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self, stream):
        self._stream = stream
        self._inode = 0

    def add(self, name, mode, data=b"", device=(0, 0)):
        self._inode += 1
        encoded = name.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        entry = b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
        entry += b"\0" * (-len(entry) % 4) + data
        self._stream.write(entry + b"\0" * (-len(data) % 4))

    def close(self):
        self.add("TRAILER!!!", 0)


def build_initrd(kernel_root, version, busybox, init, target):
    root_files = _module_files(kernel_root, version, ROOT_MODULES)
    nvme_files = [
        path for path in _module_files(kernel_root, version, NVME_MODULES) if path not in root_files
    ]
    if not any(path.name.startswith("nvme.ko") for path in nvme_files):
        raise RunnerError(f"kernel {version} has no nvme module")
    with open(target, "wb") as stream:
        archive = _Cpio(stream)
        for folder in ("dev", "proc", "sys", "bin", "modules", "sysroot"):
            archive.add(folder, 0o040755)
        archive.add("dev/console", 0o020600, device=(5, 1))
        archive.add("init", 0o100755, init.read_bytes())
        archive.add("bin/busybox", 0o100755, busybox.read_bytes())
        for order, files in (("order", root_files), ("order-nvme", nvme_files)):
            names = []
            for path in files:
                names.append(path.name.removesuffix(".xz").removesuffix(".zst"))
                archive.add(f"modules/{names[-1]}", 0o100644, _unpacked(path))
            archive.add(
                f"modules/{order}", 0o100644, "".join(f"{name}\n" for name in names).encode()
            )
        archive.close()
