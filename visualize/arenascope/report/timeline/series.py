# SPDX-License-Identifier: MIT
"""What a timeline's page shows over time: rows, findings and arenas, poll by poll."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope import rows
from arenascope.coverage import total
from arenascope.humanize import printable, size
from arenascope.profiles.site_digest import group_of
from arenascope.report.charts.stacked_area import Layer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from arenascope.timeline.reader import PollRow, SnapshotRow, Timeline
    from arenascope.timeline.snapshot_bodies import Details

MOST_POLLS: Final = 800
SHOWN_ARENAS: Final = 24
IN_NO_ROW: Final = "unknown row"  # what of Rss no row is known to have
ROWS: Final = tuple(row for row in rows.BAR if row.paint)


@dataclass(frozen=True)
class Course:
    """The times of a timeline: polls, and where each stands between the first (0) and the last (1)."""

    polls: list[PollRow]
    at: NDArray[np.float64]
    runs: list[slice]  # of polls that belong together: of one generation, without an unknown Rss between
    rss: NDArray[np.float64]  # of all processes together; NaN: unknown
    held: dict[str, NDArray[np.float64]]  # by row, likewise
    leaders: dict[int, dict[int, SnapshotRow]]  # generation → number of the poll → inspect its largest process

    @property
    def largest(self) -> float:
        """The highest Rss."""
        return float(np.nanmax(np.append(self.rss, 0)))

    def layers(self) -> list[Layer]:
        """The rows from bottom to top, and what is in none that is known."""
        made = [Layer(row.paint, row.title, self.held[row.name]) for row in ROWS]
        unknown = np.isnan(np.array([layer.held for layer in made])).any(axis=0)
        known = np.nansum(np.array([layer.held for layer in made]), axis=0)
        rest = np.where(unknown, np.maximum(self.rss - known, 0), 0)
        return [*made, Layer("other", IN_NO_ROW, rest)]


def course(timeline: Timeline) -> Course:
    """Returns the sums over all snapshots of each poll."""
    polls = chosen(timeline.polls)
    times = np.array([poll.time_ns for poll in polls], np.float64)
    span = float(times[-1] - times[0]) or 1.0
    rss = known(total(snapshot.rss for snapshot in poll.snapshots) if _inspected(poll) else None for poll in polls)
    held = {
        row.name: known(total(snapshot.rows.get(row.name) for snapshot in poll.snapshots) for poll in polls)
        for row in rows.ALL
    }
    return Course(polls, (times - times[0]) / span, _runs(polls, rss), rss, held, leaders(polls))


def _inspected(poll: PollRow) -> bool:
    return bool(poll.snapshots) or poll.processes == 0


def known(numbers: Iterable[int | None]) -> NDArray[np.float64]:
    """Numbers of which some are unknown: these become NaN."""
    return np.array([np.nan if number is None else number for number in numbers], np.float64)


def chosen(polls: Sequence[PollRow]) -> list[PollRow]:
    """At most MOST_POLLS of them: of each span of polls the one with most resident; and the first and the last."""
    if len(polls) <= MOST_POLLS:
        return list(polls)
    edges = np.linspace(1, len(polls) - 1, MOST_POLLS - 1).round().astype(int).tolist()
    highest = [
        max(polls[first:end], key=lambda poll: sum(snapshot.rss or 0 for snapshot in poll.snapshots))
        for first, end in zip(edges, edges[1:])
    ]
    return [polls[0], *highest, polls[-1]]


def _runs(polls: Sequence[PollRow], rss: NDArray[np.float64]) -> list[slice]:
    runs = []
    first = 0
    for place in range(1, len(polls) + 1):
        ends = place == len(polls) or polls[place].generation != polls[place - 1].generation
        if ends or np.isnan(rss[place]) or np.isnan(rss[first]):
            if not np.isnan(rss[first]):
                runs.append(slice(first, place))
            first = place
    return runs


def leaders(polls: Sequence[PollRow]) -> dict[int, dict[int, SnapshotRow]]:
    """Returns the snapshots, by generation, of the process that was the largest when it was last seen."""
    last: dict[int, int] = {}
    for poll in polls:
        if poll.snapshots:
            last[poll.generation] = poll.snapshots[0].process
    made: dict[int, dict[int, SnapshotRow]] = {generation: {} for generation in last}
    for number, poll in enumerate(polls):
        for snapshot in poll.snapshots:
            if snapshot.process == last[poll.generation]:
                made[poll.generation][number] = snapshot
    return made


class Stretch(NamedTuple):
    """Where a finding holds, in per cent of the time."""

    x: str
    width: str


class Found(NamedTuple):
    """A finding over time."""

    rule: str
    largest: int | None
    marks: list[Stretch]

    @property
    def shown(self) -> str:
        """The largest number of bytes, for people."""
        return size(self.largest)


@dataclass
class Detail:
    """What the bodies of the leaders' snapshots say over time."""

    findings: dict[str, dict[int, int | None]] = field(default_factory=lambda: defaultdict(dict))
    arenas: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)  # by name, by row; NaN: not there
    sizes: dict[int, NDArray[np.float64]] = field(default_factory=dict)  # bytes in use, by chunk size
    resident: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # of arenas, by name
    stacks: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # bytes in use, by call stack


