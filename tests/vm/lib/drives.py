# SPDX-License-Identifier: Apache-2.0
"""The guest's NVMe drives: --drive SPECs, the images behind them, and the servers of simulated ones."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from common import CHECKOUT, RunnerError

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
        raise RunnerError(f"drive {spec!r}: expected one of {', '.join(('fresh', *SIMULATED))} =SIZE, or nbd=SOCKET")
    size, *pairs = rest.split(",")
    drive = Drive(number, kind, size=parse_size(size))
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or kind == "fresh":
            raise RunnerError(f"drive {spec!r}: {pair!r} is not a parameter of it")
        drive.parameters[name] = value
    return drive


def _plugin():
    path = Path(os.environ.get("NVMAINT_SSDSIM") or CHECKOUT / "build/release/tests/ssdsim/ssdsim.so").resolve()
    if not path.is_file():
        raise RunnerError(f"simulated drives need {path}: ./dev build makes it (or set NVMAINT_SSDSIM)")
    return path


def _start_server(drive):
    """Starts nbdkit for a simulated drive in the current folder and waits until it listens."""
    parameters = {"size": str(drive.size), **SIMULATED[drive.kind], "seed": str(drive.number + 1),
                  "log": f"drive{drive.number}.log", **drive.parameters}
    drive.socket = f"drive{drive.number}.sock"
    command = ["nbdkit", "--foreground", "--unix", drive.socket, str(_plugin()),
               *(f"{name}={value}" for name, value in parameters.items())]
    with open(f"drive{drive.number}.stderr", "wb") as errors:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                                  start_new_session=True, preexec_fn=die_with_parent)
    return server


def _await_server(drive, server):
    limit = time.monotonic() + SERVER_START_LIMIT
    while True:
        if server.poll() is not None:
            text = Path(f"drive{drive.number}.stderr").read_text(encoding="utf-8", errors="replace").strip()
            raise RunnerError(f"drive {drive.number}: nbdkit ended: {text.splitlines()[-1] if text else 'no message'}")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(drive.socket)
                return
            except (FileNotFoundError, ConnectionRefusedError):
                pass
        if time.monotonic() > limit:
            raise RunnerError(f"drive {drive.number}: nbdkit does not listen after {SERVER_START_LIMIT:.0f} s")
        time.sleep(0.05)


def start(drives, keep, children):
    """Makes the images and starts the servers; appends processes to `children` as they start.

    `keep` is the folder in which images outlive the run, or None. Returns QEMU's arguments.
    """
    servers = []
    for drive in drives:
        if drive.kind in SIMULATED:
            server = _start_server(drive)
            children.append(server)
            servers.append((drive, server))
    for drive, server in servers:
        _await_server(drive, server)
    arguments = []
    for drive in drives:
        if drive.kind == "fresh":
            image = (keep or Path.cwd()) / f"drive{drive.number}.raw"
            if image.exists() and image.stat().st_size != drive.size:
                raise RunnerError(f"{image} was kept with another size than --drive says")
            with open(image, "ab") as stream:
                stream.truncate(drive.size)
            # The host's page cache is the medium: flushes that reached the host's disk would time that disk.
            backend = f"file={_escape(image)},cache=unsafe"
        else:
            backend = f"file=nbd+unix:///?socket={_escape(drive.socket)},cache=none"
        name = f"vm{drive.number}"
        arguments += ["-drive", f"{backend},if=none,id={name},format=raw,discard=unmap",
                      "-device", f"nvme,id=nvme-{name},serial={name},drive={name},addr={0x10 + drive.number:#x}"]
    return arguments


def _escape(path):
    """QEMU's option syntax: a comma is written twice."""
    return str(path).replace(",", ",,")
