# SPDX-License-Identifier: MIT
"""Source lines in a terminal, each with what it allocates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from arenascope.humanize import count, printable, share, short_name
from arenascope.profiles.sources import is_newer, read_source
from arenascope.render.group import Group
from arenascope.render.profile import measured
from arenascope.render.terminal import Uncut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from arenascope.profiles.source_lines import Listing
    from arenascope.profiles.sources import Rights
    from arenascope.wire.profile import Profile

SHOWN: Final = 10  # functions
WIDEST: Final = 300  # characters of a line


def render_listings(found: Sequence[Listing], profile: Profile, measure: str, rights: Rights | None = None) -> Group:
    """The functions, each with its lines. `rights`: with which sources are read; None: with our own."""
    total = profile.total(measure)
    parts: list[RenderableType] = []
    for listing in found[:SHOWN]:
        parts += [*_listing(listing, measure, total, rights), ""]
    if len(found) > SHOWN:
        parts.append(f"and {count(len(found) - SHOWN)} more functions: give more of the name")
    else:
        parts.pop()
    return Group(*parts)


def _listing(listing: Listing, measure: str, total: int, rights: Rights | None) -> list[RenderableType]:
    source = read_source(listing.file, rights)
    head = Text(short_name(listing.function), "bold")
    head.append(f": {measured(measure, listing.whole)}, {share(listing.whole, total)} of all", "default")
    head.append(f"\n{printable(listing.file) or 'no source file is known'}", "default")
    if listing.file and source is None:
        head.append(" (the source is not here)", "default")
    elif source and is_newer(source, listing.module.path if listing.module else ""):
        head.append("\nThe source is newer than the program: its lines may have moved.", "yellow")
    return [head, Uncut(_lines(listing, measure, source.lines if source else None))]


def _lines(listing: Listing, measure: str, text: list[str] | None) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("flat", "cum", "line"):
        table.add_column(title, justify="right", no_wrap=True)
    # A column that may wrap is made narrower before the others: a long line must not take the place of the numbers.
    table.add_column("source")
    if 0 in listing.cum:
        table.add_row(*_values(listing, measure, 0), "?", "(no line is known)")
    last = None
    for number in listing.shown():
        if text is None and number not in listing.cum:
            continue
        if text is not None and number > len(text) and number not in listing.cum:
            continue
        if last is not None and text is not None and number > last + 1:
            table.add_row("", "", "⋮", "")
        source = text[number - 1] if text is not None and number <= len(text) else ""
        shown = Text(printable(source.expandtabs(4).rstrip("\r"))[:WIDEST], no_wrap=True, overflow="ellipsis")
        table.add_row(*_values(listing, measure, number), str(number), shown)
        last = number
    return table


def _values(listing: Listing, measure: str, number: int) -> tuple[str, str]:
    if number not in listing.cum:
        return "", ""
    return measured(measure, listing.flat[number]), measured(measure, listing.cum[number])
