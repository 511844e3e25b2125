# SPDX-License-Identifier: MIT
"""What `arenascope top --once --json` prints: schema "arenascope.top/1"."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Optional

from arenascope.coverage import SHORT
from arenascope.humanize import time_words
from arenascope.live.columns import taken, totals
from arenascope.live.process_table import Census, Standing, user_name
from arenascope.wire.json_encode import encode
from arenascope.wire.json_types import Bounds, Time, Unsigned, inline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.live.columns import Listed, Quantity
    from arenascope.live.process_table import Entry, Figures

SCHEMA: Final = "arenascope.top/1"


class TopSum(NamedTuple):
    """A sum over processes."""

    bytes: Optional[Unsigned]  # null: known of none.
    quick: bool  # With a part that is rss_quick.
    least: bool  # Not known of some processes: the sum is at least this.


@inline
class TopSums(NamedTuple):
    """A sum for each column."""

    rss: TopSum
    in_use: TopSum
    cached: TopSum
    stranded: TopSum
    releasable: TopSum
    withheld: TopSum
    other: TopSum


class TopTotal(NamedTuple):
    """Sums over the processes listed."""

    sums: TopSums
    processes: Unsigned  # Those listed.
    taken: Unsigned  # Those with a snapshot.


class TopGroup(NamedTuple):
    """Processes of one name or cgroup."""

    sums: TopSums
    name: str
    pids: tuple[Unsigned, ...]
    taken: Unsigned


class TopSnapshot(NamedTuple):
    """The last snapshot."""

    time: Time
    mode: str  # As in arenascope.summary/1: freeze, clone, live.
    exact: bool  # Whether the rows add up to rss to the byte.
    rss: Optional[Unsigned]  # the process's Rss
    swap: Optional[Unsigned]
    in_use: Optional[Unsigned]  # what the application or a runtime holds
    cached: Optional[Unsigned]  # tcache and fastbin
    stranded: Optional[Unsigned]
    releasable: Optional[Unsigned]  # what malloc_trim(0) would return
    withheld: Optional[Unsigned]  # what only a deep trim would return
    # everything else: files, stacks, other anonymous memory, malloc's own headers, what could not be classified
    other: Optional[Unsigned]


class TopProcess(NamedTuple):
    """A process."""

    pid: Unsigned
    started: Unsigned  # Clock ticks since the start of the machine.
    parent: Unsigned
    comm: str
    cmdline: str  # Empty: the process has overwritten it, or we may not read it.
    uid: Optional[Unsigned]  # null: it ended meanwhile
    user: Optional[str]  # The user's name, else the number.
    cgroup: Optional[str]  # Its cgroup; of several hierarchies the one with the longest path.
    rss_quick: Unsigned  # The kernel's quick count of Rss: it lags behind by some pages of each thread.
    # denied: no permission to inspect. failed: no snapshot was possible for another reason.
    standing: Annotated[str, Bounds(enum=tuple(each.value for each in Standing))]
    why: Optional[str]  # Why there is no snapshot.
    snapshot: Optional[TopSnapshot]  # null: there was no snapshot, and `why` says why.


class Top(NamedTuple):
    """What processes hold, and what would come back: `arenascope top --once`."""

    time: Time  # When this was printed, UTC.
    census: Census
    total: TopTotal
    groups: Optional[tuple[TopGroup, ...]]  # With --group: in the order asked for. null: without.
    processes: tuple[TopProcess, ...]  # In the order asked for.


def to_json(lines: "Sequence[Listed]", census: Census) -> dict[str, Any]:
    """All of it. `lines`: of processes or of groups, in their order."""
    entries = [entry for line in lines for entry in line.members]
    made = Top(
        time=time_words(time.time_ns()),
        census=census,
        total=TopTotal(_sums(totals(entries)), len(entries), taken(entries)),
        groups=None if all(line.entry for line in lines) else tuple(_group(line) for line in lines),
        processes=tuple(_process(entry) for entry in entries),
    )
    return {"schema": SCHEMA, **encode(made)}


def _key(name: str) -> str:
    return name.lower().replace(" ", "_")


def _sums(helds: "dict[str, Quantity]") -> TopSums:
    return TopSums(**{_key(name): TopSum(held.bytes, held.quick, held.least) for name, held in helds.items()})


def _group(line: "Listed") -> TopGroup:
    pids = tuple(entry.process.pid for entry in line.members)
    return TopGroup(_sums(line.cells), line.title, pids, taken(line.members))


def _process(entry: "Entry") -> TopProcess:
    process = entry.process
    return TopProcess(
        pid=process.pid,
        started=process.identity.started,
        parent=process.parent,
        comm=process.comm,
        cmdline=entry.cmdline,
        uid=entry.uid,
        user=user_name(entry.uid) or None,
        cgroup=entry.cgroup or None,
        rss_quick=entry.quick,
        standing=entry.standing.value,
        why=entry.why,
        snapshot=None if entry.figures is None else _snapshot(entry.figures),
    )


def _snapshot(figures: "Figures") -> TopSnapshot:
    rows: dict[str, Any] = {_key(name): figures.rows[name] for name in SHORT}
    return TopSnapshot(time_words(figures.time_ns), figures.mode, figures.exact, figures.rss, figures.swap, **rows)
