# SPDX-License-Identifier: MIT
"""What grew while a profile was made, in a terminal: by size, by type, and the stacks that have most of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from arenascope.humanize import count, plural, short_name, signed, signed_count, size
from arenascope.profiles.stack_titles import caller_and_callee
from arenascope.render.group import Group
from arenascope.render.terminal import plain_table
from arenascope.wire.profile import GROWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from arenascope.wire.profile import Profile
    from arenascope.wire.profile_json import ReadGrowth, ReadProfile, ReadSize, ReadType

LINES: Final = 8  # of a table: the sizes, or types, that changed most
STACKS: Final = 3


def render_growth(read: ReadProfile, profile: Profile) -> Group:
    """The sizes that have more chunks in use than at the beginning, or fewer. Nothing where that is not known."""
    growth = read.growth
    if growth is None:
        return Group("")
    changed = sorted((each for each in growth.sizes if each.net), key=lambda each: -abs(each.net))
    parts: list[RenderableType] = [f"\n{growth.words}"]
    if changed:
        parts += ["", _sizes(changed[:LINES], exact=read.every_page)]
    return Group(*parts, *_rest("size", changed), "", *_by_type(growth, exact=read.every_page), *_stacks(profile), "")


def _by_type(growth: ReadGrowth, *, exact: bool) -> Iterator[RenderableType]:
    yield growth.words_by_type
    changed = growth.changed_types()
    if changed:
        yield ""
        yield _types(changed[:LINES], exact=exact)
    yield from _rest("type", changed)


def _rest(what: str, changed: Sequence[ReadSize | ReadType]) -> Iterator[str]:
    if len(changed) > LINES:
        rest = sum(each.net for each in changed[LINES:])
        yield f"and {plural(len(changed) - LINES, f'more {what}')}: {signed(rest)}"


def _titles(*, exact: bool) -> tuple[str, ...]:
    about = "" if exact else " (estimate)"
    return (">before", f">new{about}", f">gone{about}", ">net", ">net bytes")


def _sizes(sizes: list[ReadSize], *, exact: bool) -> Table:
    table = plain_table(">size", *_titles(exact=exact))
    for each in sizes:
        net = signed_count(each.after - each.before)
        table.add_row(
            count(each.size), count(each.before), count(each.recorded), count(each.gone), net, signed(each.net)
        )
    return table


def _types(types: list[ReadType], *, exact: bool) -> Table:
    table = plain_table(*_titles(exact=exact), "type")
    for each in types:
        net = signed_count(each.after.count - each.before.count)
        table.add_row(
            count(each.before.count), count(each.recorded), count(each.gone), net, signed(each.net), each.title
        )
    return table


def _stacks(profile: Profile) -> list[str]:
    """Those that allocated most of it."""
    largest = sorted(profile.sites, key=lambda site: -site.values.get(GROWN, 0))[:STACKS]
    lines = [
        f"  {size(site.values[GROWN])}  {' → '.join(map(short_name, caller_and_callee(site.names())))}"
        for site in largest
        if site.values.get(GROWN)
    ]
    return ["", "Most of it was allocated by (`--measure grown` lists all):", *lines] if lines else []
