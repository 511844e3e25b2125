# SPDX-License-Identifier: MIT
"""A timeline in a terminal: groups of rows over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from arenascope.coverage import SHORT, shortened, total
from arenascope.humanize import count, plural, printable, size, span, time_words
from arenascope.render.group import Group
from arenascope.render.terminal import plain_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from arenascope.timeline.reader import PollRow, Timeline


def render_timeline(timeline: Timeline, bytes_: int, lines: int) -> RenderableType:
    """Everything that the terminal shows of a timeline."""
    polls = timeline.polls
    head = Text(printable(timeline.about.get("watched", "?")), style="bold")
    many = f": {plural(len(polls), 'poll')} with {plural(sum(len(poll.snapshots) for poll in polls), 'snapshot')}"
    if len(polls) > 1:
        many += f" in {span((polls[-1].time_ns - polls[0].time_ns) / 1e9)}"
    generations = len({poll.generation for poll in polls})
    many += f", {plural(generations, 'generation')}, {size(bytes_)}"
    parts: list[RenderableType] = [head.append(many, style="not bold")]
    if polls:
        parts += ["", _table(_spread(polls, lines))]
        if any(poll.processes > 1 for poll in polls):
            parts.append(Text("The rows are sums over the processes: shared pages are counted in each.", style="dim"))
        spent = sum(poll.cost_us for poll in polls) / 1000 / len(polls)
        parts.append(Text(f"A poll costs {spent:.0f} ms of processor time. All times are UTC.", style="dim"))
    notes = list(dict.fromkeys(poll.notes for poll in polls if poll.notes))
    parts += [Text(printable(words), style="yellow") for words in notes[-5:]]
    return Group(*parts)


def _spread(polls: Sequence[PollRow], lines: int) -> list[PollRow]:
    """So many polls, the first and the last among them."""
    if len(polls) <= lines:
        return list(polls)
    return [polls[round(place * (len(polls) - 1) / (lines - 1))] for place in range(lines)]


def _table(polls: Sequence[PollRow]) -> Table:
    table = plain_table("time", ">generation", ">processes", ">Rss", *(f">{title}" for title in SHORT))
    for poll in polls:
        snapshots = [shortened(snapshot.rows) for snapshot in poll.snapshots]
        sums = [total(snapshot[title] for snapshot in snapshots) for title in SHORT]
        cells = [size(each) for each in (total(snapshot.rss for snapshot in poll.snapshots), *sums)]
        table.add_row(
            time_words(poll.time_ns)[:19].replace("T", " "), count(poll.generation), count(poll.processes), *cells
        )
    return table
