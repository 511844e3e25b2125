# SPDX-License-Identifier: MIT
"""Leak suspects: what grows in a timeline and has not stopped (docs/over-time.md)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope.humanize import size as size_words
from arenascope.rows import RESIDENT
from arenascope.timeline.reader import bodies_in, groups_in, opened, with_groups
from arenascope.timeline.trend import LEAST_SNAPSHOTS, trend_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from sqlite3 import Connection

    from numpy.typing import NDArray

    from arenascope.timeline.reader import ProcessRow, SnapshotRow, Timeline
    from arenascope.timeline.trend import Trend

    Floats = NDArray[np.float64]
    Key = tuple[str, Any]  # of a series: its kind, and what it is about

TITLE, BYTES, COUNT, ALLOCATED = range(4)  # of a call stack, as a timeline keeps it
LEAST_GROWTH: Final = 64 << 10  # bytes: less is no suspect
MOST_SNAPSHOTS: Final = 600  # of a process: half of them are the last, the others are evenly chosen
EXPLAINED: Final = 0.7  # of a rate: so much of it has a suspect of its own
MANY: Final = 4  # chunk sizes from a power of two to the next that all grow: they are one suspect
MINUTE: Final = 60
SIZE: Final = "size"  # chunks in use of one chunk size
SIZES: Final = "sizes"  # of all chunk sizes from a power of two to the next
CHUNKS: Final = "chunks"  # all chunks in use
ROW: Final = "row"  # a row of the ledger that is not malloc's
SITE: Final = "site"  # chunks in use that one call stack allocated
TYPE: Final = "type"  # chunks in use of one type
OWNER: Final = "owner"  # what one owner retains
LOST: Final = "lost"  # lost chunks of one type and size
OBJECT: Final = "object"  # a runtime's objects of one type, with what they own
CLASS: Final = "class"  # Ruby's objects of one class, likewise
GROUPS: Final = {"types": TYPE, "owners": OWNER, "leaks": LOST, "objects": OBJECT, "classes": CLASS}
KINDS: Final = (SIZE, SIZES, CHUNKS, ROW, SITE, *GROUPS.values())
SAY_WHOSE: Final = (SITE, TYPE, OWNER, LOST)  # of chunks that are in a size, too
SLACK: Final = 0.05  # of a rate: the snapshots with types are fewer than those with sizes, and at other times
NO_NAME: Final = '""'  # the type of all chunks whose type is not known
SEVERAL: Final = '["several",'  # what no owner retains alone
BY_CHANCE: Final = 100  # samples: a share of fewer is not stated
OTHER_ROWS: Final = {row.name: row.title for row in RESIDENT if row.owner != "MALLOC"}


@dataclass(frozen=True)
class Suspect:
    """What grows, with the evidence. Rates are in bytes a minute; `low` and `high` limit the 95 % interval.

    `survive`: of all that was allocated meanwhile, the share that is in use, estimated from a profile's samples; None:
    not known. `alike`: call stacks, types, owners and lost chunks whose rate may be the same. `ended`: the process is
    not in the group any more. `course`: seconds since the first snapshot, and bytes, of each snapshot that knows them.
    """

    kind: str  # one of KINDS
    key: int | str  # what it is within its kind: a chunk size, the lower limit of sizes, a row, a call stack, a name
    title: str  # the same in words
    process: int  # the process's id in the timeline
    pid: int
    comm: str
    rate: float
    low: float
    high: float
    since_ns: int  # the first snapshot of the growth
    until_ns: int  # the last
    snapshots: int
    growth: int  # by the rate, bytes
    held: int  # at the last snapshot, bytes
    count: int | None  # chunks at the last snapshot; None: not known
    stayed: float  # of all that came from snapshot to snapshot: the share that is still there
    exact: bool  # all snapshots were
    survive: float | None = None
    alike: tuple[str, ...] = ()
    ended: bool = False
    course: tuple[Floats, Floats] | None = field(default=None, compare=False, repr=False)

    @property
    def seconds(self) -> float:
        """How long it has grown."""
        return (self.until_ns - self.since_ns) / 1e9


@dataclass(frozen=True)
class History:
    """The snapshots of one process, in the order of time, and what is kept of each.

    `deep`: of all snapshots those with types, owners or objects, and these (named_totals.py).
    `ended`: the process is not in the group any more.
    """

    process: ProcessRow
    snapshots: Sequence[SnapshotRow]
    bodies: Sequence[Mapping[str, Any]]
    deep: Sequence[tuple[SnapshotRow, Mapping[str, Any]]] = ()
    ended: bool = False


class Strand(NamedTuple):
    """Series of bytes, by kind and key, at the same snapshots; NaN: not known."""

    snapshots: Sequence[SnapshotRow]
    series: Mapping[Key, Floats]


def histories(db: Connection, timeline: Timeline) -> Iterator[History]:
    """One for each process with snapshots enough. `db`: the timeline's file."""
    of: dict[int, list[SnapshotRow]] = {}
    for poll in timeline.polls:
        for snapshot in poll.snapshots:
            of.setdefault(snapshot.process, []).append(snapshot)
    deep = set(with_groups(db))
    ended = ended_processes(timeline)
    for process in timeline.processes:
        snapshots = _chosen(of.get(process.id, []))
        if len(snapshots) >= LEAST_SNAPSHOTS:
            held = dict(bodies_in(db, {snapshot.id for snapshot in snapshots}, process.id))
            there = [snapshot for snapshot in snapshots if snapshot.id in held]  # others were thinned out meanwhile
            named = _chosen([snapshot for snapshot in of[process.id] if snapshot.id in deep])
            groups = dict(groups_in(db, {snapshot.id for snapshot in named}))
            yield History(
                process,
                there,
                [held[snapshot.id] for snapshot in there],
                [(snapshot, groups[snapshot.id]) for snapshot in named if snapshot.id in groups],
                ended=process.id in ended,
            )


