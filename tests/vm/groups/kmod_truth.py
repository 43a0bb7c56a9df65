#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the module counts against what was done, on null_blk with times known in advance and on an NVMe disk.

Prints one line a check, as lib.sh does.
"""

import errno
import fcntl
import json
import mmap
import os
import select
import struct
import subprocess
import sys
import threading
import time

import kmod

failed = 0


def check(name, good, why=""):
    global failed  # pylint: disable=global-statement
    print(f"ok - {name}" if good else f"not ok - {name}: {why}", flush=True)
    failed += not good


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def fails_with(number, function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return error.errno == number
    return False


def null_blk(name, **options):
    folder = f"/sys/kernel/config/nullb/{name}"
    os.mkdir(folder)
    for key, value in {"size": 64, "memory_backed": 1, "cache_size": 8, "irqmode": 2, **options}.items():
        write(f"{folder}/{key}", str(value))
    write(f"{folder}/power", "1")
    return name


def remove_null_blk(name):
    write(f"/sys/kernel/config/nullb/{name}/power", "0")
    os.rmdir(f"/sys/kernel/config/nullb/{name}")


def aligned(size, byte=0x5A):
    buffer = mmap.mmap(-1, size)
    buffer.write(bytes([byte]) * size)
    return buffer


def durable_writes(disk, count, threads=1, flags=0):
    """Each write followed by fdatasync, or made durable by `flags`."""

    def work(index):
        fd = os.open(f"/dev/{disk}", os.O_RDWR | os.O_DIRECT | flags)
        buffer = aligned(4096)
        for i in range(count):
            os.pwritev(fd, [buffer], 4096 * (1 + (index * count + i) % 1000))
            if not flags:
                os.fdatasync(fd)
        os.close(fd)

    running = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()


def counted(counter, disk, work):
    """What the module and diskstats say of `work`."""
    before, stats = counter.read(), kmod.diskstats(disk)
    work()
    after, now = counter.read(), kmod.diskstats(disk)
    return after.since(before), {key: now[key] - stats[key] for key in stats}


def writes_of(seen):
    """diskstats counts a submitter's flush as a write, and data with flushes around it once."""
    return sum(seen[name].count for name in ("write", "fua_write", "write_zeroes", "flush_wait"))


def truth_on_null_blk():
    for name, milliseconds in (("fast", 0.05), ("client", 2), ("slow", 30)):
        disk = null_blk(f"nullb_{name}", completion_nsec=int(milliseconds * 1e6))
        counter = kmod.Counter(disk)
        snapshot = counter.read()
        check(f"{name}: the snapshot names its disk", snapshot.disk == disk and snapshot.major > 0, snapshot.disk)
        count = 40 if name == "slow" else 200
        seen, stats = counted(counter, disk, lambda: durable_writes(disk, count))  # pylint: disable=W0640
        check(f"{name}: flushes = diskstats = fdatasyncs, exactly",
              seen["flush"].count == stats["flush"] == count and seen["flush_wait"].count == count,
              f"{seen['flush'].count} {seen['flush_wait'].count} {stats} {count}")
        check(f"{name}: writes = diskstats, exactly", writes_of(seen) == stats["write"] == 2 * count,
              f"{writes_of(seen)} {stats}")
        for kind in ("flush", "write"):
            check(f"{name}: buckets of {kind} hold what was counted", sum(seen[kind].buckets) == seen[kind].count)
            low = seen[kind].quantile_ns(0.05) / 1e6
            middle = seen[kind].quantile_ns(0.5) / 1e6
            mean = seen[kind].sum_ns / seen[kind].count / 1e6
            print(f"    {name}: {kind} asked {milliseconds} ms; p5 {low:.3f}, p50 {middle:.3f}, mean {mean:.3f}, "
                  f"max {seen[kind].max_ns / 1e6:.3f} ms")
            # An emulated processor is late by what its host does meanwhile, never early.
            check(f"{name}: {kind} takes what was asked", 0.968 * milliseconds <= low < milliseconds + 2,
                  f"p5 {low} ms instead of {milliseconds}")
        if name == "client":
            seen, stats = counted(counter, disk, lambda: durable_writes(disk, 50, threads=8))
            check("8 threads: waits are all counted, flushes are those of diskstats",
                  seen["flush_wait"].count == 400 and seen["flush"].count == stats["flush"] < 400,
                  f"{seen['flush_wait'].count} {seen['flush'].count} {stats}")
            check("8 threads: writes = diskstats, exactly", writes_of(seen) == stats["write"],
                  f"{writes_of(seen)} {stats}")
            check("at rest nothing is in flight",
                  not any(c.in_flight or c.oldest_ns for c in counter.read().classes.values()))
            schedulers(counter, disk)
            write(f"/sys/block/{disk}/queue/iostats", "0")
            before = counter.read()
            durable_writes(disk, 20)
            after = counter.read()
            seen = after.since(before)
            check("iostats off: flushes are exact, waits are said to be unavailable",
                  seen["flush"].count == 20 and seen["flush_wait"].count == 0 and after.flags & kmod.NO_WAIT and
                  after.no_start - before.no_start == 20, f"{seen['flush'].count} {after.no_start}")
            write(f"/sys/block/{disk}/queue/iostats", "1")
            write(f"/sys/block/{disk}/queue/write_cache", "write through")
            seen, stats = counted(counter, disk, lambda: durable_writes(disk, 20))
            check("write through: no flush, and the snapshot says why",
                  seen["flush"].count == 0 == stats["flush"] and counter.read().flags & kmod.WRITE_THROUGH)
        counter.close()
        remove_null_blk(disk)


