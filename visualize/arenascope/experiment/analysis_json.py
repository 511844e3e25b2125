# SPDX-License-Identifier: MIT
"""What `arenascope experiment report --json` prints: schema "arenascope.analysis/1"."""

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Optional

from arenascope.experiment.statistics import Difference, Estimate
from arenascope.experiment.verdict import Recommendation, verdict
from arenascope.wire.json_encode import encode
from arenascope.wire.json_types import Bounds

if TYPE_CHECKING:
    from arenascope.experiment.analysis import Analysis

SCHEMA: Final = "arenascope.analysis/1"


class AnalysisDifference(NamedTuple):
    """How b differs from a."""

    a: str
    b: str
    difference: Difference


class AnalysisRuns(NamedTuple):
    """All runs, including warm-ups and failed runs."""

    made: int
    planned: int


class AnalysisConfiguration(NamedTuple):
    """A configuration, and what its runs came to."""

    name: str
    runs: int  # number of runs that count
    failed: int
    noisy: int  # number of these runs in which other programs used more than a tenth of the machine
    figures: dict[str, Estimate]  # the columns of runs.csv
    ledger: Optional[dict[str, Optional[int]]]  # the ledger of the median run, as in arenascope.summary/1


class AnalysisMark(NamedTuple):
    """The memory at a point of the work."""

    name: str
    held: dict[str, Estimate]  # memory for each configuration


class AnalysisJson(NamedTuple):
    """What an experiment found: `arenascope experiment report`. Times are in seconds unless the name says otherwise."""

    name: str  # name of the experiment
    machine: dict[str, Any]  # the properties of the machine on which the results depend
    left_out: dict[str, str]  # for each configuration that could not be run, the reason
    runs: AnalysisRuns
    # the memory figure that is compared
    memory: Annotated[str, Bounds(pattern="^(rss|pss)_(average|peak|end|settled)$")]
    configurations: tuple[AnalysisConfiguration, ...]
    # differences b minus a, of the compared memory figure and of cpu, for each pair in both orders
    differences: Annotated[dict[str, tuple[AnalysisDifference, ...]], Bounds(required=("cpu",))]
    marks: tuple[AnalysisMark, ...]
    # the configurations for which no other is better in one of the two figures and no worse in the other; empty with
    # too few runs
    front: tuple[str, ...]
    verdict: Recommendation


def as_values(analysis: "Analysis") -> dict[str, Any]:
    """The analysis as JSON."""
    made = AnalysisJson(
        name=analysis.spec.name,
        machine=analysis.machine,
        left_out=analysis.left_out,
        runs=AnalysisRuns(analysis.made, analysis.planned),
        memory=analysis.memory,
        configurations=tuple(
            AnalysisConfiguration(
                row.name, row.runs, row.failed, row.noisy, row.estimates,
                dict(row.snapshot.ledger.held) if row.snapshot else None,
            )
            for row in analysis.rows
        ),
        differences={
            figure: tuple(AnalysisDifference(*pair, each) for pair, each in pairs.items())
            for figure, pairs in analysis.differences.items()
        },
        marks=tuple(AnalysisMark(mark.name, mark.held) for mark in analysis.marks),
        front=tuple(analysis.front),
        verdict=verdict(analysis),
    )  # fmt: skip
    return {"schema": SCHEMA, **encode(made)}
