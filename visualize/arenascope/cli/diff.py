# SPDX-License-Identifier: MIT
"""`arenascope diff BEFORE AFTER [--json] [--objects] [--graph]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from arenascope.cli.options import graph_option, objects_option, snapshot_options
from arenascope.cli.progress import waiting
from arenascope.compare import compare, digest_of, to_json
from arenascope.humanize import json_text
from arenascope.profiles.site_digest import with_stacks
from arenascope.render.diff import render_diff
from arenascope.render.terminal import console
from arenascope.timeline.reader import digest_at
from arenascope.timeline.store import is_timeline
from arenascope.wire.snapshot import take_all
from arenascope.wire.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arenascope.compare import Digest
    from arenascope.wire.how import How


@click.command()
@click.argument("before")
@click.argument("after")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (arenascope schema diff) instead of tables.")
@objects_option
@graph_option
@snapshot_options
def diff(  # noqa: PLR0913 - one for each option
    before: str, after: str, how: How, *, as_json: bool, objects: bool, graph: bool
) -> None:
    """Show what grew from BEFORE to AFTER, and how fast.

    Each of the two is a process, a core file or a dump file. Of a process, the snapshot is taken now. The command also
    says in what the two snapshots differ in kind. FILE@TIME is the snapshot of a timeline at that time: first, last,
    -10m, 14:03; with --graph or --objects, the last one until then that has types and owners.
    """
    comparison = compare(*_instants((before, after), how._replace(objects=objects, graph=graph)))
    if as_json:
        click.echo(json_text(to_json(comparison)))
    else:
        console().print(render_diff(comparison), crop=False)


def _instants(targets: Sequence[str], how: How) -> Iterator[Digest]:
    """The two that are compared. Those of a timeline are there already."""
    others = [target for target in targets if not _in_timeline(target)]
    with waiting(f"inspecting {' and '.join(others)}"):
        snapshots = iter(take_all([(target, how) for target in others]))
        for target in targets:
            at = _in_timeline(target)
            if at:
                yield digest_at(*at, named=how.reads_all)
                continue
            snapshot = next(snapshots)
            yield with_stacks(
                digest_of(snapshot.dump, summarize(snapshot.dump, from_dump=snapshot.from_dump)), snapshot.dump
            )


def _in_timeline(target: str) -> tuple[str, str] | None:
    """The timeline and the time of FILE@TIME; None: the target is something else."""
    file, at, when = target.rpartition("@")
    return (file, when) if at and not Path(target).exists() and is_timeline(file) else None
