# SPDX-License-Identifier: MIT
"""The Python API: `import arenascope` has all that is public here (docs/python-api.md).

Sizes are bytes, times are nanoseconds, None is what is not known. A number is exact, or Snapshot.exact is False and
Snapshot.caveats says why. What fails raises Error, whose `code` is the exit code that the command line has.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Callable, Final, Generic, Literal, TypedDict, TypeVar, Union

from arenascope.errors import ArenascopeError as Error  # noqa: F401 - the package has both from here
from arenascope.errors import Code, PartialError  # noqa: F401
from arenascope.wire import commands
from arenascope.wire.how import How

# What needs numpy is loaded when it is asked for, as is most else: each command of the terminal is a client of this.
# ruff: noqa: PLC0415
if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Unpack

    from arenascope.compare import Comparison, Digest
    from arenascope.snapshot import Snapshot
    from arenascope.timeline.reader import Timeline
    from arenascope.wire.agent_answers import Inject, Trim
    from arenascope.wire.graph import Leaks, Owners, Types, Why
    from arenascope.wire.profile_json import ReadProfile
    from arenascope.wire.summary import Summary
    from arenascope.wire.trace import Trace

T = TypeVar("T")
Mode = Literal["auto", "freeze", "clone", "live"]
Seconds = Union[float, str]  # or as the command line has a time: "20ms"
Size = Union[int, str]  # bytes, or "2G"
Target = Union[int, str, "os.PathLike[str]"]  # a PID; a path of a core or of a dump file. Digits alone are a PID


class Options(TypedDict, total=False):
    """How a target is read. None is the default. Of a dump file nothing is read anew."""

    mode: Mode | None
    max_pause: Seconds | None  # for how long the process may stand still; else DENIED
    max_memory: Size | None  # what arenadump may take; else NO_MEMORY
    layout_source: str | None  # where the layout of malloc may come from: "symtab,decode"
    force: bool  # stop the process even where a seccomp filter may make that harmful
    chunks: bool | None  # of a snapshot: single chunks, too
    objects: bool | None  # of a snapshot: Python's or Ruby's objects by type
    graph: bool | None  # of a snapshot: who holds the chunks in use. All memory is read for it


class Answer(Generic[T]):
    """What arenadump answered: its text (`json`, to the byte), and the same typed (`facts`)."""

    def __init__(self, json: str, kind: type[T], partial: str | None = None) -> None:
        """`partial`: why it is about the smaller part only, as heaps of other allocators are not searched."""
        self.json: Final = json
        self.partial: Final = partial
        self._kind: Final = kind

    @cached_property
    def facts(self) -> T:
        """All that the text says. Error INTERNAL: it is of another version."""
        from arenascope.wire.json_decode import parse

        return parse(self._kind, self.json)


def _seconds(value: Seconds | None) -> str | None:
    return value if value is None or isinstance(value, str) else f"{value:.9f}s"


def _how(options: Options) -> How:
    """TypeError: there is no option of that name."""
    given: dict[str, Any] = {**options, "max_pause": _seconds(options.get("max_pause"))}
    memory = options.get("max_memory")
    return How(**{**given, "max_memory": None if memory is None else str(memory)})


def _name(target: Target) -> str:
    """A target as arenadump's command line has it."""
    if isinstance(target, int):
        return str(target)
    return f"./{name}" if (name := os.fspath(target)).isdigit() and not isinstance(target, str) else name


def summary(target: Target, **options: Unpack[Options]) -> Answer[Summary]:
    """What holds a target's memory: what a Snapshot's `facts` are, without the snapshot."""
    from arenascope.wire.summary import Summary

    return Answer(commands.summary(_name(target), _how(options)), Summary)


def _of_graph(ask: Callable[[str, How], str], kind: type[T], target: Target, options: Options) -> Answer[T]:
    try:
        return Answer(ask(_name(target), _how(options)), kind)
    except PartialError as error:
        return Answer(error.printed, kind, str(error))


def owners(target: Target, **options: Unpack[Options]) -> Answer[Owners]:
    """Who holds the chunks in use of a process or a core: all owners, where a Snapshot has the largest."""
    from arenascope.wire.graph import Owners

    return _of_graph(commands.owners, Owners, target, options)


def types(target: Target, **options: Unpack[Options]) -> Answer[Types]:
    """What the chunks in use of a process or a core are."""
    from arenascope.wire.graph import Types

    return _of_graph(commands.types, Types, target, options)


def leaks(target: Target, **options: Unpack[Options]) -> Answer[Leaks]:
    """The chunks in use of a process or a core that nothing points to."""
    from arenascope.wire.graph import Leaks

    return _of_graph(commands.leaks, Leaks, target, options)


def why(target: Target, address: int | str, **options: Unpack[Options]) -> Answer[Why]:
    """The shortest path from an owner to the chunk at an address of a process or a core."""
    from arenascope.wire.graph import Why

    place = hex(address) if isinstance(address, int) else address
    return Answer(commands.why(_name(target), place, _how(options)), Why)


def dump(target: Target, output: str | os.PathLike[str] | int, **options: Unpack[Options]) -> None:
    """Write a dump of a process or a core into a file (mode 0600), or into an open one, given as its descriptor."""
    stdout = output if isinstance(output, int) else None
    path = "-" if isinstance(output, int) else os.fspath(output)
    commands.dump(_name(target), _how(options), "./-" if path == "-" and stdout is None else path, stdout=stdout)


