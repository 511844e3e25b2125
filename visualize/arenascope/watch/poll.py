# SPDX-License-Identifier: MIT
"""One snapshot of one process for a timeline, in the mode that disturbs it least."""

from __future__ import annotations

import io
import resource
import time
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, Callable

from arenascope import api
from arenascope.compare import digest_of
from arenascope.findings import bytes_by_rule
from arenascope.processes import process_at
from arenascope.timeline.store import Member, Taken
from arenascope.wire import commands

if TYPE_CHECKING:
    from arenascope.processes import Process
    from arenascope.profiles.site_digest import Stacks
    from arenascope.wire.dump import Dump
    from arenascope.wire.how import How
    from arenascope.wire.summary import Summary


def spent() -> float:
    """Processor time of this process, of the children that it has waited for, and of its server; seconds."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime + commands.processor_seconds()


def still(process: Process) -> bool:
    """Whether the process runs, and its PID is not another's."""
    now = process_at(process.pid)
    return now is not None and now.identity == process.identity


def summary_of(process: Process, how: How) -> Summary | None:
    """None: the process has ended, and its PID may be another's. ArenascopeError: a snapshot is not possible."""
    with redirect_stderr(io.StringIO()):  # nobody reads the remarks of each snapshot
        summary = api.summary(process.pid, **how._asdict()).facts
    return summary if still(process) else None


def take(
    process: Process,
    how: How,
    also: Callable[[Process, Summary, Dump], None] | None = None,
    sites: Stacks | None = None,
) -> Taken | None:
    """None: the process has ended, and its PID may be another's. ArenascopeError: the snapshot is not possible.

    `also` gets what the snapshot has found, while its dump is open. `sites` knows the call stacks of snapshots before;
    without it, none are kept.
    """
    member = Member(process.identity, process.parent, process.comm, process.exe, process.cmdline)
    snapshot = api.inspect(process.pid, **how._asdict())
    if not still(process):
        return None
    if also:
        also(process, snapshot.facts, snapshot.dump)
    digest = digest_of(snapshot.dump, snapshot.facts)
    with redirect_stderr(io.StringIO()):
        stacks = sites.of(snapshot.dump) if sites else None
    return Taken(member, digest, digest.who.time_ns or time.time_ns(), bytes_by_rule(snapshot.facts), stacks)
