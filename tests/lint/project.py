# SPDX-License-Identifier: Apache-2.0
"""What the checks share: where the project's files are, which room may use which, and how a tree was compiled."""

import json
import os
import shlex
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent

# Room → the rooms whose headers it may include, besides its own. values ← core ← {config, collect, act, state, bus,
# report, log} ← loop; collect and act also use admin; siblings never include one another.
USES = {
    "values": (),
    "admin": ("values",),
    "core": ("values",),
    "config": ("core", "values"),
    "collect": ("core", "values", "admin"),
    "act": ("core", "values", "admin"),
    "state": ("core", "values"),
    "bus": ("core", "values"),
    "report": ("core", "values"),
    "log": ("core", "values"),
    "loop": ("core", "values", "admin", "config", "collect", "act", "state", "bus", "report", "log"),
    "ctl": ("core", "values", "admin", "config", "collect", "state", "report"),
}
PARENTS = {"values": "libnvme-ext", "admin": "libnvme-ext"}


def room_folder(room):
    """The folder of a room, below the checkout."""
    return f"{PARENTS.get(room, 'service')}/{room}"


def room_of(path):
    """The room a file (relative to the checkout) belongs to, or None."""
    parts = Path(path).parts
    if len(parts) >= 3 and parts[1] in USES and parts[0] == PARENTS.get(parts[1], "service"):
        return parts[1]
    return None


def files(root=CHECKOUT):
    """Every file of the project as a sorted list of paths relative to `root`; what builds leave behind is not of it."""
    found = []
    for folder, folders, names in os.walk(root):
        relative = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if name not in (".git", "__pycache__")
                      and not (relative == Path(".") and name == "build")]
        found += [relative / name for name in names if not (Path(folder) / name).is_symlink()]
    return sorted(found)


def sources(*suffixes):
    """The project's files with one of the suffixes."""
    return [path for path in files() if path.suffix in suffixes]


def scripts(*interpreters, root=CHECKOUT):
    """The project's files whose first line names one of the interpreters."""
    found = []
    for path in files(root):
        with open(root / path, "rb") as stream:
            first = stream.readline(200)
        if first.startswith(b"#!") and first.split()[0 if b" " not in first else -1].rsplit(b"/", 1)[-1].decode(
                "ascii", "replace") in interpreters:
            found.append(path)
    return found


def compile_commands(tree):
    """File relative to the checkout → the arguments it is compiled with in a build tree, less compiler and output."""
    path = Path(tree) / "compile_commands.json"
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        sys.exit(f"{path} is missing: build the tree first")
    commands = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        while not words[0].startswith("-"):  # a launcher such as ccache, then the compiler
            words.pop(0)
        kept, skip = [], 0
        for word in words:
            if skip:
                skip -= 1
            elif word in ("-o", "-c"):
                skip = 1
            else:
                kept.append(word)
        commands.setdefault(Path(os.path.relpath(entry["file"], CHECKOUT)), kept)
    return commands


def room_flags(commands, room):
    """The arguments with which a room's own sources are compiled, or None where the tree has none of them."""
    for path, words in commands.items():
        if room_of(path) == room and any(word.rstrip("/").endswith(f"/rooms/{room}") for word in words):
            return [word for word in words if not word.startswith("-fsanitize")]
    return None
