# SPDX-License-Identifier: MIT
"""What the keys of the live view do to a process. Each returns the line that tells what came of it."""

from __future__ import annotations

import io
import sys
import time
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Final

from arenascope.errors import ArenascopeError
from arenascope.humanize import printable, size
from arenascope.wire.arenadump import run_arenadump, run_program
from arenascope.wire.trim_result import parse

if TYPE_CHECKING:
    from arenascope.processes import Process

Action = Callable[["Process"], str]


def new_file(process: Process, kind: str) -> str:
    """A name in the current directory that no file has yet."""
    stem = f"arenascope-{process.pid}-{time.strftime('%Y%m%d-%H%M%S')}"
    return next(
        name
        for name in (f"{stem}{more}.{kind}" for more in ("", *(f"-{number}" for number in range(2, 1000))))
        if not Path(name).exists()
    )


def dump(process: Process) -> str:
    """Write a dump into the current directory."""
    name = new_file(process, "dump")
    run_arenadump(["dump", "--output", name, "--", str(process.pid)])
    return f"{name}: written"


def report(process: Process) -> str:
    """Write a report into the current directory. In a program of its own: drawing it takes seconds."""
    name = new_file(process, "html")
    run_program([sys.executable, "-m", "arenascope", "report", "--output", name, "--", str(process.pid)])
    return f"{name}: open it in a browser"


def trim(process: Process) -> str:
    """Have the process return its free memory."""
    done = parse(run_arenadump(["trim", "--json", "--", str(process.pid)]))
    note = f"; {done.note}" if done.note else ""
    if not done.trimmed:
        return f"process {done.pid} was not trimmed (forecast: {size(done.forecast)}){note}"
    return f"process {done.pid} returned {size(done.returned)} (forecast: {size(done.forecast)}){note}"


ACTIONS: Final[dict[str, Action]] = {"dump": dump, "report": report, "trim": trim}


def carried_out(name: str, process: Process, action: Action) -> str:
    """Do it, and tell what came of it, a failure too."""
    try:
        with redirect_stderr(io.StringIO()):
            return printable(action(process))
    except (ArenascopeError, OSError) as error:
        return printable(f"{name} of process {process.pid} failed: {str(error).splitlines()[0]}")
