# SPDX-License-Identifier: MIT
"""JSON of `arenascope timeline`, schema "arenascope.timeline/1", and of its suspects, "arenascope.suspects/1"."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Optional, Union

from arenascope.humanize import time_words
from arenascope.timeline.suspects import KINDS
from arenascope.wire.json_encode import encode
from arenascope.wire.json_types import Bounds, Duration, Part, Positive, Time, Unsigned

if TYPE_CHECKING:
    from arenascope.timeline.reader import PollRow, Timeline
    from arenascope.timeline.suspects import Suspect

SCHEMA: Final = "arenascope.timeline/1"
SUSPECTS: Final = "arenascope.suspects/1"


class TimelineProcess(NamedTuple):
    """A process of the group."""

    pid: Unsigned
    started: Unsigned  # Clock ticks since the start of the machine.
    parent: Unsigned
    generation: Positive  # That of the poll that saw the process first.
    comm: str
    exe: Optional[str]
    cmdline: str


class TimelineSnapshot(NamedTuple):
    """A snapshot of a process."""

    pid: Unsigned
    time: Time
    exact: bool
    rss: Optional[Unsigned]
    rows: dict[str, Optional[Unsigned]]  # Every row of the ledger.
    findings: dict[str, Optional[Unsigned]]  # The rules that have a finding, and its bytes.


class TimelinePoll(NamedTuple):
    """A poll of the group."""

    time: Time
    generation: Unsigned
    processes: Unsigned  # How many the group had. At most 64 have a snapshot.
    cost_ms: Duration  # Processor time of the snapshots.
    interval_s: Duration  # Time to the next poll, as it was planned.
    notes: Optional[str]  # What went wrong, or was left out.
    snapshots: tuple[TimelineSnapshot, ...]  # The largest process first.


class TimelineJson(NamedTuple):
    """What a timeline has: `arenascope timeline`."""

    about: dict[str, str]  # What is watched, and how.
    processes: tuple[TimelineProcess, ...]
    polls: tuple[TimelinePoll, ...]  # In the order of time.


class SuspectRate(NamedTuple):
    """Bytes a minute, and the limits of the 95 % interval."""

    rate: float
    low: float
    high: float


class SuspectJson(NamedTuple):
    """What grows and has not stopped."""

    # size: chunks in use of one chunk size. sizes: of all chunk sizes from a power of two to the next. chunks: all
    # chunks in use. row: a row of the ledger that is not malloc's, resident bytes. site: chunks in use that one call
    # stack allocated. type: chunks in use of one type. owner: what one owner retains. lost: lost chunks of one type and
    # size. object: a runtime's objects of one type, with what they own. class: Ruby's objects of one class, likewise.
    kind: Annotated[str, Bounds(enum=KINDS)]
    # Which: the chunk size, the least chunk size, "chunks", the row's name, the type's name, or what tells a call
    # stack, an owner, lost chunks or objects from others.
    key: Union[int, str]
    title: str  # The same in words.
    pid: Unsigned
    comm: str
    per_minute: SuspectRate
    since: Time  # Time of the first snapshot of the growth, UTC.
    until: Time  # Time of the last snapshot, UTC.
    snapshots: Annotated[int, Bounds(minimum=10)]  # On which the rate rests.
    seconds: Duration  # From the first of these snapshots to the last.
    growth: Unsigned  # By the rate, in this time.
    held: Unsigned  # At the last snapshot.
    # Chunks (objects, for object and class) at the last snapshot. Of an owner null: its chunks are not counted.
    count: Optional[Unsigned]  # type: ignore[assignment]
    # The growth, of the sum of all rises from one snapshot to the next. What came and went between two snapshots is not
    # in it.
    stayed: Part
    # The part of what was allocated in this time that is still in use: estimated from a profile's samples. null: there
    # is no profile, or it has too few samples.
    survive: Optional[Part]
    exact: bool  # All these snapshots were.
    # Call stacks, types, owners and lost chunks that grow at the same rate, as far as their intervals tell.
    alike: tuple[str, ...]
    # The process was not in the group any more at the last poll: it has ended, or has another name or cgroup. Of a last
    # poll at which not all were inspected, nothing is said.
    ended: bool


class SuspectsJson(NamedTuple):
    """What grows in a timeline and has not stopped: `arenascope timeline suspects`."""

    about: dict[str, str]  # What is watched, and how.
    polls: Unsigned  # How many the timeline has.
    first: Optional[Time]  # Time of the first poll, UTC.
    last: Optional[Time]  # Time of the last poll, UTC.
    # Those of running processes first, and of these the fastest, by the lower limit of the rate.
    suspects: tuple[SuspectJson, ...]


def to_json(timeline: "Timeline", findings: Mapping[int, Mapping[str, Optional[int]]]) -> dict[str, Any]:
    """A timeline. `findings`: of snapshots, by id."""
    processes = tuple(
        TimelineProcess(*(getattr(each, name) for name in TimelineProcess._fields)) for each in timeline.processes
    )
    made = TimelineJson(dict(timeline.about), processes, tuple(_poll(each, findings) for each in timeline.polls))
    return {"schema": SCHEMA, **encode(made)}


def _poll(poll: "PollRow", findings: Mapping[int, Mapping[str, Optional[int]]]) -> TimelinePoll:
    snapshots = tuple(
        TimelineSnapshot(
            each.pid, time_words(each.time_ns), each.exact, each.rss, dict(each.rows), dict(findings.get(each.id, {}))
        )
        for each in poll.snapshots
    )
    cost, interval = poll.cost_us / 1000, poll.interval_ms / 1000
    return TimelinePoll(
        time_words(poll.time_ns), poll.generation, poll.processes, cost, interval, poll.notes, snapshots
    )


def suspects_json(timeline: "Timeline", found: "Sequence[Suspect]") -> dict[str, Any]:
    """The suspects of a timeline."""
    times = [time_words(poll.time_ns) for poll in timeline.polls]
    first, last = (times[0], times[-1]) if times else (None, None)
    made = SuspectsJson(dict(timeline.about), len(times), first, last, tuple(map(_growth, found)))
    return {"schema": SUSPECTS, **encode(made)}


def _growth(suspect: "Suspect") -> SuspectJson:
    rounded: dict[str, Any] = {
        "per_minute": SuspectRate(*(round(each, 3) for each in (suspect.rate, suspect.low, suspect.high))),
        "since": time_words(suspect.since_ns),
        "until": time_words(suspect.until_ns),
        "seconds": round(suspect.seconds, 3),
        "stayed": round(suspect.stayed, 4),
        "survive": None if suspect.survive is None else round(suspect.survive, 4),
    }
    return SuspectJson(*(rounded[name] if name in rounded else getattr(suspect, name) for name in SuspectJson._fields))
