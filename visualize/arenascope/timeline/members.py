# SPDX-License-Identifier: MIT
"""The processes of a timeline, a line for each: what it holds at its last snapshot, how this has changed, who grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.coverage import shortened, total
from arenascope.timeline.suspects import ended_processes
from arenascope.timeline.trend import LEAST_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arenascope.timeline.reader import ProcessRow, SnapshotRow, Timeline
    from arenascope.timeline.suspects import Suspect

FREE: Final = ("cached", "stranded", "releasable", "withheld")


class MemberLine(NamedTuple):
    """A process of the group. Bytes are those of its last snapshot."""

    process: ProcessRow
    snapshots: int
    rss: int | None
    change: int | None  # of Rss, since its first snapshot; None: not known, or there is one snapshot
    in_use: int | None
    free: int | None  # malloc's
    ended: bool
    suspects: tuple[Suspect, ...]  # the surest rate first


def members_of(timeline: Timeline, found: Sequence[Suspect]) -> list[MemberLine]:
    """Running processes first, of these the suspects, then what has grown most. `found`: as suspects_of() has them."""
    return sorted(_lines(timeline, found), key=_place)


def healthy_one(lines: Sequence[MemberLine], grows: MemberLine) -> MemberLine | None:
    """A running process of the same program that does not grow, to compare with: a sibling, then the largest."""
    alike = (
        each
        for each in lines
        if each.process.exe == grows.process.exe and each.snapshots >= LEAST_SNAPSHOTS and not each.ended
    )
    return max(
        (each for each in alike if not each.suspects),
        key=lambda each: (each.process.parent == grows.process.parent, each.rss or 0),
        default=None,
    )


def _lines(timeline: Timeline, found: Sequence[Suspect]) -> Iterator[MemberLine]:
    of: dict[int, list[SnapshotRow]] = {}
    for poll in timeline.polls:
        for snapshot in poll.snapshots:
            of.setdefault(snapshot.process, []).append(snapshot)
    ended = ended_processes(timeline)
    for process in timeline.processes:
        snapshots = of.get(process.id)
        if not snapshots:
            continue  # --last has left them out
        first, last = snapshots[0], snapshots[-1]
        known = first.rss is not None and last.rss is not None and len(snapshots) > 1
        rows = shortened(last.rows)
        yield MemberLine(
            process,
            len(snapshots),
            last.rss,
            (last.rss or 0) - (first.rss or 0) if known else None,
            rows["in use"],
            total(rows[name] for name in FREE),
            process.id in ended,
            tuple(each for each in found if each.process == process.id),
        )


def _place(line: MemberLine) -> tuple[bool, float, int, int]:
    surest = max((each.low for each in line.suspects), default=0.0)
    return line.ended, -surest, -(line.change or 0), line.process.pid
