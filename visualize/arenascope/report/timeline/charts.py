# SPDX-License-Identifier: MIT
"""The charts of a timeline's page: the rows over time, with times and generations; and each arena's own."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope.humanize import UNKNOWN, printable, size
from arenascope.report.charts.stacked_area import Layer, line, stacked, top_of
from arenascope.report.timeline.series import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from arenascope.report.charts.stacked_area import GridLine, Stripe
    from arenascope.report.timeline.series import Course, Detail
    from arenascope.timeline.reader import Timeline

SECONDS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
MOST_TICKS: Final = 8
MINUTE: Final = 60
DAY: Final = 86400
FEW_HOURS: Final = 3 * 3600
SHOWN_MEMBERS: Final = 24
SMALL_POINTS: Final = 200  # polls of a small chart
APART: Final = 0.06  # of the width: names of generations that are nearer are left out


class Tick(NamedTuple):
    """A time below the chart. `x`: in per cent; `anchor`: which end of the words stands there."""

    x: str
    label: str
    anchor: str
    minor: bool  # left out where there is little room


class Break(NamedTuple):
    """Where a generation begins."""

    x: str
    label: str


class TimeChart(NamedTuple):
    """Rss and the rows over time."""

    bands: list[Stripe]
    rss: str
    grid: list[GridLine]
    ticks: list[Tick]
    breaks: list[Break]
    top: int


def chart(course: Course) -> TimeChart:
    """Rss and the rows, one upon the other."""
    layers = course.layers()
    heights = np.nansum(np.array([layer.held for layer in layers]), axis=0)
    top, grid = top_of(max(course.largest, float(heights.max())))
    return TimeChart(
        bands=stacked(course.at, layers, course.runs, top),
        rss=line(course.at, course.rss, course.runs, top),
        grid=grid,
        ticks=list(_ticks(course)),
        breaks=list(_breaks(course)),
        top=int(top),
    )


def _ticks(course: Course) -> Iterator[Tick]:
    first, last = course.polls[0].time_ns / 1e9, course.polls[-1].time_ns / 1e9
    seconds = last - first
    step = next((each for each in SECONDS if each * MOST_TICKS >= seconds), 0)
    step = step or int(-(-seconds // (MOST_TICKS * DAY))) * DAY
    at = int(-(-first // step)) * step
    number = 0
    while at <= last and seconds > 0:
        x = (at - first) / seconds
        when = datetime.fromtimestamp(at, timezone.utc)
        words = f"{when:%m-%d}" if step >= DAY else f"{when:%H:%M:%S}" if step < MINUTE else f"{when:%H:%M}"
        if step < DAY and seconds > FEW_HOURS and when.hour == when.minute == 0:
            words = f"{when:%m-%d}"
        anchor = "start" if x < APART / 2 else "end" if x > 1 - APART / 2 else "middle"
        yield Tick(f"{100 * x:.3f}", words, anchor, number % 2 == 1)
        number += 1
        at += step


def _breaks(course: Course) -> Iterator[Break]:
    behind = -1.0
    for number, (before, poll) in enumerate(zip(course.polls, course.polls[1:]), 1):
        if poll.generation != before.generation:
            x = float(course.at[number])
            named = x - behind > APART * 2
            behind = x if named else behind
            yield Break(f"{100 * x:.3f}", f"generation {poll.generation}" if named and x < 1 - APART * 2 else "")


class Multiple(NamedTuple):
    """The small chart of an arena, or of a process."""

    name: str
    bands: list[Stripe]
    first: str
    last: str
    highest: str


def multiples(course: Course, held: Detail) -> Iterator[Multiple]:
    """Each on a scale of its own: one large arena would leave nothing to be seen of the others."""
    for name, by_row in held.arenas.items():
        yield _multiple(course, printable(name), by_row, held.resident[name])


class Members(NamedTuple):
    """The processes of a timeline, one by one."""

    shown: list[Multiple]
    all: int  # those not shown included


def members(course: Course, timeline: Timeline) -> Members | None:
    """The processes that were largest, each on a scale of its own. None: there is only one."""
    if len(timeline.processes) < 2:  # noqa: PLR2004 - then there is nothing beside the other charts
        return None
    held = {process.id: np.full(len(course.polls), np.nan) for process in timeline.processes}
    rows = {
        process.id: {row.name: np.full(len(course.polls), np.nan) for row in ROWS} for process in timeline.processes
    }
    for place, poll in enumerate(course.polls):
        for snapshot in poll.snapshots:
            held[snapshot.process][place] = np.nan if snapshot.rss is None else snapshot.rss
            for name, values in rows[snapshot.process].items():
                number = snapshot.rows.get(name)
                values[place] = np.nan if number is None else number
    order = sorted(timeline.processes, key=lambda process: -float(np.nan_to_num(held[process.id]).max(initial=0)))
    several = len({process.generation for process in timeline.processes}) > 1
    return Members(
        [
            _multiple(
                course,
                f"{printable(each.comm)} {each.pid}" + (f", generation {each.generation}" if several else ""),
                rows[each.id],
                held[each.id],
            )
            for each in order[:SHOWN_MEMBERS]
        ],
        len(order),
    )


def _multiple(
    course: Course, name: str, by_row: Mapping[str, NDArray[np.float64]], whole: NDArray[np.float64]
) -> Multiple:
    known = whole[~np.isnan(whole)]
    runs = _sparse([part for run in course.runs for part in _unbroken(run, whole)])
    layers = [Layer(row.paint, row.title, by_row[row.name]) for row in ROWS]
    first, last = (size(int(known[at])) if len(known) else UNKNOWN for at in (0, -1))
    highest = size(int(known.max())) if len(known) else UNKNOWN
    bands = stacked(course.at, layers, runs, float(known.max(initial=0)))
    return Multiple(name, bands, first, last, highest)


def _sparse(runs: Sequence[slice]) -> list[NDArray[np.int64]]:
    """The polls of runs that a small chart has: evenly chosen where there are too many, with the ends of each run."""
    many = sum(run.stop - run.start for run in runs)
    part = min(SMALL_POINTS / max(many, 1), 1)
    return [
        np.unique(
            np.linspace(run.start, run.stop - 1, max(2, round((run.stop - run.start) * part))).round().astype(int)
        )
        for run in runs
    ]


def _unbroken(run: slice, held: Any) -> Iterator[slice]:
    """The parts of a run in which nothing is unknown."""
    first = None
    for at in range(run.start, run.stop + 1):
        known = at < run.stop and not np.isnan(held[at])
        if known and first is None:
            first = at
        elif not known and first is not None:
            yield slice(first, at)
            first = None