def schedulers(counter, disk):
    stop = threading.Event()

    def load():
        while not stop.is_set():
            durable_writes(disk, 20, threads=4)

    def switch():
        running = threading.Thread(target=load)
        running.start()
        for name in ("mq-deadline", "kyber", "none", "bfq", "mq-deadline", "none"):
            write(f"/sys/block/{disk}/queue/scheduler", name)
            time.sleep(0.5)
        stop.set()
        running.join()

    for module in ("kyber-iosched", "bfq"):
        subprocess.run(["modprobe", module], check=True)
    seen, stats = counted(counter, disk, switch)
    check("schedulers switched under load: exact",
          seen["flush"].count == stats["flush"] > 0 and writes_of(seen) == stats["write"],
          f"{seen['flush'].count} {writes_of(seen)} {stats}")
    check("schedulers switched under load: nothing stays in flight",
          not any(c.in_flight for c in counter.read().classes.values()))


def truth_on_nvme():
    disk = "nvme0n1"
    counter = kmod.Counter(disk)
    seen, stats = counted(counter, disk, lambda: durable_writes(disk, 100, flags=os.O_DSYNC))
    check("NVMe, O_DSYNC: FUA writes are counted as such",
          seen["fua_write"].count == 100 and writes_of(seen) == stats["write"] and seen["flush"].count == stats["flush"],
          f"{seen['fua_write'].count} {writes_of(seen)} {seen['flush'].count} {stats}")

    def discards():
        subprocess.run(["blkdiscard", "--length", "4M", f"/dev/{disk}"], check=True)
        subprocess.run(["blkdiscard", "--zeroout", "--length", "4M", f"/dev/{disk}"], check=True)

    seen, stats = counted(counter, disk, discards)
    check("NVMe: discards = diskstats, zeroes are a class of their own",
          seen["discard"].count == stats["discard"] > 0 and seen["write_zeroes"].count > 0,
          f"{seen['discard'].count} {seen['write_zeroes'].count} {stats}")
    subprocess.run(["mkfs.ext4", "-q", "-F", f"/dev/{disk}"], check=True)
    subprocess.run(["mount", f"/dev/{disk}", "/mnt"], check=True)
    report = {}

    def fio(engine, depth, every):
        done = subprocess.run(
            ["fio", "--name=t", "--filename=/mnt/file", "--size=8M", "--rw=randwrite", "--bs=8k", f"--ioengine={engine}",
             f"--iodepth={depth}", f"--fsync={every}", "--io_size=4M", "--output-format=json", "--invalidate=0"], check=True,
            capture_output=True, text=True)
        report.update(json.loads(done.stdout)["jobs"][0])

    for engine, depth, every in (("psync", 1, 1), ("io_uring", 8, 8)):
        seen, stats = counted(counter, disk, lambda: fio(engine, depth, every))  # pylint: disable=W0640
        check(f"ext4, fio {engine}: flushes = diskstats, exactly", seen["flush"].count == stats["flush"] > 0,
              f"{seen['flush'].count} {stats}")
        check(f"ext4, fio {engine}: writes = diskstats, exactly", writes_of(seen) == stats["write"],
              f"{writes_of(seen)} {stats}")
        sync = report["sync"]["lat_ns"]
        print(f"    fio {engine}: {report['sync']['total_ios']} syncs, p50 {sync['percentile']['50.000000'] / 1e6:.3f}, "
              f"p99 {sync['percentile']['99.000000'] / 1e6:.3f} ms; module: FLUSH {seen['flush'].count}, p50 "
              f"{seen['flush'].quantile_ns(.5) / 1e6:.3f}, p99 {seen['flush'].quantile_ns(.99) / 1e6:.3f} ms; FLUSH_WAIT "
              f"{seen['flush_wait'].count}, FLUSH_SEQ {seen['flush_seq'].count}")
    subprocess.run(["umount", "/mnt"], check=True)
    counter.close()