def ended_processes(timeline: Timeline) -> set[int]:
    """The processes, by their ids, that are not in the group at the last poll.

    None where not all that were in it have been inspected: of very many only the largest are, and a snapshot may fail.
    """
    if not timeline.polls or timeline.polls[-1].processes != len(timeline.polls[-1].snapshots):
        return set()
    there = {snapshot.process for snapshot in timeline.polls[-1].snapshots}
    return {each.id for each in timeline.processes if each.id not in there}


def _chosen(snapshots: list[SnapshotRow]) -> list[SnapshotRow]:
    snapshots = sorted(snapshots, key=lambda snapshot: snapshot.time_ns)
    if len(snapshots) <= MOST_SNAPSHOTS:
        return snapshots
    half = MOST_SNAPSHOTS // 2
    early = snapshots[:-half]
    return [early[place] for place in np.linspace(0, len(early) - 1, half).round().astype(int)] + snapshots[-half:]


def suspects_of(path: str, timeline: Timeline) -> list[Suspect]:
    """Those of a file. `timeline`: what was read of it."""
    with opened(path) as db:
        return suspects(histories(db, timeline))


def suspects(histories: Iterable[History]) -> list[Suspect]:
    """What grows in these processes and has not stopped: of running ones first, the surest rate first."""
    found = [each for history in histories for each in _of_process(history)]
    return sorted(found, key=lambda each: (each.ended, -each.low, each.pid, each.title))


def _of_process(history: History) -> list[Suspect]:
    strands = [Strand(history.snapshots, _series(history)), *(_deep(history, kind) for kind in GROUPS)]
    return _own([each for strand in strands for each in _of_strand(history, strand)])


def _of_strand(history: History, strand: Strand) -> Iterator[Suspect]:
    time_ns = np.array([snapshot.time_ns for snapshot in strand.snapshots], np.int64)
    known = np.concatenate(([True], np.diff(time_ns) > 0)) if len(time_ns) else np.empty(0, bool)
    for key, values in strand.series.items():
        there = known & ~np.isnan(values)
        bytes_ = values[there]
        if len(bytes_) < LEAST_SNAPSHOTS or bytes_[-1] - bytes_.min() < LEAST_GROWTH or not there[-1]:
            continue
        trend = trend_of((time_ns[there] - time_ns[0]) / 1e9, bytes_)
        if trend and trend.growth >= LEAST_GROWTH:
            yield _suspect(history, strand, key, np.flatnonzero(there), trend)


