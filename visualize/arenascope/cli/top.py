# SPDX-License-Identifier: MIT
"""`arenascope top [PID]`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Callable

import click

from arenascope.cli.options import (
    graph_option,
    max_pause_option,
    mode_option,
    objects_option,
    process_named,
    read_seconds,
)
from arenascope.cli.progress import waiting
from arenascope.errors import ArenascopeError, Code
from arenascope.extras import needing
from arenascope.wire.how import How

if TYPE_CHECKING:
    from arenascope.live.columns import Choice
    from arenascope.live.process_table import Processes
    from arenascope.processes import Process

SORTS = ("pid", "rss", "in use", "cached", "releasable", "withheld", "stranded", "other", "age", "command")


@click.command()
@click.argument("pid", required=False)
@click.option("--once", is_flag=True, help="Take one snapshot of each process, and print a table.")
@click.option("--json", "as_json", is_flag=True, help="With --once: print JSON (arenascope schema top).")
@click.option(
    "--sort", type=click.Choice(SORTS, case_sensitive=False), default="rss", show_default=True, help="Sort by a column."
)
@click.option("--reverse", is_flag=True, help="Sort the other way round.")
@click.option(
    "--filter",
    "words",
    metavar="WORDS",
    default="",
    help="Only processes with these words in PID, name, arguments or cgroup.",
)
@click.option(
    "--group", type=click.Choice(["none", "command", "cgroup"]), default="none", help="A line for each group."
)
@click.option(
    "--every",
    metavar="TIME",
    default="2s",
    show_default=True,
    callback=read_seconds,
    help="Time between two scans of /proc, at least.",
)
@mode_option
@max_pause_option
@objects_option
@graph_option
def top(  # noqa: PLR0913 - one for each option
    pid: str | None,
    *,
    once: bool,
    as_json: bool,
    sort: str,
    reverse: bool,
    words: str,
    group: str,
    every: float,
    mode: str,
    max_pause: str,
    objects: bool,
    graph: bool,
) -> int | None:
    """Show what processes hold, and what would come back, live.

    Without PID: every process that you may inspect. With PID: its ledger, its arenas, what grows, its pages. All
    snapshots together take at most one per cent of a processor. The key ? lists the keys.
    """
    from arenascope.live.columns import COLUMNS, Choice  # noqa: PLC0415
    from arenascope.live.process_table import Processes  # noqa: PLC0415
    from arenascope.wire.arenadump_server import serving  # noqa: PLC0415

    if as_json and not once:
        raise click.UsageError("--json goes with --once")
    process = process_named(pid, "inspect") if pid is not None else None
    how = How(mode, max_pause)
    column = next(name for name in COLUMNS if name.lower() == sort.lower())
    choice = Choice(column, reverse, words, group)
    if once:
        with serving():
            return _once(Processes(how, _only(process)), choice, process, as_json=as_json)
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise click.UsageError("a live view needs a terminal: use --once")
    with needing("live", "the live view", "`arenascope top --once` works without it."):
        from arenascope.live.app import Live  # noqa: PLC0415 - Textual takes a third of a second to import

    first = (process, how._replace(objects=objects, graph=graph)) if process else None
    live = Live(Processes(how), choice, every, first)
    with serving():
        code = live.run(mouse=False)
    return (live.return_code or Code.INTERNAL) if code is None else code  # None: it has shown its own failure


def _only(process: Process | None) -> Callable[[Process], bool] | None:
    return None if process is None else lambda each: each.identity == process.identity


def _once(machine: Processes, choice: Choice, process: Process | None, *, as_json: bool) -> int:
    from arenascope.humanize import json_text, plural  # noqa: PLC0415
    from arenascope.live.columns import lines_of  # noqa: PLC0415
    from arenascope.live.machine_text import Drawing, draw_line, header, said  # noqa: PLC0415
    from arenascope.live.top_json import to_json  # noqa: PLC0415
    from arenascope.render.terminal import console  # noqa: PLC0415

    machine.scan()
    every = [entry for line in lines_of(machine.entries.values(), choice) for entry in line.members]
    with waiting(f"inspecting {plural(len(every), 'process')}"):
        for entry in every:
            machine.take_snapshot(entry.identity, lambda: 0.0)
    lines = lines_of(machine.entries.values(), choice)
    if process:
        _refuse(machine, process)
    if as_json:
        click.echo(json_text(to_json(lines, machine.census())))
        return Code.OK
    out = console()
    drawing = Drawing(out.width, choice.sort, choice.reverse, ascii_only=out.options.ascii_only)
    above = said([entry for line in lines for entry in line.members], machine.census(), choice)
    for text in [*above, header(drawing), *(draw_line(line, drawing) for line in lines)]:
        out.print(text, overflow="ellipsis", no_wrap=True, crop=out.is_terminal)
    return Code.OK


def _refuse(machine: Processes, process: Process) -> None:
    """A process that was named and at which no snapshot was possible is an error."""
    entry = machine.entries.get(process.identity)
    if entry is None:
        raise ArenascopeError(Code.TARGET_GONE, f"process {process.pid} has ended during the snapshot")
    if entry.figures is None:
        raise ArenascopeError(entry.code or Code.INTERNAL, entry.why or "no snapshot was possible")