def multipath():
    path = next(name for name in os.listdir("/sys/block") if name.startswith("nvme1c"))
    check("multipath: the head has no requests to count", fails_with(errno.EOPNOTSUPP, kmod.Counter, "nvme1n1"))
    check("multipath: a path of another head is refused",
          fails_with(errno.EINVAL, kmod.Counter, "nvme1n1", "nvme0c0n1"))
    check("multipath: a path that is not there", fails_with(errno.ENODEV, kmod.Counter, "nvme1n1", "nvme1c99n1"))
    counter = kmod.Counter("nvme1n1", path)
    snapshot = counter.read()
    check("multipath: the snapshot names the path", (snapshot.disk, snapshot.major) == (path, 0), snapshot.disk)
    seen, stats = counted(counter, path, lambda: durable_writes("nvme1n1", 50))
    check("multipath: the path's flushes = its diskstats, exactly", seen["flush"].count == stats["flush"] == 50,
          f"{seen['flush'].count} {stats}")
    counter.close()


def events():
    disk = null_blk("nullb_events", completion_nsec=40_000_000)
    counter = kmod.Counter(disk, threshold_ns=30_000_000)
    other = kmod.Counter(disk)
    check("poll: nothing happened yet", counter.wait(0) == 0)
    durable_writes(disk, 1)
    check("poll: a flush over the threshold wakes", counter.wait(5) & select.POLLIN)
    snapshot = counter.read()
    last = snapshot.recent[-1]
    check("the event says when and how long", last[0] == snapshot.events == 1 and last[2] >= 40_000_000 and last[3] == 0,
          f"{snapshot.recent}")
    check("poll: quiet again after the snapshot", counter.wait(0) == 0)
    fcntl.ioctl(counter.fd, kmod.THRESHOLD, struct.pack("<IIQ", 16, 0, 80_000_000))
    durable_writes(disk, 1)
    check("threshold raised: no event", counter.wait(1) == 0)
    a, b = counter.read(), other.read()
    check("two files on one disk share its counters",
          a.classes["flush"].count == b.classes["flush"].count == 2, f"{a.classes['flush'].count}")
    counter.close()
    durable_writes(disk, 1)
    check("one of them closed: the other goes on", other.read().classes["flush"].count == 3)
    remove_null_blk(disk)
    check("disk removed while attached: said in the snapshot", other.read().flags & kmod.DYING)
    check("disk removed while attached: EPOLLHUP", other.wait(2) & select.POLLHUP)
    other.close()

    disk = null_blk("nullb_hang", completion_nsec=4_000_000_000)
    counter = kmod.Counter(disk, threshold_ns=500_000_000)
    hanging = threading.Thread(target=lambda: subprocess.run(["sync", "-d", f"/dev/{disk}"], check=False))
    begun = time.monotonic()
    hanging.start()
    woken = counter.wait(3)
    took = time.monotonic() - begun
    snapshot = counter.read()
    check("a flush that hangs wakes long before it ends", woken & select.POLLIN and took < 2.5, f"{woken} {took}")
    flush = snapshot.classes["flush"]
    check("and is seen with its age", flush.in_flight == 1 and flush.oldest_ns > 400_000_000 and flush.count == 0,
          f"{flush.in_flight} {flush.oldest_ns}")
    check("and is an event that is marked as pending", snapshot.recent and snapshot.recent[-1][4] == kmod.PENDING)
    hanging.join()
    check("and is counted when it ended", counter.read().classes["flush"].count == 1)
    counter.close()
    remove_null_blk(disk)


