# SPDX-License-Identifier: MIT
"""`arenascope timeline FILE`, and the commands below it."""

from __future__ import annotations

import os

import click

from arenascope import api
from arenascope.cli.groups import Suggesting


class OfFile(Suggesting):
    """A group whose first command is meant where none is named: the first word is a file's name then."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name of the command before the others."""
        named = args and args[0] in {*self.commands, *ctx.help_option_names, "help"}
        return super().parse_args(ctx, args if named else ["show", *args])


@click.group(cls=OfFile)
def timeline() -> None:
    """Show what a timeline has.

    `timeline FILE` is `timeline show FILE`. A file that is named like a command: write ./show.
    """


@timeline.command()
@click.argument("file")
@click.option("--last", metavar="N", type=click.IntRange(1), help="Only the last N polls.")
@click.option("--lines", metavar="N", type=click.IntRange(2), default=24, show_default=True, help="Lines of the table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (arenascope schema timeline): every poll.")
def show(file: str, last: int | None, lines: int, *, as_json: bool) -> None:
    """Show the rows over time, each process, and the leak suspects."""
    from dataclasses import replace  # noqa: PLC0415

    from arenascope.humanize import json_text  # noqa: PLC0415
    from arenascope.render.members import render_members  # noqa: PLC0415
    from arenascope.render.suspects import render_suspects  # noqa: PLC0415
    from arenascope.render.terminal import console  # noqa: PLC0415
    from arenascope.render.timeline import render_timeline  # noqa: PLC0415
    from arenascope.timeline.reader import findings_of, snapshots_with_groups  # noqa: PLC0415
    from arenascope.timeline.suspects import suspects_of  # noqa: PLC0415
    from arenascope.timeline.timeline_json import to_json  # noqa: PLC0415

    held = api.read_timeline(file)
    if last is not None:
        held = replace(held, polls=held.polls[-last:])
    if as_json:
        click.echo(json_text(to_json(held, findings_of(file))))
        return
    out = console()
    out.print(render_timeline(held, os.stat(file).st_size, lines), crop=False)  # noqa: PTH116 - as it was typed
    found = suspects_of(file, held)
    if held.polls:
        out.print(render_members(held, found), crop=False)
    out.print(render_suspects(held, found, snapshots_with_groups(file)), soft_wrap=True)


@timeline.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (arenascope schema suspects).")
def suspects(file: str, *, as_json: bool) -> None:
    """List leak suspects: what grows and has not stopped.

    What comes and goes is none. Each has its rate with the 95 % interval, and the snapshots on which it rests.
    """
    from arenascope.humanize import json_text  # noqa: PLC0415
    from arenascope.render.suspects import render_suspects  # noqa: PLC0415
    from arenascope.render.terminal import console  # noqa: PLC0415
    from arenascope.timeline.reader import snapshots_with_groups  # noqa: PLC0415
    from arenascope.timeline.suspects import suspects_of  # noqa: PLC0415
    from arenascope.timeline.timeline_json import suspects_json  # noqa: PLC0415

    held = api.read_timeline(file)
    found = suspects_of(file, held)
    if as_json:
        click.echo(json_text(suspects_json(held, found)))
    else:
        console().print(render_suspects(held, found, snapshots_with_groups(file), shown=None), soft_wrap=True)
