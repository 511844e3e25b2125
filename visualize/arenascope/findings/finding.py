# SPDX-License-Identifier: MIT
"""One cause, found."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from arenascope.findings.parts import PartBytes
    from arenascope.wire.summary.findings import Step


class Rank(enum.IntEnum):
    """In which order findings stand; within one rank the largest comes first."""

    PREMISE = 0  # changes how everything else is to be read
    ROW = 1  # explains rows of the ledger: no row has two such findings
    PART = 2  # of rows that other findings explain
    BESIDE = 3  # not in Rss


class Finding(NamedTuple):
    """One cause."""

    rule: str
    rank: Rank
    bytes: int | None  # that it explains
    sentence: str  # with the numbers
    evidence: str  # what shows it, and how it came to be
    command: str | None = None  # what brings those bytes back
    lights: str | None = None  # what to light up on the page's map: "row:…", "state:…", "idle"
    estimate: str | None = None  # why `bytes` may be off
    rows: tuple[str, ...] = ()  # of the ledger, whose bytes these are
    next: tuple[Step, ...] = ()
    parts: tuple[PartBytes, ...] = ()  # the bytes in its words

    @property
    def in_rss(self) -> bool:
        """Whether `bytes` are a part of Rss."""
        return self.rank is not Rank.BESIDE
