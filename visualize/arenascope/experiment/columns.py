# SPDX-License-Identifier: MIT
"""The columns of the comparison: one list for the terminal and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.experiment.analysis import CPU
from arenascope.humanize import printable, size

if TYPE_CHECKING:
    from arenascope.experiment.analysis import Analysis, ConfigurationRow
    from arenascope.experiment.statistics import Estimate


class Column(NamedTuple):
    """A figure and how it is shown."""

    title: str
    name: str  # of the figure; a memory's begins with "_"
    unit: str  # "bytes", "s", "ms", "" (thousands), "count" (a small one), "/s"
    terminal: bool = True  # has a column there too, where there is little room

    def figure(self, kind: str) -> str:
        """The figure's name, given which kind of memory is compared."""
        return kind + self.name if self.name.startswith("_") else self.name


SWAP: Final = "swap_end"
COLUMNS: Final = (
    Column("average", "_average", "bytes"),
    Column("peak", "_peak", "bytes"),
    Column("end", "_end", "bytes"),
    Column("settled", "_settled", "bytes"),
    Column("swap at end", SWAP, "bytes", terminal=False),
    Column("CPU", CPU, "s"),
    Column("user", "cpu_user", "s", terminal=False),
    Column("system", "cpu_system", "s", terminal=False),
    Column("wall", "wall", "s"),
    Column("faults", "minor_faults", ""),
    Column("major faults", "major_faults", "count", terminal=False),
    Column("operations", "throughput", "/s"),
    Column("p50", "p50_ms", "ms", terminal=False),
    Column("p99", "p99_ms", "ms"),
)


def shown(value: float | None, unit: str) -> str:
    """A figure for people."""
    if value is None:
        return ""
    if unit == "bytes":
        return size(round(value)).replace("iB", "i")
    if unit == "s":
        return f"{value:.2f} s"
    if unit == "ms":
        return f"{value:.2f} ms"
    counted = f"{value / 1000:,.0f} k" if value >= 10_000 else f"{value:,.0f}"  # noqa: PLR2004 - four digits are enough
    return counted + unit


def interval(estimate: Estimate, unit: str) -> str:
    """An estimate's interval, in the unit of `heading`; empty where there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{bare(estimate.low, unit)}-{bare(estimate.high, unit)}"


def is_alike(analysis: Analysis, row: ConfigurationRow, column: Column) -> bool:
    """Whether a configuration cannot be told from the baseline, of the two figures that are compared."""
    figure = column.figure(analysis.kind)
    if figure not in analysis.differences or not analysis.enough:
        return False
    difference = analysis.difference(figure, analysis.spec.baseline, row.name)
    return difference is not None and not difference.apart


def used(analysis: Analysis) -> list[Column]:
    """The columns that have anything in them; swap only where there was some."""
    found = []
    for column in COLUMNS:
        figure = column.figure(analysis.kind)
        values = [value for row in analysis.rows for value in row.figures.get(figure, [])]
        if values and (figure != SWAP or any(values)):
            found.append(column)
    return found


def cell(analysis: Analysis, row: ConfigurationRow, column: Column) -> str:
    """A median, and below it its interval; without the unit, which stands in `heading`."""
    estimate = row.estimates.get(column.figure(analysis.kind))
    if estimate is None:
        return ""
    mark = "~" if is_alike(analysis, row, column) else ""
    middle = f"{mark}{bare(estimate.median, column.unit)}"
    around = interval(estimate, column.unit)
    return f"{middle}\n{around}" if around else middle


def heading(column: Column) -> str:
    """The title of a column, and its unit."""
    unit = {"bytes": "MiB", "/s": "k/s", "": "k", "count": ""}.get(column.unit, column.unit)
    return f"{column.title}\n{unit}"


def bare(value: float, unit: str) -> str:
    """A number with two or three digits, or a whole one, of the unit that the heading says."""
    if unit == "count":
        return f"{value:,.0f}"
    scaled = value / {"bytes": 1 << 20, "/s": 1000, "": 1000}.get(unit, 1)
    digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2 if scaled >= 0.1 or not scaled else 3  # noqa: PLR2004
    return f"{scaled:,.{digits}f}"


def marks_table(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    """The memory at marks: a header, and a line for each configuration."""
    header = ["", *(printable(mark.name) for mark in analysis.marks)]
    lines = []
    for row in analysis.rows:
        held = [mark.held.get(row.name) for mark in analysis.marks]
        lines.append([row.name, *("" if each is None else shown(each.median, "bytes") for each in held)])
    return header, lines
