# SPDX-License-Identifier: Apache-2.0
"""Where this machine gets its Debian from: the guest is fetched from the same place."""

import glob
import os
import re
from pathlib import Path

from common import RunnerError, run_command, say

SUITE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# How to reach a mirror (proxies, retries, snapshots whose Release is old) is the machine's business
# and is handed on; what to fetch from it is ours.
HANDED_ON = re.compile(
    r"Acquire::(http|https|ftp|Retries|Check-Valid-Until|Check-Date|ForceIPv[46]|By-Hash)\b", re.I
)


def _targets():
    text = run_command(
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI)|$(RELEASE)|$(LABEL)|$(COMPONENT)|$(FILENAME)",
        "Created-By: Packages",
        "Origin: Debian",
    )
    return [
        dict(zip(("uri", "release", "label", "component", "filename"), line.split("|")))
        for line in text.splitlines()
        if line.count("|") == 4
    ]


def targets():
    """The package indexes of Debian that apt knows here; refreshed once if there are none."""
    found = _targets()
    if not found:
        say("apt has no package lists yet: apt-get update")
        run_command("apt-get", "update")
        found = _targets()
    if not found:
        raise RunnerError("no Debian mirror found in apt's sources of this machine")
    return found


def sources(suite=SUITE):
    """sources.list lines: the suite, its updates and security as far as this machine has them."""
    known = targets()
    lines = [
        f"deb [signed-by={KEYRING}] {t['uri']} {t['release']} main"
        for t in known
        if t["component"] == "main"
        and t["release"] in (suite, f"{suite}-updates", f"{suite}-security")
    ]
    if not any(f" {suite} " in line for line in lines):
        lines.insert(0, f"deb [signed-by={KEYRING}] {main_uri()} {suite} main")
    return lines


def main_uri():
    """The URI of the archive proper, from which every suite of Debian can be asked."""
    for target in targets():
        if target["label"] == "Debian":
            return target["uri"]
    raise RunnerError("no Debian archive found in apt's sources of this machine")


def options():
    """apt options to hand on, as `Name "value";` lines."""
    text = run_command("apt-config", "dump")
    return [
        line for line in text.splitlines() if HANDED_ON.match(line) and not line.endswith(' "";')
    ]


def release_id():
    """The suite's Release file: changes with a point release or another snapshot."""
    for target in targets():
        if target["label"] == "Debian" and target["release"] == SUITE:
            prefix = target["filename"].split(f"_dists_{SUITE}_")[0] + f"_dists_{SUITE}_"
            for path in sorted(glob.glob(glob.escape(prefix) + "*Release")):
                return Path(path).read_text(encoding="utf-8", errors="replace")
    return SUITE


class PrivateApt:
    """An apt with a state of its own: asks suites that this machine does not use."""

    def __init__(self, folder, extra_suites=()):
        self.folder = folder
        for name in ("lists/partial", "archives/partial", "preferences.d"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        lines = sources() + [
            f"deb [signed-by={KEYRING}] {main_uri()} {suite} main" for suite in extra_suites
        ]
        (folder / "sources.list").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / "apt.conf").write_text(
            "\n".join(
                options()
                + [
                    f'Dir::State::Lists "{folder}/lists/";',
                    f'Dir::State::status "{folder}/status";',
                    f'Dir::Cache "{folder}/";',
                    f'Dir::Etc::SourceList "{folder}/sources.list";',
                    'Dir::Etc::SourceParts "-";',
                    f'Dir::Etc::PreferencesParts "{folder}/preferences.d";',
                    'Acquire::Languages "none";',
                    'Acquire::GzipIndexes "true";',
                    'APT::Sandbox::User "root";',
                ]
            )
            + "\n",
            encoding="utf-8",
        )

    def _run(self, *command, **options_):
        return run_command(
            *command, env=dict(os.environ, APT_CONFIG=str(self.folder / "apt.conf")), **options_
        )

    def update(self):
        self._run("apt-get", "update", "-o", "APT::Update::Error-Mode=any")

    def kernel_package(self, release):
        """The newest stock amd64 image of a release such as `6.12`, or None."""
        pattern = rf"linux-image-{re.escape(release)}[.][0-9]+[^ ]*-amd64"
        text = self._run("apt-cache", "search", "--names-only", f"^{pattern}$")
        names = [line.split()[0] for line in text.splitlines()]
        names = [
            name
            for name in names
            if re.fullmatch(pattern, name) and not re.search("-(rt|cloud)-", name)
        ]
        return max(
            names, key=lambda name: [int(part) for part in re.findall("[0-9]+", name)], default=None
        )

    def with_parts(self, package):
        """The package and its parts (newer images come as base, binary and modules)."""
        found = [package]
        version = package.removeprefix("linux-image-")
        for name in found:
            text = self._run("apt-cache", "depends", "--important", name)
            for part in re.findall(r"Depends: (linux-(?:image|base|binary|modules)[^ \n]*)", text):
                if version in part and part not in found:
                    found.append(part)
        return found

    def download(self, package, folder):
        self._run("apt-get", "download", package, cwd=folder)
        return next(folder.glob(f"{package}_*.deb"))


def extract(package, folder):
    """Unpacks a Debian package's files without installing it."""
    run_command("dpkg-deb", "-x", package, folder)
