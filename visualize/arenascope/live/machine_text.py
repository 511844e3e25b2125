# SPDX-License-Identifier: MIT
"""The machine's processes as lines of text: for the live view and for `arenascope top --once`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from arenascope.coverage import SHORT
from arenascope.humanize import age, compact, count, plural, printable, size
from arenascope.live.columns import COLUMNS, RSS, mark_of, taken, totals
from arenascope.live.process_table import Standing
from arenascope.render.terminal import STYLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arenascope.live.columns import Choice, Listed, Quantity
    from arenascope.live.process_table import Census, Entry

# Without these, one after the other, in a terminal that is too narrow for all columns.
LEAST_WANTED: Final = ("cached", "other", "stranded", "withheld", "age", "in use")
COMMAND: Final = 12  # columns of the terminal: what a command wants at least
NUMBER: Final = 6  # the widest of compact(), and a mark
STANDINGS: Final = {
    Standing.DENIED: "not permitted",
    Standing.FAILED: "snapshots failed",
    Standing.WAITING: "not yet inspected",
}
LEAST: Final = "\N{GREATER-THAN OR EQUAL TO}"
TIMES: Final = "\N{MULTIPLICATION SIGN}"
ASCII: Final = {LEAST: ">", "\N{EN DASH}": "-", TIMES: "x"}


class Drawing(NamedTuple):
    """How to draw."""

    width: int
    sort: str
    reverse: bool = False
    ascii_only: bool = False


def _widths(names: Iterable[str]) -> dict[str, int]:
    made = {}
    for name in names:
        least = {"PID": 7, "age": 6, "command": COMMAND}.get(name, NUMBER)
        made[name] = max(len(name), least)
    return made


def columns_for(width: int) -> list[str]:
    """The columns that a terminal has room for."""
    names = list(COLUMNS)
    for name in LEAST_WANTED:
        if sum(_widths(names).values()) + len(names) - 1 <= width:
            break
        names.remove(name)
    return names


def style_of(column: str) -> str:
    """The colour of a column of bytes."""
    return STYLES[SHORT[column][0]] if column in SHORT and column != "other" else ""


def header(drawing: Drawing) -> Text:
    """The titles of the columns; that by which lines are sorted stands out."""
    line = Text()
    names = columns_for(drawing.width)
    for name, width in _widths(names).items():
        style = "bold underline" if name == drawing.sort else "bold"
        word = Text(name, style=style)
        pad = " " * (width - len(name))
        line.append_text(word if name == "command" else Text(pad).append_text(word)).append(" ")
    return line


def draw_line(line: Listed, drawing: Drawing) -> Text:
    """A process, or a group of them."""
    text = Text(no_wrap=True)
    for name, width in _widths(columns_for(drawing.width)).items():
        if name == "command":
            text.append(printable(line.title))
        else:
            cell = _cell(line, name)
            text.append(" " * (width - cell_len(cell.plain))).append_text(cell).append(" ")
    return plain(text) if drawing.ascii_only else text


def _cell(line: Listed, name: str) -> Text:
    if name == "PID":
        entry = line.entry
        return Text(f"{TIMES}{len(line.members)}" if entry is None else str(entry.process.pid), style="dim")
    if name == "age":
        marks = {mark_of(entry) for entry in line.members}
        words = marks.pop() if len(marks) == 1 else ""
        return Text(words, style="yellow") if words else Text(age(line.age), style="dim")
    return Text(_bytes(line.cells[name]), style=style_of(name) if line.cells[name].bytes else "dim")


def _bytes(held: Quantity) -> str:
    mark = "" if held.bytes is None else LEAST if held.least else "~" if held.quick else ""
    return mark + compact(held.bytes)


def plain(text: Text) -> Text:
    """The same in ASCII."""
    made = text.plain
    for mark, instead in ASCII.items():
        made = made.replace(mark, instead)
    text.plain = made
    return text


def said(entries: Sequence[Entry], census: Census, choice: Choice) -> list[Text]:
    """What stands above the table: who is there, and what would come back."""
    sums = totals(entries)
    rss, back, more = sums[RSS], sums["releasable"], sums["withheld"]
    shown = f"{count(len(entries))} process{'' if len(entries) == 1 else 'es'}"
    shared = "; shared pages counted in each" if len(entries) > 1 else ""
    lines = [Text(f"{shown}, Rss {_words(rss)}, {count(taken(entries))} inspected{shared}")]
    come = Text("Would come back: ").append(_words(back), style="bold green").append(" by malloc_trim(0), ")
    lines.append(come.append(_words(more), style="bold cyan").append(" more by deep trims"))
    lines.append(Text("; ".join(_census(entries, census, choice)), style="dim"))
    return lines


def _words(held: Quantity) -> str:
    if held.bytes is None:
        return "unknown"
    mark = "at least " if held.least else "about " if held.quick else ""
    return mark + size(held.bytes)


def _census(entries: Sequence[Entry], census: Census, choice: Choice) -> list[str]:
    words = []
    filters = [f"{by} {name}" for by, name in choice.within] + [choice.words] * bool(choice.words)
    if filters:
        words.append(f"filter: {printable(', '.join(filters))} (of {count(census.processes)})")
    for standing, what in STANDINGS.items():
        many = sum(entry.standing is standing for entry in entries)
        if many:
            words.append(f"{count(many)} {what}")
    words.append(f"without memory of their own: {plural(census.kernel_threads, 'kernel thread')}")
    words[-1] += f", {plural(census.zombies, 'zombie')}"
    if census.vforked:
        words[-1] += f", {count(census.vforked)} in the memory of the parent (vfork)"
    return words
