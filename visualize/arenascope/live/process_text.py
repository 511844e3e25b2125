# SPDX-License-Identifier: MIT
"""One process as lines of text for the live view: its ledger, its arenas, what grows, and its pages in cells."""

from __future__ import annotations

import time
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.text import Text

from arenascope.coverage import shortened, total
from arenascope.humanize import (
    UNKNOWN,
    age,
    compact,
    duration,
    plural,
    printable,
    rate,
    share,
    signed,
    signed_count,
    size,
    span,
)
from arenascope.render.terminal import STYLES, known_first
from arenascope.report.colours import APPEARANCES, Colour
from arenascope.rows import RESIDENT
from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from arenascope.compare.changes import Comparison, Delta, Growing
    from arenascope.compare.digest import Digest, Group, Pages
    from arenascope.live.process_history import ProcessHistory, Profiled

BLOCKS: Final = "▁▂▃▄▅▆▇█"
NAME: Final = 16
BAR: Final = 12
FEW: Final = 3  # lines of arenas, and of what grows, in a low terminal; twice as many of the ledger
MANY: Final = 8  # in a high one
HIGH: Final = 36
LEAST_MAP: Final = 3  # lines
NORMAL: Final = 75  # columns: narrower terminals show less of each thing

# As the ledger's rows: what each page is.
PAINT: Final = {
    fmt.PageState.USED: STYLES["HELD"],
    fmt.PageState.PINNED: "bold red",
    fmt.PageState.CACHED: STYLES["CACHED"],
    fmt.PageState.STRANDED: STYLES["STRANDED"],
    fmt.PageState.RELEASABLE: STYLES["RELEASABLE"],
    fmt.PageState.WITHHELD: STYLES["WITHHELD"],
    fmt.PageState.RETURNED: "dim",
    fmt.PageState.UNTOUCHED: "dim",
    fmt.PageState.SWAPPED: "magenta",
    fmt.PageState.UNKNOWN: "yellow",
}
# States from USED to UNTOUCHED have the numbers of their colours.
LETTERS: Final = {
    state: APPEARANCES[Colour(state)].letter if state < fmt.PageState.SWAPPED else {9: "X", 10: "?"}[state]
    for state in fmt.PageState
}


def draw_process(history: ProcessHistory, width: int, height: int, noted: Sequence[Text] = ()) -> list[Text]:
    """So many lines at most. `noted`: what there is to say besides."""
    lines = [*_head(history, width), *noted]
    if history.last is None:
        return lines
    digest, growth = history.last.digest, history.growth
    few = MANY if height >= HIGH else FEW
    lines += [Text(), *_ledger(digest, growth, width, 2 * few + 1)]
    if history.recorded is not None and digest.sites is not None:
        lines += [Text(), *_sites(history.recorded, digest.sites, history.sites_before, width, few)]
    if digest.arenas:
        lines += [Text(), *_arenas(digest, growth, width, few)]
    if growth is not None:
        lines += [Text(), *_growing(growth, width, few)]
    room = height - len(lines) - 2
    if digest.pages is not None and room >= LEAST_MAP:
        before = history.before.digest.pages if history.before else None
        lines += [Text(), *_map(digest.pages, before, width, room)]
    return lines[:height]


def _head(history: ProcessHistory, width: int) -> Iterator[Text]:
    process, digest = history.process, history.last.digest if history.last else None
    line = Text(printable(process.comm), style="bold").append(f" (pid {process.pid})", style="not bold")
    yield line.append(f"  {printable(process.cmdline)}", style="not bold dim")
    if history.ended is not None:
        when = time.strftime("%H:%M:%S", time.localtime(history.ended))
        yield Text(f"The process has ended (seen at {when}). This is its last snapshot.", style="bold yellow")
    elif history.why:
        yield Text(f"No snapshot: {printable(history.why)}", style="yellow")
    else:
        words = "The first snapshot is under way." if digest is None else _facts(history, digest)
        yield from map(Text, wrap(words, width))
    if history.rss:
        yield _sparkline(history.rss, width)


