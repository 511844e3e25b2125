# SPDX-License-Identifier: MIT
"""Processor time as an allowance: so much for each second that passes, and something for the start."""

from __future__ import annotations

import time
from typing import Final

from arenascope.wire import commands

SHARE: Final = 0.01  # of a processor
START: Final = 2.0  # seconds of processor time for the first snapshots: the start of a program is no part of its share
DEBT: Final = START / 2  # a snapshot that costs more than this is taken when there is so much, and paid off later


def of_snapshots() -> float:
    """Processor time of this thread, of the programs that were started and have ended, and of the server."""
    return time.thread_time() + commands.processor_seconds()


class CpuBudget:
    """How much may be spent. It is never fuller than at the start."""

    def __init__(self, now: float, spent: float) -> None:
        """`spent`: processor time until now."""
        self.holds = START
        self._now, self._spent = now, spent

    def settle(self, now: float, spent: float) -> None:
        """Take in what has come since, and pay what was spent."""
        come, gone = (now - self._now) * SHARE, spent - self._spent
        self.holds = min(self.holds + come, START) - gone
        self._now, self._spent = now, spent

    def excuse(self, spent: float) -> None:
        """Processor time that the user asked for: a report, a trim."""
        self._spent += spent

    def wait(self, cost: float) -> float:
        """Seconds until so much may be spent."""
        return max(0.0, (min(cost, DEBT) - self.holds) / SHARE)
