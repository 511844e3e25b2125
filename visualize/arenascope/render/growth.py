# SPDX-License-Identifier: MIT
"""What grew while a profile was made, in a terminal: by size, and the stacks that have most of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from arenascope.humanize import UNKNOWN, count, plural, short_name, signed, signed_count, size
from arenascope.profiles.stack_titles import caller_and_callee
from arenascope.render.group import Group
from arenascope.render.terminal import plain_table
from arenascope.wire.profile import GROWN

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from arenascope.wire.profile import Profile
    from arenascope.wire.profile_json import ReadProfile, ReadSize

SIZES: Final = 8  # lines: the sizes that changed most
STACKS: Final = 3


def render_growth(read: ReadProfile, profile: Profile) -> Group:
    """The sizes that have more chunks in use than at the beginning, or fewer. Nothing where that is not known."""
    growth = read.growth
    if growth is None:
        return Group("")
    changed = sorted((each for each in growth.sizes if each.net), key=lambda each: -abs(each.net))
    parts: list[RenderableType] = [f"\n{growth.words}"]
    if changed:
        parts += ["", _table(changed[:SIZES], exact=read.every_page)]
    if len(changed) > SIZES:
        rest = sum(each.net for each in changed[SIZES:])
        parts.append(f"and {plural(len(changed) - SIZES, 'more size')}: {signed(rest)}")
    return Group(*parts, *_stacks(profile), "")


def _table(sizes: list[ReadSize], *, exact: bool) -> Table:
    about = "" if exact else " (estimate)"
    table = plain_table(">size", ">before", f">new{about}", f">gone{about}", ">net", ">net bytes")
    for each in sizes:
        gone = UNKNOWN if each.gone is None else count(each.gone)
        net = signed_count(each.after - each.before)
        table.add_row(count(each.size), count(each.before), count(each.recorded), gone, net, signed(each.net))
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
