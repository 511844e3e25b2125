# SPDX-License-Identifier: MIT
"""Java virtual machines (HotSpot) that are installed here."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

PLACES = Path("/usr/lib/jvm")


@dataclass(frozen=True)
class Jvm:
    """A JDK."""

    release: int
    home: Path

    def __str__(self) -> str:
        return str(self.release)

    def tool(self, name: str) -> str:
        return str(self.home / "bin" / name)

    def ask(self, pid: int, *command: str) -> str:
        """What the JVM with that PID answers to jcmd."""
        done = subprocess.run([self.tool("jcmd"), str(pid), *command], capture_output=True, text=True, check=True)
        return done.stdout


def _installed() -> list[Jvm]:
    """One of each release, with its tools."""
    found = {}
    for note in sorted(PLACES.glob("*/release")):
        release = re.search(r'^JAVA_VERSION="(\d+)', note.read_text(), re.MULTILINE)
        if release and (note.parent / "lib/server/libjvm.so").exists() and (note.parent / "bin/jcmd").exists():
            found[int(release[1])] = Jvm(int(release[1]), note.parent)
    return [found[release] for release in sorted(found)]


JVMS = _installed()
"""At least one where scripts/install-deps has run: Debian's default-jdk-headless."""


def required() -> Jvm:
    """The oldest one. Skips the test where there is none."""
    if not JVMS:
        pytest.skip(f"no JDK in {PLACES} (Debian: default-jdk-headless)")
    return JVMS[0]