def hostile():
    disk = null_blk("nullb_hostile")
    node = os.open(f"/dev/{disk}", os.O_RDONLY)
    fd = os.open("/dev/nvmaint", os.O_RDWR)
    attach = lambda size, flags, reserved, path: fcntl.ioctl(  # noqa: E731
        fd, kmod.ATTACH, struct.pack("<IiIIQ32s", size, node, flags, reserved, 0, path) + b"\0" * 64)
    check("before attach: no snapshot", fails_with(errno.ENOTCONN, os.pread, fd, 10, 0))
    check("unknown ioctl", fails_with(errno.ENOTTY, fcntl.ioctl, fd, 0xBD99, b"\0" * 64))
    check("a struct that is too short", fails_with(errno.EINVAL, attach, 55, 0, 0, b""))
    check("a size beyond all", fails_with(errno.E2BIG, attach, 1 << 30, 0, 0, b""))
    check("unknown flags", fails_with(errno.EINVAL, attach, 56, 4, 0, b""))
    check("reserved not zero", fails_with(errno.EINVAL, attach, 56, 0, 1, b""))
    check("a name without an end", fails_with(errno.EINVAL, attach, 56, 0, 0, b"x" * 32))
    check("something behind the name's end", fails_with(errno.EINVAL, attach, 56, 0, 0, b"\0x"))
    check("a path of no multipath head", fails_with(errno.EINVAL, attach, 56, 0, 0, b"nvme0c0n1"))
    tail = struct.pack("<IiIIQ32s", 64, node, 0, 0, 0, b"") + b"\0" * 7 + b"\1"
    check("something in a tail that we do not know", fails_with(errno.E2BIG, fcntl.ioctl, fd, kmod.ATTACH, tail))
    null = os.open("/dev/null", os.O_RDONLY)
    check("no block device", fails_with(errno.ENOTBLK, fcntl.ioctl, fd, kmod.ATTACH,
                                        struct.pack("<IiIIQ32s", 56, null, 0, 0, 0, b"")))
    check("no descriptor", fails_with(errno.EBADF, fcntl.ioctl, fd, kmod.ATTACH,
                                      struct.pack("<IiIIQ32s", 56, -1, 0, 0, 0, b"")))
    attach(120, 0, 0, b"")  # a caller from the future, zeros in what we do not know
    check("attached twice", fails_with(errno.EBUSY, attach, 56, 0, 0, b""))
    whole = os.pread(fd, 1 << 20, 0)
    check("read short: its beginning", os.pread(fd, 100, 0)[:36] == whole[:36])
    check("read past the end: nothing", os.pread(fd, 100, len(whole)) == b"")
    check("read in pieces: the same length",
          len(b"".join(iter(lambda: os.read(fd, 4096), b""))) == len(whole))
    result = kmod.libc.pread(fd, kmod.ctypes.c_void_p(8), kmod.ctypes.c_size_t(4096), kmod.ctypes.c_long(0))
    check("read to a bad address", result == -1 and kmod.ctypes.get_errno() == errno.EFAULT)
    result = kmod.libc.ioctl(fd, kmod.ctypes.c_ulong(kmod.ATTACH), kmod.ctypes.c_void_p(8))
    check("ioctl from a bad address", result == -1 and kmod.ctypes.get_errno() == errno.EFAULT)
    check("unload while a file is open: refused", subprocess.run(["rmmod", "nvmaint"], check=False,
                                                                 capture_output=True).returncode != 0)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    check("open by nobody: refused", subprocess.run([*nobody, "cat", "/dev/nvmaint"], check=False,
                                                    capture_output=True).returncode != 0)
    os.chmod("/dev/nvmaint", 0o666)
    refused = subprocess.run([*nobody, "cat", "/dev/nvmaint"], check=False, capture_output=True, text=True)
    check("open by nobody without CAP_PERFMON: not permitted", "not permitted" in refused.stderr, refused.stderr)
    os.chmod("/dev/nvmaint", 0o600)
    os.lseek(fd, 0, os.SEEK_SET)
    handed = subprocess.run([*nobody, "head", "-c", "8"], stdin=os.fdopen(os.dup(fd), "rb", 0), check=False,
                            capture_output=True)
    check("a descriptor handed to nobody works", handed.stdout == struct.pack("<Q", kmod.MAGIC), repr(handed))
    os.close(fd)
    os.close(node)
    remove_null_blk(disk)


def main():
    truth_on_null_blk()
    truth_on_nvme()
    multipath()
    events()
    hostile()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