def _facts(history: ProcessHistory, digest: Digest) -> str:
    exact = "exact" if digest.who.exact else "not exact"
    ago = time.monotonic() - (history.at or 0)
    words = f"Rss {size(digest.rss)}, swap {size(digest.swap)}; {digest.who.mode}, {exact}, {age(ago)} ago"
    return f"{words}, {duration(None if history.cost is None else history.cost * 1000)} of processor time"


def _sparkline(rss: Sequence[int], width: int) -> Text:
    low, high = min(rss), max(rss)
    words = f" ~{compact(low)} to ~{compact(high)}"
    shown = rss[-max(1, width - len(words) - 5) :]
    steps = [0 if high == low else round((each - low) * (len(BLOCKS) - 1) / (high - low)) for each in shown]
    return Text("Rss ").append("".join(BLOCKS[step] for step in steps), style="cyan").append(words, style="dim")


def _padded(*cells: tuple[str | Text, int]) -> Text:
    """Cells side by side; a width below 0: aligned to the left."""
    line = Text()
    for cell, width in cells:
        text = cell if isinstance(cell, Text) else Text(cell)
        room = " " * max(0, abs(width) - text.cell_len)
        line.append_text(text).append(room) if width < 0 else line.append(room).append_text(text)
        line.append(" ")
    return line


def _ledger(digest: Digest, growth: Comparison | None, width: int, lines: int) -> Iterator[Text]:
    since = {} if growth is None else {each.key: each.bytes for each in growth.rows}
    known = [digest.rows[row.name] or 0 for row in RESIDENT]
    wide = width >= NORMAL
    rows = [row for row in RESIDENT if digest.rows[row.name] != 0]
    rows.sort(key=lambda row: known_first(digest.rows[row.name]), reverse=True)
    shown = rows if len(rows) <= lines else rows[: lines - 1]
    for row in shown:
        held = digest.rows[row.name]
        bar = "█" * round(BAR * (held or 0) / (max(known) or 1))
        cells: list[tuple[str | Text, int]] = [
            (Text(row.title, style=STYLES[row.group]), -NAME),
            (size(held) if wide else compact(held), 10 if wide else 6),
        ]
        if wide:
            cells += [(share(held, digest.rss), 8)]
        cells += [(_change(since.get(row.name)), 12)]
        if wide:
            cells += [(Text(bar, style=STYLES[row.group]), -BAR)]
        yield _padded(*cells)
    if rest := rows[len(shown) :]:
        words, held = f"{len(rest)} others", total(digest.rows[row.name] for row in rest)
        yield _padded((words, -NAME), (size(held) if wide else compact(held), 10 if wide else 6))


def _change(delta: Delta | None) -> Text:
    change = None if delta is None else delta.change
    return Text("" if not change else signed(change), style="dim")


def _arenas(digest: Digest, growth: Comparison | None, width: int, few: int) -> Iterator[Text]:
    since = {} if growth is None else {each.address: each.bytes for each in growth.arenas}
    names = ["in use", "releasable", "withheld", "stranded"] if width >= NORMAL else []
    titles = [(Text(name, style="bold"), max(len(name), 8)) for name in ["resident", *names]]
    yield _padded((Text(plural(len(digest.arenas), "arena"), style="bold"), -12), *titles)
    largest = sorted(digest.arenas.items(), key=lambda each: known_first(each[1].resident), reverse=True)
    for address, arena in largest[:few]:
        held = shortened(arena.rows)
        numbers = [(compact(each), max(len(name), 8)) for name, each in zip(names, (held[name] for name in names))]
        yield _padded((arena.name, -12), (compact(arena.resident), 8), *numbers, (_change(since.get(address)), 12))


def _sites(recorded: Profiled, sites: Group, before: Group | None, width: int, few: int) -> Iterator[Text]:
    """Who allocated what is in use; and how much has no call stack."""
    rate_of = recorded.page_rate
    how = "of every chunk" if rate_of == 1 else f"estimated from the chunks on one page in {rate_of}"
    yield Text("In use by call stack", style="bold").append(f" ({how})", style="not bold")
    most = sorted(sites.listed.items(), key=lambda each: known_first(each[1].held.bytes), reverse=True)
    shown = [(key, named) for key, named in most[:few] if named.held.bytes]
    if not shown:
        yield Text("nothing yet", style="dim")
    for key, (title, held) in shown:
        was = before.held(key).bytes if before else None
        change = None if was is None or held.bytes is None else held.bytes - was
        yield _site(title, held.bytes, plural(held.count, "chunk"), signed(change) if change else "", width)
    if recorded.unseen:
        yield _site("allocated before, or by code that is not seen", recorded.unseen, "", "", width)
    if recorded.lost:
        yield _site("without a stack", recorded.lost, "", "", width)


