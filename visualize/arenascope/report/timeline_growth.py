# SPDX-License-Identifier: MIT
"""The growth tables of a timeline's types, owners, lost chunks, objects and classes, as far as its looks have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from arenascope.compare import compare
from arenascope.humanize import plural, time_words
from arenascope.report.compare import SITES, named_growth
from arenascope.report.stacked_area import SPARK_POINTS, spark
from arenascope.timeline.named_totals import groups_from
from arenascope.timeline.reader import groups_of, looks_with_groups, moment_of_look

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from arenascope.compare.digest import Group
    from arenascope.report.compare import GrownTable
    from arenascope.timeline.reader import LookRow, Timeline


def named_over_time(path: str, timeline: Timeline, process: int) -> list[GrownTable]:
    """From the first look at a process that has types and owners to the last; with a small line for each thing."""
    deep = looks_with_groups(path)
    looks = [look for turn in timeline.turns for look in turn.looks if look.process == process and look.id in deep]
    if len(looks) < 2:  # noqa: PLR2004 - nothing to be compared
        return []
    first, last = (moment_of_look(path, look.id)[0] for look in (looks[0], looks[-1]))
    chosen = [looks[at] for at in np.unique(np.linspace(0, len(looks) - 1, SPARK_POINTS).round().astype(int))]
    held = {look: groups_from(told) for look, told in groups_of(path, {look.id for look in chosen})}
    begun, end = (time_words(look.time_ns)[11:19] for look in (looks[0], looks[-1]))
    hint = f"From the first look with such names ({begun}) to the last ({end}): {plural(len(looks), 'look')}."
    return [
        _with_trends(table._replace(hint=hint), chosen, held)
        for table in named_growth(compare(first, last))
        if table.kind != SITES
    ]


def _with_trends(table: GrownTable, looks: Sequence[LookRow], held: Mapping[int, Mapping[str, Group]]) -> GrownTable:
    there = [look for look in looks if table.kind in held.get(look.id, {})]
    at = np.array([look.time_ns for look in there], np.float64)

    def trend(key: object) -> str:
        numbers = [held[look.id][table.kind].held(key).bytes for look in there]
        return spark(at, np.array([np.nan if number is None else number for number in numbers], np.float64))

    return table._replace(lines=[line._replace(trend=trend(line.key)) for line in table.lines])
