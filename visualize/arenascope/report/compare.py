# SPDX-License-Identifier: MIT
"""Two dumps in sentences: what came back, what grew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.rows import RESIDENT
from arenascope.text import printable, size

if TYPE_CHECKING:
    from arenascope.report.facts import PageFacts

WORTH: Final = 0.02  # of the larger Rss: a row that changed by less is not named
NAMED: Final = 4


class Changes(NamedTuple):
    """How a process changed from one dump to the other."""

    lead: str
    rows: list[str]  # the rows that changed most
    note: str | None  # when the two are hardly comparable


def changes(before: PageFacts, after: PageFacts) -> Changes:
    """What the page says first of two dumps."""
    first, last = before.summary.kernel.rss, after.summary.kernel.rss
    if first is None or last is None:
        lead = "It is unknown for at least one of the two dumps how much was resident."
    else:
        way = "less" if last < first else "more"
        lead = f"{size(first)} resident before, {size(last)} after: {size(abs(last - first))} {way}."
        if last == first:
            lead = f"{size(first)} resident before and after."
    return Changes(lead, _rows(before, after), _note(before, after))


def _rows(before: PageFacts, after: PageFacts) -> list[str]:
    moved = []
    for row in RESIDENT:
        first, last = before.row(row.name), after.row(row.name)
        if first is not None and last is not None and abs(last - first) >= WORTH * max(before.whole, after.whole, 1):
            way = "fell" if last < first else "grew"
            moved.append((abs(last - first), f"{row.title} {way} from {size(first)} to {size(last)}"))
    moved.sort(reverse=True)
    return [words for _, words in moved[:NAMED]]


def _note(before: PageFacts, after: PageFacts) -> str | None:
    one, other = before.summary.target, after.summary.target
    same = (one.pid, one.comm, one.exe) == (other.pid, other.comm, other.exe)
    if not same:
        named = [f"{printable(each.comm)} ({each.pid})" for each in (one, other)]
        return (
            f"These are two processes: {' and '.join(named)}. "
            "Their heaps lie at different addresses, so each map has gaps where only the other process has memory."
        )
    times = before.dump.meta["time_ns"], after.dump.meta["time_ns"]
    return "The first dump was taken after the second." if int(times[0]) > int(times[1]) else None
