# SPDX-License-Identifier: MIT
"""The analysis in a terminal, and the list of what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from arenascope.experiment.columns import cell, heading, marks_table, used
from arenascope.experiment.verdict import verdict
from arenascope.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from arenascope.experiment.analysis import Analysis
    from arenascope.experiment.columns import Column

    Json = dict[str, Any]


# Which columns go first where there is little room: work is fixed, so operations are another word for wall.
FIRST_OUT: Final = ("operations", "wall", "peak")
FEWEST: Final = 1


def render(analysis: Analysis) -> RenderableType:
    """What the terminal shows."""
    return Group(*_parts(analysis))


class _Figures:
    """The comparison, with as many columns as the terminal has room for."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [each for each in used(self._analysis) if each.terminal]
        left_out = []
        while not _fits(self._of(columns), console, options) and len(columns) > FEWEST:
            least = next((each for title in FIRST_OUT for each in columns if each.title == title), columns[-1])
            columns.remove(least)
            left_out.append(least.title)
        yield self._of(columns)
        if left_out:
            yield Text(f"No room here for: {', '.join(left_out)}. The page has all.", style="dim")

    def _of(self, columns: list[Column]) -> Table:
        table, front = _table(), self._analysis.front
        table.add_column("", no_wrap=True)
        table.add_column("runs", justify="right", no_wrap=True)
        for column in columns:
            table.add_column(heading(column), justify="right", no_wrap=True)
        for row in self._analysis.rows:
            name = Text(f"{row.name} *", style="bold") if row.name in front else Text(row.name)
            table.add_row(name, str(row.runs), *(cell(self._analysis, row, each) for each in columns))
        return table


class _Marks:
    """The memory at points of the work, where the terminal has room for them."""

    def __init__(self, analysis: Analysis) -> None:
        self._header, self._lines = marks_table(analysis)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = _table()
        for index, title in enumerate(self._header):
            table.add_column(title, justify="right" if index else "left", no_wrap=True)
        for line in self._lines:
            table.add_row(*line)
        if _fits(table, console, options):
            yield Text("\nMemory at points of the work", style="bold")
            yield table
        else:
            points = len(self._header) - 1
            yield Text(f"No room here for the memory at {points} points of the work. The page has it.", style="dim")


def _parts(analysis: Analysis) -> Iterator[RenderableType]:
    told = verdict(analysis)
    yield Text(f"\n{printable(analysis.spec.title)}", style="bold")
    yield Text(told.lead, style="bold green")
    yield _Figures(analysis)
    if analysis.enough:
        yield Text(
            "Medians of runs, with the 95 % interval below. *: no other is better in memory or CPU and no worse in the "
            f"other. ~: cannot be told from {analysis.spec.baseline}.",
            style="dim",
        )
    if analysis.marks:
        yield _Marks(analysis)
    for caveat in told.caveats:
        yield Text(caveat, style="yellow")
    for name, why in analysis.left_out.items():
        yield Text(f"{name}: not available here: {printable(why)}", style="dim")


def render_list(told: Json) -> RenderableType:
    """What `arenascope experiment list` shows."""
    parts: list[RenderableType] = [Text("Experiments", style="bold")]
    for each in told["experiments"]:
        parts.append(Text(f"  {each['name']:12}").append(each["title"]))
        parts.append(Text(f"{'':14}imitates: {each['imitates']}", style="dim"))
        parts.append(Text(f"{'':14}differs: {each['differs']}", style="dim"))
        if each["missing"]:
            parts.append(Text(f"{'':14}not available here: {each['missing']}", style="yellow"))
    parts.append(Text("\nMatrices", style="bold"))
    parts += [Text(f"  {name:12}{', '.join(names)}") for name, names in told["matrices"].items()]
    parts.append(Text("\nConfigurations", style="bold"))
    for each in told["configurations"]:
        line = Text(f"  {each['name']:18}").append(each["says"])
        if each["missing"]:
            line.append(f"; not available here: {each['missing']}", style="yellow")
        parts.append(line)
    return Group(*parts)


def _fits(table: Table, console: Console, options: ConsoleOptions) -> bool:
    """Whether no cell has to be cut."""
    return console.measure(table, options=options.update(width=1000)).maximum <= options.max_width


def _table() -> Table:
    return Table(header_style="dim", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
