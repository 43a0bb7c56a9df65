#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Load a simulated drive over NBD as a database on ext4 does: commits at a fixed rate, each two
random pages of data, a few of the journal, a flush, and the commit record. Optionally trims
everything else at half time. Prints what it sent; judge.py says what the drive made of it."""

import argparse
import os
import random
import sys
import time

import nbd

PAGE = 4096
MIB = 1 << 20


def layout(size, database):
    """Byte ranges of a filesystem: metadata, database file, journal."""
    begin = size // 10 // MIB * MIB
    journal = size // 2 // MIB * MIB
    return {"metadata": (0, size // 50 // MIB * MIB),
            "database": (begin, begin + database),
            "journal": (journal, journal + size // 32 // MIB * MIB)}


def fill(drive, ranges):
    """Writes the database file once."""
    begin, end = ranges["database"]
    block = os.urandom(MIB)
    for offset in range(begin, end, MIB):
        drive.write(offset, block)
    drive.flush()


def run(drive, ranges, rate, seconds, journal_pages, seed):
    """Commits for so many seconds; returns how many."""
    chance = random.Random(seed)
    data = os.urandom(2 * PAGE)
    begin, end = ranges["database"]
    journal, journal_end = ranges["journal"]
    position = journal
    start = time.monotonic()
    commits = 0
    while time.monotonic() - start < seconds:
        drive.write(chance.randrange(begin, end, 2 * PAGE), data)
        for _ in range(journal_pages):
            drive.write(position, data[:PAGE])
            position = position + PAGE if position + PAGE < journal_end else journal
        drive.flush()
        drive.write(position, data[:PAGE], fua=True)
        position = position + PAGE if position + PAGE < journal_end else journal
        commits += 1
        time.sleep(max(0.0, start + commits / rate - time.monotonic()))
    return commits


def trim_free_space(drive, ranges):
    """Trims what belongs to none of the ranges; returns the bytes."""
    trimmed = 0
    position = 0
    for begin, end in sorted(ranges.values()) + [(drive.size, drive.size)]:
        while position < begin:
            length = min(64 * MIB, begin - position)
            drive.trim(position, length)
            position += length
            trimmed += length
        position = max(position, end)
    return trimmed


def main():
    parser = argparse.ArgumentParser(description="Load a simulated drive as a database does.")
    parser.add_argument("socket")
    parser.add_argument("--seconds", type=float, default=120.0, help="in each half")
    parser.add_argument("--rate", type=float, default=40.0, help="commits a second")
    parser.add_argument("--database", type=int, default=128, metavar="MIB")
    parser.add_argument("--journal-pages", type=int, default=3, help="per commit, before the flush")
    parser.add_argument("--trim", action="store_true", help="trim free space, then go on as long")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    drive = nbd.Client(options.socket)
    ranges = layout(drive.size, options.database * MIB)
    fill(drive, ranges)
    print(f"filled {options.database} MiB", flush=True)
    for half in range(2 if options.trim else 1):
        if half:
            print(f"trimmed {trim_free_space(drive, ranges)} bytes, real {time.time():.3f}",
                  flush=True)
        begin = time.time()
        commits = run(drive, ranges, options.rate, options.seconds, options.journal_pages,
                      options.seed + half)
        print(f"{commits} commits, real {begin:.3f} to {time.time():.3f}", flush=True)
    drive.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
