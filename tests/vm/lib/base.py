# SPDX-License-Identifier: Apache-2.0
"""The guest's base layer: Debian by mmdebstrap. A change here makes everybody's layer anew."""

import mirror
from common import run_command

LEFT_OUT = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/lintian/*",
    "/usr/share/bash-completion/*",
    "/usr/share/icons/*",
    "/usr/lib/x86_64-linux-gnu/gconv/*",
)


def build(root, packages):
    sources = mirror.sources()
    if any("https://" in line for line in sources):
        packages = [*packages, "ca-certificates"]
    options = [
        *mirror.options(),
        'APT::Install-Recommends "false";',
        'Acquire::Languages "none";',
        'Acquire::GzipIndexes "true";',
    ]
    run_command(
        "mmdebstrap",
        "--variant=minbase",
        "--format=directory",
        "--skip=cleanup/apt/lists",
        f"--include={','.join(packages)}",
        *(f"--aptopt={option}" for option in options),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT),
        "--dpkgopt=force-unsafe-io",
        mirror.SUITE,
        root,
        *sources,
        progress="guest base",
    )
