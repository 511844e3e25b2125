# SPDX-License-Identifier: MIT
"""What a trim did, or would do: schema "arenascope.trim/1" (docs/injection.md), as arenadump prints it.

What is not known, or does not apply, is None.
"""

# As json_decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import Final, NamedTuple, Optional

from arenascope.wire.json_decode import answer, document

SCHEMA: Final = "arenascope.trim/1"


class TrimmedArena(NamedTuple):
    """An arena before the trim, and what came back of it. Bytes and milliseconds."""

    name: str
    address: str
    resident: Optional[int]
    releasable: Optional[int]
    withheld: Optional[int]
    returned: Optional[int]
    longest_hold_ms: Optional[float]


class Trim(NamedTuple):
    """What a trim did, or would do: `arenadump trim` (docs/trim.md). Times are in milliseconds."""

    pid: int
    injected: bool
    agent_resident: Optional[int]
    trimmed: bool  # else it is a forecast only
    deep: bool
    forecast: Optional[int]
    returned: Optional[int]
    returned_swap: Optional[int]
    longest_hold_ms: Optional[float]
    max_hold_ms: Optional[float]
    elapsed_ms: Optional[float]
    cpu_ms: Optional[float]
    skipped_arenas: Optional[int]
    watched_ms: Optional[float]
    faulted_back: Optional[int]
    minor_faults: Optional[int]
    note: Optional[str]
    arenas: tuple[TrimmedArena, ...]


def parse(text: str) -> Trim:
    """What arenadump printed. ArenascopeError INTERNAL where that is no such answer."""
    return answer(Trim, document(text, SCHEMA), SCHEMA)
