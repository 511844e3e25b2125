# SPDX-License-Identifier: MIT
"""How the agent came into a process, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arenascope.humanize import duration, printable, size

if TYPE_CHECKING:
    from arenascope.wire.agent_answers import Inject


def render_inject(facts: Inject) -> str:
    """What the terminal shows of `arenadump inject --json`."""
    how = "it was there already"
    if facts.thread is not None:
        how = f"{facts.how} by thread {facts.thread} ({printable(facts.where or '')}), "
        how += f"which was interrupted for {duration(facts.away_ms)}"
    return (
        f"agent {printable(facts.agent_version)} answers in process {facts.pid}: {how}\n"
        f"the agent itself takes {size(facts.agent_resident)} of the process's memory"
    )
