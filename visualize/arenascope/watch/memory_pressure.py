# SPDX-License-Identifier: MIT
"""Memory that runs short, as the kernel counts it: the limits that a cgroup meets, kills, and stalls (PSI)."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.humanize import duration, lines
from arenascope.watch.cgroup import VERSION_2, directories
from arenascope.watch.kernel_events import Alarms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.watch.cgroup import Mount

STILL: Final = 60.0  # seconds without a further one, after which a notice is new again
SECOND: Final = 1.0  # of a process's time, in which a stall counts
MACHINE: Final = "the machine"
VMSTAT: Final = Path("/proc/vmstat")
PRESSURE: Final = Path("/proc/pressure/memory")
EVENTS: Final = ("memory.events.local", "memory.events")  # the first since Linux 5.2
# By condition, what counts; the names are those of memory.events.
COUNTED: Final = {"oom": ("max", "oom", "oom_kill"), "pressure": ("high",)}
WORDS: Final = {
    "high": "memory.high was met",
    "max": "the limit was met",
    "oom": "no memory was left",
    "oom_kill": "the kernel killed for want of memory",
}
ABSENT: Final = {
    "oom": "no cgroup counts this for it: the kills of the whole machine count instead",
    "pressure": "the kernel has no PSI (psi=1 at its start), so only memory.high, where there is one, tells of it",
}


class Notice(NamedTuple):
    """What the kernel has told of."""

    kind: str
    says: str


class Counts(NamedTuple):
    """The kernel's numbers so far, by their place and name."""

    events: dict[tuple[str, str], int]
    stalled: tuple[str, int] | None  # in microseconds


def counts_of(cgroups: str, among: list[Mount], kinds: frozenset[str], alarms: Alarms | None = None) -> Counts:
    """For a process in `cgroups`. `alarms`: are set for each file that can wake us."""
    events: dict[tuple[str, str], int] = {}
    stalled = None
    for line in lines(cgroups):
        for mount in among:
            for depth, directory in enumerate(directories(line, mount)):
                read = _version_2 if mount.interface is VERSION_2 else _version_1
                for name, count in read(directory, depth == 0, alarms):
                    events[str(directory), name] = count
                if depth == 0 and mount.interface is VERSION_2 and "pressure" in kinds:
                    stalled = _stalled(directory / "memory.pressure", str(directory), alarms) or stalled
    if "pressure" in kinds:
        stalled = stalled or _stalled(PRESSURE, MACHINE, alarms)
    if "oom" in kinds and not any(name in COUNTED["oom"] for _, name in events):
        events.update(((MACHINE, name), count) for name, count in _pairs(VMSTAT) if name == "oom_kill")
    wanted = {name for kind in kinds for name in COUNTED[kind]}
    return Counts({key: count for key, count in events.items() if key[1] in wanted}, stalled)


def _version_2(directory: Path, _: bool, alarms: Alarms | None) -> Iterator[tuple[str, int]]:  # noqa: FBT001
    """Counts this cgroup's events alone: a cgroup above counts what happens in all below it, in its other file."""
    for name in EVENTS:
        found = list(_pairs(directory / name))
        if found:
            if alarms:
                alarms.on(directory / name)
            yield from found
            return


def _version_1(directory: Path, own: bool, _: Alarms | None) -> Iterator[tuple[str, int]]:  # noqa: FBT001
    """Kills are counted for all cgroups below, so only those of the process's own count here."""
    # The limit of memory with swap has a count of its own (since Linux 6.13 it is always 0).
    met = [_text(directory / name).strip() for name in ("memory.failcnt", "memory.memsw.failcnt")]
    if met[0].isdigit():
        yield "max", sum(int(each) for each in met if each.isdigit())
    for name, count in _pairs(directory / "memory.oom_control") if own else ():
        if name in {"under_oom", "oom_kill"}:
            yield name.replace("under_", ""), count


def _pairs(path: Path) -> Iterator[tuple[str, int]]:
    for line in _text(path).splitlines():
        name, _, number = line.partition(" ")
        if number.isdigit():
            yield name, int(number)


def _stalled(path: Path, place: str, alarms: Alarms | None) -> tuple[str, int] | None:
    first = _text(path).partition("\n")[0]  # some avg10=0.00 avg60=0.00 avg300=0.00 total=0
    number = first.rpartition("total=")[2]
    if not first.startswith("some ") or not number.isdigit():
        return None
    if alarms:
        alarms.on(path, stalls=True)
    return place, int(number)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


class Notices:
    """What has moved since it was asked last."""

    def __init__(self, stall: float | None, *, oom: bool) -> None:
        """`stall`: the seconds within a second that count; None: stalls do not count. `oom`: kills and limits count."""
        self._stall: Final = stall
        self.kinds: Final = frozenset(kind for kind, on in (("oom", oom), ("pressure", stall is not None)) if on)
        self.alarms: Final = Alarms(stall)
        self._counts: dict[tuple[str, str], int] = {}
        self._stalls: dict[str, tuple[float, int]] = {}  # since when, and the count then
        self._moved: dict[tuple[str, str], float] = {}  # when it moved last

    def of(self, cgroups: str, among: list[Mount]) -> tuple[list[Notice], list[str]]:
        """What is new for processes in these cgroups, and the conditions that nobody counts for them."""
        counts = counts_of(cgroups, among, self.kinds, self.alarms)
        now = monotonic()
        news = [each for kind in sorted(self.kinds) for each in self._events(kind, counts, now)]
        if counts.stalled:
            news.extend(self._stall_of(*counts.stalled, now))
        places = {place for place, name in counts.events if name in COUNTED["oom"]}
        absent = [kind for kind, none in (("oom", places <= {MACHINE}), ("pressure", not counts.stalled)) if none]
        return news, [kind for kind in absent if kind in self.kinds]

    def _events(self, kind: str, counts: Counts, now: float) -> Iterator[Notice]:
        for (place, name), count in counts.events.items():
            if name in COUNTED[kind]:
                before = self._counts.get((place, name), count)
                self._counts[place, name] = count
                if count > before and self._is_new((place, name), now):
                    yield Notice(kind, f"{WORDS[name]}, {count - before} times in {place}")

    def _stall_of(self, place: str, count: int, now: float) -> Iterator[Notice]:
        since, before = self._stalls.setdefault(place, (now, count))
        most = (self._stall or 0) * 1e6 * max(now - since, SECOND)
        met = count > before and count - before >= most
        if met or now - since >= SECOND:  # a stall goes on over many a question
            self._stalls[place] = (now, count)
        if met and self._is_new((place, "stalled"), now):
            yield Notice("pressure", f"tasks of {place} waited {duration((count - before) / 1000)} for memory")

    def _is_new(self, what: tuple[str, str], now: float) -> bool:
        before = self._moved.get(what)
        self._moved[what] = now
        return before is None or now - before > STILL
