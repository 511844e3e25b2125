# SPDX-License-Identifier: MIT
"""`arenascope report TARGET [AFTER] -o FILE`: TARGET may be a timeline."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arenascope import api
from arenascope.cli.options import graph_option, snapshot_options
from arenascope.cli.progress import print_utf8, remark, waiting
from arenascope.extras import need
from arenascope.humanize import printable, utf8
from arenascope.private_files import write_page
from arenascope.processes import files_of
from arenascope.timeline.store import is_timeline
from arenascope.wire.snapshot import is_dump

if TYPE_CHECKING:
    from arenascope.api import Options

SAID = "{}: open it in a browser"
STDOUT = "-"
BY_SIZE = ("chunks", "objects")  # what is read of a small target unless the user says something
SMALL = 1 << 30  # bytes resident: of more than that, chunks and objects are taken only when asked for


@click.command()
@click.argument("target")
@click.argument("after", required=False)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="report.html",
    show_default=True,
    help="The file to write (mode 0600); - is standard output.",
)
@click.option(
    "--chunks/--no-chunks",
    default=None,
    help="Show single chunks too, not only pages. The default: show them if at most 1 GiB is resident.",
)
@click.option(
    "--objects/--no-objects",
    default=None,
    help="Show Python's or Ruby's objects by type. The default: show them if at most 1 GiB is resident.",
)
@graph_option
@click.option("--png", metavar="DIR", help="Also write pictures for a ticket or a slide: map, charts and every heap.")
@click.option("--svg", metavar="DIR", help="Also write map and charts as SVG.")
@snapshot_options
def report(  # noqa: PLR0913, PLR0917 - one for each option
    target: str,
    after: str | None,
    output: str,
    how: Options,
    png: str | None,
    svg: str | None,
) -> None:
    """Write a page: why TARGET is large, what brings memory back.

    With a second target, the page compares the two: before and after. Of a timeline, it shows the rows, the map and
    what grew over time. The page is one complete file. It contains sizes, addresses, names and the command line, but
    never the contents of the heap.
    """
    if is_timeline(target):
        given = {"AFTER": after, "--png": png, "--svg": svg}
        names = [name for name, value in given.items() if value is not None]
        asked = [name for name, value in how.items() if value is not None and (value is not False or name in BY_SIZE)]
        _of_timeline(target, output, [*names, *(f"--{name.replace('_', '-')}" for name in asked)])
        return
    pictures = {kind: folder for kind, folder in (("png", png), ("svg", svg)) if folder is not None}
    if pictures:
        need("pictures", f"--{next(iter(pictures))}", "The page itself needs no more than is installed.")
    from arenascope.report.page.html import render  # noqa: PLC0415 - not for a timeline
    from arenascope.report.page.model import build  # noqa: PLC0415

    targets = [target] if after is None else [target, after]
    with waiting(f"inspecting {' and '.join(targets)}"):
        snapshots = [each.taken for each in api.inspect_all([_asked(each, how) for each in targets], remark)]
    with waiting("drawing"):
        _write(output, render(build(snapshots)))
        for kind, folder in pictures.items():
            from arenascope.report import image_export  # noqa: PLC0415 - matplotlib takes most of a second to import

            image_export.write(snapshots, folder, kind)
    _say(output)


def _of_timeline(target: str, output: str, given: list[str]) -> None:
    from arenascope.report.page.html import render  # noqa: PLC0415 - as above
    from arenascope.report.timeline.page import build  # noqa: PLC0415

    if given:
        raise click.UsageError(
            f"'{target}' is a timeline: its snapshots are taken already, so {given[0]} cannot be given"
        )
    with waiting("drawing"):
        _write(output, render(build(target)))
    _say(output)


def _write(output: str, page: str) -> None:
    if output == STDOUT:
        print_utf8(utf8(page))
    else:
        write_page(output, page)


def _say(output: str) -> None:
    if output != STDOUT:
        click.echo(SAID.format(printable(output)), err=True)


def _asked(target: str, how: Options) -> tuple[str, Options]:
    """What is read of a target: chunks and objects, too, where it is small and the user says nothing else."""
    small = _is_small(target)
    chunks, objects = (small if each is None else each for each in (how.get("chunks"), how.get("objects")))
    return target, {**how, "chunks": chunks, "objects": objects}


def _is_small(target: str) -> bool:
    """Whether so little is resident that reading all of it costs nothing to speak of."""
    try:
        if re.fullmatch("[0-9]+", target):
            pages = int((files_of(int(target)) / "statm").read_text(encoding="ascii").split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE") <= SMALL
        return not is_dump(target) and Path(target).stat().st_blocks * 512 <= SMALL
    except (OSError, ValueError, IndexError):
        return False  # arenadump says what is wrong with it
