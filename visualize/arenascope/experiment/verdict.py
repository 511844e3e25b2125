# SPDX-License-Identifier: MIT
"""The results in sentences. A recommendation is made only where the intervals allow one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from arenascope.experiment.analysis import CPU
from arenascope.experiment.statistics import CONFIDENCE
from arenascope.text import plural

if TYPE_CHECKING:
    from arenascope.experiment.analysis import Analysis

WHEN = {
    "average": "on average",
    "peak": "at the peak",
    "end": "at the end of the work",
    "settled": "after settling",
}
ENOUGH = 4  # runs of each: with fewer, nothing can be told apart


class Verdict(NamedTuple):
    """What to say first, what is behind it, and what to mind."""

    lead: str
    findings: list[str]
    caveats: list[str]


def verdict(analysis: Analysis) -> Verdict:
    """The verdict on an experiment."""
    return Verdict(_lead(analysis), _findings(analysis), _caveats(analysis))


def _lead(analysis: Analysis) -> str:
    base, memory = analysis.spec.baseline, analysis.memory
    names = [row.name for row in analysis.rows if row.figures.get(memory)]
    others = [name for name in names if name != base]
    if base not in names or not others:
        return "There is nothing to compare yet."
    if min(analysis.row(name).runs for name in names) < ENOUGH:
        return f"No recommendation: fewer than {ENOUGH} runs of a configuration tell nothing apart from chance."
    less = [name for name in others if analysis.better(memory, name, base)]
    if not less:
        return f"Keep {base}: nothing can be told to need less memory {_when(analysis)}."
    free = [name for name in less if not analysis.better(CPU, base, name)]
    if len(analysis.front) == 1 and analysis.front[0] in free:
        best = analysis.front[0]
        return (
            f"Take {best}: {_change(analysis, memory, best)} memory {_when(analysis)}, and no other is better in memory "
            "or processor time."
        )
    least = min(less, key=lambda name: analysis.row(name).estimates[memory].median)
    if not analysis.row(least).figures.get(CPU):
        return f"No recommendation: {least} needs least memory {_when(analysis)}, but what it costs is not known."
    return (
        f"No single recommendation: {least} needs least memory {_when(analysis)} ({_change(analysis, memory, least)}, "
        f"{_change(analysis, CPU, least)} CPU); which price is right is yours to say, between {_list(analysis.front)}."
    )


def _findings(analysis: Analysis) -> list[str]:
    base, memory = analysis.spec.baseline, analysis.memory
    found = []
    for row in analysis.rows:
        if row.name == base or analysis.difference(memory, base, row.name) is None:
            continue
        words = f"{row.name}: {_change(analysis, memory, row.name)} memory {_when(analysis)}"
        if analysis.difference(CPU, base, row.name) is not None:
            words += f", {_change(analysis, CPU, row.name)} CPU"
        found.append(f"{words}.")
    return found


def _change(analysis: Analysis, figure: str, name: str) -> str:
    """The change against the baseline in per cent, or that there is none to be seen."""
    base = analysis.spec.baseline
    difference = analysis.difference(figure, base, name)
    from_ = analysis.row(base).estimates[figure].median
    if difference is None or not from_:
        return "an unknown change in"
    if not difference.apart:
        return "cannot be told from it in"
    share = 100 * difference.median / from_
    low, high = (100 * each / from_ for each in (difference.low or 0, difference.high or 0))
    return f"{share:+.0f} % ({low:+.0f} to {high:+.0f})"


def _caveats(analysis: Analysis) -> list[str]:
    said = []
    if analysis.made < analysis.planned:
        left = analysis.planned - analysis.made
        said.append(f"Not complete: {plural(left, 'run')} of {analysis.planned} are still to be made.")
    failed = [f"{row.name} ({row.failed})" for row in analysis.rows if row.failed]
    if failed:
        said.append(f"Failed runs, left out: {', '.join(failed)}.")
    noisy, runs = (sum(getattr(row, name) for row in analysis.rows) for name in ("noisy", "runs"))
    if noisy:
        said.append(
            f"In {noisy} of {plural(runs, 'run')} others used more than a tenth of the machine: times are not to be trusted."
        )
    pairs = len(analysis.differences[analysis.memory]) // 2
    if pairs > 1:
        chance = round(100 * (1 - CONFIDENCE))
        said.append(
            f"Each of {pairs} pairs is judged by itself, at {CONFIDENCE:.0%}: of pairs that do not differ, {chance} in a "
            "hundred would seem to."
        )
    return said


def _when(analysis: Analysis) -> str:
    return WHEN[analysis.memory.partition("_")[2]]


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
