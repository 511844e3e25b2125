# SPDX-License-Identifier: MIT
"""`arenascope dump TARGET -o FILE [--chunks] [--objects] [--graph]`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from arenascope.cli.options import graph_option, objects_option, snapshot_options
from arenascope.cli.progress import waiting
from arenascope.wire import commands

if TYPE_CHECKING:
    from arenascope.wire.how import How


@click.command()
@click.argument("target")
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="The file to write (mode 0600); - is standard output."
)
@click.option("--chunks", is_flag=True, help="Record every chunk too, not only every page.")
@objects_option
@graph_option
@snapshot_options
def dump(  # noqa: PLR0913 - one for each option
    target: str, output: str, how: How, *, chunks: bool, objects: bool, graph: bool
) -> None:
    """Write the state of every page of TARGET's heaps to a file.

    TARGET is a process or a core. The dump holds sizes, addresses and names, never the contents of the heap.
    """
    how = how._replace(chunks=chunks, objects=objects, graph=graph)
    with waiting(f"inspecting {target}"):
        stdout = sys.stdout.fileno() if output == "-" else None
        commands.dump(target, how, output, stdout=stdout)
