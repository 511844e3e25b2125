# SPDX-License-Identifier: MIT
"""What polls may cost of a processor: how often they come, when a leak suspect can be known, and what changes this."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Callable, Final, NamedTuple

from arenascope.humanize import duration, span
from arenascope.timeline.trend import LEAST_SNAPSHOTS

if TYPE_CHECKING:
    from arenascope.wire.how import How

SHARE: Final = 0.005  # of a processor
FIRST_SHARE: Final = 0.05  # in the first minutes of a watch, when somebody waits for what it says
FIRST: Final = 300.0  # seconds
DEEP_PART: Final = 0.5  # of the share: what polls that read all memory cost more, where there are some
MARGIN: Final = 1.25  # polls do not all cost the same
ANNOUNCED: Final = 1.5  # the interval is said again when it has changed by this factor


class Budget:
    """The part of a processor that a watch may take."""

    def __init__(self, share: float | None = None, first: float | None = None) -> None:
        """`share`: None for SHARE. `first`: the part in the first minutes; None: no other."""
        self._share = share
        self._first = first
        self._begun = time.monotonic()

    @property
    def begins(self) -> bool:
        """Whether these are the first minutes."""
        return self._first is not None and self._age < FIRST

    @property
    def share(self) -> float:
        """The part now."""
        return self._at(self._age)

    @property
    def _age(self) -> float:
        return time.monotonic() - self._begun

    def _at(self, age: float) -> float:
        share = SHARE if self._share is None else self._share
        return max(share, self._first or 0.0) if age < FIRST else share

    def seconds(self, polls: int, interval: Callable[[float], float]) -> float:
        """How long so many polls take. `interval`: from one to the next, at a share."""
        begun = at = self._age
        for _ in range(polls):
            at += interval(self._at(at))
        return at - begun


class Costs(NamedTuple):
    """What polls cost, in seconds of processor time, and how often they are wanted."""

    every: float  # seconds
    usual: float  # a poll without types and owners
    deep: bool = False  # whether some polls have these
    added: float = 0.0  # what they cost more

    def interval(self, share: float) -> float:
        """Seconds from poll to poll."""
        return max(self.every, self.usual / (share * DEEP_PART if self.deep else share))

    def deep_interval(self, share: float) -> float:
        """Seconds from a poll with types and owners to the next one."""
        usual = self.interval(share)
        return max(usual, self.added / (share - self.usual / usual))

    def enough(self) -> str:
        """The --budget with which no poll comes later than is wanted, as far as there is one: 2.4%."""
        needed = max(self.usual / DEEP_PART, self.usual + self.added) if self.deep else self.usual
        return f"{min(math.ceil(1000 * MARGIN * needed / self.every) / 10, 100):g}%"


def suspect_words(budget: Budget, costs: Costs, interval: Callable[[float], float], polls: int) -> str:
    """When a leak suspect can be known: the first one, if there have been few `polls`; and what makes that sooner."""
    left = LEAST_SNAPSHOTS - polls if polls < LEAST_SNAPSHOTS else LEAST_SNAPSHOTS
    takes, enough = budget.seconds(left, interval), costs.enough()
    sooner = left * interval(float(enough[:-1]) / 100)
    words = f"{'the first' if polls < LEAST_SNAPSHOTS else 'a new one'} can be known in about {span(takes)}"
    return words + (f", with --budget {enough} in {span(sooner)}" if takes > sooner * ANNOUNCED else "")


class Pace:
    """Tells the user when polls come less often than was asked for, and why."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """`say`: tells the user a line."""
        self._say: Final = say
        self._announced = 0.0

    def tell(  # noqa: PLR0913 - an interval and its reasons
        self,
        every: float,
        interval: float,
        cost: float,
        share: float = SHARE,
        more: Callable[[], str] = str,
        *,
        anyway: bool = False,
    ) -> None:
        """After a poll that cost so much processor time, in seconds. `share`: of a processor, that polls may cost.

        `more`: what else is said. `anyway`: an interval as it was asked for is said once, too.
        """
        announced = self._announced or (0.0 if anyway else every)
        if interval > announced * ANNOUNCED or interval < announced / ANNOUNCED:
            self._announced = interval
            words = f"a poll costs {duration(cost * 1000)} of processor time: one in {span(interval)}"
            below = f", and not in {span(every)}, to stay below {100 * share:g} % of a processor"
            self._say(words + (below if interval > every else ", as was asked for") + more())


class Deep:
    """When a poll reads all memory, for types and owners: as often as half of the share pays for what this adds."""

    def __init__(self, how: How, say: Callable[[str], None]) -> None:
        """`how`: of such a snapshot. `say`: tells the user a line."""
        self.how: Final = how
        self.usual: float | None = None  # what a poll without it costs, seconds
        self._say: Final = say
        self._due = 0.0
        self._announced = 0.0
        self._polls = 0

    def now(self) -> bool:
        """Whether it is time for one. The first poll is none: it tells what a poll costs without."""
        return self.usual is not None and time.monotonic() >= self._due

    def plan(self, begun: float, costs: Costs, budget: Budget) -> None:
        """The next one is so late that this one, which began at `begun`, cost no more than its share."""
        self._polls += 1
        every = costs.deep_interval(budget.share)
        self._due = begun + every
        if every > self._announced * ANNOUNCED or every < self._announced / ANNOUNCED:
            self._announced = every
            words = f"types and owners cost {duration(costs.added * 1000)} of processor time more: "
            often = "in each poll" if every <= costs.interval(budget.share) else f"once in {span(every)}"
            when = suspect_words(budget, costs, costs.deep_interval, self._polls)
            self._say(f"{words}{often}; a suspect among them takes {LEAST_SNAPSHOTS} such polls: {when}")
