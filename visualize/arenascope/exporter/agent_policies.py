# SPDX-License-Identifier: MIT
"""What the agents in the processes say of their policies. One that keeps us waiting is left in peace for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from arenascope.errors import ArenascopeError, Code
from arenascope.wire.agent_answers import NO_AGENT, Policy, ask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arenascope.processes import Identity, Process

PATIENCE: Final = 1.0  # seconds, for each of three answers: a connection, a greeting, the policy
REST: Final = 100.0  # seconds of rest for each second that we waited for nothing
TOO_OLD: Final = 3600.0  # seconds of rest of an agent that has to learn the question: each one is a line of its log


class Agents:
    """Who may be asked."""

    def __init__(self) -> None:
        """Everybody."""
        self._rests: dict[Identity, float] = {}  # until when, by the monotonic clock

    def keep(self, staying: Iterable[Identity]) -> None:
        """Forget all others."""
        self._rests = {each: self._rests[each] for each in staying if each in self._rests}

    def policy(self, process: Process) -> Policy | None:
        """None: there is no agent, or it rests. ArenascopeError: it gives no answer."""
        begun = time.monotonic()
        if begun < self._rests.get(process.identity, begun):
            return None
        try:
            policy = ask(process.pid, PATIENCE)
        except ArenascopeError as error:
            waited = time.monotonic() - begun
            rest = TOO_OLD if error.code == Code.UNSUPPORTED else REST * waited
            self._rests[process.identity] = begun + waited + rest
            raise
        return None if policy.policy == NO_AGENT else policy
