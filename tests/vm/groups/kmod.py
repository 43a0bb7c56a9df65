# SPDX-License-Identifier: Apache-2.0
"""A reader of /dev/nvmaint that shares nothing with the product's: the ABI as kmod/uapi/nvmaint.h and ABI.md have it.

Used as a module by the checks in the guest.
"""

import ctypes
import fcntl
import os
import select
import struct

ATTACH, THRESHOLD = 0xBD40, 0xBD41
MAGIC = 0x31746E69616D766E
CLASSES = ("flush", "flush_wait", "fua_write", "flush_seq", "write", "read", "discard", "write_zeroes", "other")
DYING, WRITE_THROUGH, NO_WAIT = 1, 2, 4
PENDING = 1
HEAD = struct.Struct("<Q14I" + "7Q" + "2I32s")
CLASS = struct.Struct("<8Q")
EVENT = struct.Struct("<3QIIiI")
assert HEAD.size == 160 and CLASS.size == 64 and EVENT.size == 40


class Stats:
    """One class."""

    def __init__(self, numbers, buckets):
        (self.count, self.sum_ns, self.max_ns, self.errors, self.requeues, self.in_flight, self.oldest_ns, _) = numbers
        self.buckets = buckets

    def since(self, before):
        numbers = [self.count - before.count, self.sum_ns - before.sum_ns, self.max_ns, self.errors - before.errors,
                   self.requeues - before.requeues, self.in_flight, self.oldest_ns, 0]
        return Stats(numbers, [a - b for a, b in zip(self.buckets, before.buckets)])

    def quantile_ns(self, q):
        """Middle of the bucket that holds it."""
        left = q * sum(self.buckets)
        for index, count in enumerate(self.buckets):
            left -= count
            if count and left <= 0:
                low, high = limits(index)
                return (low + high) / 2
        return 0


def limits(index):
    """Of a bucket, in ns."""
    if index == 0:
        return 0, 1 << 10
    octave, sub = divmod(index - 1, 16)
    return (16 + sub) << (octave + 6), (17 + sub) << (octave + 6)


class Snapshot:
    def __init__(self, raw):
        (magic, self.size, self.header_size, class_offset, class_stride, class_count, bucket_offset, self.bucket_count,
         self.sub_bits, self.min_exponent, self.max_exponent, event_offset, event_stride, event_count, self.flags, self.now_ns,
         self.attached_ns, self.diskseq, self.events, self.events_dropped, self.no_start, self.no_slot, self.major,
         self.minor, name) = HEAD.unpack_from(raw)
        assert magic == MAGIC and self.size == len(raw), (magic, self.size, len(raw))
        self.disk = name.rstrip(b"\0").decode()
        self.classes = {}
        for i in range(class_count):
            at = class_offset + i * class_stride
            self.classes[CLASSES[i]] = Stats(CLASS.unpack_from(raw, at), list(
                struct.unpack_from(f"<{self.bucket_count}Q", raw, at + bucket_offset)))
        self.recent = [EVENT.unpack_from(raw, event_offset + i * event_stride) for i in range(event_count)]

    def since(self, before):
        return {name: stats.since(before.classes[name]) for name, stats in self.classes.items()}


class Counter:
    """An open file that counts for a disk."""

    def __init__(self, disk, path="", threshold_ns=0):
        self.fd = os.open("/dev/nvmaint", os.O_RDWR)
        self.attach(disk, path, threshold_ns)

    def attach(self, disk, path="", threshold_ns=0):
        node = os.open(f"/dev/{disk}", os.O_RDONLY)
        try:
            fcntl.ioctl(self.fd, ATTACH, struct.pack("<IiIIQ32s", 56, node, 0, 0, threshold_ns, path.encode()))
        except OSError:
            os.close(self.fd)
            raise
        finally:
            os.close(node)

    def read(self):
        return Snapshot(os.pread(self.fd, 1 << 20, 0))

    def wait(self, seconds):
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        ready = poll.poll(int(seconds * 1000))
        return ready[0][1] if ready else 0

    def close(self):
        os.close(self.fd)


def diskstats(disk):
    """Reads, writes, discards and flushes completed."""
    fields = [int(x) for x in open(f"/sys/block/{disk}/stat", encoding="ascii").read().split()]
    return {"read": fields[0], "write": fields[4], "discard": fields[11], "flush": fields[15]}


libc = ctypes.CDLL(None, use_errno=True)
