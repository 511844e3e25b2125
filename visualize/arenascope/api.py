# SPDX-License-Identifier: MIT
"""The Python API: `import arenascope` has all that is public here (docs/python-api.md).

Sizes are bytes, times are nanoseconds, None is what is not known. A number is exact, or Snapshot.exact is False and
Snapshot.caveats says why. What fails raises Error, whose `code` is the exit code that the command line has.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from arenascope.errors import ArenascopeError as Error
from arenascope.errors import Code
from arenascope.wire import commands
from arenascope.wire.how import How

# What needs numpy is loaded when it is asked for, as is most else: commands of the terminal begin here.
# ruff: noqa: PLC0415
if TYPE_CHECKING:
    from arenascope.compare import Comparison, Digest
    from arenascope.snapshot import Snapshot
    from arenascope.timeline.reader import Timeline
    from arenascope.wire.trace import Trace
    from arenascope.wire.trim_result import Trim

Mode = Literal["auto", "freeze", "clone", "live"]


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.9f}s"


def inspect(  # noqa: PLR0913 - each an option of the command line
    target: int | str | os.PathLike[str],
    *,
    mode: Mode = "auto",
    max_pause: float | None = None,
    chunks: bool = False,
    objects: bool = False,
    graph: bool = False,
    max_memory: int | None = None,
    force: bool = False,
) -> Snapshot:
    """Take a snapshot of a process (its PID) or of a core file; a dump file is opened as it is.

    `max_pause`: seconds that the process may stand still. `chunks`, `objects`, `graph`: what is read besides; the graph
    is what owners(), types() and leaks() need, and all memory is read for it. `max_memory`: bytes that arenadump may
    take. `force`: stop the process even where a seccomp filter may make that harmful. Error: see `code`.
    """
    from arenascope.snapshot import Snapshot, identity_of
    from arenascope.wire.snapshot import take_all

    memory = None if max_memory is None else str(max_memory)
    how = How(mode, _seconds(max_pause), memory, force=force, chunks=chunks, objects=objects, graph=graph)
    name = str(target) if isinstance(target, int) else os.fspath(target)
    remarks: list[str] = []
    if isinstance(target, os.PathLike) and name.isdigit():
        name = f"./{name}"  # digits alone are a PID
    process = identity_of(name)
    (taken,) = take_all([(name, how)], remarks.append)
    return Snapshot(name, taken.dump, from_dump=taken.from_dump, process=process, remarks=remarks)


def open_dump(path: str | os.PathLike[str]) -> Snapshot:
    """The snapshot in a dump file. Error: BAD_INPUT where it is no dump, or is damaged; NO_TARGET, DENIED."""
    from arenascope.snapshot import Snapshot
    from arenascope.wire.dump import Dump

    name = os.fsdecode(path)
    return Snapshot(name, Dump(name), from_dump=True)


def diff(before: Snapshot, after: Snapshot) -> Comparison:
    """What changed from one snapshot to another; see Comparison.notes for what the two differ in besides."""
    from arenascope.compare import compare

    return compare(_digest(before), _digest(after))


def _digest(snapshot: Snapshot) -> Digest:
    from arenascope.compare import digest_of
    from arenascope.profiles.site_digest import with_stacks

    return with_stacks(digest_of(snapshot.dump, snapshot.facts), snapshot.dump)


def trim(pid: int, *, deep: bool = False, max_hold: float | None = None, forecast_only: bool = False) -> Trim:
    """Return the free memory of a process to the kernel, or compute what would come back.

    The agent does this in the process; it is injected first if necessary, and a thread of it stays (docs/hazards.md).
    `deep`: also the tops of thread arenas. `max_hold`: seconds that an arena is locked at a time. Error: see `code`.
    """
    from arenascope.wire.trim_result import parse

    return parse(commands.trim(str(pid), deep=deep, forecast=forecast_only, max_hold=_seconds(max_hold)))


def profile(pid: int, seconds: float, *, exact: bool = False, rates: str | None = None) -> Snapshot:
    """Have a running process write down for so long who allocates, and take a snapshot that has the profile.

    `exact`: of every chunk. `rates`: as --rates of `arenascope profile`. The agent is injected as for trim().
    """
    from arenascope.snapshot import Snapshot, identity_of
    from arenascope.wire.dump import Dump

    with tempfile.TemporaryDirectory(prefix="arenascope-") as folder:
        path = str(Path(folder) / "dump")
        remarks: list[str] = []
        process = identity_of(str(pid))
        commands.profile(
            str(pid), output=path, duration=f"{seconds:.9f}s", rates=rates, exact=exact, remark=remarks.append
        )
        return Snapshot(str(pid), Dump(path), from_dump=False, process=process, remarks=remarks)


def read_timeline(path: str | os.PathLike[str]) -> Timeline:
    """The snapshots in the file of `arenascope watch`. Error: BAD_INPUT, NO_TARGET."""
    from arenascope.timeline.reader import read

    return read(os.fsdecode(path))


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """What the file of `arenascope run --trace` says. Error: BAD_INPUT, NO_TARGET."""
    from arenascope.wire.trace import parse, printed

    return parse(printed(os.fsdecode(path)))


__all__ = ["Code", "Error", "diff", "inspect", "open_dump", "profile", "read_timeline", "read_trace", "trim"]
