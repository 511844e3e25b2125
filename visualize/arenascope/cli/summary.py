# SPDX-License-Identifier: MIT
"""`arenascope summary TARGET [--json] [--objects] [--graph]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from arenascope import api
from arenascope.cli.options import graph_option, objects_option, snapshot_options
from arenascope.cli.progress import print_utf8, waiting
from arenascope.errors import ArenascopeError, Code
from arenascope.findings import Facts, to_json
from arenascope.humanize import json_text

if TYPE_CHECKING:
    from arenascope.api import Answer, Options
    from arenascope.wire.profile_json import ReadProfile
    from arenascope.wire.summary import Summary


LAST: Final = '"findings":'  # in a string, the quotes are escaped


@click.command()
@click.argument("target")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (arenascope schema summary) instead of tables.")
@objects_option
@graph_option
@snapshot_options
def summary(target: str, how: Options, *, as_json: bool) -> None:
    """Show what holds TARGET's memory, and what would come back."""
    with waiting(f"inspecting {target}"):
        found = api.summary(target, **how)
    if as_json:
        print_utf8(_with_findings(found, _facts(target, found)))
    else:
        from arenascope.render.summary import render_summary  # noqa: PLC0415 - JSON needs no rich
        from arenascope.render.terminal import console  # noqa: PLC0415

        out = console()
        out.print(render_summary(found.facts, _facts(target, found), ascii_only=out.options.ascii_only), crop=False)


def _facts(target: str, found: Answer[Summary]) -> Facts:
    """A dump's profile is read when evidence asks for it. A process would be stopped again for its own."""

    def profile() -> ReadProfile | None:
        try:
            return api.read_profile(target).facts if found.facts.target.kind == "dump" else None
        except ArenascopeError as error:
            if error.code != Code.UNSUPPORTED:
                raise
            return None  # there is none

    return Facts(found.facts, profile=profile)


def _with_findings(found: Answer[Summary], facts: Facts) -> str:
    """What arenadump printed, to the byte, up to its last member, which has more here.

    What is no summary is not shown as one.
    """
    findings = json_text(to_json(facts)).decode().replace("\n", "\n  ")
    return f"{found.json[: found.json.rindex(LAST)]}{LAST} {findings}\n}}\n"
