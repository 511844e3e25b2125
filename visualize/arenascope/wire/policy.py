# SPDX-License-Identifier: MIT
"""What the policy of an agent has done, schema "arenascope.policy/1", as arenadump prints it.

What is not known, or does not apply, is None.
"""

# As json_decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import Final, Literal, NamedTuple, Optional

from arenascope.wire import commands
from arenascope.wire.json_decode import answer, document
from arenascope.wire.json_types import Duration, Positive, Unsigned, keywords

SCHEMA: Final = "arenascope.policy/1"
NO_AGENT: Final = "no_agent"


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
    return answer(Policy, document(commands.policy(pid, f"{patience}s"), SCHEMA), SCHEMA)
