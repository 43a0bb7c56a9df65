#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads, attaches, detaches and unloads the module while disks are written, killed readers and vanishing disks included.

usage: kmod_stress.py MODULE CYCLES SEED
"""

import os
import random
import signal
import subprocess
import sys
import time

import kmod
from kmod_truth import null_blk, remove_null_blk, write


def load(disk):
    """A process that writes and flushes until it is ended, and survives its disk."""
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            fd = os.open(f"/dev/{disk}", os.O_RDWR)
            while True:
                os.pwrite(fd, b"x" * 4096, random.randrange(1000) * 4096)
                os.fdatasync(fd)
        except OSError:
            time.sleep(0.01)


def reader(disk):
    """A process that holds an attached file, to be killed."""
    out, into = os.pipe()
    pid = os.fork()
    if pid:
        os.close(into)
        os.read(out, 1)
        os.close(out)
        return pid
    counter = kmod.Counter(disk, threshold_ns=1_000_000)
    os.write(into, b"x")
    while True:
        counter.read()
        counter.wait(0.01)


def end(pid, number=signal.SIGKILL):
    os.kill(pid, number)
    os.waitpid(pid, 0)


def main():
    module, cycles, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    pick = random.Random(seed)
    steady = null_blk("nullb_steady", completion_nsec=200_000, submit_queues=2)
    writers = [load(steady) for _ in range(3)]
    begun = time.monotonic()
    done = {"kill": 0, "vanish": 0, "scheduler": 0, "cpu": 0, "plain": 0}
    offline = "/sys/devices/system/cpu/cpu1/online"
    for cycle in range(cycles):
        subprocess.run(["insmod", module], check=True)
        kind = pick.choice([k for k in done if k != "cpu" or os.path.exists(offline)])
        done[kind] += 1
        counter = kmod.Counter(steady)
        first = counter.read()
        if kind == "kill":
            for pid in [reader(steady) for _ in range(2)]:
                end(pid)
        elif kind == "vanish":
            disk = null_blk("nullb_vanish", completion_nsec=500_000)
            writer, watcher = load(disk), reader(disk)
            time.sleep(pick.random() * 0.1)
            remove_null_blk(disk)
            end(watcher)
            end(writer)
        elif kind == "scheduler":
            write(f"/sys/block/{steady}/queue/scheduler", pick.choice(("none", "mq-deadline")))
        elif kind == "cpu":
            write(offline, "0")
            between = counter.read()
            assert between.classes["flush"].count >= first.classes["flush"].count, "totals fell"
            write(offline, "1")
        time.sleep(pick.random() * 0.05)
        last = counter.read()
        assert all(last.classes[n].count >= first.classes[n].count for n in kmod.CLASSES), "totals fell"
        counter.close()
        subprocess.run(["rmmod", "nvmaint"], check=True)
        if cycle % 10 == 9:
            print(f"    {cycle + 1} of {cycles} cycles after {time.monotonic() - begun:.0f} s", flush=True)
    for pid in writers:
        end(pid)
    remove_null_blk(steady)
    print(f"ok - {cycles} cycles of load, attach, detach, unload under load (seed {seed}): {done}")


if __name__ == "__main__":
    main()
