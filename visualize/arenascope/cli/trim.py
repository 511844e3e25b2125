# SPDX-License-Identifier: MIT
"""`arenascope trim PID`."""

from __future__ import annotations

import click

from arenascope.capture import run_arenadump
from arenascope.cli.progress import waiting
from arenascope.render.terminal import console
from arenascope.render.trim import render_trim
from arenascope.trim import parse


@click.command()
@click.argument("pid")
@click.option("--forecast", is_flag=True, help="Only print what would come back: load nothing, change nothing.")
@click.option("--deep", is_flag=True, help="Also return the tops of thread arenas, which malloc_trim(0) never does.")
@click.option(
    "--max-hold", metavar="TIME", help="Lock no arena for longer at a time: 5ms (the default: as long as it takes)."
)
@click.option("--max-pause", metavar="TIME", help="Limit for how long a look may stop the process (--forecast).")
@click.option("--arena", metavar="ADDRESS", help="Only the arena at this address (`arenascope summary` lists them).")
@click.option("--watch", metavar="TIME", help="Then wait, 60s for example, and print how much is resident again.")
@click.option("--force", is_flag=True, help="Inject the agent even if a seccomp filter may kill the process for it.")
@click.option(
    "--timeout",
    metavar="TIME",
    help="How long to search for a thread that can load the agent safely (the default: 10s).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (arenascope.trim/1, docs/injection.md).")
def trim(  # noqa: PLR0913 - one parameter for each option
    pid: str,
    *,
    max_hold: str | None,
    max_pause: str | None,
    arena: str | None,
    watch: str | None,
    timeout: str | None,
    forecast: bool,
    deep: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Have process PID give its free memory back to the kernel.

    The agent in it does so; it is injected where it is not there.
    """
    given = {"max-hold": max_hold, "max-pause": max_pause, "arena": arena, "watch": watch, "timeout": timeout}
    flags = {"forecast": forecast, "deep": deep, "force": force}
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    options += [f"--{name}" for name, chosen in flags.items() if chosen]
    with waiting(f"trimming {pid}" if not forecast else f"looking at {pid}"):
        printed = run_arenadump(["trim", "--json", *options, "--", pid])
    if as_json:
        click.echo(printed, nl=False)
    else:
        console().print(render_trim(parse(printed)))
