# SPDX-License-Identifier: MIT
"""`arenascope summary TARGET [--json] [--objects] [--graph]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arenascope.cli.options import graph_option, objects_option, snapshot_options
from arenascope.cli.progress import waiting
from arenascope.findings import Facts, to_json
from arenascope.humanize import json_text
from arenascope.wire.summary import parse, printed

if TYPE_CHECKING:
    from arenascope.wire.how import How


@click.command()
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (arenascope schema summary) instead of tables.")
@objects_option
@graph_option
@snapshot_options
def summary(target: str, how: How, *, as_json: bool, objects: bool, graph: bool) -> None:
    """Show what holds TARGET's memory, and what would come back."""
    with waiting(f"inspecting {target}"):
        text = printed(target, how._replace(objects=objects, graph=graph))
    if as_json:
        click.echo(_with_findings(text).encode(), nl=False)  # UTF-8, whatever the locale
    else:
        from arenascope.render.summary import render_summary  # noqa: PLC0415 - JSON needs no rich
        from arenascope.render.terminal import console  # noqa: PLC0415

        out = console()
        out.print(render_summary(parse(text), ascii_only=out.options.ascii_only), crop=False)


def _with_findings(text: str) -> str:
    """What arenadump printed, to the byte, and one more member. What is no summary is not shown as one."""
    findings = json_text(to_json(Facts(parse(text)))).decode().replace("\n", "\n  ")
    members = text.rstrip().removesuffix("}").rstrip()
    return f'{members},\n  "findings": {findings}\n}}\n'
