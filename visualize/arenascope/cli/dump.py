# SPDX-License-Identifier: MIT
"""`arenascope dump TARGET -o FILE [--chunks] [--objects]`."""

from __future__ import annotations

import click

from arenascope.capture import run_arenadump
from arenascope.cli.options import looking, objects_option
from arenascope.cli.progress import waiting


@click.command()
@click.argument("target")
@click.option("-o", "--output", required=True, metavar="FILE", help="The file to write (mode 0600).")
@click.option("--chunks", is_flag=True, help="Record every chunk too, not only every page.")
@objects_option
@looking
def dump(target: str, output: str, how: list[str], *, chunks: bool, objects: bool) -> None:
    """Write a record of every page of TARGET's heaps to a file.

    The dump holds sizes, addresses and names, never the contents of the heap.
    """
    options = [*how, *(["--chunks"] if chunks else []), *(["--objects"] if objects else [])]
    with waiting(f"inspecting {target}"):
        run_arenadump(["dump", *options, f"--output={output}", "--", target])
