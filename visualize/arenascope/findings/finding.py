# SPDX-License-Identifier: MIT
"""One cause, found."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Rank(enum.IntEnum):
    """In which order findings stand; within one rank the largest comes first."""

    PREMISE = 0  # changes how everything else is to be read
    WASTE = 1  # free memory that malloc keeps
    ACCOUNT = 2  # where the rest is
    PART = 3  # of what others have counted already


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
    in_rss: bool = True  # whether `bytes` are a part of Rss
