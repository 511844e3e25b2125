# SPDX-License-Identifier: MIT
"""`arenascope dump TARGET -o FILE [--chunks]`."""

from __future__ import annotations

import click

from arenascope.capture import run_arenadump
from arenascope.cli.progress import waiting


@click.command()
@click.argument("target")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where to write the dump (mode 0600).")
@click.option("--chunks", is_flag=True, help="Record every chunk too, not only every page.")
def dump(target: str, output: str, *, chunks: bool) -> None:
    """Write what can be seen of TARGET to a dump file: sizes and addresses, never the heap's contents."""
    with waiting(f"looking at {target}"):
        words = run_arenadump(["dump", *(["--chunks"] if chunks else []), "-o", output, "--", target])
    click.echo(words, nl=False)
