# SPDX-License-Identifier: MIT
"""An analysis and its verdict as JSON, schema "arenascope.analysis/1" (docs/experiment.schema.json)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arenascope.experiment.verdict import verdict

if TYPE_CHECKING:
    from arenascope.experiment.analysis import Analysis


def as_values(analysis: Analysis) -> dict[str, Any]:
    """The analysis as JSON (docs/experiments.md)."""
    return {
        "schema": "arenascope.analysis/1",
        "name": analysis.spec.name,
        "machine": analysis.machine,
        "left_out": analysis.left_out,
        "runs": {"made": analysis.made, "planned": analysis.planned},
        "memory": analysis.memory,
        "configurations": [
            {
                "name": row.name,
                "runs": row.runs,
                "failed": row.failed,
                "noisy": row.noisy,
                "figures": {name: each._asdict() for name, each in row.estimates.items()},
                "ledger": dict(row.snapshot.ledger.held) if row.snapshot else None,
            }
            for row in analysis.rows
        ],
        "differences": {
            figure: [{"a": a, "b": b, **each._asdict()} for (a, b), each in pairs.items()]
            for figure, pairs in analysis.differences.items()
        },
        "marks": [
            {"name": mark.name, "held": {name: each._asdict() for name, each in mark.held.items()}}
            for mark in analysis.marks
        ],
        "front": analysis.front,
        "verdict": verdict(analysis)._asdict(),
    }
