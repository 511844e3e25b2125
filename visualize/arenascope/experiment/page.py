# SPDX-License-Identifier: MIT
"""The page of an experiment: one file, complete but for the links to each run's map, and without any script."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from arenascope.experiment import charts
from arenascope.experiment.analysis import CPU
from arenascope.experiment.columns import cell, heading, marks_table, shown, used
from arenascope.experiment.expand import PLACEHOLDER
from arenascope.experiment.verdict import verdict, when
from arenascope.humanize import plural, printable, size
from arenascope.report.charts.matplotlib_charts import for_page
from arenascope.report.page.html import render as render_page
from arenascope.report.page.model import Page
from arenascope.rows import BY_NAME
from arenascope.version import version

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from arenascope.experiment.analysis import Analysis, ConfigurationRow
    from arenascope.experiment.results_dir import Store
    from arenascope.experiment.spec import Spec


def render(analysis: Analysis, store: Store, links: dict[int, str]) -> str:
    """The whole file. `links`: number of a run → its map."""
    values = {
        "version": version(),
        "spec": analysis.spec,
        "command": _command(analysis.spec),
        "repeats": plural(analysis.spec.repeats, "run"),
        "verdict": verdict(analysis),
        "charts": dict(_charts(analysis, store)),
        "columns": [f">{heading(column)}" for column in used(analysis)],
        "rows": list(_rows(analysis)),
        "ledger": _ledger(analysis),
        "marks": _marks(analysis) if analysis.marks else None,
        "pairs": [_pairs(analysis, what, figure) for what, figure in (("Memory", analysis.memory), ("CPU", CPU))],
        "when": when(analysis),
        "runs": list(_runs(analysis, store, links)),
        "settings": list(_settings(analysis, store)),
        "machine": _machine(analysis.machine),
    }
    return render_page(Page(values, [], {}, "experiment.html.j2", "", ("report.css", "experiment.css")))


def _command(spec: Spec) -> str:
    """The workload's command, with its parameters; other placeholders stay as they are."""

    def value(found: re.Match[str]) -> str:
        return found[0][0] if found[1] is None else spec.parameters.get(found[1], found[0])

    words = " ".join(PLACEHOLDER.sub(value, word) for word in spec.workload.command)
    return printable(" ".join(words.split()))  # a script has lines


def _charts(analysis: Analysis, store: Store) -> Iterator[tuple[str, Markup | None]]:
    drawn = {
        "time": (charts.over_time(analysis, store), "Memory over time, for each configuration"),
        "trade": (charts.trade_off(analysis), "Memory against processor time, for each configuration"),
        "ledger": (charts.ledgers(analysis), "What was resident in the end, for each configuration"),
        "marks": (charts.marks(analysis), "Memory at points of the work, for each configuration"),
    }
    for name, (figure, title) in drawn.items():
        # matplotlib escapes what it draws.
        yield name, Markup(for_page(figure, name, title)) if figure else None  # noqa: S704


class FigureRow(NamedTuple):
    """A configuration's figures."""

    name: str
    runs: int
    failed: int
    front: bool
    cells: list[str]  # a median, and in a second line its interval; empty: it is not known


def _rows(analysis: Analysis) -> Iterator[FigureRow]:
    for row in analysis.rows:
        cells = [cell(analysis, row, column) for column in used(analysis)]
        front = row.name in analysis.front
        yield FigureRow(row.name, row.runs, row.failed, front, cells)


Table = tuple[list[str], list[list[str]]]  # titles, as the template has them, and lines


def _ledger(analysis: Analysis) -> Table | None:
    """What was resident in the end: a column for each configuration, a line for each row that is not always 0."""
    taken = [(row.name, row.snapshot) for row in analysis.rows if row.snapshot]
    if not taken:
        return None
    ledgers = [snapshot.ledger for _, snapshot in taken]
    names = [name for name in ledgers[0] if any(ledger[name] != 0 for ledger in ledgers)]
    lines = [[BY_NAME[name].title, *(size(ledger[name]) for ledger in ledgers)] for name in names]
    mallocs = ["malloc", *(snapshot.allocator.malloc for _, snapshot in taken)]
    return ["row", *(f">{name}" for name, _ in taken)], [mallocs, *lines]


def _marks(analysis: Analysis) -> Table:
    header, lines = marks_table(analysis)
    return ["configuration", *(f">{title}" for title in header[1:])], lines


class Run(NamedTuple):
    """A run, as the table of all runs has it."""

    number: int
    configuration: str
    state: str
    reason: str
    memory: str
    cpu: str
    others: str
    noisy: bool
    map: str | None
    median: bool


def _runs(analysis: Analysis, store: Store, links: dict[int, str]) -> Iterator[Run]:
    plan = {each.number: each for each in store.plan}
    for result in store.runs():
        metrics, others = result.metrics, result.machine.others_cpu
        state = "warm-up" if result.warmup else result.status
        yield Run(
            number=result.number,
            configuration=result.configuration,
            state=state,
            reason=printable((result.reason or "").partition("\n")[0]),
            memory=shown(metrics.get(analysis.memory), "bytes"),
            cpu=shown(metrics.get(CPU), "s"),
            others="" if others is None else f"{100 * others:.0f} %",
            noisy=result.machine.noisy,
            map=links.get(result.number),
            median=any(row.median_run == plan[result.number] for row in analysis.rows),
        )


def _settings(analysis: Analysis, store: Store) -> Iterator[tuple[str, str, str | None]]:
    """Each configuration, what it is and what it sets; of one that could not be run here, why, and None."""
    preloaded = {each.configuration: each.environment.get("LD_PRELOAD", "").split(":") for each in store.runs()}
    for row in analysis.rows:
        each = analysis.spec.configuration(row.name)
        set_here = [f"{name}={value}" for name, value in each.env.items()]
        if each.preload:  # what it was in the end: a spec may name several, and the workload may add to it
            libraries = [Path(path).name for path in preloaded.get(row.name, each.preload)[: len(each.preload)]]
            set_here.append(f"LD_PRELOAD={':'.join(libraries)}")
        set_here += [f"{name} = {value}" for name, value in each.parameters.items()]
        yield row.name, each.says, " ".join([*set_here, *each.wrapper])
    yield from ((name, printable(why), None) for name, why in analysis.left_out.items())


def _machine(machine: dict[str, Any]) -> list[tuple[str, str]]:
    sizes = {"memory", "swap"}
    return [
        (name.replace("_", " "), size(value) if name in sizes else printable(str(value)))
        for name, value in machine.items()
        if value is not None
    ]


def _pairs(analysis: Analysis, what: str, figure: str) -> tuple[str, list[str], list[tuple[str, list[str]]]]:
    """Each configuration against each, in per cent of the other; "~" where they cannot be told apart."""
    having = [row for row in analysis.rows if row.figures.get(figure)]
    lines = [(a.name, [_pair(analysis, figure, a, b) for b in having]) for a in having]
    return what, [f">{row.name}" for row in having], lines


def _pair(analysis: Analysis, figure: str, a: ConfigurationRow, b: ConfigurationRow) -> str:
    difference = analysis.difference(figure, b.name, a.name)
    if difference is None:
        return ""  # itself
    if not difference.apart:
        return "~"
    if difference.ratio is None:
        return "more" if difference.median > 0 else "less"
    return f"{100 * (difference.ratio - 1):+.0f} %"
