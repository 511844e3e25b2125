# SPDX-License-Identifier: MIT
"""`arenascope dump TARGET -o FILE [--chunks] [--objects] [--graph]`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from arenascope import api
from arenascope.cli.options import graph_option, objects_option, snapshot_options
from arenascope.cli.progress import waiting

if TYPE_CHECKING:
    from arenascope.api import Options


@click.command()
@click.argument("target")
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="The file to write (mode 0600); - is standard output."
)
@click.option("--chunks", is_flag=True, help="Record every chunk too, not only every page.")
@objects_option
@graph_option
@snapshot_options
def dump(target: str, output: str, how: Options) -> None:
    """Write the state of every page of TARGET's heaps to a file.

    TARGET is a process or a core. The dump holds sizes, addresses and names, never the contents of the heap.
    """
    with waiting(f"inspecting {target}"):
        api.dump(target, sys.stdout.fileno() if output == "-" else output, **how)
