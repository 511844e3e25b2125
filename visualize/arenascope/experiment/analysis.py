# SPDX-License-Identifier: MIT
"""What the results say: each configuration's figures, which can be told apart, what they cost, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from arenascope.errors import ArenascopeError, Code
from arenascope.experiment import final_snapshot
from arenascope.experiment.statistics import ENOUGH, Difference, Estimate, compare, estimate

if TYPE_CHECKING:
    from arenascope.experiment.plan import Planned
    from arenascope.experiment.result import Result
    from arenascope.experiment.results_dir import Store
    from arenascope.experiment.spec import Configuration, Spec
    from arenascope.wire.summary import Summary

    Json = dict[str, Any]

CPU: Final = "cpu"


@dataclass(frozen=True)
class ConfigurationRow:
    """A configuration, and what its runs came to. Warm-ups and failed runs count for nothing."""

    name: str
    says: str
    runs: int
    failed: int
    noisy: int
    figures: dict[str, list[float]]  # of each run that has the figure, in their order
    estimates: dict[str, Estimate]
    median_run: Planned | None  # the one in the middle, by the memory compared
    snapshot: Summary | None  # at that run


@dataclass(frozen=True)
class Mark:
    """The memory at a point of the work: name → configuration → estimate."""

    name: str
    held: dict[str, Estimate]


@dataclass(frozen=True)
class Analysis:
    """All of it."""

    spec: Spec
    machine: Json
    left_out: dict[str, str]
    rows: list[ConfigurationRow]
    memory: str  # the figure compared: "rss_average"
    kind: str  # "rss", or "pss" where several processes share pages
    differences: dict[str, dict[tuple[str, str], Difference]]  # of that and of CPU: (a, b) → b - a
    front: list[str]  # no other is better in one of the two and no worse in the other; empty where it is too soon
    marks: list[Mark]
    made: int
    planned: int

    @property
    def enough(self) -> bool:
        """Whether there are runs enough of each to tell any apart; one that only fails does not count."""
        return min((row.runs for row in self.rows if row.runs), default=0) >= ENOUGH

    def row(self, name: str) -> ConfigurationRow:
        """The row of a configuration."""
        return next(each for each in self.rows if each.name == name)

    def difference(self, figure: str, a: str, b: str) -> Difference | None:
        """How b differs from a; None where one of them has no such figure."""
        return self.differences[figure].get((a, b))

    def better(self, figure: str, a: str, b: str) -> bool:
        """Whether a can be told to be below b."""
        difference = self.difference(figure, b, a)
        return difference is not None and difference.apart and difference.median < 0

    def alike(self, figure: str) -> list[tuple[str, str]]:
        """Pairs that cannot be told apart."""
        names = [row.name for row in self.rows]
        found = self.differences[figure]
        return [
            (a, b)
            for index, a in enumerate(names)
            for b in names[index + 1 :]
            if (a, b) in found and not found[a, b].apart
        ]


def analyse(store: Store) -> Analysis:
    """Everything from a results directory, complete or not."""
    spec = store.spec
    results = store.runs()
    counted = [result for result in results if not result.warmup]
    if not any(not result.failed for result in counted):
        raise ArenascopeError(
            Code.NO_TARGET, f"'{store.folder}' has no run yet that was made and counts{_reason(counted)}"
        )
    several = any(result.sampling.processes > 1 for result in counted if not result.failed)
    kind = "pss" if several else "rss"
    memory = f"{kind}_{spec.memory}"
    if not any(result.metrics.get(memory) is not None for result in counted):
        memory = f"{kind}_average"  # a program that ends by itself never settles
    rows = []
    for configuration in spec.configurations:
        own = [result for result in counted if result.configuration == configuration.name]
        if own:
            rows.append(_row(configuration, own, memory, store))
    differences = {figure: _differences(rows, figure) for figure in (memory, CPU)}
    analysis = Analysis(
        spec=spec,
        machine=store.about["machine"],
        left_out=store.left_out,
        rows=rows,
        memory=memory,
        kind=kind,
        differences=differences,
        front=[],
        marks=_marks(counted, kind),
        made=len(results),
        planned=len(store.plan),
    )
    if analysis.enough:
        analysis.front.extend(_front(analysis))
    return analysis


def _row(configuration: Configuration, results: list[Result], memory: str, store: Store) -> ConfigurationRow:
    good = [result for result in results if not result.failed]
    figures: dict[str, list[float]] = {}
    for result in good:
        for figure, value in result.metrics.items():
            if value is not None:
                figures.setdefault(figure, []).append(value)
    middle = _middle(good, memory)
    planned = store.plan[middle.number] if middle else None
    return ConfigurationRow(
        name=configuration.name,
        says=configuration.says,
        runs=len(good),
        failed=len(results) - len(good),
        noisy=sum(result.machine.noisy for result in good),
        figures=figures,
        estimates={figure: estimate(values) for figure, values in figures.items()},
        median_run=planned,
        snapshot=final_snapshot.read(store.run_folder(planned)) if planned else None,
    )


def _middle(good: list[Result], memory: str) -> Result | None:
    """The run whose memory is nearest to the median."""
    held = {result.number: result.metrics.get(memory) for result in good}
    known = {number: value for number, value in held.items() if value is not None}
    if not known:
        return None
    middle = median(known.values())
    return min((result for result in good if result.number in known), key=lambda each: abs(known[each.number] - middle))


def _differences(rows: list[ConfigurationRow], figure: str) -> dict[tuple[str, str], Difference]:
    having = [row for row in rows if row.figures.get(figure)]
    made = {}
    for index, a in enumerate(having):
        for b in having[index + 1 :]:
            found = compare(a.figures[figure], b.figures[figure])
            made[a.name, b.name] = found
            made[b.name, a.name] = found.reverse()
    return made


def _front(analysis: Analysis) -> list[str]:
    figures = (analysis.memory, CPU)
    names = [row.name for row in analysis.rows if all(row.figures.get(figure) for figure in figures)]

    def dominates(a: str, b: str) -> bool:
        better = [analysis.better(figure, a, b) for figure in figures]
        worse = [analysis.better(figure, b, a) for figure in figures]
        return any(better) and not any(worse)

    return [name for name in names if not any(dominates(other, name) for other in names)]


def _marks(results: list[Result], kind: str) -> list[Mark]:
    found: dict[str, dict[str, list[float]]] = {}
    for result in results:
        if not result.failed:
            for mark in result.marks:
                value = mark.pss if kind == "pss" else mark.rss
                if value is not None:
                    found.setdefault(mark.name, {}).setdefault(result.configuration, []).append(value)
    return [
        Mark(name, {configuration: estimate(values) for configuration, values in held.items()})
        for name, held in found.items()
    ]


def _reason(results: list[Result]) -> str:
    return f"; the first failed: {results[0].reason}" if results else ""
