# SPDX-License-Identifier: MIT
"""The loop of `arenascope watch`: a poll, then a pause so long that all polls together cost next to nothing."""

from __future__ import annotations

import select
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Final

from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import span
from arenascope.profiles.site_digest import Stacks
from arenascope.signals import waking
from arenascope.timeline.store import NoRoomError, Poll
from arenascope.timeline.trend import LEAST_SNAPSHOTS
from arenascope.watch.budget import DEEP_PART, FIRST, Budget, Costs, Deep, Pace, suspect_words
from arenascope.watch.lacking import Lacking
from arenascope.watch.once import Once
from arenascope.watch.poll import spent, take

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arenascope.processes import Identity, Process
    from arenascope.timeline.store import Taken, TimelineStore
    from arenascope.watch.dump_triggered import TriggeredDumps
    from arenascope.watch.kernel_events import Alarms
    from arenascope.watch.process_group import Watched
    from arenascope.watch.suspect_checks import SuspectChecks
    from arenascope.wire.dump import Dump
    from arenascope.wire.how import How
    from arenascope.wire.summary import Summary

POLL: Final = 1.0  # seconds between two questions whether a limit is met
LONGEST: Final = 86400.0  # seconds that one wait lasts
POLL_SHARE: Final = 0.001  # of a processor, that these questions cost at most
MOST: Final = 64  # processes of a poll: the largest
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
LOST: Final = (Code.TARGET_GONE, Code.NO_TARGET)


def _is_end(error: ArenascopeError) -> bool:
    """Whether a process has ended, or we are to end: by a signal that arenadump had, too."""
    return error.code in LOST or error.code > 128  # noqa: PLR2004 - as a shell counts signals


def boot_id() -> str:
    """Which start of the machine this is."""
    return BOOT.read_text(encoding="ascii").strip()


class Bell:
    """SIGINT and SIGTERM end a pause, and a watch after the poll that is under way."""

    def __init__(self) -> None:
        """It has not rung."""
        self.rung = False
        self._woken: int | None = None

    @contextmanager
    def listening(self) -> Iterator[Bell]:
        """For as long as this lasts."""

        def ring(_: int, __: object) -> None:
            self.rung = True

        with waking(dict.fromkeys((signal.SIGINT, signal.SIGTERM), ring)) as woken:
            self._woken = woken
            try:
                yield self
            finally:
                self._woken = None

    def wait(self, seconds: float, alarms: Alarms | None = None) -> None:
        """Wait so long, or until it rings, or an alarm."""
        if not self.rung:
            poll = alarms.poll if alarms else select.poll()
            if self._woken is not None:
                poll.register(self._woken, select.POLLIN)
            woke = {fd for fd, _ in poll.poll(min(max(seconds, 0), LONGEST) * 1000)}
            if alarms:
                alarms.heard(woke)


