# SPDX-License-Identifier: MIT
"""Stacked areas over time, as paths of SVG: the style sheet colours them, and the browser stretches them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from arenascope.humanize import plain_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Run = slice | NDArray[np.int64]  # of polls

WIDE: Final = 2000  # units across; the template's viewBox has them, too
HIGH: Final = 1000
LEAST: Final = 4  # units that an area of one poll is wide
TICKS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1024)
SPARK_WIDE: Final = 120
SPARK_HIGH: Final = 24
SPARK_POINTS: Final = 60
MOST_LINES: Final = 5


class Stripe(NamedTuple):
    """One area of a stack. `paint`: class of its colour."""

    paint: str
    title: str
    path: str


class Layer(NamedTuple):
    """What a band is made of: a number for each poll; NaN: unknown, and drawn as nothing."""

    paint: str
    title: str
    held: NDArray[np.float64]


class GridLine(NamedTuple):
    """A line of the grid, from the top in per cent, and what it stands for."""

    y: str
    label: str


def stacked(at: NDArray[np.float64], layers: Iterable[Layer], runs: Sequence[Run], top: float) -> list[Stripe]:
    """The layers one upon the other. `at`: where each poll stands, 0 to 1; `runs`: those that are joined."""
    x = at * WIDE
    bottom = np.zeros(len(at))
    bands = []
    for layer in layers:
        upper = bottom + np.nan_to_num(layer.held)
        if (upper > bottom).any():
            lower_y, upper_y = (_heights(edge, top) for edge in (bottom, upper))
            path = "".join(_area(x[run], lower_y[run], upper_y[run]) for run in runs)
            bands.append(Stripe(layer.paint, layer.title, path))
        bottom = upper
    return bands


def line(at: NDArray[np.float64], held: NDArray[np.float64], runs: Sequence[slice], top: float) -> str:
    """A line above the areas."""
    x, y = at * WIDE, _heights(held, top)
    return "".join("M" + " ".join(_points(*_widened(x[run], y[run]))) for run in runs)


def _heights(held: NDArray[np.float64], top: float) -> NDArray[np.float64]:
    return HIGH - np.nan_to_num(held) / max(top, 1) * HIGH


def _points(x: NDArray[np.float64], y: NDArray[np.float64]) -> Iterator[str]:
    return (f"{round(a)},{round(b)}" for a, b in zip(x.tolist(), y.tolist()))


def _widened(x: NDArray[np.float64], *edges: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The same; of a single poll twice, lest it have no width."""
    if len(x) != 1:
        return [x, *edges]
    left = min(max(float(x[0]) - LEAST / 2, 0), WIDE - LEAST)
    return [np.array([left, left + LEAST]), *(np.repeat(edge, 2) for edge in edges)]


def _area(x: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]) -> str:
    x, lower, upper = _widened(x, lower, upper)
    if not (upper < lower).any():
        return ""
    return "M" + " ".join([*_points(x, upper), *_points(x[::-1], lower[::-1])]) + "Z"


def top_of(largest: float) -> tuple[float, list[GridLine]]:
    """How high a chart is, in bytes, and its grid: at most MOST_LINES lines, at round numbers of a binary unit."""
    unit = 1024.0 ** int(math.log(max(largest, 1), 1024))
    step = next(unit * tick for tick in TICKS if unit * tick * MOST_LINES >= largest)
    lines = max(math.ceil(largest / step), 1)
    top = lines * step
    return top, [
        GridLine(f"{100 - 100 * number / lines:.2f}", plain_size(int(number * step))) for number in range(1, lines + 1)
    ]


def spark(at: NDArray[np.float64], held: NDArray[np.float64]) -> str:
    """A small line from 0 to the largest value: points of a polyline. Empty: there is nothing to draw."""
    known = np.flatnonzero(~np.isnan(held))
    if len(known) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    if len(known) > SPARK_POINTS:
        known = known[np.linspace(0, len(known) - 1, SPARK_POINTS).round().astype(int)]
    x, y = at[known], held[known]
    wide = float(x[-1] - x[0]) or 1.0
    high = max(float(y.max()), 1.0)
    return " ".join(
        f"{(a - x[0]) / wide * (SPARK_WIDE - 4) + 2:.1f},{(1 - b / high) * (SPARK_HIGH - 4) + 2:.1f}"
        for a, b in zip(x.tolist(), y.tolist())
    )
