# SPDX-License-Identifier: MIT
"""The charts of the comparison, in the style of the report's: memory over time, what it costs, and what is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from arenascope.experiment.analysis import CPU
from arenascope.humanize import printable
from arenascope.report.charts import matplotlib_charts as charts
from arenascope.report.charts.matplotlib_charts import GRID, INK
from arenascope.report.colours import APPEARANCES, PARTS
from arenascope.rows import BAR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from arenascope.experiment.analysis import Analysis, ConfigurationRow
    from arenascope.experiment.results_dir import Store
    from arenascope.experiment.sampler import Sample

MIB: Final = 1 << 20
WIDTH: Final = 9.0  # inches
POINTS: Final = 240  # of a curve
# Told apart by any eye, on light and dark (Okabe and Ito); those behind the first eight are dashed.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c6bb1", "#998100")
# By the class that the report's style sheet has for a row's colour.
LEDGER: Final = {
    **{colour.name.lower(): appearance.phusion for colour, appearance in APPEARANCES.items()},
    **{name: part.phusion for name, part in PARTS.items()},
}


def over_time(analysis: Analysis, store: Store) -> Figure:
    """Memory over time: the median of each configuration's runs, and between the lowest and the highest of them."""
    plan = {each.number: each for each in store.plan}
    runs: dict[str, list[list[Sample]]] = {}
    for result in store.runs():
        if not result.failed and not result.warmup:
            runs.setdefault(result.configuration, []).append(store.samples(plan[result.number]))
    with mpl.rc_context(charts.STYLE):
        figure, axes = _figure(3.6)
        for index, row in enumerate(analysis.rows):
            samples = runs.get(row.name)
            if samples:
                at, held = _on_grid(samples, analysis.kind)
                colour, dashes = _appearance(analysis, index)
                axes.fill_between(at, held.min(axis=0), held.max(axis=0), color=colour, alpha=0.15, linewidth=0)
                middle = np.median(held, axis=0)
                axes.plot(at, middle, color=colour, linestyle=dashes, linewidth=1.6, label=row.name)
                done = _done(row)
                if done is not None and done <= at[-1]:  # the curve ends with the shortest run
                    axes.plot(done, np.interp(done, at, middle), color=colour, marker="o", markersize=5)
        axes.set_xlabel("seconds since the start")
        _finish(axes, f"{analysis.kind.capitalize()}, MiB")
    return figure


def trade_off(analysis: Analysis) -> Figure | None:
    """Memory against processor time, with intervals; the front is joined. None where a figure is missing."""
    shown = [row for row in analysis.rows if CPU in row.estimates and analysis.memory in row.estimates]
    if len(shown) < 2:  # noqa: PLR2004 - one has no other to be compared with
        return None
    with mpl.rc_context(charts.STYLE):
        figure, axes = _figure(3.8)
        for index, row in enumerate(analysis.rows):
            if row not in shown:
                continue
            cpu, held = row.estimates[CPU], row.estimates[analysis.memory]
            colour, dashes = _appearance(analysis, index)
            front = row.name in analysis.front
            axes.errorbar(
                cpu.median,
                held.median / MIB,
                xerr=_reach(cpu, 1),
                yerr=_reach(held, MIB),
                fmt="o" if front else "s",
                color=colour,
                markerfacecolor=colour if dashes == "-" else "none",  # as curves of the same colour are dashed
                markersize=8 if front else 5,
                elinewidth=1,
                label=f"{row.name}{' (front)' if front else ''}",
            )
        joined = sorted((row for row in shown if row.name in analysis.front), key=lambda row: row.estimates[CPU].median)
        axes.plot(
            [row.estimates[CPU].median for row in joined],
            [row.estimates[analysis.memory].median / MIB for row in joined],
            color=INK,
            linewidth=0.8,
            linestyle=":",
        )
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        axes.set_xlabel("processor time of the work, seconds")
        _finish(axes, f"{analysis.memory.replace('_', ', ').capitalize()}, MiB")
        if _from_zero(shown, CPU):
            axes.set_xlim(0)
        if not _from_zero(shown, analysis.memory):
            axes.autoscale(axis="y")
    return figure


