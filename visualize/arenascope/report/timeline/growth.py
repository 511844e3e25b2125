# SPDX-License-Identifier: MIT
"""The growth tables of a timeline's types, owners, lost chunks, objects and classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arenascope.compare import compare
from arenascope.humanize import plural, time_words
from arenascope.report.charts.stacked_area import SPARK_POINTS, spark
from arenascope.report.page.compare import SITES, named_growth
from arenascope.timeline.named_totals import groups_from
from arenascope.timeline.reader import digest_of_snapshot, groups_of, snapshots_with_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from arenascope.compare.digest import Group
    from arenascope.report.page.compare import GrownTable
    from arenascope.timeline.reader import SnapshotRow, Timeline


def named_over_time(path: str, timeline: Timeline, process: int) -> list[GrownTable]:
    """From the first snapshot of a process that has types and owners to the last; with a small line for each thing."""
    deep = snapshots_with_groups(path)
    snapshots = [
        snapshot
        for poll in timeline.polls
        for snapshot in poll.snapshots
        if snapshot.process == process and snapshot.id in deep
    ]
    if len(snapshots) < 2:  # noqa: PLR2004 - nothing to be compared
        return []
    first, last = (digest_of_snapshot(path, snapshot.id)[0] for snapshot in (snapshots[0], snapshots[-1]))
    chosen = [snapshots[at] for at in np.unique(np.linspace(0, len(snapshots) - 1, SPARK_POINTS).round().astype(int))]
    held = {snapshot: groups_from(packed) for snapshot, packed in groups_of(path, {snapshot.id for snapshot in chosen})}
    begun, end = (time_words(snapshot.time_ns)[11:19] for snapshot in (snapshots[0], snapshots[-1]))
    hint = (
        f"From the first snapshot with such names ({begun}) to the last ({end}): {plural(len(snapshots), 'snapshot')}."
    )
    return [
        _with_trends(table._replace(hint=hint), chosen, held)
        for table in named_growth(compare(first, last))
        if table.kind != SITES
    ]


def _with_trends(
    table: GrownTable, snapshots: Sequence[SnapshotRow], held: Mapping[int, Mapping[str, Group]]
) -> GrownTable:
    there = [snapshot for snapshot in snapshots if table.kind in held.get(snapshot.id, {})]
    at = np.array([snapshot.time_ns for snapshot in there], np.float64)

    def trend(key: object) -> str:
        numbers = [held[snapshot.id][table.kind].held(key).bytes for snapshot in there]
        return spark(at, np.array([np.nan if number is None else number for number in numbers], np.float64))

    return table._replace(lines=[line._replace(trend=trend(line.key)) for line in table.lines])
