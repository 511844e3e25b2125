# SPDX-License-Identifier: MIT
"""A leak suspect in words: in a sentence with its interval, and on what it rests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from arenascope.humanize import count, plural, printable, size, span, time_words
from arenascope.timeline.suspects import CLASS, OBJECT, SITE
from arenascope.timeline.trend import LEAST_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Collection

    from arenascope.timeline.reader import Timeline
    from arenascope.timeline.suspects import Suspect

NO_SUSPECT: Final = "nothing grows beyond what comes and goes, and goes on growing"


def none_words(timeline: Timeline) -> str:
    """Why there is no suspect."""
    most = _most_snapshots(timeline)
    if most < LEAST_SNAPSHOTS:
        return f"not known yet: a suspect needs {LEAST_SNAPSHOTS} snapshots of one process; the most are {count(most)}"
    return f"none: {NO_SUSPECT}"


def names_words(timeline: Timeline, deep: Collection[int]) -> str | None:
    """Why no type and no owner is a suspect; None: there are snapshots enough. `deep`: the snapshots that have some."""
    most = _most_snapshots(timeline, deep)
    if most >= LEAST_SNAPSHOTS:
        return None
    if not most and timeline.about.get("read"):
        return "types and owners were asked for, and no poll has them yet: the second poll is the first that may"
    if not most:
        return "types and owners were not recorded: arenascope watch --graph does this"
    words = f"they need {LEAST_SNAPSHOTS} snapshots of one process, and have {count(most)}"
    return f"types and owners are not judged yet: {words}"


def _most_snapshots(timeline: Timeline, among: Collection[int] | None = None) -> int:
    snapshots = (
        snapshot for poll in timeline.polls for snapshot in poll.snapshots if among is None or snapshot.id in among
    )
    return max(Counter(snapshot.process for snapshot in snapshots).values(), default=0)


def suspect_words(of: Suspect, *, several: bool = False) -> str:
    """What grows, how fast, and since when. `several`: the process is named."""
    whose = f"{process_words(of)}, " if several else ""
    since = time_words(of.since_ns)[:19].replace("T", " ")
    return f"{whose}{printable(of.title)}: {rate_words(of.rate, of.low, of.high)} since {since}"


def process_words(of: Suspect) -> str:
    """Whose growth it is."""
    return f"{printable(of.comm)} {of.pid}{' (ended)' if of.ended else ''}"


def rate_words(rate: float, low: float, high: float) -> str:
    """A rate with its interval, all in one unit."""
    number, unit = size(round(rate)).split(" ")
    scale = 1.0
    while rate / scale > 1000 * max(float(number), 1.0):
        scale *= 1024
    digits = 0 if unit == "B" else 1
    return f"+{number} {unit}/min ({low / scale:.{digits}f} to {high / scale:.{digits}f})"


def evidence(of: Suspect) -> str:
    """On what it rests."""
    thing = "object" if of.kind in {OBJECT, CLASS} else "chunk"
    about = "about " if of.kind == SITE else ""  # mostly an estimate
    held = f"{about}{size(of.held)} held" + (f" in {plural(of.count, thing)}" if of.count is not None else "")
    words = [
        f"{count(of.snapshots)} snapshots in {span(of.seconds)}",
        f"{int(100 * of.stayed)} % of what came from snapshot to snapshot is still there",
        held,
    ]
    if of.survive is not None:
        words.append(f"about {int(100 * of.survive)} % of what was allocated survives")
    if of.alike:
        words.append(f"as fast grows: {', '.join(printable(each) for each in of.alike)}")
    return "; ".join(words if of.exact else [*words, "some snapshots were not exact"])
