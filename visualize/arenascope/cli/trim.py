# SPDX-License-Identifier: MIT
"""`arenascope trim PID`."""

from __future__ import annotations

from typing import Any

import click

from arenascope import api
from arenascope.cli.progress import print_utf8, waiting


@click.command()
@click.argument("pid")
@click.option("--forecast", is_flag=True, help="Only print what would come back: load nothing, change nothing.")
@click.option("--deep", is_flag=True, help="Also return the tops of thread arenas, which malloc_trim(0) never does.")
@click.option(
    "--max-hold", metavar="TIME", help="Limit for how long an arena is locked at a time: 5ms (the default: no limit)."
)
@click.option("--max-pause", metavar="TIME", help="Limit for how long the process is stopped (--forecast).")
@click.option("--arena", metavar="ADDRESS", help="Only the arena at this address (`arenascope summary` lists them).")
@click.option(
    "--watch",
    metavar="TIME",
    help="After the trim, wait, and print how much is resident again: 500ms, 60s, at most 3600s.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Inject even if each thread is under a seccomp filter, which may kill the process, or with few mappings left.",
)
@click.option(
    "--timeout",
    metavar="TIME",
    help="How long to search for a thread that can load the agent safely: 500ms, 30s (the default: 10s).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (arenascope.trim/1, docs/injection.md).")
def trim(pid: str, *, forecast: bool, as_json: bool, **options: Any) -> None:
    """Return the free memory of process PID to the kernel.

    The agent in the process does this. It is injected first if necessary, and the process keeps a thread of it
    (`arenascope inject --help`).
    """
    with waiting(f"trimming {pid}" if not forecast else f"inspecting {pid}"):
        found = api.trim(pid, forecast_only=forecast, **options)
    if as_json:
        print_utf8(found.json)
    else:
        from arenascope.render.terminal import console  # noqa: PLC0415 - JSON needs no rich
        from arenascope.render.trim import render_trim  # noqa: PLC0415

        console().print(render_trim(found.facts), crop=False)