def inspect(target: Target, **options: Unpack[Options]) -> Snapshot:
    """Take a snapshot of a process or a core; a dump file is opened as it is. Error: see `code`."""
    (snapshot,) = inspect_all([(target, options)])
    return snapshot


def inspect_all(asked: Iterable[tuple[Target, Options]], remark: Callable[[str], None] | None = None) -> list[Snapshot]:
    """As inspect() of each, in turn; arenadump checks all dump files at once.

    `remark`: gets at once what arenadump says besides, which Snapshot.remarks has, too.
    """
    from arenascope.snapshot import Snapshot, identity_of
    from arenascope.wire.snapshot import take_all

    named = [(_name(target), _how(options)) for target, options in asked]
    processes = [identity_of(name) for name, _ in named]
    taken = take_all(named, remark or (lambda _: None))
    return [Snapshot(name, each, process) for (name, _), each, process in zip(named, taken, processes)]


def open_dump(path: str | os.PathLike[str]) -> Snapshot:
    """The snapshot in a dump file. Error: BAD_INPUT where it is no dump, or is damaged; NO_TARGET, DENIED."""
    from arenascope.snapshot import Snapshot
    from arenascope.wire.snapshot import open_taken

    name = os.fsdecode(path)
    return Snapshot(name, open_taken(name))


def diff(before: Snapshot | Digest, after: Snapshot | Digest) -> Comparison:
    """What changed from one snapshot to another; see Comparison.notes for what the two differ in besides."""
    from arenascope.compare import compare

    return compare(_digest(before), _digest(after))


def _digest(snapshot: Snapshot | Digest) -> Digest:
    from arenascope.compare import Digest, digest_of
    from arenascope.profiles.site_digest import with_stacks

    if isinstance(snapshot, Digest):
        return snapshot
    return with_stacks(digest_of(snapshot.dump, snapshot.facts), snapshot.dump)


def trim(  # noqa: PLR0913 - each an option of the command line
    pid: int | str,
    *,
    deep: bool = False,
    forecast_only: bool = False,
    max_hold: Seconds | None = None,
    max_pause: Seconds | None = None,
    arena: int | str | None = None,
    watch: Seconds | None = None,
    timeout: Seconds | None = None,
    force: bool = False,
) -> Answer[Trim]:
    """Return the free memory of a process to the kernel, or compute what would come back.

    The agent does this in the process; it is injected first if necessary, and a thread of it stays (docs/hazards.md).
    `deep`: also the tops of thread arenas. `max_hold`: for how long an arena is locked at a time. `max_pause`: of the
    forecast. `arena`: the address of one, which alone is trimmed. `watch`: after what time to count what is resident
    again. `timeout`, `force`: as of inject().
    """
    from arenascope.wire.agent_answers import Trim

    times = {"max-hold": max_hold, "max-pause": max_pause, "watch": watch, "timeout": timeout}
    flags = {"deep": deep, "forecast": forecast_only, "force": force}
    place = hex(arena) if isinstance(arena, int) else arena
    options = {**{name: _seconds(time) for name, time in times.items()}, **flags, "arena": place}
    return Answer(commands.trim(str(pid), options), Trim)


def inject(pid: int | str, *, timeout: Seconds | None = None, force: bool = False) -> Answer[Inject]:
    """Load the agent into a process, where a thread of it stays (docs/hazards.md).

    `timeout`: for how long to search for a thread that can load it safely (DENIED after that; the default is 10 s).
    `force`: also where a seccomp filter may kill the process for it, or with few mappings left.
    """
    from arenascope.wire.agent_answers import Inject

    return Answer(commands.inject(str(pid), {"timeout": _seconds(timeout), "force": force}), Inject)


def profile(pid: int, seconds: float, *, exact: bool = False, rates: str | None = None) -> Snapshot:
    """Have a running process write down for so long who allocates, and take a snapshot that has the profile.

    `exact`: of every chunk. `rates`: as --rates of `arenascope profile`. The agent is injected as by inject().
    """
    from arenascope.snapshot import Snapshot, identity_of
    from arenascope.wire.snapshot import take_profile

    process = identity_of(str(pid))
    taken = take_profile(str(pid), {"for": _seconds(seconds), "rates": rates, "exact": exact})
    return Snapshot(str(pid), taken, process)


def read_profile(target: Target, **options: Unpack[Options]) -> Answer[ReadProfile]:
    """The profile of a process, a core or a dump file. Error UNSUPPORTED: it has none."""
    from arenascope.wire.profile_json import ReadProfile

    return Answer(commands.sites(_name(target), _how(options)), ReadProfile)


def read_timeline(path: str | os.PathLike[str]) -> Timeline:
    """The snapshots in the file of `arenascope watch`. Error: BAD_INPUT, NO_TARGET."""
    from arenascope.timeline.reader import read

    return read(os.fsdecode(path))


def read_instant(path: str | os.PathLike[str], when: str = "last", *, named: bool = False) -> Digest:
    """What such a file has of one time, for diff(): "first", "last", "-10m", "14:03"; "last,PID" of one process.

    `named`: of the last snapshot until then that has types and owners. Error: BAD_INPUT, NO_TARGET, USAGE.
    """
    from arenascope.timeline.reader import digest_at

    return digest_at(os.fsdecode(path), when, named=named)


def read_trace(path: str | os.PathLike[str]) -> Answer[Trace]:
    """What the file of `arenascope run --trace` says. Error: BAD_INPUT, NO_TARGET."""
    from arenascope.wire.trace import Trace

    return Answer(commands.trace(os.fsdecode(path)), Trace)
