# SPDX-License-Identifier: MIT
"""The files of a package of a distribution, out of a wheel: where each lies below /, and with which mode and time."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """#!/usr/bin/python3
import sys

sys.path.insert(0, "{site}")
try:
    import click
except ModuleNotFoundError as missing:
    sys.exit(f"arenascope: {{missing}}: install python3-click. arenadump needs no Python: arenadump summary PID")
from arenascope.__main__ import run

run()
"""


@dataclass(frozen=True)
class Release:
    """What all packages of a commit share."""

    version: str
    seconds: int  # when the commit was made, since 1970
    maintainer: str
    share: Path  # what manual.py makes

    def date(self, form: str) -> str:
        """The day of the commit, as strftime writes it in English."""
        return datetime.fromtimestamp(self.seconds, timezone.utc).strftime(form)


def run(*command: str | Path) -> str:
    """Return what it printed. Raises CalledProcessError."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def install(release: Release, wheel: Path, root: Path, site: str) -> None:
    """Lay the files of `wheel` out below `root`, modules in `site`. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(wheel) as archive:
        archive.extractall(scratch)
        (programs,) = Path(scratch).glob("*.data")
        _place(programs / "scripts/arenadump", root / "usr/bin/arenadump")
        _place(programs / "scripts/libarenascope.so", root / "usr/lib/arenascope/libarenascope.so")
        shutil.rmtree(programs)
        shutil.copytree(scratch, root / site.lstrip("/"), copy_function=shutil.copyfile)
    (root / "usr/bin/arenascope").write_text(SCRIPT.format(site=site), encoding="ascii")
    _place(ROOT / "packaging/arenascope-exporter.service", root / "usr/lib/systemd/system/arenascope-exporter.service")
    shutil.copytree(release.share, root / "usr/share")
    notes = root / "usr/share/doc/arenascope"
    (notes / "changelog.gz").write_bytes(gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))
    licences = f"{site}/arenascope-{release.version}.dist-info/licenses/linked"
    linked = f"\nThe licences of what is linked into arenadump: {licences}\n"
    (notes / "copyright").write_text((ROOT / "LICENSE").read_text(encoding="utf-8") + linked, encoding="utf-8")
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    date(root, release.seconds)


def date(root: Path, seconds: int) -> None:
    """Give all below `root` this time."""
    for path in [*root.rglob("*"), root]:
        os.utime(path, (seconds, seconds), follow_symlinks=False)


def _place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
