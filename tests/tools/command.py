# SPDX-License-Identifier: MIT
"""The `arenascope` command, run as people run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PARK = "import sys; print('.', flush=True); sys.stdin.read()"
"""A Python that waits until its stdin ends."""


def arenascope(
    *arguments: object, arenadump: Path | str | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160"}
    if arenadump:
        environment["ARENASCOPE_ARENADUMP"] = str(arenadump)
    command = [sys.executable, "-m", "arenascope", *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": 120, "env": environment, **options}
    done: subprocess.CompletedProcess[str] = subprocess.run(command, check=False, **options)
    return done
