# SPDX-License-Identifier: MIT
"""`arenascope doctor [--json]`."""

from __future__ import annotations

import click
from rich.text import Text

from arenascope.doctor import Check, Status, examine
from arenascope.humanize import json_text, printable
from arenascope.render.terminal import console
from arenascope.version import version

SCHEMA = "arenascope.doctor/1"
STYLES = {Status.OK: "green", Status.LIMITED: "yellow", Status.MISSING: "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
def doctor(*, as_json: bool) -> int:
    """Print what works on this machine, and how to repair the rest.

    It inspects a child process that it starts, and changes nothing. Exit code 1 if a basic check fails: arenadump does
    not run, or may not inspect the child.
    """
    done = []
    for check in examine():
        done.append(check)
        if not as_json:
            _show(check)
    broken = any(check.basic and check.status is Status.MISSING for check in done)
    if as_json:
        report = {
            "schema": SCHEMA,
            "version": version(),
            "ok": not broken,
            "checks": [
                {
                    "name": check.name,
                    "status": check.status.value,
                    "found": check.found,
                    "fix": check.fix,
                    "basic": check.basic,
                }
                for check in done
            ],
        }
        click.echo(json_text(report))
    return int(broken)


def _show(check: Check) -> None:
    line = Text(f"{check.status.value:8}", style=STYLES[check.status])
    line.append(f"{check.name}: ", style="bold")
    line.append(printable(check.found), style="default")
    if check.fix and check.status is not Status.OK:
        line.append(f"\n{'':8}→ {check.fix}", style="cyan")
    console().print(line, soft_wrap=True)
