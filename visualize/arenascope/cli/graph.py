# SPDX-License-Identifier: MIT
"""`arenascope leaks | owners | why`: who holds the chunks in use, and which nobody holds."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from arenascope.capture import run_arenadump
from arenascope.cli.options import looking
from arenascope.cli.progress import waiting
from arenascope.errors import Code
from arenascope.graph import parse_leaks, parse_owners, parse_why
from arenascope.render.graph import render_leaks, render_owners, render_why
from arenascope.render.terminal import console
from arenascope.text import plural, size

if TYPE_CHECKING:
    from arenascope.graph import Leaks

UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/graph.md) instead of tables.")


def _read_bytes(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """A number of bytes: 4096, 64K, 1M, 2G."""
    match = re.fullmatch(r"([0-9]+)([KMG]?)", value or "0")
    if not match:
        raise click.BadParameter(f"{value} is not a size: give bytes, such as 4096, 64K or 1M")
    return None if value is None else int(match[1]) * UNITS[match[2]]


@click.command()
@click.argument("target")
@click.option(
    "--fail-over",
    callback=_read_bytes,
    metavar="SIZE",
    help=f"End with exit code {Code.LEAKS} if more than this is lost: 0, 64K, 1M.",
)
@click.option(
    "--suppressions",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Lines leak:PATTERN, as LeakSanitizer has them: chunks of types that match do not count for --fail-over.",
)
@json_option
@looking
def leaks(target: str, how: list[str], *, fail_over: int | None, suppressions: str | None, as_json: bool) -> int:
    """Find chunks in use that nothing points to any more.

    TARGET is a process or a core. Nothing has to be installed or restarted for this. All memory of TARGET is read.
    """
    patterns = _patterns(Path(suppressions)) if suppressions else []
    with waiting(f"inspecting {target}"):
        printed = run_arenadump(["leaks", "--json", *how, "--", target])
    facts = parse_leaks(printed)
    lost = _lost(facts, patterns)
    if as_json:
        click.echo(printed, nl=False)
    else:
        console().print(render_leaks(facts), crop=False)
    if fail_over is None or lost <= fail_over:
        return Code.OK
    suppressed = f" besides what {plural(len(patterns), 'pattern')} suppressed" if patterns else ""
    click.echo(f"arenascope: {size(lost)} is lost{suppressed}, more than --fail-over {size(fail_over)}", err=True)
    return Code.LEAKS


def _patterns(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    found = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        if not line.startswith("leak:") or line == "leak:":
            raise click.UsageError(f"{path}, line {number}: '{line}' is not leak:PATTERN")
        found.append(line.removeprefix("leak:"))
    return found


def _lost(facts: Leaks, patterns: list[str]) -> int:
    """Bytes that count. A pattern matches any part of a type's name, unless it begins with ^ or ends with $."""
    return sum(
        group.direct.bytes + group.indirect.bytes
        for group in facts.by_type
        if not any(_matches(pattern, group.type or "") for pattern in patterns)
    )


def _matches(pattern: str, name: str) -> bool:
    begin, end = ("" if pattern.startswith("^") else "*"), ("" if pattern.endswith("$") else "*")
    return fnmatch.fnmatchcase(name, begin + pattern.removeprefix("^").removesuffix("$") + end)


@click.command()
@click.argument("target")
@json_option
@looking
def owners(target: str, how: list[str], *, as_json: bool) -> None:
    """Find who holds the chunks in use.

    TARGET is a process or a core. Variables, stacks and other memory hold chunks. For each the command shows what would
    be free without it, down by the types of the chunks.
    """
    with waiting(f"inspecting {target}"):
        printed = run_arenadump(["owners", "--json", *how, "--", target])
    if as_json:
        click.echo(printed, nl=False)
    else:
        console().print(render_owners(parse_owners(printed)), crop=False)


@click.command()
@click.argument("target")
@click.argument("address")
@json_option
@looking
def why(target: str, address: str, how: list[str], *, as_json: bool) -> None:
    """Find out why the chunk at ADDRESS is still held.

    TARGET is a process or a core. The command shows the shortest way to the chunk from a variable, a stack or other
    memory.
    """
    with waiting(f"inspecting {target}"):
        printed = run_arenadump(["why", "--json", *how, "--", target, address])
    if as_json:
        click.echo(printed, nl=False)
    else:
        console().print(render_why(parse_why(printed)), crop=False)
