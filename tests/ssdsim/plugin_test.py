#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drive the plugin through nbdkit and the NBD protocol: data, timing, log, judge.

Usage: plugin_test.py PLUGIN [unittest arguments]. Exit status 77 if nbdkit is missing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import nbd

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
PAGE = 4096
PLUGIN = ""


def nbdkit_environment():
    """nbdkit's environment: with the runtime that an instrumented plugin needs (leaks are nbdkit's
    own affair)."""
    preload = os.environ.get("SSDSIM_PRELOAD")
    if not preload:
        return None
    return dict(os.environ, LD_PRELOAD=preload, ASAN_OPTIONS="detect_leaks=0")


class Server:
    """nbdkit with the plugin, until the end of the with block."""

    def __init__(self, *parameters):
        self.parameters = parameters

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="ssdsim-")
        self.path = os.path.join(self.directory, "socket")
        self.log = os.path.join(self.directory, "log")
        self.process = subprocess.Popen(
            ["nbdkit", "-f", "-U", self.path, PLUGIN, f"log={self.log}", *self.parameters],
            stderr=subprocess.PIPE, text=True, env=nbdkit_environment())
        deadline = time.monotonic() + 30
        while True:
            try:
                nbd.Client(self.path).close()
                break
            except (FileNotFoundError, ConnectionRefusedError):
                pass  # the socket is bound before it listens
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(self.process.communicate()[1])
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        errors = self.process.communicate(timeout=30)[1]
        shutil.rmtree(self.directory)
        if self.process.returncode != 0 or errors:
            raise RuntimeError(f"nbdkit: status {self.process.returncode}: {errors}")

    def events(self, kind):
        """The log's events of one kind, each a dictionary of text."""
        with open(self.log, encoding="utf-8") as log:
            events = [dict(field.split("=", 1) for field in line.split()) for line in log]
        return [event for event in events if event["ev"] == kind]

    def judge(self, *arguments):
        """What judge.py says about the log."""
        done = subprocess.run([sys.executable, os.path.join(HERE, "judge.py"), self.log, "--json",
                               *arguments], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)


class Data(unittest.TestCase):
    def test_reads_what_was_written_and_zeros_elsewhere(self):
        with Server("size=16M") as server:
            drive = nbd.Client(server.path)
            self.assertEqual(drive.size, 16 * MIB)
            self.assertEqual(drive.read(0, 2 * PAGE), bytes(2 * PAGE))
            data = os.urandom(3 * PAGE)
            drive.write(5 * PAGE, data)
            self.assertEqual(drive.read(4 * PAGE, 5 * PAGE), bytes(PAGE) + data + bytes(PAGE))
            drive.write(6 * PAGE + 512, b"x" * 512)
            expected = data[:PAGE + 512] + b"x" * 512 + data[PAGE + 1024:]
            self.assertEqual(drive.read(5 * PAGE, 3 * PAGE), expected)
            drive.close()

    def test_trims_whole_pages_only(self):
        with Server("size=16M") as server:
            drive = nbd.Client(server.path)
            data = os.urandom(4 * PAGE)
            drive.write(0, data)
            drive.flush()
            drive.trim(512, 3 * PAGE)
            self.assertEqual(drive.read(0, 4 * PAGE), data[:PAGE] + bytes(2 * PAGE) +
                             data[3 * PAGE:])
            drive.write(PAGE + 512, b"y" * 512)
            self.assertEqual(drive.read(PAGE, PAGE), bytes(512) + b"y" * 512 + bytes(PAGE - 1024))
            drive.close()

    def test_aged_drive_holds_noise_until_trimmed_or_written(self):
        with Server("size=16M", "aged=1", "seed=4") as server, \
             Server("size=16M", "aged=1", "seed=4") as twin, \
             Server("size=16M", "aged=1", "seed=5") as other:
            drive, same, different = [nbd.Client(each.path) for each in (server, twin, other)]
            noise = drive.read(0, MIB)
            self.assertNotIn(0, noise)
            self.assertEqual(same.read(0, MIB), noise)
            self.assertNotEqual(different.read(0, MIB), noise)
            self.assertNotEqual(noise[:PAGE], noise[PAGE:2 * PAGE])
            drive.write(512, b"z" * 512)
            self.assertEqual(drive.read(0, PAGE), noise[:512] + b"z" * 512 + noise[1024:PAGE])
            drive.trim(0, PAGE)
            self.assertEqual(drive.read(0, 2 * PAGE), bytes(PAGE) + noise[PAGE:2 * PAGE])
            for each in (drive, same, different):
                each.close()

    def test_liar_keeps_the_data(self):
        with Server("size=16M", "mode=liar") as server:
            drive = nbd.Client(server.path)
            data = os.urandom(PAGE)
            drive.write(0, data)
            drive.trim(0, MIB)
            self.assertEqual(drive.read(0, PAGE), data)
            self.assertEqual(server.events("trim")[0]["pages"], "0")
            drive.close()


