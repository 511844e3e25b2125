# SPDX-License-Identifier: MIT
"""A thread that writes down the memory of a run's processes at intervals, and how much that inspecting itself cost."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.experiment import procfs

if TYPE_CHECKING:
    from arenascope.experiment.procfs import Memory

MOST_OF_ITS_TIME: Final = 0.05  # smaps_rollup walks page tables under the target's own lock: no more than this
MEMBERS_EVERY: Final = 0.25  # seconds between two searches for processes that came


class Sample(NamedTuple):
    """All processes of the run at one time, in bytes; seconds since the run began."""

    time: float
    rss: int
    pss: int
    swap: int
    lazy_free: int
    processes: int


class Sampler:
    """Samples of one session, oldest first."""

    def __init__(self, session: int, begin: float, interval: float) -> None:
        """`begin` is the time (time.monotonic) that the samples' times count from."""
        self._session, self._begin, self._interval = session, begin, interval
        self._lock, self._end = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._members: list[int] = []
        self._members_at = float("-inf")
        self.samples: list[Sample] = []
        self.cost = 0.0  # processor seconds spent inspecting
        self.high_water: int | None = None  # of the main process

    def start(self) -> None:
        """Sample until told to stop."""
        self._thread.start()

    def stop(self) -> None:
        """No more samples but those that are taken by `take`. May be said twice."""
        self._end.set()
        self._thread.join()

    def take(self, *, fresh: bool = False) -> Sample | None:
        """A sample of this time; None when nothing is left to inspect. `fresh`: search for new processes first."""
        with self._lock:
            begun, spent = time.monotonic(), time.thread_time()
            if fresh or begun - self._members_at > MEMBERS_EVERY:
                self._members, self._members_at = procfs.members(self._session), begun
            held: list[Memory] = []
            for pid in self._members:
                memory = procfs.memory(pid)
                if memory is not None:
                    held.append(memory)
            self.high_water = procfs.high_water(self._session) or self.high_water
            now = time.monotonic()
            self.cost += time.thread_time() - spent
            if not held:
                return None
            rss, pss, swap, lazy_free = (sum(column) for column in zip(*held))
            sample = Sample((begun + now) / 2 - self._begin, rss, pss, swap, lazy_free, len(held))
            self.samples.append(sample)
            return sample

    def _run(self) -> None:
        wait = 0.0
        while not self._end.wait(wait):
            begun = time.thread_time()
            self.take()
            spent = time.thread_time() - begun
            wait = max(self._interval - spent, spent / MOST_OF_ITS_TIME)
