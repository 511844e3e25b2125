# SPDX-License-Identifier: MIT
"""The processes of a timeline in a terminal: a line for each."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Final

from rich.text import Text

from arenascope.humanize import count, printable, rate, signed, size
from arenascope.render.group import Group
from arenascope.render.terminal import plain_table, title
from arenascope.timeline.members import healthy_one, members_of
from arenascope.timeline.trend import LEAST_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from arenascope.timeline.members import MemberLine
    from arenascope.timeline.reader import Timeline
    from arenascope.timeline.suspects import Suspect

SHOWN: Final = 64  # as many as a poll inspects
MEANING: Final = "change: of Rss, since the process's first poll; free: malloc's free memory that is resident."


def render_members(timeline: Timeline, found: Sequence[Suspect], file: str | None = None) -> RenderableType:
    """A table; for print() with crop=False and soft_wrap. `file`: the timeline's name, to say what to do next now."""
    lines = members_of(timeline, found)
    table = plain_table("process", ">polls", ">Rss", ">change", ">in use", ">free", ">suspect grows by", "leak suspect")
    for each in lines[:SHOWN]:
        bytes_ = (size(each.rss), signed(each.change), size(each.in_use), size(each.free))
        table.add_row(_name(each), count(each.snapshots), *bytes_, *_suspect(each))
    left = len(lines) - SHOWN
    more = [f"... and {count(left)} more"] if left > 0 else []
    next_ = _next(lines, file) if file is not None else ()
    return Group(title("Processes"), table, *(Text(words, style="dim") for words in (*more, MEANING, *next_)))


def _next(lines: Sequence[MemberLine], file: str) -> Iterator[str]:
    """The evidence, and what a process that grows has more than one that does not."""
    growing = [each for each in lines if each.suspects]
    if growing:
        yield f"The evidence: arenascope timeline suspects {quote(printable(file))}"
    first = next((each for each in growing if not each.ended), None)
    other = healthy_one(lines, first) if first else None
    if first and other:
        pid, healthy = first.process.pid, other.process.pid
        yield f"What {pid} has more than {healthy}, which does not grow: arenascope diff --graph {healthy} {pid}"


def _name(line: MemberLine) -> str:
    return f"{printable(line.process.comm)} {line.process.pid}{' (ended)' if line.ended else ''}"


def _suspect(line: MemberLine) -> tuple[str, str]:
    """The rate of the surest suspect, and what it is."""
    if not line.suspects:
        early = line.snapshots < LEAST_SNAPSHOTS
        return "", f"not known yet: {count(line.snapshots)} of {LEAST_SNAPSHOTS} polls" if early else "none"
    first, *others = line.suspects
    return rate(first.rate), printable(first.title) + (f", and {count(len(others))} more" if others else "")
