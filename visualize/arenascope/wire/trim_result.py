# SPDX-License-Identifier: MIT
"""What a trim did, or would do: schema "arenascope.trim/1", as arenadump prints it.

What is not known, or does not apply, is None.
"""

# As json_decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import Final, NamedTuple, Optional

from arenascope.wire.json_decode import answer, document

SCHEMA: Final = "arenascope.trim/1"


class TrimmedArena(NamedTuple):
    """An arena before the trim, and what came back of it. Bytes and milliseconds."""

    index: int  # type: ignore[assignment]  # Its place in malloc's list.
    name: str
    address: str
    resident: Optional[int]
    releasable: Optional[int]
    withheld: Optional[int]
    returned: Optional[int]
    longest_hold_ms: Optional[float]


class Trim(NamedTuple):
    """What a trim did, or would do: `arenadump trim` (docs/trim.md). Times are in milliseconds.

    null: unknown, or not applicable.
    """

    pid: int  # The process.
    agent_version: Optional[str]  # The version of the agent in it.
    injected: bool  # Whether this command loaded the agent.
    agent_resident: Optional[int]  # Bytes that the agent has in memory.
    trimmed: bool  # false: a forecast, or the agent was not loaded because little would come back.
    deep: bool  # A deep trim.
    forecast: Optional[int]  # Bytes that were expected.
    returned: Optional[int]  # Bytes of memory that came back.
    returned_swap: Optional[int]  # Bytes of swap that came back.
    released: Optional[int]  # Bytes passed to madvise. null: also for malloc_trim.
    longest_hold_ms: Optional[float]  # The longest time for which an arena was locked.
    max_hold_ms: Optional[float]  # The limit for it.
    elapsed_ms: Optional[float]  # Wall-clock time.
    cpu_ms: Optional[float]  # Processor time.
    skipped_arenas: Optional[int]  # Arenas that were left out.
    watched_ms: Optional[float]  # How long --watch waited.
    faulted_back: Optional[int]  # Bytes that were resident again after it: at most so many.
    minor_faults: Optional[int]  # Page faults of the process while --watch waited.
    note: Optional[str]  # What is missing, or not exact.
    arenas: tuple[TrimmedArena, ...]


def parse(text: str) -> Trim:
    """What arenadump printed. ArenascopeError INTERNAL where that is no such answer."""
    return answer(Trim, document(text, SCHEMA), SCHEMA)
