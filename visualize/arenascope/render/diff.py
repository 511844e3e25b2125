# SPDX-License-Identifier: MIT
"""Two snapshots beside each other in a terminal: what grew most first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from arenascope import rows
from arenascope.compare.changes import PINS, ends
from arenascope.compare.diff_json import pinned_words
from arenascope.humanize import count, printable, rate, signed, signed_count, size, span
from arenascope.render.group import Group
from arenascope.render.terminal import STYLES, plain_table, title

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from arenascope.compare import Comparison, Delta, Growing
    from arenascope.compare.changes import ArenaGrowth
    from arenascope.compare.digest import Seen

SHOWN: Final = 12  # lines of a table: those that grew most, and those that shrank most
BY_SIZE: Final = "chunk size"
WORDS: Final = {"new": "new", "gone": "gone", "both": "", None: "?"}


def render_diff(comparison: Comparison) -> RenderableType:
    """Everything that the terminal shows of a comparison."""
    return Group(*_parts(comparison))


def _parts(of: Comparison) -> Iterator[RenderableType]:
    yield _heading(of.before, of.after)
    yield _lead(of)
    for note in of.notes:
        yield Text(f"{note.text}", style="yellow")
    yield title("What changed")
    yield _rows(of)
    if of.rss.change is None:
        yield title("Chunks, resident or not")
        yield from _lines(of, of.chunks, "chunks")
    if any(line.moved for line in of.sizes):
        yield title("Chunks in use by size")
        yield from _lines(of, of.sizes, BY_SIZE)
    for named in of.named:
        yield title(named.title)
        yield from _lines(of, named.lines, named.what)
    arenas = [arena for arena in of.arenas if arena.bytes.change != 0 or arena.in_use.change != 0]
    if arenas:
        yield title("Arenas")
        yield from _arenas(of, arenas)
    pins = [pin for pin in of.pins if pin.stranded.change != 0]
    if pins or of.pinned_pages:
        yield title(PINS)
    if of.pinned_pages:
        yield Text(pinned_words(of.pinned_pages))
    if pins:
        table = plain_table(">chunk size", ">stranded before", ">after", ">change", ">per minute", ">pins", "")
        for pin in ends(pins, SHOWN):
            table.add_row(
                size(pin.chunk_size),
                *_cells(of, pin.stranded),
                signed_count(pin.count.change),
                WORDS[pin.line.status],
            )
        yield table
        yield from _rest(pins)


def _heading(before: Seen, after: Seen) -> Text:
    names = [printable(each.comm) + (f" (pid {each.pid})" if each.pid is not None else "") for each in (before, after)]
    names = names if names[0] != names[1] else names[:1]
    return Text(" → ".join(names), style="bold", no_wrap=True, overflow="ellipsis")


def _lead(of: Comparison) -> Text:
    line = Text(f"Rss {size(of.rss.before)} → ").append(size(of.rss.after), style="bold")
    line.append(f": {signed(of.rss.change)}")
    if of.elapsed_s is not None and of.elapsed_s >= 0:
        line.append(f" in {span(of.elapsed_s)}")
    per_minute = of.per_minute(of.rss)
    return line.append(f" ({rate(per_minute)})" if per_minute else "")


def _cells(of: Comparison, held: Delta) -> tuple[str, ...]:
    return (size(held.before), size(held.after), signed(held.change), rate(of.per_minute(held)))


def _rows(of: Comparison) -> Table:
    """The resident rows that changed, and whole sums beside Rss."""
    table = plain_table("", ">before", ">after", ">change", ">per minute")
    for line in of.rows:
        row = rows.BY_NAME[line.title]
        nothing = line.bytes.before in {0, None} and line.bytes.after in {0, None}
        if line.bytes.change != 0 and row.kind != "FORECAST" and not (nothing and row.kind != "RESIDENT"):
            cells = _cells(of, line.bytes)
            table.add_row(Text(row.title, style=STYLES[row.group] if row.kind == "RESIDENT" else "dim"), *cells)
    if not table.row_count:
        table.add_row("nothing", "", "", "", "")
    return table


def _rest(lines: Sequence[object]) -> Iterator[Text]:
    if len(lines) > SHOWN:
        yield Text(f"and {count(len(lines) - SHOWN)} more in between: --json has them all", style="dim")


def _lines(of: Comparison, lines: Sequence[Growing], name: str) -> Iterator[RenderableType]:
    moved = [line for line in lines if line.moved]
    counted = any(line.count and line.count.change is not None for line in moved)
    first = f">{name}" if name == BY_SIZE else name
    table = plain_table(first, ">before", ">after", ">change", ">per minute", *([">count"] if counted else []), "")
    for line in ends(moved, SHOWN):
        many = [signed_count(line.count.change if line.count else None)] if counted else []
        what = size(int(line.title)) if name == BY_SIZE else printable(line.title)
        table.add_row(what, *_cells(of, line.bytes), *many, WORDS[line.status])
    yield table
    yield from _rest(moved)


def _arenas(of: Comparison, arenas: Sequence[ArenaGrowth]) -> Iterator[RenderableType]:
    known = any(arena.bytes.change is not None for arena in arenas)
    held = "resident" if known else "in use"
    table = plain_table("", "address", f">{held} before", ">after", ">change", ">per minute", ">in use", "")
    for arena in ends(arenas, SHOWN):
        cells = _cells(of, arena.bytes if known else arena.in_use)
        table.add_row(arena.title, f"{arena.address:#x}", *cells, signed(arena.in_use.change), WORDS[arena.status])
    yield table
    yield from _rest(arenas)
