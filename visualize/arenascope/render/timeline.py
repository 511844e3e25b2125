# SPDX-License-Identifier: MIT
"""A timeline in a terminal: groups of rows over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from arenascope.coverage import SHORT, shortened, total
from arenascope.humanize import count, plural, printable, size, span, time_words
from arenascope.render.terminal import plain_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from arenascope.timeline.reader import Timeline, TurnRow


def render_timeline(timeline: Timeline, bytes_: int, lines: int) -> RenderableType:
    """Everything that the terminal shows of a timeline."""
    turns = timeline.turns
    head = Text(printable(timeline.about.get("watched", "?")), style="bold")
    many = f": {plural(len(turns), 'turn')} with {plural(sum(len(turn.looks) for turn in turns), 'look')}"
    if len(turns) > 1:
        many += f" in {span((turns[-1].time_ns - turns[0].time_ns) / 1e9)}"
    generations = len({turn.generation for turn in turns})
    many += f", {plural(generations, 'generation')}, {size(bytes_)}"
    parts: list[RenderableType] = [head.append(many, style="not bold")]
    if turns:
        parts += ["", _table(_spread(turns, lines))]
        spent = sum(turn.cost_us for turn in turns) / 1000 / len(turns)
        parts.append(Text(f"A turn costs {spent:.0f} ms of processor time. All times are UTC.", style="dim"))
    says = list(dict.fromkeys(turn.says for turn in turns if turn.says))
    parts += [Text(printable(words), style="yellow") for words in says[-5:]]
    return Group(*parts)


def _spread(turns: Sequence[TurnRow], lines: int) -> list[TurnRow]:
    """So many turns, the first and the last among them."""
    if len(turns) <= lines:
        return list(turns)
    return [turns[round(place * (len(turns) - 1) / (lines - 1))] for place in range(lines)]


def _table(turns: Sequence[TurnRow]) -> Table:
    table = plain_table("time", ">generation", ">processes", ">Rss", *(f">{title}" for title in SHORT))
    for turn in turns:
        looks = [shortened(look.rows) for look in turn.looks]
        sums = [total(look[title] for look in looks) for title in SHORT]
        cells = [size(each) for each in (total(look.rss for look in turn.looks), *sums)]
        table.add_row(
            time_words(turn.time_ns)[:19].replace("T", " "), count(turn.generation), count(turn.processes), *cells
        )
    return table