class Timing(unittest.TestCase):
    def test_flush_takes_milliseconds_and_a_write_does_not_wait_for_it(self):
        with Server("size=16M", "flush_us=1000000") as server:
            drive, neighbour = nbd.Client(server.path), nbd.Client(server.path)
            drive.write(0, bytes(PAGE))
            begin = time.monotonic()
            flusher = threading.Thread(target=drive.flush)
            flusher.start()
            time.sleep(0.05)
            neighbour.write(MIB, bytes(PAGE))
            written = time.monotonic() - begin
            flusher.join()
            flushed = time.monotonic() - begin
            self.assertGreaterEqual(flushed, 1.0)
            self.assertLess(written, 0.8)
            drive.close()
            neighbour.close()

    def test_slow_trim_holds_up_a_flush(self):
        with Server("size=16M", "mode=slowtrim") as server:
            drive, neighbour = nbd.Client(server.path), nbd.Client(server.path)
            begin = time.monotonic()
            trimmer = threading.Thread(target=drive.trim, args=(0, 10 * MIB))
            trimmer.start()
            time.sleep(0.05)
            neighbour.flush()
            self.assertGreaterEqual(time.monotonic() - begin, 0.3)
            trimmer.join()
            drive.close()
            neighbour.close()

    def test_flushes_hang_while_the_file_exists(self):
        with tempfile.TemporaryDirectory() as directory:
            hang = os.path.join(directory, "hang")
            with Server("size=16M", f"hang_flush_file={hang}") as server:
                drive = nbd.Client(server.path)
                drive.flush()
                with open(hang, "w", encoding="utf-8"):
                    pass
                begin = time.monotonic()
                flusher = threading.Thread(target=drive.flush)
                flusher.start()
                flusher.join(0.3)
                self.assertTrue(flusher.is_alive())
                os.unlink(hang)
                flusher.join(10)
                self.assertFalse(flusher.is_alive())
                self.assertGreaterEqual(time.monotonic() - begin, 0.3)
                self.assertEqual(server.judge()["hangs"], 1)
                self.assertEqual(len(server.events("hang-end")), 1)
                drive.close()


