# SPDX-License-Identifier: Apache-2.0
"""One guest from start to end: QEMU, the ports through which it talks, and what becomes of it."""

import contextlib
import io
import json
import os
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from common import RunnerError, run_command, say
from drives import die_with_parent

BOOT_LIMIT = 300.0  # seconds until the script begins; an idle machine needs a tenth of it
SHUTDOWN_LIMIT = 120.0  # seconds from the script's end to the end of QEMU
TIMED_OUT, GUEST_FAILED = 124, 125
HOOK_GRACE = 10.0  # seconds that the host hook has to end by itself after the guest
SERIAL_LINES_SHOWN = 40

KERNEL_ARGUMENTS = (
    # loglevel: the journal has every line; warnings and worse are on the console for a kernel that
    # cannot log any more.
    "console=ttyS0 loglevel=5 panic=1 panic_on_warn=1 oops=panic "
    # Boot time: no workarounds for processors that are not there, no self-tests, no waiting for
    # grace periods.
    "mitigations=off random.trust_cpu=on cryptomgr.notests "
    "rcupdate.rcu_expedited=1 rcupdate.rcu_normal_after_boot=1 "
    "audit=0 8250.nr_uarts=1 tsc=reliable no_timer_check systemd.show_status=0 net.ifnames=0"
)


@dataclass
class Options:
    """What a run is asked to do; paths are absolute."""

    script: Path
    memory: int = 1024
    timeout: float = 600.0
    multi: bool = False
    qemu: list = field(default_factory=list)
    environment: list = field(default_factory=list)  # NAME=VALUE
    put: list = field(default_factory=list)  # host paths
    get: list = field(default_factory=list)  # (guest path, host path)
    host_hook: str = ""
    hook_folder: str = ""  # where the hook runs
    power_cut_ok: bool = False


def write_cargo(options, target):
    """Writes the tar that the guest's agent unpacks."""

    def add(archive, name, data):
        info = tarfile.TarInfo(name)
        info.size, info.mtime = len(data), int(time.time())
        archive.addfile(info, io.BytesIO(data))

    with tarfile.open(target, "w") as archive:
        add(archive, "script", options.script.read_bytes())
        pairs = (pair.partition("=") for pair in options.environment)
        environment = "".join(f"{name}={shlex.quote(value)}\n" for name, _, value in pairs)
        add(archive, "environment", os.fsencode(environment))
        add(archive, "wanted", os.fsencode("".join(f"{guest}\n" for guest, _ in options.get)))
        for path in options.put:
            archive.add(path, f"put/{path.name}")


def send_cargo(connection, cargo):
    """Sends length and tar through the cargo port; QEMU takes it as fast as the guest reads."""
    with connection, open(cargo, "rb") as stream, contextlib.suppress(OSError):
        connection.sendall(f"{cargo.stat().st_size}\n".encode())
        connection.sendfile(stream)
        connection.recv(1)  # until QEMU ends: an early close could be seen before the data


