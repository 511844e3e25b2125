# SPDX-License-Identifier: MIT
"""Histograms as bars of SVG: the style sheet colours them, and the browser stretches them. Places are per cent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from arenascope.humanize import plain_size, size
from arenascope.report.charts.histograms import PAINTS
from arenascope.report.charts.stacked_area import top_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arenascope.report.charts.histograms import Histogram
    from arenascope.report.charts.stacked_area import GridLine

TICKS: Final = 7  # names of classes below the bars, at most
MARGIN: Final = 16.0  # the names of the grid's lines stand there
GAP: Final = 0.08  # of a class, on each side of its bar
HIGH: Final = 190  # pixels of a panel
HIGH_APART: Final = 90


class Bar(NamedTuple):
    """One series in one class. `paint`: class of its colour."""

    paint: str
    title: str
    x: str
    width: str
    y: str
    height: str


class Name(NamedTuple):
    """A line of the legend."""

    paint: str
    name: str


class Panel(NamedTuple):
    """Bars on one scale."""

    names: list[Name]
    bars: list[Bar]
    grid: list[GridLine]
    height: int  # pixels


class Bound(NamedTuple):
    """The lower bound of a class. `minor`: left out where there is little room."""

    x: str
    label: str
    minor: bool


class Bars(NamedTuple):
    """A histogram, drawn."""

    panels: list[Panel]
    ticks: list[Bound]
    label: str  # of the classes
    title: str  # for those who do not see it
    margin: float = MARGIN


def draw(histogram: Histogram, label: str, title: str, apart: str | None = None) -> Bars:
    """Stacked bars for each class; the series `apart` gets a panel of its own below, if anything is in it."""
    panels = [_panel(histogram, [name for name in histogram.series if name != apart], HIGH)]
    if apart is not None and histogram.series[apart].any():
        panels.append(_panel(histogram, [apart], HIGH_APART))
    return Bars(panels, list(_ticks(histogram.bounds)), label, title)


def _panel(histogram: Histogram, names: Sequence[str], height: int) -> Panel:
    shown = [name for name in names if histogram.series[name].any()]
    edges = np.cumsum([np.zeros(len(histogram.bounds)), *(histogram.series[name] for name in shown)], axis=0)
    top, grid = top_of(float(edges[-1].max()))
    legend = [Name(PAINTS[name], name) for name in shown]
    bars = [
        _bar(histogram, name, index, 100 - 100 * float(edges[level + 1, index]) / top, 100 * float(held) / top)
        for level, name in enumerate(shown)
        for index, held in enumerate(histogram.series[name])
        if held
    ]
    return Panel(legend, bars, grid, height)


def _bar(histogram: Histogram, name: str, index: int, y: float, height: float) -> Bar:
    bounds = histogram.bounds
    held = size(int(histogram.series[name][index]))
    title = f"{name}: {held}, {plain_size(bounds[index])} to less than {plain_size(2 * bounds[index])}"
    wide = (100 - MARGIN) / len(bounds)
    x = MARGIN + wide * (index + GAP)
    return Bar(PAINTS[name], title, f"{x:.3f}", f"{wide * (1 - 2 * GAP):.3f}", f"{y:.3f}", f"{height:.3f}")


def _ticks(bounds: Sequence[int]) -> Iterator[Bound]:
    wide = (100 - MARGIN) / len(bounds)
    step = -(-len(bounds) // TICKS)
    for number, index in enumerate(range(0, len(bounds), step)):
        minor = bool(number % 2) and len(bounds) > TICKS // 2
        yield Bound(f"{MARGIN + wide * (index + 0.5):.3f}", plain_size(bounds[index]), minor)
