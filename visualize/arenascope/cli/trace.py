# SPDX-License-Identifier: MIT
"""`arenascope trace FILE [--json]`."""

from __future__ import annotations

import click

from arenascope import api
from arenascope.cli.progress import print_utf8, waiting


@click.command("trace")
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON (arenascope schema trace) instead of tables.")
@click.option("--number", type=click.IntRange(1), default=10, show_default=True, help="How many stacks.")
def trace(file: str, number: int, *, as_json: bool) -> None:
    """Read the trace of a process: every malloc and free.

    Shows how much was allocated over time; the most that was in use, and by which call stacks; what was left at the
    end; and what a thread freed again before its next allocation. FILE was written by `arenascope run --trace FILE`.
    Names of functions come from files of this machine.
    """
    with waiting(f"reading {file}"):
        found = api.read_trace(file)
    if as_json:
        print_utf8(found.json)
    else:
        from arenascope.render.terminal import console  # noqa: PLC0415 - JSON needs no rich
        from arenascope.render.trace import render_trace  # noqa: PLC0415

        console().print(render_trace(found.facts, number), crop=False)
