# SPDX-License-Identifier: MIT
"""`arenascope watch [PID] -o FILE` and `arenascope timeline FILE`."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Final

import click

from arenascope.cli.options import (
    UNITS,
    graph_option,
    max_pause_option,
    mode_option,
    objects_option,
    process_named,
    read_seconds,
)
from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import printable
from arenascope.version import version
from arenascope.watch.process_group import OfCgroup, OfCommand, OfPid, Together, Watched
from arenascope.watch.triggers import When, parse_when
from arenascope.wire.how import How

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.api import Mode
    from arenascope.timeline.reader import Timeline
    from arenascope.timeline.suspects import Suspect

LEAST: Final = 1 << 20
LEAST_SHARE, MOST_SHARE = 0.1, 100  # per cent
EXAMPLE: Final = "peak,+64M,allocated=1G,rss=1G,cgroup=90%,oom,pressure=10ms"


def _bytes(_: click.Context, __: click.Parameter, value: str) -> int:
    match = re.fullmatch(r"([0-9]+)([KMG]?)", value)
    number = int(match[1]) * UNITS[match[2]] if match else 0
    if number < LEAST:
        raise click.BadParameter(f"{value} is not a size of at least 1M: write 190M")
    return number


def _read_share(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Per cent of a processor: 0.5%, 5%."""
    if value is None:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)%", value)
    if not match or not LEAST_SHARE <= float(match[1]) <= MOST_SHARE:
        raise click.BadParameter(f"{value} is not a part of a processor from {LEAST_SHARE}% to {MOST_SHARE}%: write 5%")
    return float(match[1]) / 100


def _read_when(_: click.Context, __: click.Parameter, value: str | None) -> tuple[When, ...] | None:
    """Conditions: peak,+64M,allocated=1G,rss=1G,cgroup=90%,oom,pressure=10ms."""
    made = None if value is None else parse_when(value)
    if value is not None and not made:
        raise click.BadParameter(f"{value} is no condition: write some of {EXAMPLE}")
    return made


