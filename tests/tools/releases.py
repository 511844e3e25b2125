# SPDX-License-Identifier: MIT
"""What `make release` makes of this commit, made once for all tests that use it."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

from . import debian
from .paths import ROOT

MACHINES = debian.MACHINES
PROGRAMS = ("inspector/cli/arenadump", "inspector/agent/libarenascope.so")
PLACE = ROOT / ".cache/release"


def make(tree: Path, folder: Path) -> Path:
    """Run packaging/release.py of a tree. Raises CalledProcessError."""
    subprocess.run([sys.executable, str(tree / "packaging/release.py"), str(folder)], check=True)
    return folder


def dist() -> Path:
    """The folder, made of the programs that are built. It is made anew where they, or the commit, are others."""
    digest = hashlib.sha256(
        subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    )
    for arch in MACHINES:
        for program in PROGRAMS:
            digest.update((ROOT / f"build-static-{arch}" / program).read_bytes())
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        noted = PLACE / "made-of"
        if not noted.exists() or noted.read_text() != digest.hexdigest():
            noted.unlink(missing_ok=True)
            make(ROOT, PLACE / "dist")
            noted.write_text(digest.hexdigest())
    return PLACE / "dist"
