# SPDX-License-Identifier: MIT
"""What arenadump prints of the agent in a process: how it came there, what a trim did, what its policy has done.

What is not known, or does not apply, is None.
"""

from typing import Final, Literal, NamedTuple, Optional

from arenascope.wire import commands
from arenascope.wire.json_decode import parse
from arenascope.wire.json_types import Duration, Positive, Unsigned, keywords

NO_AGENT: Final = "no_agent"


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


NEVER: Final = ("checks", "trims", "returned", "faulted_back", "elapsed_ms", "longest_hold_ms")  # null without a policy


@keywords(
    **{
        "if": {"properties": {"policy": {"enum": [NO_AGENT, "no_policy"]}}},
        "then": {"properties": {name: {"type": "null"} for name in NEVER}},
        "else": {"properties": {name: {"not": {"type": "null"}} for name in ("agent_version", *NEVER[:2], NEVER[4])}},
    }
)
class Policy(NamedTuple):
    """What the policy of the agent in a process has done since it began: `arenadump policy` (docs/agent.md)."""

    pid: Positive
    agent_version: Optional[str]  # Version of the agent, as the process says. null: there is none.
    # no_agent: no agent answers in the process. no_policy: the agent has no policy, and has had none that checked
    # anything. off: the agent had a policy, and has none now.
    policy: Literal["no_agent", "no_policy", "off", "on"]
    checks: Optional[Unsigned]  # Checks of the policy's conditions. null: there was no policy (no_agent, no_policy).
    trims: Optional[Unsigned]  # Trims that the policy has made. null: there was no policy.
    # Bytes that these trims have returned, by the kernel's count. null: also if that is unknown of one of them.
    returned: Optional[Unsigned]
    # How many of these bytes were resident again at the next check, by the growth of Rss, at most what was returned:
    # memory that was given back meanwhile hides some of it. null: also if returned is unknown of one of them.
    faulted_back: Optional[Unsigned]
    elapsed_ms: Optional[Duration]  # Time that these trims took. null: there was no policy.
    # The longest time for which such a trim has locked an arena. null: also if that is unknown of one of them, as it is
    # without max-hold.
    longest_hold_ms: Optional[Duration]


def ask(pid: int, patience: float) -> Policy:
    """Asks the agent in that process, which has so many seconds for each answer. ArenascopeError: it gives none."""
    return parse(Policy, commands.policy(pid, f"{patience}s"))