def group_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which processes a command is about."""
    repeated = "May be repeated."
    cgroups = f"All processes of this cgroup and of those below it. {repeated}"
    for option in (
        click.option("--cgroup", "cgroups", metavar="PATH", multiple=True, help=cgroups),
        click.option(
            "--command", "names", metavar="NAME", multiple=True, help=f"All processes of this name. {repeated}"
        ),
        click.argument("pids", metavar="[PID]...", nargs=-1),
    ):
        command = option(command)
    return command


@click.command()
@group_options
@click.option("-o", "--output", metavar="FILE", required=True, help="The timeline to write, or to go on with.")
@click.option(
    "--every",
    metavar="TIME",
    default="10s",
    show_default=True,
    callback=read_seconds,
    help="Time between two snapshots: 500ms, 10s, 5m, 1h.",
)
@click.option(
    "--for", "lasting", metavar="TIME", callback=read_seconds, help="End after this time: 24h. The default: never."
)
@click.option(
    "--budget",
    metavar="SHARE",
    callback=_read_share,
    help="Limit for what the polls cost, of a processor: 5%. The default: 5% in the first five minutes, then 0.5%.",
)
@click.option(
    "--max-size",
    metavar="SIZE",
    default="190M",
    show_default=True,
    callback=_bytes,
    help="Limit for the file. When it is nearly reached, more old snapshots are left out.",
)
@click.option(
    "--dump-at",
    metavar="WHEN",
    callback=_read_when,
    help="Keep a dump when WHEN is met, some of: peak (of what is in use), +64M (in use), allocated=1G (of a "
    "process with a profile), rss=1G, cgroup=90% "
    "(of a limit of the process's cgroup), oom (the cgroup met its limit, or the kernel killed), pressure=10ms (of a "
    "second, in which tasks waited for memory).",
)
@click.option("--dumps", metavar="DIR", help="Where to keep these dumps. The default: FILE.dumps.")
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(1, 10000),
    default=8,
    show_default=True,
    help="Dumps to keep: the newest.",
)
@click.option(
    "--dumps-size",
    metavar="SIZE",
    default="1G",
    show_default=True,
    callback=_bytes,
    help="Limit for all dumps together. A tenth of the disk is another.",
)
@objects_option
@graph_option
@mode_option
@max_pause_option
def watch(  # noqa: PLR0913, PLR0917 - one for each option
    pids: tuple[str, ...],
    names: tuple[str, ...],
    cgroups: tuple[str, ...],
    output: str,
    every: float,
    lasting: float | None,
    budget: float | None,
    max_size: int,
    dump_at: tuple[When, ...] | None,
    dumps: str | None,
    keep: int,
    dumps_size: int,
    mode: Mode,
    max_pause: str,
    *,
    objects: bool,
    graph: bool,
) -> int:
    """Inspect processes again and again, and keep a timeline.

    A snapshot every 10 seconds, or less often where it would cost more than --budget allows. With --graph or
    --objects, as many snapshots read all memory as half of this pays for. A process that is started again goes on as
    the next generation. Forks and workers are one group. A line for each process of it is printed when leak suspects
    can be known, when there is a new one, and at the end. Ctrl-C ends the watch.
    """
    from arenascope.timeline.store import TimelineStore  # noqa: PLC0415
    from arenascope.watch.budget import FIRST_SHARE, Budget  # noqa: PLC0415
    from arenascope.watch.dump_directory import DumpFolder  # noqa: PLC0415 - the commands of a dump need no SQLite
    from arenascope.watch.dump_triggered import TriggeredDumps  # noqa: PLC0415
    from arenascope.watch.loop import Bell, Watch, boot_id  # noqa: PLC0415
    from arenascope.watch.suspect_checks import SuspectChecks  # noqa: PLC0415
    from arenascope.watch.triggers import Triggers  # noqa: PLC0415
    from arenascope.wire.arenadump_server import serving  # noqa: PLC0415

    group = group_of(pids, names, cgroups)
    about = {"watched": _watched(pids, names, cgroups), "arenascope": version(), "mode": mode, "max_pause": max_pause}
    if graph or objects:
        about["read"] = "all memory"
    how = How(mode, max_pause)
    if dumps and not dump_at:
        raise click.UsageError("--dumps needs --dump-at, which says when")
    if len(pids) == 1 and not (names or cgroups) and dump_at and any(when.kind == "allocated" for when in dump_at):
        _refuse_unprofiled(pids[0], mode, max_pause)
    with ExitStack() as closing:
        bell = closing.enter_context(Bell().listening())
        closing.enter_context(serving(say))
        triggered = None
        if dump_at:
            folder = DumpFolder(dumps or f"{output}.dumps", keep, dumps_size)
            closing.callback(folder.close)
            triggered = TriggeredDumps(Triggers(dump_at), folder, say)
        store = TimelineStore(output, about, max_size, boot_id())
        closing.callback(store.close)
        deep = how._replace(graph=graph, objects=objects) if graph or objects else None
        spend = Budget(budget, FIRST_SHARE if budget is None else None)
        checks = SuspectChecks(store, partial(_show_members, output), say)
        code = Watch(store, group, how, say, triggered, deep, spend, checks).run(every, lasting, bell)
        checks.search(anyway=True)
        return code


def _show_members(file: str, timeline: Timeline, found: Sequence[Suspect]) -> None:
    """A line for each process, at once."""
    from arenascope.render.members import render_members  # noqa: PLC0415
    from arenascope.render.terminal import console  # noqa: PLC0415

    with suppress(OSError):  # as say() does
        console().print(render_members(timeline, found, file), crop=False, soft_wrap=True)


def _refuse_unprofiled(pid: str, mode: Mode, max_pause: str) -> None:
    """One process has a profile, or has not; of a group, each is told of."""
    from arenascope import api  # noqa: PLC0415

    profile = api.read_profile(pid, mode=mode, max_pause=max_pause).facts  # ArenascopeError: there is none
    if not (profile.on and profile.mean):
        raise ArenascopeError(Code.UNSUPPORTED, f"allocated=: the profile of process {pid} takes no samples")


def group_of(pids: Sequence[str], names: Sequence[str], cgroups: Sequence[str]) -> Watched:
    """The processes that the options name. ArenascopeError: there is no such process. UsageError: they name none."""
    processes = (OfPid(process_named(pid, "watch")) for pid in pids)
    groups = [*processes, *map(OfCommand, names), *map(OfCgroup, cgroups)]
    if not groups:
        raise click.UsageError("give a PID, --command or --cgroup")
    return Together(groups)


def _watched(pids: Sequence[str], names: Sequence[str], cgroups: Sequence[str]) -> str:
    """The same in words."""
    kinds = (("process", "processes", pids), ("command", "commands", names), ("cgroup", "cgroups", cgroups))
    named = [(one if len(given) == 1 else several, given) for one, several, given in kinds if given]
    return "; ".join(f"{kind} {', '.join(given)}" for kind, given in named)


def say(line: str) -> None:
    """Tell the user a line at once."""
    with suppress(OSError):  # a log on a disk that is full: the snapshots go on
        click.echo(f"arenascope: {printable(line)}", err=True)  # names of processes are in it
        sys.stderr.flush()