def _deep(history: History, kind: str) -> Strand:
    """Returns the bytes of each type, or owner, ... One that is not listed is unknown, unless all are listed.

    What has no name is left out: it is in the sizes. So is what no single owner retains.
    """
    to_json = [(snapshot, groups[kind]) for snapshot, groups in history.deep if kind in groups]
    known = [0.0 if group["whole"] else np.nan for _, group in to_json]
    made: dict[Key, Floats] = {}
    for place, (_, group) in enumerate(to_json):
        for name, held in group["listed"].items():
            if name != NO_NAME and not name.startswith(SEVERAL):
                number = np.nan if held[BYTES] is None else held[BYTES]
                made.setdefault((GROUPS[kind], name), np.array(known))[place] = number
    return Strand([snapshot for snapshot, _ in to_json], made)


def _series(history: History) -> dict[Key, Floats]:
    """Bytes at each snapshot, by kind and key; NaN: not known."""
    chunks = [_all_chunks(body["chunks"]) for body in history.bodies]
    return {
        **_of_sizes(history),
        (CHUNKS, CHUNKS): _numbers(chunks),
        **{(ROW, name): _numbers([snapshot.rows.get(name) for snapshot in history.snapshots]) for name in OTHER_ROWS},
        **_of_sites(history),
    }


