# SPDX-License-Identifier: MIT
"""The page's tables, as values for the template: of one dump, or of two side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from arenascope.coverage import by_chunks, cells_of
from arenascope.humanize import UNKNOWN, count, printable, share, size
from arenascope.report.amounts import Amount, Change, amount, change
from arenascope.report.page.inputs import address_of
from arenascope.report.page.labels import TUNABLES
from arenascope.rows import ABSENT, BAR, BESIDE, RESIDENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from arenascope.report.map.order import Regions
    from arenascope.report.page.inputs import PageFacts
    from arenascope.rows import Row
    from arenascope.wire.summary.heaps import Arena

SHOWN_ARENAS: Final = 200
SHOWN_PINS: Final = 24
SHOWN_THREADS: Final = 4


class Painted(Protocol):
    """What a bar can show a part of: a row of the ledger, say."""

    @property
    def paint(self) -> str:
        """Class of its colour in the style sheet."""

    @property
    def title(self) -> str:
        """What it is called."""


class BarPart(NamedTuple):
    """A part of a bar: offset and width in per cent."""

    row: Painted
    x: float
    width: float
    title: str


class Line(NamedTuple):
    """A row of the ledger, of each dump."""

    row: Row
    meaning: str
    amounts: list[Amount]
    change: Change | None


def bars(facts: list[PageFacts]) -> list[list[BarPart]]:
    """The ledger's rows side by side: offsets and widths in per cent, of the same length for the same bytes."""
    lengths = [fact.summary.sums.known or 0 for fact in facts]
    return [
        bar([(row, fact.row(row.name)) for row in BAR], own, max([*lengths, 1])) for fact, own in zip(facts, lengths)
    ]


def bar(held: Iterable[tuple[Painted, int | None]], own: int, whole: int) -> list[BarPart]:
    """Bytes side by side. `own`: what their shares are of; `whole`: the bytes that are as long as all bars may be."""
    parts, behind = [], 0
    for row, bytes_ in held:
        if bytes_:
            title = f"{row.title}: {size(bytes_)}, {share(bytes_, own)}"
            parts.append(BarPart(row, 100 * behind / whole, 100 * bytes_ / whole, title))
            behind += bytes_
    return parts


def ledger(facts: list[PageFacts]) -> list[Line]:
    """The rows in which something is, largest first; what is not known comes last, lest it resemble the largest."""
    table = []
    for row in RESIDENT:
        held = [fact.row(row.name) for fact in facts]
        if any(number != 0 for number in held):
            amounts = [amount(number, fact.whole) for number, fact in zip(held, facts)]
            table.append(Line(row, facts[-1].summary.allocator.meaning(row), amounts, change(held)))
    return sorted(table, key=lambda line: -max((a.exact if a.exact is not None else -1) for a in line.amounts))


def absent(facts: list[PageFacts]) -> list[Line]:
    """What malloc has beside Rss."""
    lines = []
    for row in (*ABSENT, *BESIDE):
        held = [(fact.summary.absent if row in ABSENT else fact.summary.beside)[row.name] for fact in facts]
        if any(held) or None in held:
            amounts = [amount(number) for number in held]
            lines.append(Line(row, row.meaning, amounts, change(held)))
    return lines


class ChunkLine(NamedTuple):
    """Chunks of one kind, of each dump: how many, and their bytes."""

    name: str
    amounts: list[tuple[str, Amount]]


def chunks(facts: list[PageFacts]) -> list[ChunkLine]:
    """All chunks, resident or not, by what they are: what there is to say where residency is not known."""
    return [
        ChunkLine(tallies[0][0].replace("_", " "), [(count(each.count), amount(each.bytes)) for _, each in tallies])
        for tallies in zip(*(fact.summary.chunks.items() for fact in facts))
    ]


# How the resident rows of an arena are drawn, from left to right. Of chunks nothing is: they need not be resident.
PARTS: Final = {
    "in use": "used",
    "cached": "cached",
    "stranded": "stranded",
    "releasable": "releasable",
    "withheld": "withheld",
}


def arena_columns(facts: PageFacts) -> list[str]:
    """The columns of the table of arenas: the rows in the order in which they are drawn, or the chunks."""
    titles = list(cells_of(facts.summary, facts.summary.arenas[0]).held) if facts.summary.arenas else []
    return titles if by_chunks(facts.summary) else list(PARTS)


class ArenaPart(NamedTuple):
    """A part of an arena's bar: offset and width in per cent of the largest arena."""

    colour: str
    x: float
    width: float