def detail(
    course: Course, details: Details, arenas: Sequence[str], sizes: Sequence[int], stacks: Sequence[str]
) -> Detail:
    """Read the bodies once. `arenas`, `sizes`, `stacks`: those that are shown."""
    many = len(course.polls)
    made = Detail()
    names = [row.name for row in ROWS]
    made.arenas = {name: {row: np.full(many, np.nan) for row in names} for name in arenas}
    made.resident = {name: np.full(many, np.nan) for name in arenas}
    made.sizes = {size: np.full(many, np.nan) for size in sizes}
    made.stacks = {stack: np.full(many, np.nan) for stack in stacks}
    for snapshots in course.leaders.values():
        for poll, snapshot in snapshots.items():
            body = details.body(snapshot.id)
            for rule, bytes_ in body["findings"].items():
                made.findings[rule][poll] = bytes_
            _add_arenas(made, poll, body["arenas"])
            for chunk, held in made.sizes.items():
                count = body["sizes"].get(str(chunk), 0)
                held[poll] = np.nan if count is None else count * chunk
            sites = group_of(body["sites"]) if "sites" in body else None
            for stack, held in made.stacks.items():
                held[poll] = _number(sites.held(stack).bytes if sites else None)
    return made


def _add_arenas(made: Detail, poll: int, arenas: Mapping[str, Any]) -> None:
    there = {each["name"]: each for each in arenas.values()}
    for name, held in made.arenas.items():
        arena = there.get(name)
        rows_ = arena["rows"] if arena else {}
        for row, values in held.items():
            values[poll] = _number(rows_.get(row, 0))
        made.resident[name][poll] = _number(arena["resident"] if arena else 0)


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def findings(course: Course, detail: Detail) -> list[Found]:
    """The findings with their times, those of most bytes first."""
    generations = [poll.generation for poll in course.polls]
    seen = sorted(number for snapshots in course.leaders.values() for number in snapshots)
    behind = {one: other for one, other in zip(seen, seen[1:]) if generations[one] == generations[other]}
    found = []
    for rule, held in detail.findings.items():
        largest = [bytes_ for bytes_ in held.values() if bytes_ is not None]
        spans: list[list[int]] = []
        for poll in sorted(held):
            if spans and behind.get(spans[-1][1]) == poll:
                spans[-1][1] = poll
            else:
                spans.append([poll, poll])
        marks = [_mark(course.at[first], course.at[last]) for first, last in spans]
        found.append(Found(printable(rule), max(largest, default=None), marks))
    return sorted(found, key=lambda each: -(each.largest or 0))


def _mark(first: float, last: float, least: float = 0.004) -> Stretch:
    width = max(last - first, least)
    return Stretch(f"{100 * min(first, 1 - width):.3f}", f"{100 * width:.3f}")


def largest_arenas(course: Course, details: Details) -> list[str]:
    """The arenas that were largest at the first or the last snapshot of any leader, by name."""
    held: dict[str, int] = {}
    for snapshots in course.leaders.values():
        for poll in {min(snapshots), max(snapshots)}:
            for arena in details.body(snapshots[poll].id)["arenas"].values():
                name = str(arena["name"])
                held[name] = max(held.get(name, 0), int(arena["resident"] or 0))
    return sorted(held, key=lambda name: -held[name])[:SHOWN_ARENAS]
