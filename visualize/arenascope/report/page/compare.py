# SPDX-License-Identifier: MIT
"""What the page says of two dumps: in sentences, and in tables of what grew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from arenascope.compare.changes import BOTH, PINS, ends
from arenascope.compare.diff_json import pinned_words
from arenascope.humanize import UNKNOWN, printable, rate, signed_count, size, span
from arenascope.report.amounts import Amount, Change, amount, change_of
from arenascope.report.map.page_users import cut
from arenascope.rows import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from arenascope.compare import Comparison, Delta, Growing

WORTH: Final = 0.02  # of the larger Rss: a row that changed by less is not named
NAMED: Final = 4
SHOWN: Final = 60  # lines of a table
BY_SIZE: Final = "chunk size"  # what a line of a table is about
SITES: Final = "sites"  # kinds of tables: call stacks,
PINNING: Final = "pins"  # what pins keep


class Changes(NamedTuple):
    """How a process changed from one dump to the other."""

    lead: str
    time: str | None
    rows: list[str]  # the rows that changed most
    notes: list[str]  # in what the two differ in kind


class GrownLine(NamedTuple):
    """A thing at both times. `rate`: bytes per minute, in words."""

    name: str
    before: Amount
    after: Amount
    change: Change
    rate: str
    more: str  # how many chunks
    status: str
    key: Any  # of the thing
    trend: str = ""  # the points of a small line, where there are more than two snapshots


class Growth(NamedTuple):
    """The page's part on what grew."""

    tables: list[GrownTable]
    pins: str | None
    ends: tuple[str, str]  # how the two times are called
    hint: str = ""


class GrownTable(NamedTuple):
    """A table of what changed, what grew most first."""

    title: str
    what: str
    lines: list[GrownLine]
    counted: str  # what the lines have numbers of; empty: they have none
    all: int  # lines, those not shown included
    kind: str = ""  # which of a comparison's tables, where `what` does not say it
    hint: str = ""  # Between which snapshots, where they are not those of the other tables

    @property
    def trends(self) -> bool:
        """Whether any line has a trend."""
        return any(line.trend for line in self.lines)


def changes(comparison: Comparison) -> Changes:
    """What the page says first of two dumps."""
    first, last = comparison.rss.before, comparison.rss.after
    if first is None or last is None:
        lead = "It is unknown for at least one of the two dumps how much was resident."
    else:
        way = "less" if last < first else "more"
        lead = f"{size(first)} resident before, {size(last)} after: {size(abs(last - first))} {way}."
        if last == first:
            lead = f"{size(first)} resident before and after."
    return Changes(lead, _time(comparison), _rows(comparison), [note.text for note in comparison.notes])


def _time(comparison: Comparison) -> str | None:
    if comparison.elapsed_s is None or comparison.elapsed_s <= 0:
        return None
    per_minute = comparison.per_minute(comparison.rss)
    return f"{span(comparison.elapsed_s)} lie between the two snapshots" + (
        f": {rate(per_minute)}." if per_minute else "."
    )


def _rows(comparison: Comparison) -> list[str]:
    moved = []
    whole = max(comparison.rss.before or 0, comparison.rss.after or 0, 1)
    for line in comparison.rows:
        row, held = BY_NAME[line.title], line.bytes
        if row.kind == "RESIDENT" and abs(held.change or 0) >= WORTH * whole:
            way = "fell" if (held.change or 0) < 0 else "grew"
            moved.append((abs(held.change or 0), f"{row.title} {way} from {size(held.before)} to {size(held.after)}"))
    moved.sort(reverse=True)
    return [words for _, words in moved[:NAMED]]


def growth(comparison: Comparison, times: tuple[str, str] = ("before", "after")) -> Growth:
    """The tables of rows, arenas, chunk sizes, and of all that has names."""
    made = [
        _table(
            comparison,
            "Rows of the ledger",
            "row",
            [(BY_NAME[r.title].title, r.bytes, r) for r in comparison.rows if BY_NAME[r.title].kind == "RESIDENT"],
        ),
        _table(
            comparison, "Arenas", "arena", [(f"{a.title} at {a.address:#x}", a.bytes, a) for a in comparison.arenas]
        ),
        _table(
            comparison,
            "Chunks in use by size",
            BY_SIZE,
            [(size(int(s.title)), s.bytes, s) for s in comparison.sizes],
        ),
        _table(
            comparison,
            PINS,
            BY_SIZE,
            [(size(pin.chunk_size), pin.stranded, pin.line) for pin in comparison.pins],
            "pins",
        )._replace(kind=PINNING),
    ]
    pages = comparison.pinned_pages
    shown = [table for table in made if table.lines]
    return Growth(shown + named_growth(comparison), pinned_words(pages) if pages else None, times)


def named_growth(comparison: Comparison) -> list[GrownTable]:
    """The tables of what has a name, as far as both snapshots have them."""
    return [
        _table(
            comparison, table.title, table.what, [(line.title, line.bytes, line) for line in table.lines], table.counts
        )._replace(kind=table.kind)
        for table in comparison.named
    ]


def grown_by(lines: Sequence[Growing] | None) -> dict[Hashable, int | None] | None:
    """How much each thing grew, for a table that has more of it; None: it is not compared with another snapshot."""
    return None if lines is None else {line.key: line.bytes.change for line in lines}


def change_in(grown: Mapping[Hashable, int | None] | None, key: Hashable) -> Change | None:
    """The cell for a thing."""
    return None if grown is None else change_of(grown.get(key))


def _table(
    comparison: Comparison, title: str, what: str, of: Iterable[tuple[str, Delta, Growing]], counts: str = "chunks"
) -> GrownTable:
    moved = [each for each in of if each[1].change != 0]
    lines = [
        GrownLine(
            name=cut(printable(name)),
            before=amount(held.before),
            after=amount(held.after),
            change=change_of(held.change),
            rate=rate(comparison.per_minute(held)),
            more=signed_count(line.count.change) if line.count else "",
            status=line.status if line.status and line.status != BOTH else "",
            key=line.key,
        )
        for name, held, line in moved
    ]
    counted = counts if any(line.more not in {"", UNKNOWN} for line in lines) else ""
    return GrownTable(title, what, ends(lines, SHOWN), counted, len(lines))