class Guest:
    """Runs in the current folder, which receives all files of the run."""

    def __init__(self, options, kernel, initrd, root_disk, drive_arguments):
        self._options = options
        self._kernel = kernel
        self._initrd = initrd
        self._root_disk = root_disk
        self._drive_arguments = drive_arguments
        self._children = []
        self._selector = selectors.DefaultSelector()
        self._streams = {}
        self.status = None  # of the script
        self.began = None  # monotonic time of the script's begin
        self._completed = False  # the wanted files are out
        self._end_reason = ""  # QEMU's word for why the guest went down

    # --- start

    def _listen(self, name):
        """A socket that QEMU connects to; the runner reads the other end from the first byte on."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{name}.sock")
        listener.listen(1)
        self._streams[name] = listener
        return f"socket,id={name},path={name}.sock"

    def _arguments(self):
        options = self._options
        ports = {name: self._listen(name) for name in ("cargo", "output", "status")}
        ports["journal"] = "file,id=journal,path=journal.txt"
        ports["hook"] = "socket,id=hook,path=hook.sock,server=on,wait=off"
        for number in range(len(options.get)):
            ports[f"get{number}"] = f"file,id=get{number},path=get{number}.tar"
        arguments = [
            "qemu-system-x86_64",
            "-name",
            "nvmaint-vm",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-machine",
            "q35,usb=off,smbus=off,sata=off,vmport=off",
            "-cpu",
            "max",
            "-accel",
            f"tcg,thread={'multi' if options.multi else 'single'}",
            "-smp",
            "2",
            "-m",
            f"{options.memory}M",
            "-no-reboot",
            "-nic",
            "none",
            "-serial",
            "file:serial.log",
            "-kernel",
            str(self._kernel),
            "-initrd",
            str(self._initrd),
            "-append",
            KERNEL_ARGUMENTS,
            "-qmp",
            "unix:qmp.sock,server=on,wait=off",
            "-chardev",
            self._listen("control"),
            "-mon",
            "chardev=control,mode=control",
            "-drive",
            f"file={self._root_disk},if=none,id=root,format=qcow2,cache=unsafe,discard=unmap",
            "-device",
            "virtio-blk-pci,drive=root,addr=0x4",
            "-device",
            f"virtio-serial-pci,addr=0x6,max_ports={len(ports) + 2}",
        ]
        for name, chardev in ports.items():
            arguments += [
                "-chardev",
                chardev,
                "-device",
                f"virtserialport,chardev={name},name={name}",
            ]
        return arguments + self._drive_arguments + options.qemu

    def start(self):
        write_cargo(self._options, Path("cargo.tar"))
        with open("qemu.stderr", "wb") as errors:
            self._qemu = subprocess.Popen(
                self._arguments(),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._children.append(self._qemu)
        self._exit_fd = os.pidfd_open(self._qemu.pid)
        self._selector.register(self._exit_fd, selectors.EVENT_READ, "end")
        for name, listener in self._streams.items():
            self._selector.register(listener, selectors.EVENT_READ, ("accept", name))
        self._hook = None
        if self._options.host_hook:
            here = Path.cwd()
            environment = dict(
                os.environ,
                NVMAINT_VM_DIR=str(here),
                NVMAINT_VM_QMP=str(here / "qmp.sock"),
                NVMAINT_VM_PORT=str(here / "hook.sock"),
            )
            try:
                self._hook = subprocess.Popen(
                    [self._options.host_hook],
                    stdin=subprocess.DEVNULL,
                    env=environment,
                    cwd=self._options.hook_folder,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            except OSError as error:
                raise RunnerError(
                    f"host hook {self._options.host_hook}: {error.strerror}"
                ) from error
            self._children.append(self._hook)

    # --- events

    def _on_status(self, line):
        word, _, rest = line.partition(" ")
        if word == "begin":
            self.began = time.monotonic()
            # The guest read whole seconds from its clock at boot; logs of both sides are compared
            # with this.
            Path("clock-offset").write_text(f"{time.time() - float(rest):+.3f}\n", encoding="ascii")
            say(f"system up, script begins ({self.began - self._started:.0f} s after start)")
        elif word == "exit":
            self.status = int(rest)
            self._ended = time.monotonic()
        elif word == "done":
            self._completed = True

    def _on_control(self, line):
        message = json.loads(line)
        if message.get("event") == "SHUTDOWN":
            self._end_reason = message["data"].get("reason", "")

    def _receive(self, name, connection, pending):
        try:
            data = connection.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self._selector.unregister(connection)
            connection.close()
            return
        if name == "output":
            self._output.write(data)
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        pending += data
        while b"\n" in pending:
            line, _, rest = bytes(pending).partition(b"\n")
            pending[:] = rest
            (self._on_status if name == "status" else self._on_control)(
                line.decode(errors="replace").strip()
            )

    def _dispatch(self, timeout):
        """Handles what is there; says whether QEMU has ended."""
        ended = False
        for key, _ in self._selector.select(timeout):
            if key.data == "end":
                ended = True
            elif key.data[0] == "accept":
                connection, _ = key.fileobj.accept()
                self._selector.unregister(key.fileobj)
                key.fileobj.close()
                if key.data[1] == "cargo":
                    threading.Thread(
                        target=send_cargo, args=(connection, Path("cargo.tar")), daemon=True
                    ).start()
                    continue
                self._selector.register(
                    connection, selectors.EVENT_READ, ("data", key.data[1], bytearray())
                )
                if key.data[1] == "control":
                    connection.sendall(b'{"execute":"qmp_capabilities"}\n')
            else:
                self._receive(key.data[1], key.fileobj, key.data[2])
        return ended

    def run(self):
        """Follows the guest to its end and returns the runner's exit status."""
        self._started = time.monotonic()
        self._ended = None
        with open("output.log", "wb") as self._output:
            while True:
                now = time.monotonic()
                if self.status is not None:
                    limit = self._ended + SHUTDOWN_LIMIT
                else:
                    limit = self._started + self._options.timeout
                    if self.began is None:
                        limit = min(limit, self._started + BOOT_LIMIT)
                if now >= limit:
                    return self._late(now)
                if self._dispatch(min(limit - now, 5.0)):
                    while self._selector.get_map() and len(self._selector.get_map()) > 1:
                        before = len(self._selector.get_map())
                        self._dispatch(0.2)
                        if len(self._selector.get_map()) == before:
                            break
                    return self._verdict()

    # --- the end

    def _late(self, now):
        if self.status is not None:
            self.show_serial()
            say(
                f"the guest did not power off within {SHUTDOWN_LIMIT:.0f} s of the script's end "
                f"(its status: {self.status})"
            )
            return GUEST_FAILED
        if now - self._started >= self._options.timeout:
            self.show_serial()
            say(
                f"timeout: the script was not done after {self._options.timeout:g} s"
                + ("" if self.began else " (it had not begun)")
            )
            return TIMED_OUT
        self.show_serial()
        say(f"the system was not up after {BOOT_LIMIT:.0f} s")
        return GUEST_FAILED

    def _verdict(self):
        status = self._qemu.wait()
        if status != 0 and not self._end_reason:
            text = Path("qemu.stderr").read_text(encoding="utf-8", errors="replace")
            sys.stderr.write(text)
            say(f"QEMU ended with status {status}")
            return GUEST_FAILED
        if any("Kernel panic" in line for line in serial_lines()):
            self.show_serial()
            say("the guest's kernel panicked")
            return GUEST_FAILED
        if self.status is None:
            if self._options.power_cut_ok and self.began is not None:
                say(f"the guest went down ({self._end_reason}), as was allowed")
                return self._hook_status(0)
            self.show_serial()
            reason = self._end_reason or "no reason given"
            say(f"the guest went down before the script's end ({reason})")
            return GUEST_FAILED
        return self._hook_status(self._fetch(self.status))

    def _fetch(self, status):
        """Brings the wanted files to the host; what is missing fails a run that else succeeded."""
        for number, (guest, host) in enumerate(self._options.get):
            archive = Path(f"get{number}.tar")
            if not self._completed or archive.stat().st_size == 0:
                say(f"{guest} was not in the guest")
                status = status or GUEST_FAILED
                continue
            folder = Path(f"get{number}")
            folder.mkdir()
            run_command("tar", "-xf", archive, "-C", folder)
            (found,) = folder.iterdir()
            host.parent.mkdir(parents=True, exist_ok=True)
            run_command(
                "cp",
                "-a",
                "--sparse=always",
                "-T",
                found,
                host / found.name if host.is_dir() else host,
            )
            run_command("rm", "-rf", folder, archive)
        return status

    def _hook_status(self, status):
        """A failed hook fails a run that else succeeded; close() ends one that still runs."""
        if self._hook is None:
            return status
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._hook.wait(HOOK_GRACE)
        if self._hook.returncode:
            say(f"the host hook ended with status {self._hook.returncode}")
            return status or 1
        return status

    def show_serial(self):
        """The last lines of the serial console, for a guest that did not end well."""
        for line in serial_lines()[-SERIAL_LINES_SHOWN:]:
            print(f"vm: serial: {line}", file=sys.stderr)

    def close(self):
        for child in self._children:
            end_process(child)


def serial_lines():
    """The serial console so far."""
    try:
        text = Path("serial.log").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return text.replace("\r", "").splitlines()


def end_process(process, grace=3.0):
    """Ends a process that leads a group of its own, with all it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            continue
