# SPDX-License-Identifier: MIT
"""The results in sentences. A recommendation is made only where the intervals allow one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from arenascope.experiment.analysis import CPU
from arenascope.experiment.statistics import CONFIDENCE, ENOUGH
from arenascope.humanize import plural

if TYPE_CHECKING:
    from arenascope.experiment.analysis import Analysis

WHEN = {
    "average": "on average",
    "peak": "at the peak",
    "end": "at the end of the work",
    "settled": "after settling",
}


class Recommendation(NamedTuple):
    """The results in sentences: what to say first, what is behind it, and what to mind."""

    lead: str
    findings: tuple[str, ...]
    caveats: tuple[str, ...]


def verdict(analysis: Analysis) -> Recommendation:
    """The verdict on an experiment."""
    return Recommendation(_lead(analysis), tuple(_findings(analysis)), tuple(_caveats(analysis)))


def _lead(analysis: Analysis) -> str:
    base, memory = analysis.spec.baseline, analysis.memory
    names = [row.name for row in analysis.rows if row.figures.get(memory)]
    others = [name for name in names if name != base]
    if base not in names or not others:
        return "There is nothing to compare yet."
    return _too_soon(analysis) or _choice(analysis, others)


def _too_soon(analysis: Analysis) -> str | None:
    """Why these runs are no ground for a recommendation, whatever they say."""
    if not analysis.enough:
        return f"No recommendation: fewer than {ENOUGH} runs of a configuration cannot be told from chance."
    noisy, runs = _counted(analysis)
    if 2 * noisy > runs:
        return (
            "No recommendation: in most runs other programs used more than a tenth of the machine. "
            "Repeat the experiment when the machine is quiet."
        )
    return None


def _choice(analysis: Analysis, others: list[str]) -> str:
    base, memory = analysis.spec.baseline, analysis.memory
    less = [name for name in others if analysis.better(memory, name, base)]
    if not less:
        return f"Keep {base}: no other configuration is known to need less memory {when(analysis)}."
    free = [name for name in less if not analysis.better(CPU, base, name)]
    if len(analysis.front) == 1 and analysis.front[0] in free:
        best = analysis.front[0]
        return f"Take {best}: {_bill(analysis, best)}, and no other is better in either."
    least = min(less, key=lambda name: analysis.row(name).estimates[memory].median)
    if CPU not in analysis.row(least).figures:
        return f"No recommendation: {least} needs the least memory {when(analysis)}, but its cost is unknown."
    if set(analysis.front) <= set(free) and _cannot_be_distinguished(analysis, analysis.front):
        return f"Take one of {_list(analysis.front)}, which cannot be told apart: {_bill(analysis, analysis.front[0])}."
    cheap = [name for name in free if name in analysis.front and name != least]
    instead = f" At no higher price than {base}: {'; '.join(f'{each} ({_bill(analysis, each)})' for each in cheap)}."
    return (
        f"No single recommendation: {least} needs the least memory ({_bill(analysis, least)})."
        f"{instead if cheap else ''} Choose between {_list(analysis.front)} by the price that you accept."
    )


def _cannot_be_distinguished(analysis: Analysis, names: list[str]) -> bool:
    """Neither in memory nor in processor time."""
    pairs = [(a, b) for index, a in enumerate(names) for b in names[index + 1 :]]
    return all(pair in analysis.alike(figure) for figure in (analysis.memory, CPU) for pair in pairs)


def _bill(analysis: Analysis, name: str) -> str:
    """What a configuration saves and costs."""
    memory = f"memory {when(analysis)} {_change(analysis, analysis.memory, name)}"
    return f"{memory}, CPU {_change(analysis, CPU, name)}"


def _findings(analysis: Analysis) -> list[str]:
    base, memory = analysis.spec.baseline, analysis.memory
    if not analysis.enough:
        return []
    return [
        f"{row.name}: {_finding(analysis, row.name)}."
        for row in analysis.rows
        if row.name != base and analysis.difference(memory, base, row.name) is not None
    ]


def _finding(analysis: Analysis, name: str) -> str:
    base, memory = analysis.spec.baseline, analysis.memory
    cpu = analysis.difference(CPU, base, name)
    if cpu is None:
        return f"memory {when(analysis)} {_change(analysis, memory, name)}"
    held = analysis.difference(memory, base, name)
    if held and not held.apart and not cpu.apart:
        return f"as {base}, as far as can be told, in memory {when(analysis)} and in CPU"
    return _bill(analysis, name)


def _change(analysis: Analysis, figure: str, name: str) -> str:
    """The change against the baseline in per cent, or that there is none to be seen."""
    base = analysis.spec.baseline
    difference = analysis.difference(figure, base, name)
    if difference is None:
        return "unknown"
    if not difference.apart:
        return f"as {base}, as far as can be told"
    if difference.ratio is None or difference.ratio_low is None or difference.ratio_high is None:
        return "more" if difference.median > 0 else "less"  # of nothing there is no share
    ratios = (difference.ratio, difference.ratio_low, difference.ratio_high)
    middle, low, high = (f"{100 * (each - 1):+.0f}" for each in ratios)
    return f"{middle} % ({low} to {high})"


def _caveats(analysis: Analysis) -> list[str]:
    said = []
    if analysis.made < analysis.planned:
        left = analysis.planned - analysis.made
        said.append(f"Not complete: {plural(left, 'run')} of {analysis.planned} have not been made yet.")
    failed = [f"{row.name} ({row.failed})" for row in analysis.rows if row.failed]
    if failed:
        said.append(f"Failed runs, left out: {', '.join(failed)}.")
    noisy, runs = _counted(analysis)
    if noisy:
        said.append(
            f"In {noisy} of {plural(runs, 'run')} other programs used more than a tenth of the "
            "machine: do not trust the times."
        )
    pairs = len(analysis.differences[analysis.memory]) // 2
    if pairs > 1 and analysis.enough:
        chance = round(100 * (1 - CONFIDENCE))
        said.append(
            f"Each of {pairs} pairs is judged by itself, at {100 * CONFIDENCE:.0f} %: of pairs that do not differ, "
            f"{chance} in a hundred would seem to. {_alike(analysis)}"
        )
    return said


def _alike(analysis: Analysis) -> str:
    """How many pairs there are that cannot be told apart."""
    memory, cpu = (len(analysis.alike(figure)) for figure in (analysis.memory, CPU))
    return f"{memory or 'None'} cannot be told apart in memory {when(analysis)}, {cpu or 'none'} in CPU."


def _counted(analysis: Analysis) -> tuple[int, int]:
    """How many runs were noisy, and how many there are."""
    return sum(row.noisy for row in analysis.rows), sum(row.runs for row in analysis.rows)


def when(analysis: Analysis) -> str:
    """Which memory is compared, in words."""
    return WHEN[analysis.memory.partition("_")[2]]


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
