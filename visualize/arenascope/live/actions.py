# SPDX-License-Identifier: MIT
"""What the keys of the live view do to a process. Each returns the line that tells what came of it."""

from __future__ import annotations

import io
import time
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Final

from arenascope import api
from arenascope.errors import ArenascopeError
from arenascope.humanize import printable, size
from arenascope.wire import commands

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
    api.dump(process.pid, name)
    return f"{name}: written"


def report(process: Process) -> str:
    """Write a report into the current directory."""
    name = new_file(process, "html")
    commands.report_of(str(process.pid), name)
    return f"{name}: open it in a browser"


def trim(process: Process) -> str:
    """Have the process return its free memory."""
    done = api.trim(process.pid).facts
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
