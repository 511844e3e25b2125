# SPDX-License-Identifier: MIT
"""Charts that matplotlib draws: pictures beside the report, and SVG inside an experiment's page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from arenascope.humanize import plain_size
from arenascope.report.charts.histograms import SERIES
from arenascope.report.colours import APPEARANCES, Colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from arenascope.report.charts.histograms import Histogram

INK: Final = "#24292f"
GRID: Final = "#d8dee4"
STYLE: Final[dict[Any, Any]] = {  # matplotlib's type is a list of all the keys there are
    "font.family": "sans-serif",
    "font.size": 10,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "svg.fonttype": "none",  # text stays text: readable by a screen reader, in the page's own type
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
}
TICKS: Final = 7
NO_METADATA: Final = dict.fromkeys(("Date", "Creator", "Format", "Type"))
WIDTH, HEIGHT = 5.8, 2.4  # inches
# The style sheet's names for the colours that are drawn with.
CLASSES: Final = {
    **{APPEARANCES[colour].phusion: f"c-{colour.name.lower()}" for colour in SERIES.values()},
    GRID: "c-grid",
    INK: "c-ink",
}


def draw(histogram: Histogram, label: str, apart: str | None = None) -> Figure:
    """Stacked bars, a class of sizes each; the series `apart` gets a panel of its own below, if anything is in it."""
    with mpl.rc_context(STYLE):
        panels = 2 if apart and histogram.series[apart].any() else 1
        figure = Figure(figsize=(WIDTH, HEIGHT * (1.45 if panels > 1 else 1)), layout="constrained")
        ratios = [2, 1][:panels]
        axes = figure.subplots(panels, 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": ratios})[:, 0]
        stacked = [name for name in histogram.series if name != apart]
        _bars(axes[0], histogram, stacked)
        if panels > 1:
            _bars(axes[1], histogram, [str(apart)])
        bounds = histogram.bounds
        step = max(1, -(-len(bounds) // TICKS))
        axes[-1].set_xticks(range(0, len(bounds), step), [plain_size(bound) for bound in bounds[::step]])
        axes[-1].set_xlabel(label)
    return figure


def _bars(axes: Axes, histogram: Histogram, names: list[str]) -> None:
    bottom = [0.0] * len(histogram.bounds)
    for name in names:
        values = histogram.series[name].tolist()
        if not any(values):
            continue
        axes.bar(
            range(len(values)),
            values,
            bottom=bottom,
            width=0.84,
            color=APPEARANCES[SERIES[name]].phusion,
            edgecolor=INK if SERIES[name] is Colour.RETURNED else "none",
            linewidth=0.6,
            label=name,
        )
        bottom = [below + value for below, value in zip(bottom, values)]
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.tick_params(axis="both", length=0)
    axes.yaxis.set_major_locator(_BinaryLocator(max(bottom, default=0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: plain_size(int(value))))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            frameon=False, loc="lower right", bbox_to_anchor=(1, 1), fontsize=9, ncols=len(names), borderaxespad=0
        )
    axes.margins(y=0.05)


class _BinaryLocator(MaxNLocator):
    """Ticks at round numbers of KiB, MiB or GiB."""

    def __init__(self, largest: float) -> None:
        super().__init__(nbins=4, steps=[1, 2, 2.5, 5, 10])
        self._unit = 1
        while largest >= 1024 * self._unit:
            self._unit *= 1024

    def tick_values(self, vmin: float, vmax: float) -> Any:
        return np.asarray(super().tick_values(vmin / self._unit, vmax / self._unit)) * self._unit


def for_page(figure: Figure, name: str, title: str) -> str:
    """The figure as an SVG element that a strict policy lets through: no style, but classes for colours."""
    out = io.StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(out, metadata=NO_METADATA)  # type: ignore[no-untyped-call]
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'style="([^"]*)"', lambda found: _attributes(found[1]), svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'xlink:href="#{name}-')
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]
    xlink = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
    opening = f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{title}" {xlink}>'
    return re.sub(r"<svg[^>]*>", opening, svg, count=1)


def _attributes(style: str) -> str:
    """CSS declarations as presentation attributes; a colour of ours as a class."""
    found, classes = [], []
    for declaration in style.split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if not value:
            continue
        if key == "font":
            found.append(f'font-size="{value.split()[0]}"')
        elif value in CLASSES:
            classes.append(f"{CLASSES[value]}-{key}")
        elif key != "font-family":
            found.append(f'{key}="{value}"')
    if classes:
        found.append(f'class="{" ".join(classes)}"')
    return " ".join(found)
