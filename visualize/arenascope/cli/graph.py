# SPDX-License-Identifier: MIT
"""`arenascope types | leaks | owners | why`: what the chunks in use are, who holds them, and which nobody holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from arenascope import api
from arenascope.cli.options import limiting, snapshot_options
from arenascope.cli.progress import print_utf8, waiting
from arenascope.errors import Code

if TYPE_CHECKING:
    from arenascope.api import Answer, Options
    from arenascope.suppressions import LeakLimit
    from arenascope.wire.graph import Leaks, Owners, Types, Why

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/owners.md) instead of tables.")


@click.command()
@click.argument("target")
@limiting
@json_option
@snapshot_options
def leaks(target: str, how: Options, limit: LeakLimit, *, as_json: bool) -> int:
    """Find chunks in use that nothing points to any more.

    TARGET is a process or a core. Nothing has to be installed or restarted for this. All memory of TARGET is read.
    """
    with waiting(f"inspecting {target}"):
        found = api.leaks(target, **how)
    excess = limit.excess(found.facts)
    _show(found, as_json=as_json)
    if excess is None:
        return _code(found)
    click.echo(f"arenascope: {excess}", err=True)
    return Code.LEAKS


@click.command()
@click.argument("target")
@json_option
@snapshot_options
def types(target: str, how: Options, *, as_json: bool) -> int:
    """Find out what the chunks in use are.

    TARGET is a process or a core. The command shows how many chunks there are of each type, and their bytes. All memory
    of TARGET is read.
    """
    with waiting(f"inspecting {target}"):
        found = api.types(target, **how)
    _show(found, as_json=as_json)
    return _code(found)


@click.command()
@click.argument("target")
@json_option
@snapshot_options
def owners(target: str, how: Options, *, as_json: bool) -> int:
    """Find who holds the chunks in use.

    TARGET is a process or a core. Variables, stacks and other memory hold chunks. For each the command shows what would
    be free without it, down by the types of the chunks.
    """
    with waiting(f"inspecting {target}"):
        found = api.owners(target, **how)
    _show(found, as_json=as_json)
    return _code(found)


@click.command()
@click.argument("target")
@click.argument("address")
@json_option
@snapshot_options
def why(target: str, address: str, how: Options, *, as_json: bool) -> None:
    """Find out why the chunk at ADDRESS is still held.

    TARGET is a process or a core. The command shows the shortest way to the chunk from a variable, a stack or other
    memory.
    """
    with waiting(f"inspecting {target}"):
        found = api.why(target, address, **how)
    _show(found, as_json=as_json)


def _code(found: Answer[Any]) -> int:
    """The exit code; where the answer is about the smaller part, that is said."""
    if found.partial is None:
        return Code.OK
    click.echo(f"arenascope: {found.partial}", err=True)
    return Code.PARTIAL


def _show(found: Answer[Leaks] | Answer[Owners] | Answer[Types] | Answer[Why], *, as_json: bool) -> None:
    if as_json:
        print_utf8(found.json)
        return
    from arenascope.render.graph import RENDER  # noqa: PLC0415 - JSON needs no rich
    from arenascope.render.terminal import console  # noqa: PLC0415 - likewise

    console().print(RENDER[type(found.facts)](found.facts), crop=False)
