# SPDX-License-Identifier: MIT
"""Which turns of a timeline go as they grow old: the older, the fewer stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

SECOND: Final = 10**9
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
STEPS: Final = ((HOUR, 0), (DAY, 60 * SECOND), (WEEK, 600 * SECOND))
"""Up to this age, one turn stays of so much time."""
LAST_STEP: Final = HOUR
ENDS_STAY: Final = 8  # up to this factor, the first and the last turn of each generation do


class TurnTime(NamedTuple):
    """A turn, as far as its age matters."""

    id: int
    time_ns: int
    generation: int
    deep: bool = False  # it has types and owners: rarer, and what stays of a span if there is one


def surplus(turns: Sequence[TurnTime], now_ns: int, factor: int = 1) -> list[int]:
    """The turns that go, by id. `factor`: how much coarser than STEPS; `turns`: in the order of time."""
    slots = [_slot(turn, now_ns, factor) for turn in turns]
    stays: dict[tuple[int, int], TurnTime] = {}
    for slot, turn in zip(slots, turns):
        if slot not in stays or (turn.deep and not stays[slot].deep):
            stays[slot] = turn
    return [
        turn.id
        for place, (slot, turn) in enumerate(zip(slots, turns))
        if stays[slot] is not turn and not (factor <= ENDS_STAY and _is_end(turns, place)) and place + 1 < len(turns)
    ]


def _slot(turn: TurnTime, now_ns: int, factor: int) -> tuple[int, int]:
    """The span of time of which one turn stays."""
    step = _step(now_ns - turn.time_ns, factor)
    return (step, turn.time_ns // step) if step else (0, turn.id)


def _step(age: int, factor: int) -> int:
    for limit, step in STEPS:
        if step == 0 and age < limit // factor:
            return 0
        if step and age < limit:
            return step * factor
    return LAST_STEP * factor


def _is_end(turns: Sequence[TurnTime], place: int) -> bool:
    here = turns[place].generation
    return (
        place == 0
        or turns[place - 1].generation != here
        or turns[place + 1 : place + 2] == []
        or (turns[place + 1].generation != here)
    )