class Log(unittest.TestCase):
    def test_says_what_happened_and_when(self):
        with Server("size=64M", "aged=1") as server:
            drive = nbd.Client(server.path)
            before = time.time()
            drive.write(0, bytes(8 * PAGE))
            drive.flush()
            drive.write(0, bytes(2 * PAGE), fua=True)
            drive.trim(MIB, 2 * MIB)
            after = time.time()
            drive.close()
            self.assertEqual(server.events("start")[0]["mapped"], str(64 * MIB // PAGE))
            flush = server.events("flush")[0]
            self.assertEqual((flush["pages"], flush["moved"], flush["erased"]), ("8", "0", "0"))
            self.assertGreaterEqual(int(flush["dur_us"]), int(flush["plan_us"]))
            self.assertGreaterEqual(int(flush["plan_us"]), 2000)
            self.assertEqual(server.events("fua")[0]["pages"], "2")
            trim = server.events("trim")[0]
            self.assertEqual((trim["off"], trim["len"], trim["pages"]),
                             (str(MIB), str(2 * MIB), "512"))
            for event in (flush, trim):
                self.assertGreaterEqual(int(event["real"]) / 1000, before - 0.01)
                self.assertLessEqual(int(event["real"]) / 1000, after + 0.01)
            self.assertEqual(server.events("write"), [])
            summary = server.judge()
            self.assertEqual((summary["flushes"], summary["trims"], summary["trimmed_bytes"]),
                             (1, 1, 2 * MIB))
            self.assertEqual(server.judge("--real", "--from", str(before), "--to",
                                          str(after))["flushes"], 1)

    def test_logs_writes_if_asked_to(self):
        with Server("size=16M", "log_writes=1") as server:
            drive = nbd.Client(server.path)
            drive.write(PAGE, bytes(2 * PAGE))
            drive.read(0, PAGE)
            drive.close()
            self.assertEqual(server.events("write")[0]["off"], str(PAGE))
            self.assertEqual(server.events("read")[0]["len"], str(PAGE))

    def test_collections_are_logged_from_start_to_end(self):
        with Server("size=32M", "aged=1", "move_us=0", "erase_us=0", "flush_us=0",
                    "program_us=0") as server:
            drive = nbd.Client(server.path)
            for offset in range(0, 32 * MIB, 5 * 64 * 1024):
                drive.write(offset, bytes(64 * 1024))
                drive.flush()
            for offset in range(0, 32 * MIB, 64 * 1024):
                drive.write(offset, bytes(64 * 1024))
                drive.flush()
            drive.close()
            starts, ends = server.events("gc-start"), server.events("gc-end")
            self.assertGreater(len(ends), 0)
            self.assertLessEqual(abs(len(starts) - len(ends)), 1)
            self.assertGreater(sum(int(event["erased"]) for event in ends), 0)

    def test_bad_parameters_are_refused_in_one_line(self):
        for parameters, word in ((["size=16M", "mode=quick"], "mode"), ([], "size"),
                                 (["size=16M", "log=/nonexistent/log"], "/nonexistent/log")):
            done = subprocess.run(["nbdkit", "-f", "-U", "-", PLUGIN, *parameters, "--run", "true"],
                                  capture_output=True, text=True, check=False,
                                  env=nbdkit_environment())
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class Judge(unittest.TestCase):
    """judge.py on a log whose figures are known."""

    def judge(self, lines, *arguments):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            log.write(lines)
            log.flush()
            return subprocess.run([sys.executable, os.path.join(HERE, "judge.py"), log.name,
                                   "--json", *arguments], capture_output=True, text=True,
                                  check=False)

    @staticmethod
    def flush(second, length):
        return (f"t={second:.6f} real={int(1000000 + second * 1000)} ev=flush dur_us={length} "
                f"plan_us={length - 5} pages=4 moved=1 erased=0 free=9 gc=0\n")

    def test_finds_bursts(self):
        lines = "".join(self.flush(second / 10, 2000) for second in range(0, 600))
        lines += "".join(self.flush(20.05 + second / 10, 8001) for second in range(40))
        lines += "".join(self.flush(50.05 + second / 10, 8000) for second in range(40))
        lines += self.flush(40.05, 9000)
        lines += "t=60.000000 real=1060000 ev=trim dur_us=3 plan_us=3 off=0 len=8192 pages=1 free=9\n"
        lines += "t=61.000000 real=1061000 ev=fl"
        done = self.judge(lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads(done.stdout)
        self.assertEqual(summary["flushes"], 681)
        self.assertEqual(summary["median_us"], 2000)
        self.assertEqual(summary["stalled"], 41)
        self.assertEqual(summary["worst_us"], 9000)
        self.assertEqual([burst["flushes"] for burst in summary["bursts"]], [40, 1])
        self.assertEqual(summary["long_bursts"], 1)
        self.assertAlmostEqual(summary["bursts"][0]["seconds"], 3.908, places=3)
        self.assertEqual((summary["trimmed_bytes"], summary["unmapped_bytes"]), (8192, 4096))
        self.assertEqual(summary["pages_moved"], 681)
        part = json.loads(self.judge(lines, "--from", "20", "--to", "24").stdout)
        self.assertEqual(part["flushes"], 41 + 40)
        same = json.loads(self.judge(lines, "--real", "--from", "1020", "--to", "1024").stdout)
        self.assertEqual(same, part)
        strict = json.loads(self.judge(lines, "--median-us", "1000").stdout)
        self.assertEqual(strict["stalled"], 81)

    def test_refuses_what_it_cannot_judge(self):
        for lines in ("", "t=1 real=2 ev=trim dur_us=1 plan_us=1 off=0 len=1 pages=0 free=1\n",
                      "what is this\n", "t=1.0 real=5\n"):
            done = self.judge(lines)
            self.assertEqual(done.returncode, 2, lines)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} PLUGIN [unittest arguments]")
    if not shutil.which("nbdkit"):
        print("skipped: nbdkit is not installed", file=sys.stderr)
        sys.exit(77)
    PLUGIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
