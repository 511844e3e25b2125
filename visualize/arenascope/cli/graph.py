# SPDX-License-Identifier: MIT
"""`arenascope types | leaks | owners | why`: what the chunks in use are, who holds them, and which nobody holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from arenascope.cli.options import limiting, snapshot_options
from arenascope.cli.progress import waiting
from arenascope.errors import Code, PartialError
from arenascope.wire import commands
from arenascope.wire.graph import Leaks, Owners, Types, Why, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from arenascope.suppressions import LeakLimit
    from arenascope.wire.how import How

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/owners.md) instead of tables.")


@click.command()
@click.argument("target")
@limiting
@json_option
@snapshot_options
def leaks(target: str, how: How, limit: LeakLimit, *, as_json: bool) -> int:
    """Find chunks in use that nothing points to any more.

    TARGET is a process or a core. Nothing has to be installed or restarted for this. All memory of TARGET is read.
    """
    printed, partial = _asked(commands.leaks, target, how)
    facts = parse(Leaks, printed)
    _show(printed, Leaks, as_json=as_json, facts=facts)
    excess = limit.excess(facts)
    if excess is None:
        return _code(partial)
    click.echo(f"arenascope: {excess}", err=True)
    return Code.LEAKS


@click.command()
@click.argument("target")
@json_option
@snapshot_options
def types(target: str, how: How, *, as_json: bool) -> int:
    """Find out what the chunks in use are.

    TARGET is a process or a core. The command shows how many chunks there are of each type, and their bytes. All memory
    of TARGET is read.
    """
    printed, partial = _asked(commands.types, target, how)
    _show(printed, Types, as_json=as_json)
    return _code(partial)


@click.command()
@click.argument("target")
@json_option
@snapshot_options
def owners(target: str, how: How, *, as_json: bool) -> int:
    """Find who holds the chunks in use.

    TARGET is a process or a core. Variables, stacks and other memory hold chunks. For each the command shows what would
    be free without it, down by the types of the chunks.
    """
    printed, partial = _asked(commands.owners, target, how)
    _show(printed, Owners, as_json=as_json)
    return _code(partial)


@click.command()
@click.argument("target")
@click.argument("address")
@json_option
@snapshot_options
def why(target: str, address: str, how: How, *, as_json: bool) -> None:
    """Find out why the chunk at ADDRESS is still held.

    TARGET is a process or a core. The command shows the shortest way to the chunk from a variable, a stack or other
    memory.
    """
    with waiting(f"inspecting {target}"):
        printed = commands.why(target, address, how)
    _show(printed, Why, as_json=as_json)


def _asked(ask: Callable[[str, How], str], target: str, how: How) -> tuple[str, PartialError | None]:
    """What arenadump printed, and whether this is about the smaller part only."""
    with waiting(f"inspecting {target}"):
        try:
            return ask(target, how), None
        except PartialError as error:
            return error.printed, error


def _code(partial: PartialError | None) -> int:
    """The exit code; where the answer is about the smaller part, that is said."""
    if partial is None:
        return Code.OK
    click.echo(f"arenascope: {partial}", err=True)
    return partial.code


def _show(printed: str, kind: type[Leaks | Owners | Types | Why], *, as_json: bool, facts: Leaks | None = None) -> None:
    if as_json:
        click.echo(printed.encode(), nl=False)  # UTF-8, whatever the locale
        return
    from arenascope.render.graph import RENDER  # noqa: PLC0415 - JSON needs no rich
    from arenascope.render.terminal import console  # noqa: PLC0415 - likewise

    console().print(RENDER[kind](facts or parse(kind, printed)), crop=False)
