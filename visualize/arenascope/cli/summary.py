# SPDX-License-Identifier: MIT
"""`arenascope summary TARGET [--json] [--objects]`."""

from __future__ import annotations

import click

from arenascope.cli.options import looking, objects_option
from arenascope.cli.progress import waiting
from arenascope.decode import document
from arenascope.render.terminal import console, render_summary
from arenascope.summary import SCHEMA, parse, printed


@click.command()
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/summary.schema.json) instead of tables.")
@objects_option
@looking
def summary(target: str, how: list[str], *, as_json: bool, objects: bool) -> None:
    """Show where TARGET's memory went, and what would come back."""
    options = [*how, "--objects"] if objects else how
    with waiting(f"inspecting {target}"):
        text = printed(target, options)
    if as_json:
        document(text, SCHEMA)  # what is no summary is not shown as one
        click.echo(text.encode(), nl=False)  # UTF-8, whatever the locale
    else:
        out = console()
        out.print(render_summary(parse(text), ascii_only=out.options.ascii_only))
