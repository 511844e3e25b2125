# SPDX-License-Identifier: MIT
"""A Python that has what `pip install arenascope` brings and no more: a folder of links, and no site-packages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from .paths import ROOT


def required() -> list[str]:
    """What arenascope requires: with the extra of each, as its metadata has them."""
    return metadata.requires("arenascope") or []


def closure(requirements: Iterable[str], extra: str = "") -> dict[str, metadata.Distribution]:
    """All that these bring, by name."""
    found: dict[str, metadata.Distribution] = {}
    for each in map(Requirement, requirements):
        if not each.marker or each.marker.evaluate({"extra": extra}):
            own = metadata.distribution(each.name)
            found |= {each.name.lower(): own, **closure(own.requires or [])}
    return found


class Plain:
    """Runs arenascope with links to the packages of a plain installation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for each in closure(required()).values():
            for top in {file.parts[0] for file in each.files or [] if not file.parts[0].startswith("..")}:
                if not (folder / top).exists():
                    (folder / top).symlink_to(Path(str(each.locate_file(top))))

    def run(self, *arguments: object, arenadump: Path, **options: Any) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(ROOT / "visualize"), str(self.folder)])
        environment = {**os.environ, "PYTHONPATH": path, "ARENASCOPE_ARENADUMP": str(arenadump)}
        command = [sys.executable, "-S", "-m", "arenascope", *map(str, arguments)]
        options = {"capture_output": True, "text": True, "env": environment, **options}
        done: subprocess.CompletedProcess[str] = subprocess.run(command, check=False, **options)
        return done
