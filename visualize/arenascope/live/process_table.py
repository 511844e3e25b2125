# SPDX-License-Identifier: MIT
"""Every process of the machine: what /proc tells at once of all, and what the last snapshot told of each."""

from __future__ import annotations

import enum
import os
import pwd
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.coverage import shortened
from arenascope.errors import ArenascopeError, Code
from arenascope.processes import PROC, Process, all_processes, cgroups_of, is_in_parents_memory
from arenascope.watch.loop import LOST
from arenascope.watch.poll import still, summary_of
from arenascope.wire.json_types import Unsigned  # noqa: TC001 - the schema is made from it

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from arenascope.processes import Identity
    from arenascope.wire.how import How
    from arenascope.wire.summary import Summary

PAGE: Final = os.sysconf("SC_PAGESIZE")
AGAIN: Final = 60.0  # seconds until a process at which no snapshot was possible is tried again


class Standing(enum.Enum):
    """What is known of a process."""

    WAITING = "waiting"  # its first snapshot is still to come
    TAKEN = "taken"
    DENIED = "denied"  # we may not inspect it
    FAILED = "failed"  # a snapshot was not possible for another reason


@dataclass(frozen=True)
class Figures:
    """What a snapshot told. Bytes; None: not known."""

    at: float  # time.monotonic()
    time_ns: int
    quick: int  # the kernel's quick count of Rss at that time
    mode: str
    exact: bool
    rss: int | None
    swap: int | None
    rows: Mapping[str, int | None]  # by the names of known.SHORT

    @classmethod
    def of(cls, summary: Summary, quick: int) -> Figures:
        """Returns the figures of a snapshot that has just been taken."""
        snapshot, kernel = summary.snapshot, summary.kernel
        rows = shortened(summary.ledger.held)
        now = time.monotonic(), time.time_ns()
        return cls(*now, quick, snapshot.mode, snapshot.exact, kernel.rss, kernel.swap, rows)


@dataclass(frozen=True)
class Entry:
    """A process that has memory of its own."""

    process: Process
    uid: int | None
    cmdline: str
    cgroup: str
    standing: Standing = Standing.WAITING
    why: str | None = None  # there is no snapshot
    code: int | None = None  # an errors.Code: likewise
    figures: Figures | None = None  # of the last snapshot that was possible
    tried: float | None = None  # time.monotonic() of the last attempt
    cost: float | None = None  # seconds of processor time that it took

    @property
    def identity(self) -> Identity:
        """Which process it is."""
        return self.process.identity

    @property
    def quick(self) -> int:
        """The kernel's quick count of its Rss, bytes."""
        return self.process.rss * PAGE


class Census(NamedTuple):
    """Who is there."""

    processes: Unsigned  # With memory of their own, whatever the filter.
    denied: Unsigned
    failed: Unsigned
    waiting: Unsigned
    kernel_threads: Unsigned
    zombies: Unsigned
    vforked: Unsigned  # Processes that run in their parent's memory (vfork).


def user_name(uid: int | None) -> str:
    """The name of a user, else the number."""
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name if uid is not None else ""
    return str(uid)