class Watch:
    """Polls until somebody says stop."""

    def __init__(  # noqa: PLR0913, PLR0917 - one for each part
        self,
        store: TimelineStore,
        group: Watched,
        how: How,
        say: Callable[[str], None],
        triggered: TriggeredDumps | None = None,
        deep: How | None = None,
        budget: Budget | None = None,
        checks: SuspectChecks | None = None,
    ) -> None:
        """`say`: tells the user a line. `triggered`: keeps dumps. `checks`: searches for leak suspects.

        `deep`: how to take snapshots that read all memory, which come less often.
        """
        self._budget = budget or Budget()
        self._checks = checks
        self.store, self.group, self.how, self.say, self.triggered = store, group, how, say, triggered
        self.deep = Deep(deep, say) if deep else None
        self.generation, self.before = store.last()
        self.sites = Stacks()
        self.missed = 0
        self.polls = 0
        self._pace = Pace(say)
        self._once: Final = Once(say)
        self._members: Sequence[Process] = ()  # that had a snapshot in the last poll
        self._poll = POLL
        self._rest = 0.0
        self._storing = 0.0  # processor time that the last poll took to be stored

    def run(self, every: float, lasting: float | None, bell: Bell) -> int:
        """Poll by poll. Return the exit code."""
        end = None if lasting is None else time.monotonic() + lasting
        while not bell.rung:
            begun, interval = time.monotonic(), self.poll(every)
            due = begun + interval
            until = due if end is None else min(due, end)
            if not self._wait(until, bell) and until == end:
                break
        return Code.IO if self.missed else Code.OK

    def _wait(self, until: float, bell: Bell) -> bool:
        """Wait until then, or until it rings. True: earlier, because a limit is met that is worth a snapshot."""
        triggers = self.triggered.triggers if self.triggered else None
        while not bell.rung and time.monotonic() < until:
            left = until - time.monotonic()
            if not triggers or not triggers.polls:
                bell.wait(left)
                continue
            rest = min(left, self._rest)  # an alarm that goes on and on costs no more than a poll in this time
            bell.wait(rest)
            bell.wait(min(left, self._poll) - rest, triggers.alarms)
            begun = time.process_time()
            if triggers.poll(self._members):
                return True
            self._rest = (time.process_time() - begun) / POLL_SHARE
            self._poll = max(POLL, self._rest)
        return False

    def poll(self, every: float) -> float:
        """One poll. Return the seconds until the next one."""
        started, begun = time.monotonic(), spent()
        deep = self.deep if self.deep and self.deep.now() else None
        members = self.group.members()
        says: list[str] = []
        before, self._members = self._members, members[:MOST]
        if self.triggered:
            # Those that ended since are asked for once more: the kernel may have killed them.
            alive = {each.identity for each in self._members}
            ended = [each for each in before if each.identity not in alive]
            self.triggered.triggers.poll([*self._members, *ended])
        taken = self._snapshots(self._members, says, deep)
        if self.triggered:
            says += self.triggered.besides({snapshot.member.identity for snapshot in taken})
        if len(members) > MOST:
            says.append(f"only the {MOST} largest of {len(members)} processes have a snapshot")
        cost = spent() - begun
        interval = self._costs(every, self._usual(cost + self._storing, deep)).interval(self._budget.share)
        if taken or (self.before and not members):
            self._number({snapshot.member.identity for snapshot in taken})
            now = time.time_ns()
            words = "; ".join(says) or None
            self._store(
                Poll(now, self.generation, len(members), round(cost * 1e6), round(interval * 1000), words, taken)
            )
        elif not members:
            self._once.tell("no process of that kind runs: waiting for one")
        self._storing = spent() - begun - cost
        usual = self._usual(cost + self._storing, deep)
        costs = self._costs(every, usual, cost + self._storing - usual)
        interval = costs.interval(self._budget.share)
        if deep:
            deep.plan(started, costs, self._budget)
        elif self.deep and taken:
            self.deep.usual = usual
        self._announce(costs)
        if self._checks and taken:
            searched = spent()
            self._checks.after_poll(self._budget.share)
            interval += (spent() - searched) / self._budget.share
        return interval

    def _costs(self, every: float, usual: float, added: float = 0.0) -> Costs:
        return Costs(every, usual, deep=self.deep is not None, added=max(added, 0.0))

    def _announce(self, costs: Costs) -> None:
        """How often there is a poll, and when a leak suspect can be known. The first poll costs more than others."""

        def more() -> str:
            first = f" in the first {span(FIRST)}" if self._budget.begins and interval > costs.every else ""
            when = suspect_words(self._budget, costs, costs.interval, self.polls)
            return f"{first}; a leak suspect takes {LEAST_SNAPSHOTS} polls: {when}"

        share = self._budget.share
        interval = costs.interval(share)
        part = share * DEEP_PART if self.deep else share
        self._pace.tell(costs.every, interval, costs.usual, part, more, anyway=self.polls > 1)

    @staticmethod
    def _usual(cost: float, deep: Deep | None) -> float:
        """What a poll cost, or would have cost without types and owners."""
        return cost if deep is None or deep.usual is None else min(deep.usual, cost)

    def _snapshots(self, members: Sequence[Process], says: list[str], deep: Deep | None) -> list[Taken]:
        def keep(process: Process, summary: Summary, dump: Dump) -> None:
            words = self.triggered.keep_dump(process, summary, dump) if self.triggered else None
            if words:
                says.append(words)

        taken, lacking = [], Lacking()
        for process in members:
            try:
                snapshot = self._take(process, keep, lacking, deep)
            except ArenascopeError as error:
                if _is_end(error):
                    continue
                if not self.polls and len(members) == 1:
                    raise
                lacking.add("no snapshot", process, error)
                continue
            if snapshot:
                taken.append(snapshot)
        for text in lacking.texts():
            says.append(text)
            self._once.tell(text)
        return taken

    def _take(
        self,
        process: Process,
        keep: Callable[[Process, Summary, Dump], None],
        lacking: Lacking,
        deep: Deep | None,
    ) -> Taken | None:
        """A snapshot; without types and owners where these cannot be had."""
        if deep:
            try:
                return take(process, deep.how, keep, self.sites)
            except ArenascopeError as error:
                if _is_end(error):
                    raise
                lacking.add("no types and owners", process, error)
        return take(process, self.how, keep, self.sites)

    def _number(self, alive: set[Identity]) -> None:
        """A generation lasts as long as one of its processes is there at the next poll, too."""
        if alive and not alive & self.before:
            self.generation += 1
            if self.polls:
                self.say(f"generation {self.generation}: other processes than before")
        if alive != self.before:
            self.store.forget(alive)
            if self.triggered:
                self.triggered.triggers.forget(alive)
        self.before = alive

    def _store(self, poll: Poll) -> None:
        problem = self._add(poll)
        while problem and self.store.make_room(poll.time_ns):
            problem = self._add(poll)
        if problem is None:
            self.polls += 1
            return
        self.missed += 1
        self._once.tell(f"{problem}: this poll is not kept; those before it are")

    def _add(self, poll: Poll) -> NoRoomError | None:
        try:
            self.store.add(poll)
        except NoRoomError as error:
            return error
        return None