def _site(title: str, held: int | None, count: str, change: str, width: int) -> Text:
    if width < NORMAL:
        return _padded((compact(held), 6), (printable(title), -NAME))
    cells = (size(held), 10), (Text(change, style="dim"), 11), (count, 14)
    return _padded(*cells, (printable(title), -NAME))


def _growing(growth: Comparison, width: int, few: int) -> Iterator[Text]:
    elapsed = UNKNOWN if growth.elapsed_s is None else span(growth.elapsed_s)
    grown = [
        (words.format(each.title), each)
        for words, lines in (
            ("chunks of {} B", growth.sizes),
            ("type {}", growth.types),
            ("owner {}", growth.owners),
            ("objects {}", growth.objects),
            ("class {}", growth.classes),
            ("call stack {}", growth.sites),
        )
        for each in lines or ()
        if (each.bytes.change or 0) > 0
    ]
    yield Text(f"{'Nothing has grown' if not grown else 'Grows most'} (in {elapsed})", style="bold")
    grown.sort(key=lambda pair: -(pair[1].bytes.change or 0))
    for words, each in grown[:few]:
        yield _grown(printable(words), each, growth, width)


def _grown(words: str, each: Growing, growth: Comparison, width: int) -> Text:
    cells: list[tuple[str | Text, int]] = [(signed(each.bytes.change), 11)]
    if width >= NORMAL:
        cells += [(rate(growth.per_minute(each.bytes)), 16)]
        cells += [(signed_count(each.count.change if each.count else None), 9)]
    return _padded(*cells, (words, -NAME))


def cells_of(pages: Pages, before: Pages | None, cells: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """The pages in so many cells at most: what most pages of each are, whether one has changed; and pages in a cell."""
    count = len(pages.state)
    each = max(1, -(-count // cells))
    of = np.arange(count) // each
    kinds = max(fmt.PageState) + 1
    many = np.bincount(of * kinds + pages.state, minlength=(int(of[-1]) + 1) * kinds).reshape(-1, kinds)
    changed = np.zeros(len(many), dtype=bool)
    if before is not None and len(before.address):
        place = np.minimum(np.searchsorted(before.address, pages.address), len(before.address) - 1)
        same = (before.address[place] == pages.address) & (before.state[place] == pages.state)
        changed[np.unique(of[~same])] = True
    return many.argmax(axis=1), changed, each


def _map(pages: Pages, before: Pages | None, width: int, lines: int) -> Iterator[Text]:
    if not len(pages.state):
        return
    states, changed, each = cells_of(pages, before, width * (lines - (1 if width >= NORMAL else 2)))
    words = f"Pages, {each} to a cell:" if each > 1 else "Pages:"
    yield from _flowing([Text(words, style="bold"), *(_legend(state) for state in sorted(set(states.tolist())))], width)
    for start in range(0, len(states), width):
        line = Text()
        for state, new in zip(states[start : start + width].tolist(), changed[start : start + width].tolist()):
            paint = PAINT[fmt.PageState(state)]
            line.append(LETTERS[fmt.PageState(state)], style=f"{paint} reverse" if new else paint)
        yield line


def _legend(state: int) -> Text:
    named = fmt.PageState(state)
    return Text(LETTERS[named], style=PAINT[named]).append(f" {named.name.lower()}", style="dim")


def _flowing(parts: Sequence[Text], width: int) -> Iterator[Text]:
    """Parts one after the other, in as many lines as it takes."""
    line = Text()
    for part in parts:
        if line and line.cell_len + 1 + part.cell_len > width:
            yield line
            line = Text()
        line.append(" " if line else "").append_text(part)
    yield line
