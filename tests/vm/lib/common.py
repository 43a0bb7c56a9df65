# SPDX-License-Identifier: Apache-2.0
"""What the parts of the machine room share: messages, commands, content hashes, the build cache."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

VM_DIR = Path(__file__).resolve().parent.parent
CHECKOUT = VM_DIR.parent.parent
IMAGE_DIR = VM_DIR / "image"


class RunnerError(Exception):
    """The run cannot go on; the text is one line for the user."""


def say(text):
    """Prints a progress line; stdout belongs to the guest's script."""
    print(f"vm: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text):
    """Announces a long step and says how long it took."""
    say(f"{text} …")
    started = time.monotonic()
    yield
    say(f"{text}: done in {time.monotonic() - started:.0f} s")


def run_command(*command, progress=None, **options):
    """Runs a command quietly and returns its stdout; on failure its whole output is shown.

    With `progress` (a prefix), lines that the command prints are shown while it runs.
    """
    command = [str(part) for part in command]
    options.setdefault("stdin", subprocess.DEVNULL)
    try:
        if progress is None:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, **options
            )
            status, output, shown = done.returncode, done.stdout, done.stdout + done.stderr
        else:
            lines = []
            with subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                **options,
            ) as process:
                for line in process.stdout:
                    lines.append(line)
                    if line.startswith("I: ") or line.startswith("E: "):
                        say(f"{progress}: {line[3:].rstrip()}")
                status = process.wait()
            output = shown = "".join(lines)
    except FileNotFoundError as error:
        raise RunnerError(f"{command[0]} is not installed") from error
    if status != 0:
        sys.stderr.write(shown)
        raise RunnerError(f"{command[0]} failed with status {status} (its output stands above)")
    return output


def content_key(*parts):
    """Hashes strings and files (Path) into a short name; the order counts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else str(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


def cache_dir():
    """The folder of built layers; NVMAINT_CACHE lets several checkouts share one."""
    path = Path(os.environ.get("NVMAINT_CACHE") or CHECKOUT / "build/vm/cache").resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def build_lock():
    """One build at a time in one cache; whoever waits says so."""
    with open(cache_dir() / "lock", "w", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build of the guest image")
            fcntl.flock(handle, fcntl.LOCK_EX)
        for stale in cache_dir().glob("tmp-*"):
            remove_tree(stale)
        yield


def remove_tree(path):
    """Removes a tree without ever leaving its file system, should something be mounted in it."""
    if path.exists():
        run_command("rm", "-rf", "--one-file-system", "--", path)


@contextlib.contextmanager
def new_layer(name):
    """A folder to build a layer in; named only when complete. Needs the build lock."""
    work = cache_dir() / f"tmp-{os.getpid()}-{name}"
    remove_tree(work)
    work.mkdir()
    try:
        yield work
        os.rename(work, cache_dir() / name)
    finally:
        remove_tree(work)


def require_tools(*tools):
    missing = [
        tool
        for tool in tools
        if shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None
    ]
    if missing:
        raise RunnerError(f"not installed: {', '.join(missing)} (./dev vm installs what is needed)")
