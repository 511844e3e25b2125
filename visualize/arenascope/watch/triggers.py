# SPDX-License-Identifier: MIT
"""When a watch keeps a dump: at a peak, after growth, after allocations, at a limit of Rss or a cgroup, at stalls."""

from __future__ import annotations

import re
import resource
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.coverage import total
from arenascope.humanize import size
from arenascope.processes import files_of
from arenascope.rows import HELD_ROWS
from arenascope.watch.cgroup import cgroups_of, fullest, mounts
from arenascope.watch.memory_pressure import ABSENT, Notice, Notices
from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from arenascope.processes import Identity, Process
    from arenascope.watch.kernel_events import Alarms
    from arenascope.wire.dump import Dump
    from arenascope.wire.summary import Summary

IN_USE: Final = "in use"
RESIDENT: Final = "resident"  # where it is unknown what is in use
STEP: Final = 1 / 32  # a peak is higher than the one before by so much,
LEAST: Final = 1 << 20  # and by so many bytes
AGAIN: Final = 15 / 16  # of a limit: below this, the limit can be met anew
UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
TIMES: Final = {"us": 1e6, "ms": 1e3, "s": 1.0}  # in a second
PAGE: Final = resource.getpagesize()
UNPROFILED: Final = (
    "not known without a profile with samples (`arenascope run --profile`, or `arenascope profile PID -o FILE`)"
)


class When(NamedTuple):
    """A condition."""

    kind: str  # peak, growth, allocated, rss, cgroup, oom, pressure
    amount: float = 0  # bytes; of a cgroup: its share; of pressure: seconds within a second


def parse_when(text: str) -> tuple[When, ...] | None:
    """Conditions as they are typed: peak,+64M,allocated=1G,rss=1G,cgroup=90%,oom,pressure=10ms. None: not."""
    found = [_parse(word) for word in text.split(",")]
    return None if None in found else tuple(dict.fromkeys(each for each in found if each))


def _parse(word: str) -> When | None:
    if word in {"peak", "oom"}:
        return When(word)
    match = re.fullmatch(r"pressure=([0-9]{1,6})(us|ms|s)", word)
    if match:
        stall = int(match[1]) / TIMES[match[2]]
        return When("pressure", stall) if 0 < stall <= 1 else None
    match = re.fullmatch(r"(\+|allocated=|rss=)([0-9]{1,15})([KMG]?)", word)
    if match and int(match[2]):
        return When({"+": "growth"}.get(match[1], match[1][:-1]), int(match[2]) * UNITS[match[3]])
    match = re.fullmatch(r"cgroup=([0-9]{1,2}|100)%", word)
    return When("cgroup", int(match[1]) / 100) if match and int(match[1]) else None


class Allocated(NamedTuple):
    """What a profile has sampled."""

    since: int  # when it began: time.time_ns()
    bytes: int


