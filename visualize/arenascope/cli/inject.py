# SPDX-License-Identifier: MIT
"""`arenascope inject PID` and `arenascope gdb-script`."""

from __future__ import annotations

import click

from arenascope import api
from arenascope.cli.progress import print_utf8, waiting
from arenascope.wire.agent import GDB_SCRIPT


@click.command()
@click.argument("pid")
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON (arenascope schema inject).")
def inject(pid: str, timeout: str | None, *, force: bool, as_json: bool) -> None:
    """Load the agent into the running process PID.

    One thread of the process is stopped for some milliseconds. If the injection might do harm, it is refused, with the
    reason. The process keeps a thread of the agent: from then on the kernel refuses what only a process with one thread
    may do (unshare(CLONE_NEWUSER) and setns fail with EINVAL), and malloc takes its locks.
    """
    with waiting(f"loading the agent into {pid}"):
        found = api.inject(pid, timeout=timeout, force=force)
    if as_json:
        print_utf8(found.json)
    else:
        from arenascope.render.inject import render_inject  # noqa: PLC0415 - JSON needs none

        click.echo(render_inject(found.facts))


@click.command("gdb-script")
def gdb_script() -> None:
    """Print the path of the script that injects with gdb.

    To use it: gdb -p PID -batch -x "$(arenascope gdb-script)".
    """
    click.echo(GDB_SCRIPT)
