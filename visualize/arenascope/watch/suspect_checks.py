# SPDX-License-Identifier: MIT
"""Who of the group leaks, told by the watch itself: once it can be known, and when it is another one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, Final

from arenascope.errors import ArenascopeError
from arenascope.timeline.reader import damage_reported, read_from
from arenascope.timeline.suspects import histories, suspects
from arenascope.timeline.trend import LEAST_SNAPSHOTS
from arenascope.watch.poll import spent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.timeline.reader import Timeline
    from arenascope.timeline.store import TimelineStore
    from arenascope.timeline.suspects import Suspect

PART: Final = 0.1  # of the budget, that the search for suspects takes


class SuspectChecks:
    """Searches for leak suspects as often as a part of the budget pays for."""

    def __init__(
        self,
        store: TimelineStore,
        show: Callable[[Timeline, Sequence[Suspect]], None],
        say: Callable[[str], None],
    ) -> None:
        """`show`: shows the user a line for each process. `say`: tells the user a line."""
        self._store: Final = store
        self._show: Final = show
        self._say: Final = say
        self._polls = 0
        self._due = 0.0
        self._shown: set[int] = set()  # processes that were shown as suspects

    def after_poll(self, share: float) -> None:
        """Search, if it is time. `share`: of a processor, that the watch may take."""
        self._polls += 1
        if self._polls < LEAST_SNAPSHOTS or time.monotonic() < self._due:
            return
        begun = spent()
        self.search(anyway=not self._due)
        self._due = time.monotonic() + (spent() - begun) / (PART * share)

    def search(self, *, anyway: bool) -> None:
        """Show the processes, if there is a suspect among them that was none before. `anyway`: in any case."""
        try:
            with damage_reported(self._store.path), self._store.view() as db:
                timeline = read_from(db)
                found = suspects(histories(db, timeline))
        except ArenascopeError as error:
            self._say(f"leak suspects are not known: {error}")
            return
        growing = {each.process for each in found if not each.ended}
        if timeline.polls and (anyway or growing - self._shown):
            self._show(timeline, found)
        self._shown |= growing
