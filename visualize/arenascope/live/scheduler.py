# SPDX-License-Identifier: MIT
"""What the live view's own thread does: it scans, snapshots, and does what the user asks for, one after the other.

Nothing runs beside a snapshot: the clones that a snapshot makes are in no scan.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from arenascope.live.cpu_budget import SHARE, START, CpuBudget, of_snapshots
from arenascope.signals import leaving
from arenascope.watch.poll import spent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from arenascope.live.process_history import ProcessHistory
    from arenascope.live.process_table import Entry, Processes
    from arenascope.processes import Identity

SLOWEST: Final = 10.0  # seconds: what is seen at once is never older, whatever it costs
DRAWN: Final = 0.5  # seconds between two drawings, at least


class Scene(Protocol):
    """What is shown, and kept up to date."""

    def step(self, budget: CpuBudget) -> float:
        """Do what is due. Return the seconds until more will be."""


class MachineScene:
    """All processes."""

    def __init__(self, machine: Processes, every: float, show: Callable[[], None]) -> None:
        """`show` draws what there is; any thread may call it."""
        self.machine, self.every, self.show = machine, every, show
        self.visible: Collection[Identity] = ()
        self.wanted: Callable[[Entry], bool] = lambda _: True  # which are inspected at all
        self.asked: Identity | None = None  # for a snapshot now
        self.drawing: deque[float] = deque(maxlen=3)  # processor time of the last drawings, seconds
        self._scan_at = 0.0
        self._drawn = 0.0

    def step(self, budget: CpuBudget) -> float:
        """A scan, or a snapshot."""
        now = time.monotonic()
        if now >= self._scan_at:
            before = time.thread_time()
            self.machine.scan()
            self._scan_at = now + self.interval(time.thread_time() - before)
            self._draw(now)
            return 0.0
        if self.asked is not None:
            self.machine.take_snapshot(self.asked, of_snapshots)
            self.asked = None
            self._draw(now)
            return 0.0
        budget.settle(now, spent())
        chosen = self.machine.next(self.wanted, self.visible, self.every)
        until_scan = self._scan_at - now
        wait = until_scan if chosen is None else budget.wait(chosen.cost or 0.0)
        if chosen is None or wait > 0:
            return min(max(wait, DRAWN), until_scan)  # to ask the budget too often would empty it
        self.machine.take_snapshot(chosen.identity, of_snapshots)
        if chosen.figures is None and now - self._drawn >= DRAWN:
            self._draw(now)  # a drawing costs more than a snapshot: later snapshots are seen after the next scan
        return 0.0

    def resume(self) -> None:
        """It is shown again after something else."""
        self._scan_at = 0.0

    def _draw(self, now: float) -> None:
        self._drawn = now
        self.show()

    def interval(self, scan: float) -> float:
        """Seconds until the next scan, of the last one's cost: scans and drawings take half of the share at most."""
        cost = scan + min(self.drawing, default=0.0)
        return max(self.every, min(cost / (SHARE / 2), SLOWEST))


class ProcessScene:
    """One process."""

    def __init__(self, history: ProcessHistory, every: float, show: Callable[[], None]) -> None:
        """`show`: as above."""
        self.history, self.every, self.show = history, every, show
        self.asked = True
        self._tick_at = 0.0

    def step(self, budget: CpuBudget) -> float:
        """A snapshot if one may be paid, and its Rss in any case."""
        now, history = time.monotonic(), self.history
        if now < self._tick_at and not self.asked:
            return self._tick_at - now
        self._tick_at = now + self.every
        history.tick()
        budget.settle(now, spent())
        if history.ended is None and (self.asked or budget.wait(history.cost or 0.0) <= 0):
            self.asked = False
            history.take_snapshot(of_snapshots)
        self.show()
        return self.every


class Hands:
    """The thread's loop. Other threads ask through `scene`, `wake` and `do`."""

    def __init__(self, scene: Scene) -> None:
        """`scene`: the first one."""
        self.scene = scene
        self.alive: Callable[[], bool] = lambda: True  # whether there is somebody to work for
        self.beside: Callable[[], None] = lambda: None  # done each time; its cost is not part of the share either
        self._asked: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def show_scene(self, scene: Scene) -> None:
        """From now on show something else."""
        self.scene = scene
        self.wake()

    def wake(self) -> None:
        """Something was asked of the scene."""
        self._asked.put(None)

    def do(self, action: Callable[[], None]) -> None:
        """Do this when what is under way is done. What it costs is not part of the share."""
        self._asked.put(action)

    def run(self) -> None:
        """Until the program leaves."""
        budget = CpuBudget(time.monotonic(), spent())
        while not leaving.is_set() and self.alive():
            self._excused(budget, self.beside)
            wait = self.scene.step(budget)
            try:
                action = self._asked.get(timeout=min(max(wait, 0.0), START)) if wait > 0 else self._asked.get_nowait()
            except queue.Empty:
                continue
            if action:
                self._excused(budget, action)

    @staticmethod
    def _excused(budget: CpuBudget, action: Callable[[], None]) -> None:
        before = of_snapshots()
        action()
        budget.excuse(of_snapshots() - before)