class Triggers:
    """The conditions, and which of them each process has met."""

    def __init__(self, whens: Sequence[When]) -> None:
        """Takes the conditions, which are for all processes of a watch."""
        self._whens: Final = whens
        # What a process held when it last had a dump, by measure: a number is compared with its like.
        self._marks: dict[tuple[When, Identity], dict[str, int]] = {}
        self._allocated: dict[tuple[When, Identity], Allocated] = {}  # until its last dump
        self._met: set[tuple[When, Identity | str]] = set()  # limits, until they are far again
        self._pending: dict[Identity, list[Notice]] = {}
        kinds = {when.kind for when in whens}
        self.polls: Final = not kinds.isdisjoint({"rss", "cgroup", "oom", "pressure"})
        self._mounts: Final = mounts() if self.polls else []
        stalls = [when.amount for when in whens if when.kind == "pressure"]
        self._notices: Final = Notices(min(stalls, default=None), oom="oom" in kinds)
        self._cgroups_of: dict[Identity, str] = {}  # as they were: one that was killed has none
        self._absent: dict[str, None] = {}
        self._reported_absent: Final[set[str]] = set()

    @property
    def alarms(self) -> Alarms:
        """Files that wake a wait for the next poll."""
        return self._notices.alarms

    def poll(self, processes: Sequence[Process]) -> bool:
        """Whether a limit has been met, without a snapshot. `processes`: the largest first; a cgroup's dump is its."""
        before = {identity: len(reasons) for identity, reasons in self._pending.items()}
        for when in self._whens:
            if when.kind == "rss":
                for process in processes:
                    self._limit(when, process, process.identity, _rss(process.pid), when.amount, RESIDENT)
            elif when.kind == "cgroup":
                self._cgroups(when, processes)
        if self._notices.kinds:
            self._notice(processes)
        return any(len(reasons) > before.get(identity, 0) for identity, reasons in self._pending.items())

    def _cgroups(self, when: When, processes: Sequence[Process]) -> None:
        done: set[str] = set()
        for process in processes:
            cgroups = self._cgroups_with(process)
            fill = None if cgroups in done else fullest(cgroups, self._mounts)
            done.add(cgroups)
            if fill:
                most = when.amount * fill.limit
                self._limit(when, process, fill.cgroup, fill.used, most, f"in {fill.cgroup}, of {size(fill.limit)}")

    def _cgroups_with(self, process: Process) -> str:
        now = cgroups_of(process.pid)
        if now:
            self._cgroups_of[process.identity] = now
        return now or self._cgroups_of.get(process.identity, "")

    def _notice(self, processes: Sequence[Process]) -> None:
        done: set[str] = set()
        for process in processes:
            cgroups = self._cgroups_with(process)
            if not cgroups or cgroups in done:
                continue
            done.add(cgroups)
            news, absent = self._notices.of(cgroups, self._mounts)
            self._pending.setdefault(process.identity, []).extend(news)
            self._absent.update(
                {f"{kind}, process {process.pid} ({process.comm}): {ABSENT[kind]}": None for kind in absent}
            )

    def _limit(  # noqa: PLR0913, PLR0917 - a comparison and its words
        self, when: When, process: Process, whose: Identity | str, used: int | None, limit: float, what: str
    ) -> None:
        key = (when, whose)
        if used is None:
            return
        if used < AGAIN * limit:
            self._met.discard(key)
        elif used >= limit and key not in self._met:
            self._met.add(key)
            self._pending.setdefault(process.identity, []).append(Notice(when.kind, f"{size(used)} {what}"))

    def due(self, process: Process, summary: Summary, dump: Dump) -> list[Notice]:
        """Why the snapshot of a process is worth a dump; empty: it is not."""
        reasons = self._pending.pop(process.identity, [])
        measured = {IN_USE: held_by(summary), RESIDENT: summary.kernel.rss}
        known = {measure: number for measure, number in measured.items() if number is not None}
        for when in self._whens:
            if known and when.kind in {"peak", "growth"}:
                marks = self._marks.setdefault((when, process.identity), {})
                measure, number = next(iter(known.items()))
                mark = marks.setdefault(measure, number)  # the first snapshot is where it begins
                step = when.amount or max(LEAST, STEP * mark)
                if number >= mark + step:
                    marks.clear()
                    reasons.append(Notice(when.kind, f"{size(number)} {measure}, {size(number - mark)} more"))
                marks.update({each: most for each, most in known.items() if each not in marks})
            elif when.kind == "allocated":
                reasons += self._allocations(when, process, dump)
        return reasons

    def _allocations(self, when: When, process: Process, dump: Dump) -> list[Notice]:
        now = allocated_by(dump)
        if now is None:
            self._absent[f"allocated, process {process.pid} ({process.comm}): {UNPROFILED}"] = None
            return []
        before = self._allocated.setdefault((when, process.identity), now)
        more = now.bytes - before.bytes
        same = now.since == before.since  # else another profile: it counts anew
        if not same or more >= when.amount:
            self._allocated[when, process.identity] = now
        return [Notice(when.kind, f"~{size(more)} more, by samples")] if same and more >= when.amount else []

    def lost(self, taken: Collection[Identity]) -> list[tuple[Identity, Notice]]:
        """What was noticed of processes at which there was no snapshot then: they had ended, for example."""
        return [(identity, each) for identity in self._pending.keys() - taken for each in self._pending.pop(identity)]

    def absent(self) -> list[str]:
        """Conditions that cannot be noticed here as asked for, each told once."""
        new = [text for text in self._absent if text not in self._reported_absent]
        self._reported_absent.update(new)
        return new

    def forget(self, alive: Collection[Identity]) -> None:
        """Processes that have ended."""
        self._cgroups_of = {identity: text for identity, text in self._cgroups_of.items() if identity in alive}
        self._marks = {key: marks for key, marks in self._marks.items() if key[1] in alive}
        self._allocated = {key: mark for key, mark in self._allocated.items() if key[1] in alive}
        self._met = {key for key in self._met if isinstance(key[1], str) or key[1] in alive}
        self._pending = {identity: reasons for identity, reasons in self._pending.items() if identity in alive}


def held_by(summary: Summary) -> int | None:
    """What the application holds; None: unknown, because a part of it is."""
    return total(summary.ledger[row] for row in HELD_ROWS)


def allocated_by(dump: Dump) -> Allocated | None:
    """What was allocated since the profile of a snapshot began, with a stack or without; None: nobody samples it."""
    if (
        not len(dump.profile)
        or not int(dump.profile[0]["flags"]) & fmt.ProfileFlag.ON
        or not int(dump.profile[0]["mean"])
    ):
        return None
    with_stack = int(dump.profile_sites["alloc_bytes"].sum())
    return Allocated(int(dump.profile[0]["started_ns"]), with_stack + int(dump.profile[0]["lost_alloc_bytes"]))


def _rss(pid: int) -> int | None:
    try:
        return int((files_of(pid) / "statm").read_text(encoding="ascii").split()[1]) * PAGE
    except (OSError, IndexError):
        return None
