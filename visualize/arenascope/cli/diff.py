# SPDX-License-Identifier: MIT
"""`arenascope diff BEFORE AFTER [--json] [--objects] [--graph]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from arenascope import api
from arenascope.cli.options import graph_option, objects_option, snapshot_options
from arenascope.cli.progress import remark, waiting
from arenascope.compare import to_json
from arenascope.humanize import json_text
from arenascope.render.diff import render_diff
from arenascope.render.terminal import console
from arenascope.timeline.store import is_timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arenascope.api import Options
    from arenascope.compare import Digest
    from arenascope.snapshot import Snapshot


@click.command()
@click.argument("before")
@click.argument("after")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (arenascope schema diff) instead of tables.")
@objects_option
@graph_option
@snapshot_options
def diff(before: str, after: str, how: Options, *, as_json: bool) -> None:
    """Show what grew from BEFORE to AFTER, and how fast.

    Each of the two is a process, a core file or a dump file. Of a process, the snapshot is taken now. The command also
    says in what the two snapshots differ in kind. FILE@TIME is the snapshot of a timeline at that time: first, last,
    -10m, 14:03; with --graph or --objects, the last one until then that has types and owners.
    """
    with waiting(f"inspecting {before} and {after}"):
        comparison = api.diff(*_instants((before, after), how))
    if as_json:
        click.echo(json_text(to_json(comparison)))
    else:
        console().print(render_diff(comparison), crop=False)


def _instants(targets: Sequence[str], how: Options) -> Iterator[Snapshot | Digest]:
    """The two that are compared. Those of a timeline are there already."""
    taken = iter(api.inspect_all([(target, how) for target in targets if not _in_timeline(target)], remark))
    named = bool(how.get("objects") or how.get("graph"))
    for target in targets:
        at = _in_timeline(target)
        yield api.read_instant(*at, named=named) if at else next(taken)


def _in_timeline(target: str) -> tuple[str, str] | None:
    """The timeline and the time of FILE@TIME; None: the target is something else."""
    file, at, when = target.rpartition("@")
    return (file, when) if at and not Path(target).exists() and is_timeline(file) else None
