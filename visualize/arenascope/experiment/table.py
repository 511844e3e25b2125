# SPDX-License-Identifier: MIT
"""The analysis in a terminal, and the list of what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from arenascope.experiment.columns import cell, heading, marks_table, used
from arenascope.experiment.verdict import verdict
from arenascope.humanize import printable
from arenascope.render.group import Group
from arenascope.render.terminal import fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        while not fits(self._of(columns), console, options) and len(columns) > FEWEST:
            least = next((each for title in FIRST_OUT for each in columns if each.title == title), columns[-1])
            columns.remove(least)
            left_out.append(least.title)
        yield self._of(columns)
        if left_out:
            yield Text(f"Left out for lack of room: {', '.join(left_out)}. The page has all.", style="dim")

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
        if fits(table, console, options):
            yield Text("\nMemory at points of the work", style="bold")
            yield table
        else:
            points = len(self._header) - 1
            yield Text(
                f"Left out for lack of room: the memory at {points} points of the work. The page has it.", style="dim"
            )


def _parts(analysis: Analysis) -> Iterator[RenderableType]:
    outcome = verdict(analysis)
    yield Text(f"\n{printable(analysis.spec.title)}", style="bold")
    yield Text(outcome.lead, style="bold green")
    yield _Figures(analysis)
    if analysis.enough:
        yield Text(
            "Medians of runs, with the 95 % interval below. *: no other configuration is better in memory or CPU "
            f"without being worse in the other. ~: cannot be told from {analysis.spec.baseline}.",
            style="dim",
        )
    if analysis.marks:
        yield _Marks(analysis)
    for caveat in outcome.caveats:
        yield Text(caveat, style="yellow")
    for name, why in analysis.left_out.items():
        yield Text(f"{name}: not available here: {printable(why)}", style="dim")


def render_list(outcome: Json) -> RenderableType:
    """What `arenascope experiment list` shows."""
    experiments = [(each["name"], _experiment(each)) for each in outcome["experiments"]]
    matrices = [(name, Text(", ".join(names))) for name, names in outcome["matrices"].items()]
    configurations = [(each["name"], _configuration(each)) for each in outcome["configurations"]]
    return Group(
        Text("Experiments", style="bold"),
        _listed(experiments),
        Text("\nMatrices", style="bold"),
        _listed(matrices),
        Text("\nConfigurations", style="bold"),
        _listed(configurations),
    )


def _experiment(outcome: Json) -> Text:
    says = Text(outcome["title"]).append(
        f"\nimitates: {outcome['imitates']}\ndifferences: {outcome['differs']}", style="dim"
    )
    if outcome["missing"]:
        says.append(f"\nnot available here: {outcome['missing']}", style="yellow")
    return says


def _configuration(outcome: Json) -> Text:
    says = Text(outcome["says"])
    if outcome["missing"]:
        says.append(f"; not available here: {outcome['missing']}", style="yellow")
    return says


def _table() -> Table:
    return Table(header_style="dim", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)


def _listed(of: Iterable[tuple[str, RenderableType]]) -> Table:
    """Names, and beside each what is to be said of it, however many lines that takes."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, says in of:
        table.add_row(f"  {name}", says)
    return table