def _from_zero(rows: list[ConfigurationRow], figure: str) -> bool:
    """Whether an axis begins with zero; of figures far from it, all would be in one corner."""
    middles = [row.estimates[figure].median for row in rows]
    return 2 * min(middles) <= max(middles)


def ledgers(analysis: Analysis) -> Figure | None:
    """What was resident at the end, in each configuration's median run. None where nothing was inspected."""
    taken = [(row.name, row.snapshot.ledger) for row in analysis.rows if row.snapshot]
    if not taken:
        return None
    held = {row: np.array([ledger[row.name] or 0 for _, ledger in taken]) / MIB for row in BAR}
    held = {row: each for row, each in held.items() if each.any()}
    with mpl.rc_context(charts.STYLE):
        # As high as the bars want it, or the legend beside them.
        figure, axes = _figure(max(1 + 0.34 * len(taken), 0.5 + 0.22 * len(held)))
        left = np.zeros(len(taken))
        for row, each in held.items():
            axes.barh(range(len(taken)), each, left=left, color=LEDGER[row.paint], height=0.7, label=row.title)
            left += each
        axes.set_yticks(range(len(taken)), [name for name, _ in taken])
        axes.invert_yaxis()
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        axes.set_xlabel("resident, MiB")
        _finish(axes, None)
    return figure


def marks(analysis: Analysis) -> Figure | None:
    """Memory at the points that the workload marks. None with fewer than two."""
    if len(analysis.marks) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    names = [printable(mark.name) for mark in analysis.marks]
    with mpl.rc_context(charts.STYLE):
        figure, axes = _figure(3.4)
        for index, row in enumerate(analysis.rows):
            held = [mark.held.get(row.name) for mark in analysis.marks]
            known = [(at, each.median / MIB) for at, each in enumerate(held) if each]
            if known:
                colour, dashes = _appearance(analysis, index)
                axes.plot(*zip(*known), color=colour, linestyle=dashes, marker="o", markersize=4, label=row.name)
        turned = len("".join(names)) > 90  # noqa: PLR2004 - characters that fit beside one another
        # What the workload calls them is no formula.
        rotation, side = (30, "right") if turned else (0, "center")
        axes.set_xticks(range(len(names)), names, rotation=rotation, ha=side, parse_math=False)
        _finish(axes, f"{analysis.kind.capitalize()}, MiB")
    return figure


def _done(row: ConfigurationRow) -> float | None:
    """When the work was done, in seconds since the start: the median of the runs."""
    ends = [sum(each) for each in zip(row.figures.get("startup", []), row.figures.get("wall", []))]
    return float(np.median(ends)) if ends else None


def _on_grid(runs: list[list[Sample]], kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The runs at the same times, in MiB; each as long as the shortest, so that every point has all of them."""
    end = min(samples[-1].time for samples in runs)
    at = np.linspace(0, end, POINTS)
    held = [
        np.interp(at, [sample.time for sample in samples], [getattr(sample, kind) / MIB for sample in samples])
        for samples in runs
    ]
    return at, np.array(held)


def _reach(estimate: Any, unit: int) -> Any:
    """An interval as error bars want it."""
    if estimate.low is None or estimate.high is None:
        return None
    return [[max(estimate.median - estimate.low, 0) / unit], [max(estimate.high - estimate.median, 0) / unit]]


def _appearance(analysis: Analysis, index: int) -> tuple[str, str]:
    """Colour and dashes of a configuration; the baseline is in ink."""
    names = [row.name for row in analysis.rows]
    if names[index] == analysis.spec.baseline:
        return INK, "-"
    place = sum(name != analysis.spec.baseline for name in names[:index])
    return COLOURS[place % len(COLOURS)], "-" if place < len(COLOURS) else "--"


def _figure(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots()


def _finish(axes: Axes, label: str | None) -> None:
    axes.set_axisbelow(True)
    axes.tick_params(axis="both", length=0)
    if label:
        axes.set_ylabel(label)
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=9, borderaxespad=0)
