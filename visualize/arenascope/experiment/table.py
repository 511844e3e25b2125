# SPDX-License-Identifier: MIT
"""The analysis in a terminal, and the list of what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from arenascope.experiment.columns import cell, heading, marks_table, used
from arenascope.experiment.verdict import verdict
from arenascope.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from arenascope.experiment.analysis import Analysis

    Json = dict[str, Any]


def render(analysis: Analysis) -> RenderableType:
    """What the terminal shows."""
    return Group(*_parts(analysis))


def _parts(analysis: Analysis) -> Iterator[RenderableType]:
    told = verdict(analysis)
    yield Text(f"\n{printable(analysis.spec.title)}", style="bold")
    yield Text(told.lead, style="bold green")
    table = _table()
    columns = [each for each in used(analysis) if each.terminal]
    table.add_column("", no_wrap=True)
    table.add_column("runs", justify="right")
    for column in columns:
        table.add_column(heading(column), justify="right", no_wrap=True)
    for row in analysis.rows:
        style = "bold" if row.name in analysis.front else ""
        table.add_row(
            Text(f"{row.name}{' *' if row.name in analysis.front else ''}", style=style),
            str(row.runs),
            *(cell(analysis, row, each) for each in columns),
        )
    yield table
    if analysis.enough:
        yield Text(
            "Medians of runs, with the 95 % interval below. *: no other is better in memory or CPU and no worse in the "
            f"other. ~: cannot be told from {analysis.spec.baseline}.",
            style="dim",
        )
    if analysis.marks:
        table = _table()
        header, lines = marks_table(analysis)
        for index, title in enumerate(header):
            table.add_column(title, justify="right" if index else "left")
        for line in lines:
            table.add_row(*line)
        yield Text("\nMemory at points of the work", style="bold")
        yield table
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


def _table() -> Table:
    return Table(header_style="dim", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
