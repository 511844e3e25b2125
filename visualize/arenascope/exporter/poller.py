# SPDX-License-Identifier: MIT
"""The loop of `arenascope exporter`: it inspects one process after the other, and leaves each snapshot on a board.

Who reads the board never waits for a snapshot.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Callable, Final

from arenascope.errors import ArenascopeError, Code
from arenascope.exporter.agent_policies import Agents
from arenascope.findings import bytes_by_rule
from arenascope.watch.budget import SHARE, Pace
from arenascope.watch.loop import LOST
from arenascope.watch.once import Once
from arenascope.watch.poll import spent, still, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from arenascope.processes import Identity, Process
    from arenascope.watch.loop import Bell
    from arenascope.watch.process_group import Watched
    from arenascope.wire.agent_answers import Policy
    from arenascope.wire.how import How
    from arenascope.wire.summary import Summary


@dataclass(frozen=True)
class Latest:
    """A snapshot of a process."""

    process: Process
    summary: Summary
    findings: Mapping[str, int | None]  # bytes by rule
    time: float  # since the epoch
    policy: Policy | None = None  # what the agent says of it; None: nothing, or there is no agent


@dataclass(frozen=True)
class Board:
    """The last snapshot of each process, and what the snapshots were like so far.

    It never changes: there is a next one.
    """

    seen: Mapping[Identity, Latest] = field(default_factory=dict)
    chosen: int = 0  # processes of the group, at the last poll
    left_out: int = 0  # of these: had no snapshot, because there are too many
    polls: int = 0
    snapshots: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)  # snapshots that were not possible, by reason
    unanswered: Mapping[str, int] = field(default_factory=dict)  # questions to agents, by reason
    cost: float | None = None  # processor time of the last poll, seconds
    interval: float | None = None  # from the last poll to the next one, seconds


def alive(seen: Iterable[Latest]) -> list[Latest]:
    """The snapshots of processes that still run."""
    return [each for each in seen if still(each.process)]


def inspect(process: Process, how: How) -> Latest | None:
    """None: the process has ended. ArenascopeError: the snapshot is not possible."""
    summary = summary_of(process, how)
    if summary is None:
        return None
    return Latest(process, summary, bytes_by_rule(summary), time.time())


class Poller:
    """Polls until somebody says stop."""

    def __init__(self, group: Watched, how: How, most: int, say: Callable[[str], None]) -> None:
        """`most`: processes of a poll, the largest. `say`: tells the user a line."""
        self.group: Final = group
        self.how: Final = how
        self.most: Final = most
        self.say: Final = say
        self.board = Board()
        self._agents: Final = Agents()
        self._once: Final = Once(say)
        self._pace: Final = Pace(say)

    def run(self, every: float, bell: Bell) -> None:
        """Poll by poll."""
        while not bell.rung:
            begun = time.monotonic()
            interval = self.poll(every)
            bell.wait(begun + interval - time.monotonic())

    def poll(self, every: float) -> float:
        """One poll. Return the seconds until the next one."""
        begun = spent()
        members = self.group.members()
        shown = members[: self.most]
        staying = {each.identity for each in shown}
        self._agents.keep(staying)
        seen = {identity: each for identity, each in self.board.seen.items() if identity in staying}
        self.board = replace(self.board, seen=seen, chosen=len(members), left_out=len(members) - len(shown))
        for process in shown:
            self._snapshot(process)
        cost = spent() - begun
        interval = max(every, cost / SHARE)
        self.board = replace(self.board, polls=self.board.polls + 1, cost=cost, interval=interval)
        self._pace.tell(every, interval, cost)
        return interval

    def _snapshot(self, process: Process) -> None:
        board = self.board
        seen = dict(board.seen)
        failed = board.failed
        unanswered = board.unanswered
        try:
            snapshot = inspect(process, self.how)
        except ArenascopeError as error:
            snapshot = None
            failed = self._counted(failed, process, error, f"no snapshot of process {process.pid}")
        try:
            snapshot = snapshot and replace(snapshot, policy=self._agents.policy(process))
        except ArenascopeError as error:
            unanswered = self._counted(unanswered, process, error, f"process {process.pid} does not tell of its policy")
        # A snapshot that has failed leaves no row: the one before may have nothing to do with now.
        seen.pop(process.identity, None)
        if snapshot:
            seen[process.identity] = snapshot
        snapshots = board.snapshots + (snapshot is not None)
        self.board = replace(board, seen=seen, failed=failed, unanswered=unanswered, snapshots=snapshots)

    def _counted(
        self, failures: Mapping[str, int], process: Process, error: ArenascopeError, what: str
    ) -> Mapping[str, int]:
        """With one more of that reason, unless the process has only ended."""
        if error.code in LOST or not still(process):
            return failures
        self._once.tell(f"{what}: {str(error).splitlines()[0]}")
        reason = _reason(error.code)
        return {**failures, reason: failures.get(reason, 0) + 1}


def _reason(code: int) -> str:
    try:
        return Code(code).name.lower()
    except ValueError:
        return "killed"