@dataclass(frozen=True)
class ArenaLine:
    """An arena in the table."""

    index: int  # on the map
    name: str
    address: str
    heaps: int
    threads: str
    cells: list[Amount]
    free: Amount
    ruby: Amount
    parts: list[ArenaPart]
    notes: list[str]


def arenas(facts: PageFacts, laid: Regions) -> list[ArenaLine]:
    """The arenas that hold most free memory, most first."""
    having = [(cells_of(facts.summary, arena), arena) for arena in facts.summary.arenas]
    having.sort(key=lambda each: -1 if each[0].free is None else each[0].free, reverse=True)
    shown = having[:SHOWN_ARENAS]
    painted = [_painted(facts, arena) for _, arena in shown]
    largest = max((sum(held for _, held in parts) for parts in painted), default=0) or 1
    return [
        ArenaLine(
            index=laid.arenas.index(address_of(arena)),
            name=arena.name,
            address=arena.address or UNKNOWN,
            heaps=arena.heaps,
            threads=threads_of(arena),
            cells=[amount(cells.held[title]) for title in arena_columns(facts)],
            free=amount(cells.free),
            ruby=amount(arena.ledger["ruby_pages"]),
            parts=list(_arena_bar(parts, largest)),
            notes=[note for note, applies in (("corrupt", arena.corrupt), ("locked", arena.locked)) if applies],
        )
        for (cells, arena), parts in zip(shown, painted)
    ]


def _painted(facts: PageFacts, arena: Arena) -> list[tuple[str, int]]:
    """The parts of an arena's bar, with their bytes."""
    if by_chunks(facts.summary):
        return []
    held = cells_of(facts.summary, arena).held
    return [("ruby", arena.ledger["ruby_pages"] or 0), *((paint, held[title] or 0) for title, paint in PARTS.items())]


def _arena_bar(parts: list[tuple[str, int]], largest: int) -> Iterator[ArenaPart]:
    behind = 0.0
    for paint, held in parts:
        width = 100 * held / largest
        if width:
            yield ArenaPart(paint, behind, width)
        behind += width


def threads_of(arena: Arena) -> str:
    """The threads that use an arena, by name."""
    named = [f"{printable(thread.name) or 'thread'} {thread.tid}" for thread in arena.threads[:SHOWN_THREADS]]
    if len(arena.threads) > SHOWN_THREADS:
        named.append(f"{len(arena.threads) - SHOWN_THREADS} more")
    nobody = arena.attached_threads == 0 and not arena.main
    return ", ".join(named) or ("no thread" if nobody else "not found")


@dataclass(frozen=True)
class PinLine:
    """Pins of one size."""

    size: int | None
    count: int | None
    pages: int | None
    stranded: Amount
    tails: int | None
    tail_bytes: Amount
    in_use: int | None
    on_map: bool


def pins(facts: PageFacts, on_map: list[int]) -> list[PinLine]:
    """What keeps free memory, by chunk size; `on_map`: the sizes whose pages the map can light up."""
    shown = set(on_map)
    return [
        PinLine(
            size=pin.chunk_size,
            count=pin.count,
            pages=pin.pages,
            stranded=amount(pin.stranded),
            tails=pin.tails,
            tail_bytes=amount(pin.tail_bytes),
            in_use=pin.in_use,
            on_map=pin.chunk_size in shown,
        )
        for pin in facts.summary.pins[:SHOWN_PINS]
    ]


class TunableLine(NamedTuple):
    """A tunable, in each malloc."""

    name: str
    cells: list[str]
    meaning: str


class TunableTable(NamedTuple):
    """The tunables of each malloc."""

    titles: list[str]
    lines: list[TunableLine]


def tunables(facts: PageFacts) -> TunableTable:
    """Every malloc's tunables: a column for each malloc, a line for each that any of them has."""
    mallocs = facts.summary.mallocs
    lines = []
    for name, (kind, meaning) in TUNABLES.items():
        values = [malloc.tunables.value(name) for malloc in mallocs]
        if any(value is not None for value in values):
            lines.append(TunableLine(name, [_tunable(value, kind) for value in values], meaning))
    titles = [printable(malloc.path or "") or f"malloc {index + 1}" for index, malloc in enumerate(mallocs)]
    return TunableTable(titles if len(titles) > 1 else ["value"], lines)


def _tunable(value: int | None, kind: str) -> str:
    if value is None:
        return "\N{EN DASH}"
    return size(value) if kind == "bytes" and value else count(value)
