# SPDX-License-Identifier: Apache-2.0
"""The guest's NVMe drives: --drive SPECs, the images behind them, servers of simulated ones."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from common import CHECKOUT, RunnerError, run_command

# kind → parameters of the simulated drive
SIMULATED = {
    "aged": {"mode": "client", "aged": "1"},
    "plp": {"mode": "plp", "aged": "1"},
    "liar": {"mode": "liar", "aged": "1"},
    "slowtrim": {"mode": "slowtrim", "aged": "1"},
}
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SERVER_START_LIMIT = 120.0  # seconds; ageing a large drive takes a while
PR_SET_PDEATHSIG = 1
CHUNK, PAGE = 1 << 20, 4096


def die_with_parent():
    """For preexec_fn: the child is killed when the runner dies, however it dies (prctl(2))."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Drive:
    number: int
    kind: str
    size: int = 0
    socket: str = ""
    parameters: dict = field(default_factory=dict)
    plugin: Path = None


def parse_size(text):
    match = re.fullmatch(r"([0-9]+)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if not match or int(match[1]) == 0:
        raise RunnerError(f"drive size {text!r}: expected a number with K, M, G or T")
    return int(match[1]) * UNITS[match[2].upper()]


def parse(number, spec):
    """Reads `KIND=SIZE[,NAME=VALUE…]` or `nbd=SOCKET`."""
    kind, equals, rest = spec.partition("=")
    if equals and kind == "nbd" and rest:
        return Drive(number, kind, socket=os.path.abspath(rest))
    if not equals or kind not in ("fresh", *SIMULATED):
        raise RunnerError(
            f"drive {spec!r}: expected {'|'.join(('fresh', *SIMULATED))}=SIZE or nbd=SOCKET"
        )
    size, *pairs = rest.split(",")
    drive = Drive(number, kind, size=parse_size(size))
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or kind == "fresh":
            raise RunnerError(f"drive {spec!r}: {pair!r} is not a parameter of it")
        drive.parameters[name] = value
    if kind in SIMULATED:
        drive.plugin = _plugin()
    return drive


def _plugin():
    path = Path(
        os.environ.get("NVMAINT_SSDSIM") or CHECKOUT / "build/release/tests/ssdsim/ssdsim.so"
    ).resolve()
    if not path.is_file():
        raise RunnerError(
            f"simulated drives need {path}: ./dev build makes it (or set NVMAINT_SSDSIM)"
        )
    return path


def _start_server(drive):
    """Starts nbdkit for a simulated drive in the current folder and waits until it listens."""
    parameters = {
        "size": str(drive.size),
        **SIMULATED[drive.kind],
        "seed": str(drive.number + 1),
        "log": f"drive{drive.number}.log",
        **drive.parameters,
    }
    drive.socket = f"drive{drive.number}.sock"
    command = [
        "nbdkit",
        "--foreground",
        "--unix",
        drive.socket,
        str(drive.plugin),
        *(f"{name}={value}" for name, value in parameters.items()),
    ]
    with open(f"drive{drive.number}.stderr", "wb") as errors:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    return server


def _await_server(drive, server):
    limit = time.monotonic() + SERVER_START_LIMIT
    while True:
        if server.poll() is not None:
            text = (
                Path(f"drive{drive.number}.stderr")
                .read_text(encoding="utf-8", errors="replace")
                .strip()
            )
            reason = text.splitlines()[-1] if text else "no message"
            raise RunnerError(f"drive {drive.number}: nbdkit ended: {reason}")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(drive.socket)
                return
            except (FileNotFoundError, ConnectionRefusedError):
                pass
        if time.monotonic() > limit:
            raise RunnerError(
                f"drive {drive.number}: nbdkit does not listen after {SERVER_START_LIMIT:.0f} s"
            )
        time.sleep(0.05)


def start(drives, keep, children):
    """Makes the images and starts the servers; appends processes to `children` as they start.

    `keep` is the folder in which images outlive the run, or None. Returns QEMU's arguments.
    """
    servers = []
    for drive in drives:
        saved = _saved(drive, keep)
        if saved and drive.size and saved.exists() and saved.stat().st_size != drive.size:
            raise RunnerError(f"{saved} was kept with another size than --drive says")
        if drive.kind in SIMULATED:
            server = _start_server(drive)
            children.append(server)
            servers.append((drive, server))
    for drive, server in servers:
        _await_server(drive, server)
        saved = _saved(drive, keep)
        if saved and saved.exists():
            _restore(drive, saved)
    arguments = []
    for drive in drives:
        if drive.kind == "fresh":
            image = _saved(drive, keep) or Path(f"drive{drive.number}.raw")
            with open(image, "ab") as stream:
                stream.truncate(drive.size)
            # The host's page cache is the medium: flushes that reached the host's disk would time
            # that disk.
            backend = f"file={_escape(image)},cache=unsafe"
        else:
            backend = f"file={_escape(_url(drive))},cache=none"
        name = f"vm{drive.number}"
        arguments += [
            "-drive",
            f"{backend},if=none,id={name},format=raw,discard=unmap",
            "-device",
            f"nvme,id=nvme-{name},serial={name},drive={name},addr={0x10 + drive.number:#x}",
        ]
    return arguments


def _url(drive):
    return f"nbd+unix:///?socket={drive.socket}"


def _saved(drive, keep):
    return keep / f"drive{drive.number}.raw" if keep else None


def save(drives, keep):
    """Copies the contents of simulated drives (their servers still run) to the next run's place.

    Pages that the drive does not map become holes.
    """
    for drive in drives:
        if drive.kind in SIMULATED:
            fresh = keep / f"drive{drive.number}.new"
            run_command("qemu-img", "convert", "-f", "raw", _url(drive), "-O", "raw", fresh)
            os.replace(fresh, _saved(drive, keep))


def _ranges(stream, size):
    """(start, end, is data) of a sparse file, in order."""
    at = 0
    while at < size:
        try:
            data = os.lseek(stream.fileno(), at, os.SEEK_DATA)
        except OSError:  # ENXIO: no data up to the end
            data = size
        if data > at:
            yield at, data, False
        if data < size:
            at = os.lseek(stream.fileno(), data, os.SEEK_HOLE)
            yield data, at, True
        else:
            at = size


def _restore(drive, saved):
    """Brings a drive that was just aged to what an earlier run left.

    Trims what was not mapped, then writes what differs. Ageing depends on the seed alone, so the
    pages that the earlier run never touched are where they were.
    """
    sys.path.insert(0, str(CHECKOUT / "tests/ssdsim"))
    import nbd

    client = nbd.Client(drive.socket)
    with open(saved, "rb") as stream:
        for data_too in (False, True):
            for start, end, is_data in _ranges(stream, drive.size):
                if is_data != data_too:
                    continue
                for at in range(start, end, CHUNK):
                    length = min(CHUNK, end - at)
                    if not is_data:
                        client.trim(at, length)
                        continue
                    stream.seek(at)
                    wanted, found = stream.read(length), client.read(at, length)
                    for page in range(0, length, PAGE) if wanted != found else ():
                        if wanted[page : page + PAGE] != found[page : page + PAGE]:
                            client.write(at + page, wanted[page : page + PAGE])
    client.flush()
    client.close()


def _escape(path):
    """QEMU's option syntax: a comma is written twice."""
    return str(path).replace(",", ",,")
