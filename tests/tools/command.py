# SPDX-License-Identifier: MIT
"""The `arenascope` command, run as people run it, or in this process."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PARK = "import sys; print('.', flush=True); sys.stdin.read()"
"""A Python that waits until its stdin ends."""
WIDTH = "160"


def arenascope(
    *arguments: object, arenadump: Path | str | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": WIDTH}
    if arenadump:
        environment["ARENASCOPE_ARENADUMP"] = str(arenadump)
    command = [sys.executable, "-m", "arenascope", *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": 120, "env": environment, **options}
    done: subprocess.CompletedProcess[str] = subprocess.run(command, check=False, **options)
    return done


def here(
    *arguments: object, arenadump: Path | str | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """As arenascope(), in this process: to start Python and load what a command needs takes longer than most commands.

    For what a command says and writes. How it starts and ends, and what it does with signals and streams, is a
    process's; and what becomes another program (run, profile -o) would become it here.
    """
    from arenascope.cli.main import main  # noqa: PLC0415 - where nothing else loads it, tests do without click

    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", WIDTH)
        if arenadump:
            patch.setenv("ARENASCOPE_ARENADUMP", str(arenadump))
        if cwd:
            patch.chdir(cwd)
        patch.setattr("sys.stdin", io.StringIO())
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    return subprocess.CompletedProcess([str(argument) for argument in arguments], code, out.getvalue(), err.getvalue())
