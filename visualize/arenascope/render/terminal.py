# SPDX-License-Identifier: MIT
"""What all that is shown in a terminal shares: the console, colours, and tables that fit or are never cut."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult
    from rich.table import Column

NAME: Final = 20  # columns of a name, however narrow the terminal is
BETWEEN: Final = 2  # columns between two of a table without a box

# Red: in use. Yellow: cached. Green and cyan: comes back with a trim. Grey: free, but stays.
STYLES: Final = {
    "HELD": "red",
    "CACHED": "yellow",
    "STRANDED": "bright_black",
    "RELEASABLE": "green",
    "WITHHELD": "cyan",
    "OVERHEAD": "blue",
    "OTHER": "magenta",
    "UNKNOWN": "bright_black",
}


def console(*, stderr: bool = False) -> Console:
    """A console that reads neither markup nor emoji in anything, and does not squeeze tables for a file or a pipe.

    $COLUMNS is the width of both.
    """
    make = partial(Console, stderr=stderr, markup=False, emoji=False, highlight=False)
    made = make()
    if made.is_terminal or os.environ.get("COLUMNS", "").isdecimal():
        return made
    return make(width=max(made.width, 120))


class Fitting:
    """The first of some renderings that the terminal has room for, none of its cells cut or wrapped; else the last."""

    def __init__(self, *renderings: RenderableType) -> None:
        """Widest first."""
        self._renderings = renderings

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Choose."""
        fitting = (each for each in self._renderings if fits(each, console, options))
        yield next(fitting, self._renderings[-1])


def fits(rendering: RenderableType, console: Console, options: ConsoleOptions) -> bool:
    """Whether none of its cells has to be cut or wrapped."""
    lines = console.render_lines(rendering, options.update(width=1000), pad=False)
    return max(map(Segment.get_line_length, lines), default=0) <= options.max_width


def _needed(table: Table) -> int:
    """How many columns of the terminal a table takes, so that no number of it is cut."""
    needed = -BETWEEN
    for column in table.columns:
        width = max(len(str(cell)) for cell in (column.header, *column.cells))
        needed += BETWEEN + (width if column.no_wrap else min(width, NAME))
    return needed


class Uncut:
    """A table whose numbers are never cut: lines for which a terminal is too narrow, it breaks by itself.

    Numbers are in columns that are not wrapped; each other one has NAME columns of the terminal. For print() with
    crop=False.
    """

    def __init__(self, table: Table) -> None:
        """It has all its rows."""
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as if there were room."""
        yield from console.render(self._table, options.update(width=max(options.max_width, _needed(self._table))))


def title(words: str) -> Text:
    """What stands above a table."""
    return Text(f"\n{words}", style="bold")


def _longest(column: Column) -> int:
    """The columns of the terminal that a table's column takes if nothing is wrapped."""
    lines = (line for cell in (column.header, *column.cells) for line in str(cell).splitlines())
    return max(map(cell_len, lines), default=0)


class _Plain(Table):
    """A table whose names are wrapped rather than that a number is cut; a terminal that is too narrow breaks lines."""

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """As rich has it, which measures each cell twice, by eight calls: a fifth of the time to print a summary."""
        return Measurement(_needed(self), sum(map(_longest, self.columns)) + BETWEEN * (len(self.columns) - 1))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it with the room that its numbers take."""
        yield from super().__rich_console__(console, options.update(width=max(options.max_width, _needed(self))))


def plain_table(*columns: str) -> Table:
    """A plain table; a column whose title begins with ">" is aligned to the right and never wrapped."""
    table = _Plain(header_style="dim", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        right = column.startswith(">")
        justify = "right" if right else "left"
        table.add_column(column.lstrip(">"), justify=justify, no_wrap=right, overflow="fold")  # type: ignore[arg-type]
    return table


def known_first(held: int | None) -> int:
    """A key to sort numbers by, largest first: what is not known comes last, lest it resemble the largest."""
    return -1 if held is None else held
