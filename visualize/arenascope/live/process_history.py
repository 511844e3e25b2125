# SPDX-License-Identifier: MIT
"""One process for as long as somebody watches: its Rss at each tick, and its snapshots."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.compare import compare
from arenascope.errors import ArenascopeError
from arenascope.live.process_table import PAGE
from arenascope.processes import process_at
from arenascope.profiles.site_digest import Stacks, group_of
from arenascope.watch.loop import LOST
from arenascope.watch.poll import still, take

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from arenascope.compare.changes import Comparison
    from arenascope.compare.digest import Group
    from arenascope.processes import Process
    from arenascope.timeline.store import Taken
    from arenascope.wire.dump import Dump
    from arenascope.wire.how import How
    from arenascope.wire.summary import Summary

TICKS: Final = 300  # of Rss
WINDOW: Final = 600.0  # seconds: growth is told since the oldest snapshot in it
MOST: Final = 200  # snapshots


class Profiled(NamedTuple):
    """A profile of a process as a whole. Bytes in use."""

    page_rate: int  # the chunks on one page in so many stand for all
    unseen: int
    lost: int
    started_ns: int  # since the epoch

    @classmethod
    def of(cls, head: np.void) -> Profiled:
        """Reads a record of a dump."""
        return cls(*(int(head[name]) for name in ("page_rate", "unseen_bytes", "lost_bytes", "started_ns")))


class ProcessHistory:
    """What is known of it. Another thread may read: each attribute is replaced as a whole."""

    def __init__(self, process: Process, how: How) -> None:
        """Nothing is known yet."""
        self.process, self.how = process, how
        self.rss: tuple[int, ...] = ()  # the kernel's quick counts, bytes, oldest first
        self.last: Taken | None = None
        self.before: Taken | None = None  # the snapshot before the last one
        self.growth: Comparison | None = None
        self.at: float | None = None  # time.monotonic() of the last snapshot
        self.ended: float | None = None  # time.time() when this was seen
        self.why: str | None = None  # the last snapshot was not possible
        self.cost: float | None = None  # processor time of the last snapshot, seconds
        self.recorded: Profiled | None = None  # what the last snapshot told of a profile; None: nobody records
        self.sites_before: Group | None = None  # of the oldest snapshot of the same profile
        self._stacks: Final = Stacks()
        self._snapshots: deque[tuple[float, Taken]] = deque(maxlen=MOST)

    def tick(self) -> None:
        """Its Rss now."""
        now = process_at(self.process.pid)
        if now is None or now.identity != self.process.identity:
            self._end()
            return
        self.process = now
        self.rss = (*self.rss, now.rss * PAGE)[-TICKS:]

    def take_snapshot(self, cost: Callable[[], float]) -> None:
        """One snapshot. `cost`: processor time until now, seconds."""
        spent, now = cost(), time.monotonic()
        heads: list[Profiled] = []

        def note(_: Process, __: Summary, dump: Dump) -> None:
            heads.extend(Profiled.of(head) for head in dump.profile[:1])

        try:
            taken = take(self.process, self.how, note, self._stacks)
        except ArenascopeError as error:
            if error.code in LOST or not still(self.process):
                self._end()
            else:
                self.why = str(error).splitlines()[0]
            self.cost = cost() - spent
            return
        if taken is None:
            self._end()
            return
        if taken.sites is not None:
            sites = replace(taken.digest, sites=group_of(taken.sites), page_rate=taken.sites["page_rate"])
            taken = replace(taken, digest=sites)
        recorded = heads[0] if heads else None
        if _begun(recorded) != _begun(self.recorded):
            self._forget_sites()
        self.recorded = recorded
        self._keep(now, taken)
        self.cost = cost() - spent

    def _forget_sites(self) -> None:
        """Another profile has other rates, and counts from another instant."""
        self._snapshots = deque(((at, _without_sites(each)) for at, each in self._snapshots), maxlen=MOST)
        if self.last is not None:
            self.last = _without_sites(self.last)

    def _keep(self, now: float, taken: Taken) -> None:
        if self.last is not None:
            # Pages take most room: only those of the last two snapshots are drawn.
            self.before = self.last
            lean = replace(self.last.digest, pages=None)
            self._snapshots[-1] = (self._snapshots[-1][0], replace(self.last, digest=lean))
        self._snapshots.append((now, taken))
        while self._snapshots[0][0] < now - WINDOW:
            self._snapshots.popleft()
        before = [snapshot.digest.sites for _, snapshot in self._snapshots if snapshot.sites is not None]
        self.sites_before = before[0] if before else None
        self.growth = compare(self._snapshots[0][1].digest, taken.digest) if len(self._snapshots) > 1 else None
        self.why, self.at, self.last = None, now, taken

    def _end(self) -> None:
        if self.ended is None:
            self.ended = time.time()


def _begun(recorded: Profiled | None) -> int | None:
    return recorded.started_ns if recorded else None


def _without_sites(taken: Taken) -> Taken:
    return replace(taken, sites=None, digest=replace(taken.digest, sites=None, page_rate=None))
