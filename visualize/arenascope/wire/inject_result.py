# SPDX-License-Identifier: MIT
"""How the agent came into a process: schema "arenascope.inject/1" (docs/injection.md), as arenadump prints it."""

# As json_decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import Final, Literal, NamedTuple, Optional

from arenascope.wire.json_decode import answer, document
from arenascope.wire.json_types import Duration, Unsigned

SCHEMA: Final = "arenascope.inject/1"


class Inject(NamedTuple):
    """How the agent came into a process: `arenadump inject` (docs/injection.md)."""

    pid: Unsigned  # The process.
    agent_version: str  # The agent's version, as it says itself.
    # woken: the library was there, and its thread was not. present: the agent was there.
    how: Literal["loaded", "woken", "present"]
    thread: Optional[Unsigned]  # The thread that loaded the library. null: it was there.
    where: Optional[str]  # What the thread was doing. null: as of thread.
    attempts: Unsigned  # Threads that were examined until one was safe.
    search_ms: Optional[Duration]  # How long the search took.
    away_ms: Optional[Duration]  # For how long the thread was kept from its work.
    agent_resident: Optional[Unsigned]  # Bytes that the agent has in memory. null: not known.


def parse(text: str) -> Inject:
    """What arenadump printed. ArenascopeError INTERNAL where that is no such answer."""
    return answer(Inject, document(text, SCHEMA), SCHEMA)
