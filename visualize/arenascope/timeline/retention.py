# SPDX-License-Identifier: MIT
"""Which polls of a timeline go as they grow old: the older, the fewer stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

SECOND: Final = 10**9
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
STEPS: Final = ((HOUR, 0), (DAY, 60 * SECOND), (WEEK, 600 * SECOND))
"""Up to this age, one poll stays of so much time."""
LAST_STEP: Final = HOUR
ENDS_STAY: Final = 8  # up to this factor, the first and the last poll of each generation do


class PollTime(NamedTuple):
    """A poll, as far as its age matters."""

    id: int
    time_ns: int
    generation: int
    deep: bool = False  # it has types and owners: rarer, and what stays of a span if there is one


def surplus(polls: Sequence[PollTime], now_ns: int, factor: int = 1) -> list[int]:
    """The polls that go, by id. `factor`: how much coarser than STEPS; `polls`: in the order of time."""
    slots = [_slot(poll, now_ns, factor) for poll in polls]
    stays: dict[tuple[int, int], PollTime] = {}
    for slot, poll in zip(slots, polls):
        if slot not in stays or (poll.deep and not stays[slot].deep):
            stays[slot] = poll
    return [
        poll.id
        for place, (slot, poll) in enumerate(zip(slots, polls))
        if stays[slot] is not poll and not (factor <= ENDS_STAY and _is_end(polls, place)) and place + 1 < len(polls)
    ]


def _slot(poll: PollTime, now_ns: int, factor: int) -> tuple[int, int]:
    """The span of time of which one poll stays."""
    step = _step(now_ns - poll.time_ns, factor)
    return (step, poll.time_ns // step) if step else (0, poll.id)


def _step(age: int, factor: int) -> int:
    for limit, step in STEPS:
        if step == 0 and age < limit // factor:
            return 0
        if step and age < limit:
            return step * factor
    return LAST_STEP * factor


def _is_end(polls: Sequence[PollTime], place: int) -> bool:
    here = polls[place].generation
    return (
        place == 0
        or polls[place - 1].generation != here
        or polls[place + 1 : place + 2] == []
        or (polls[place + 1].generation != here)
    )
