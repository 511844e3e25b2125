# SPDX-License-Identifier: MIT
"""What the policy of an agent has done, schema "arenascope.policy/1" (docs/policy.schema.json), as arenadump prints it.

What is not known, or does not apply, is None.
"""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import Final, NamedTuple, Optional

from arenascope.wire.arenadump import run_arenadump
from arenascope.wire.json_decode import answer, document

SCHEMA: Final = "arenascope.policy/1"
NO_AGENT: Final = "no_agent"


class Policy(NamedTuple):
    """All of it, since the process began. Bytes and milliseconds."""

    agent_version: Optional[str]
    policy: str  # no_agent, no_policy, off, on
    checks: Optional[int]
    trims: Optional[int]
    returned: Optional[int]
    faulted_back: Optional[int]
    elapsed_ms: Optional[float]
    longest_hold_ms: Optional[float]


def ask(pid: int, patience: float) -> Policy:
    """Asks the agent in that process, which has so many seconds for each answer. ArenascopeError: it gives none."""
    printed = run_arenadump(["policy", "--json", f"--timeout={patience}s", "--", str(pid)])
    return answer(Policy, document(printed, SCHEMA), SCHEMA)