def _numbers(values: Iterable[int | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _of_sizes(history: History) -> dict[Key, Floats]:
    """Returns bytes by chunk size, and from a power of two to the next. A size that is not listed has no chunks."""
    words = list(dict.fromkeys(size for body in history.bodies for size in body["sizes"]))
    columns = {size: column for column, size in enumerate(words)}
    held = np.zeros((len(words), len(history.bodies)))
    for place, body in enumerate(history.bodies):
        held[[columns[size] for size in body["sizes"]], place] = _numbers(body["sizes"].values())
    sizes = np.array([int(size) for size in words], np.float64)
    held *= sizes[:, np.newaxis]
    made: dict[Key, Floats] = {(SIZE, int(size)): row for size, row in zip(words, held)}
    bands = np.array([_band(size) for size in words], np.int64)
    made.update({(SIZES, int(band)): held[bands == band].sum(axis=0) for band in np.unique(bands)})
    return made


def _of_sites(history: History) -> dict[Key, Floats]:
    """Likewise of call stacks. One that is not listed is unknown, unless all are listed."""
    known = [0.0 if body.get("sites", {}).get("whole") else np.nan for body in history.bodies]
    made: dict[Key, Floats] = {}
    for place, body in enumerate(history.bodies):
        for stack, numbers in _sites(body).items():
            made.setdefault((SITE, stack), np.array(known))[place] = numbers[BYTES]
    return made


def _sites(body: Mapping[str, Any]) -> Mapping[str, Sequence[Any]]:
    """The call stacks of a snapshot: title, bytes, count, and bytes allocated since the profile began."""
    listed: Mapping[str, Sequence[Any]] = body.get("sites", {}).get("listed", {})
    return listed


def _all_chunks(chunks: Mapping[str, Sequence[int | None]]) -> int | None:
    both = [chunks.get(name, (None, None))[0] for name in ("in_use", "mmapped")]
    return None if None in both else sum(each or 0 for each in both)


def _suspect(history: History, strand: Strand, key: Key, places: NDArray[np.int64], trend: Trend) -> Suspect:
    snapshots, values = strand.snapshots, strand.series[key]
    used = places[trend.first :]
    kind, what = key
    last = snapshots[used[-1]]
    named, count = _named(history, key, last)
    if kind == SIZE:
        count = int(values[used[-1]]) // what
    seconds = np.array([snapshots[place].time_ns - snapshots[0].time_ns for place in places], np.float64) / 1e9
    return Suspect(
        kind=kind,
        key=json.loads(what) if kind == TYPE else what,
        title=TITLES[kind](named),
        process=history.process.id,
        pid=history.process.pid,
        comm=history.process.comm,
        rate=trend.slope.slope * MINUTE,
        low=trend.slope.low * MINUTE,
        high=trend.slope.high * MINUTE,
        since_ns=snapshots[used[0]].time_ns,
        until_ns=last.time_ns,
        snapshots=len(used),
        growth=round(trend.growth),
        held=int(values[used[-1]]),
        count=count,
        stayed=trend.stayed,
        exact=all(snapshots[place].exact for place in used),
        survive=_survive(history.bodies[used[0]], history.bodies[used[-1]], what) if kind == SITE else None,
        ended=history.ended,
        course=(seconds, values[places]),
    )


def _named(history: History, key: Key, last: SnapshotRow) -> tuple[Any, int | None]:
    """What a thing is called, and how many there are at the last snapshot; None: not known."""
    kind, what = key
    if kind == SITE:
        site = _sites(history.bodies[history.snapshots.index(last)])[what]
        return site[TITLE], site[COUNT]
    if kind not in GROUPS.values():
        return what, None
    groups = next(groups for snapshot, groups in history.deep if snapshot.id == last.id)
    held = next(groups[name]["listed"].get(what) for name, each in GROUPS.items() if each == kind)
    title = held[TITLE] if held else json.loads(what)
    return f"{json.loads(what)[0]} objects of type {title}" if kind == OBJECT else title, held[COUNT] if held else 0


def _survive(first: Mapping[str, Any], last: Mapping[str, Any], stack: str) -> float | None:
    """What came into use, of what was allocated; None: the samples are too few."""
    mean = last["sites"]["mean"]
    none = ["", 0, 0, 0]
    before, after = (_sites(body).get(stack, none) for body in (first, last))
    allocated = after[ALLOCATED] - before[ALLOCATED]
    if not mean or allocated < BY_CHANCE * mean:
        return None
    return float(min(max((after[BYTES] - before[BYTES]) / allocated, 0.0), 1.0))


TITLES: Final[Mapping[str, Callable[[Any], str]]] = {
    SIZE: lambda size: f"{size}-byte chunks",
    SIZES: lambda least: f"chunks of {size_words(least)} to {size_words(2 * least)}",
    CHUNKS: lambda _: "all chunks in use",
    ROW: lambda name: OTHER_ROWS[name],
    SITE: lambda name: f"allocated by {name}",
    TYPE: lambda name: f"chunks of type {name}",
    OWNER: lambda name: f"retained by {name}",
    LOST: lambda name: f"lost chunks of type {name}",
    OBJECT: lambda name: name,
    CLASS: lambda name: f"Ruby's objects of class {name}",
}


def _own(found: list[Suspect]) -> list[Suspect]:
    """Without those whose growth is that of others: all chunks of some sizes, of which one size alone grows."""
    sizes = [each for each in found if each.kind == SIZE]
    bands = [
        each
        for each in found
        if each.kind == SIZES and not _explained(each, [one for one in sizes if _band(one.key) == each.key])
    ]
    shown = {each.key for each in bands}
    # Where many sizes grow, it is not their size that they have in common.
    many = {band for band, held in Counter(_band(one.key) for one in sizes).items() if held >= MANY}
    bands += [each for each in found if each.kind == SIZES and each.key in many - shown]
    sizes = [one for one in sizes if _band(one.key) not in many & {each.key for each in bands}]
    shown |= many
    parts = bands + [one for one in sizes if _band(one.key) not in shown]
    chunks = [each for each in found if each.kind == CHUNKS and not _explained(each, parts)]
    whose = [each for each in found if each.kind in SAY_WHOSE]
    to_json = [
        replace(each, alike=tuple(other.title for other in whose if _alike(each, other)))
        for each in (*sizes, *bands, *chunks)
    ]
    return [*to_json, *(each for each in found if each.kind not in {SIZE, SIZES, CHUNKS})]


def _alike(one: Suspect, other: Suspect) -> bool:
    """Whether the rates may be the same."""
    slack = 0.0 if other.kind == SITE else SLACK * one.rate
    return other.low <= one.high + slack and one.low <= other.high + slack


def _band(size: Any) -> int:
    """The lower limit of the sizes among which this one is."""
    return 1 << (int(size).bit_length() - 1)


def _explained(whole: Suspect, parts: Sequence[Suspect]) -> bool:
    return sum(part.rate for part in parts) >= EXPLAINED * whole.rate