def _may_inspect(pid: int) -> bool:
    """Whether the kernel lets us read its memory: it asks the same as for a debugger."""
    try:
        os.close(os.open(f"{PROC}/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:
        return True  # it ends just now: the snapshot says so
    return True


def whole_snapshot(process: Process, how: How) -> Figures | None:
    """A snapshot. None: the process has ended. ArenascopeError: a snapshot is not possible."""
    summary = summary_of(process, how)
    return None if summary is None else Figures.of(summary, process.rss * PAGE)


class Processes:
    """The processes. `entries` is replaced and never changed: another thread may read it at any time."""

    def __init__(self, how: How, only: Callable[[Process], bool] | None = None) -> None:
        """`only`: of which processes."""
        self.how, self.only = how, only
        self.entries: dict[Identity, Entry] = {}
        self.kernel_threads = self.zombies = self.vforked = 0

    def scan(self) -> None:
        """Who is there now."""
        everything = all_processes(zombies=True)
        entries: dict[Identity, Entry] = {}
        kernel = zombies = vforked = 0
        for process in everything.values():
            if self.only and not self.only(process):
                continue
            kernel += process.kernel
            zombies += process.zombie
            if process.kernel or process.zombie:
                continue
            if process.identity not in self.entries and is_in_parents_memory(process):
                vforked += 1
            else:
                entries[process.identity] = self._entry(process)
        self.entries, self.kernel_threads, self.zombies, self.vforked = entries, kernel, zombies, vforked

    def _entry(self, process: Process) -> Entry:
        before = self.entries.get(process.identity)
        if before and before.process.comm == process.comm:
            return replace(before, process=process)
        # Another name: it may have become another program, perhaps another user's.
        cgroups = cgroups_of(process.pid)
        entry = Entry(process, process.uid, process.cmdline, max(cgroups, key=len, default=""))
        return entry if _may_inspect(process.pid) else self._denied(entry)

    @staticmethod
    def _denied(entry: Entry) -> Entry:
        whose = f" of {user_name(entry.uid)}" if entry.uid not in {None, os.geteuid()} else ""
        why = f"no permission to inspect this process{whose}: run as root"
        return replace(entry, standing=Standing.DENIED, why=why, code=Code.DENIED, tried=time.monotonic())

    def take_snapshot(self, identity: Identity, cost: Callable[[], float]) -> None:
        """Inspect one of them. `cost`: processor time until now, seconds."""
        entry = self.entries.get(identity)
        if entry is None:
            return
        begun, spent = time.monotonic(), cost()
        standing, why, code, figures = Standing.TAKEN, None, None, entry.figures
        if not _may_inspect(entry.process.pid):
            self._put(self._denied(entry))
            return
        try:
            figures = whole_snapshot(entry.process, self.how)
        except ArenascopeError as error:
            if error.code in LOST or not still(entry.process):
                figures = None
            else:
                why, code = str(error).splitlines()[0], error.code
                standing = Standing.DENIED if error.code == Code.DENIED else Standing.FAILED
        if figures is None and standing is Standing.TAKEN:
            self.entries = {each: held for each, held in self.entries.items() if each != identity}
            return
        took = cost() - spent
        self._put(replace(entry, standing=standing, why=why, code=code, figures=figures, tried=begun, cost=took))

    def _put(self, entry: Entry) -> None:
        self.entries = {**self.entries, entry.identity: entry}

    def next(self, wanted: Callable[[Entry], bool], visible: Collection[Identity], every: float) -> Entry | None:
        """Which process is next: of which a snapshot tells most for what it costs. None: each snapshot is fresh.

        `wanted`: which are inspected at all.
        """
        now = time.monotonic()
        costs = [entry.cost for entry in self.entries.values() if entry.cost]
        usual = sum(costs) / len(costs) if costs else 1.0
        due = [entry for entry in self.entries.values() if _due(entry, now, every) and wanted(entry)]
        return max(due, key=lambda entry: _worth(entry, now, entry.identity in visible, usual), default=None)

    def census(self) -> Census:
        """How many there are of whom."""
        stand = [entry.standing for entry in self.entries.values()]
        denied, failed, waiting = (stand.count(kind) for kind in (Standing.DENIED, Standing.FAILED, Standing.WAITING))
        return Census(len(stand), denied, failed, waiting, self.kernel_threads, self.zombies, self.vforked)


def _due(entry: Entry, now: float, every: float) -> bool:
    if entry.tried is None:
        return True
    return now - entry.tried >= (every if entry.standing is Standing.TAKEN else max(every, AGAIN))


VISIBLE: Final = 4  # so many times is a snapshot worth at what is on the screen
FIRST: Final = 1e6  # likewise at what had none
LEAST: Final = 1 << 16  # bytes: what may have changed although Rss has not


def _worth(entry: Entry, now: float, visible: bool, usual: float) -> float:  # noqa: FBT001 - a fact of it
    """Bytes that may be others than at the last snapshot, and how long ago this was; for a second of processor time."""
    if entry.figures is None or entry.tried is None:
        return FIRST * (VISIBLE if visible else 1) * (LEAST + entry.quick)
    changed = abs(entry.quick - entry.figures.quick) + entry.quick / 64 + LEAST
    return changed * (now - entry.tried) * (VISIBLE if visible else 1) / (entry.cost or usual)
