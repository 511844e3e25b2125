# SPDX-License-Identifier: MIT
"""A profile in a terminal: the functions that allocated what is in use, or the stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from arenascope.profile.model import IN_BYTES, rows
from arenascope.profile.read import UNSAMPLED
from arenascope.text import count, printable, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from arenascope.profile.model import Profile
    from arenascope.profile.read import ReadProfile

STRING: Final = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
LONGEST: Final = 100  # of a name; folded stacks and pprof's file have it whole
IN_USE: Final = ("inuse_objects", "inuse_space")
ALLOCATED: Final = "alloc_space"
SMALLEST_SHARE: Final = 100  # what is less than one part in so many is not in the tree
DEEPEST: Final = 40


def measured(measure: str, value: int) -> str:
    """A value with its unit."""
    return size(value) if measure in IN_BYTES else count(value)


def short_name(function: str) -> str:
    """A function's name for a line of a terminal."""
    short = printable(function).replace(STRING, "std::string")
    return short if len(short) <= LONGEST else short[: LONGEST - 1] + "…"


def _share(value: int, total: int) -> str:
    return f"{100 * value / total:.1f} %" if total else ""


def render_head(read: ReadProfile) -> Text:
    """Of what the profile is, and how sure."""
    line = Text(printable(read.target.comm) + (f" (pid {read.target.pid})" if read.target.pid else ""), style="bold")
    how = "every chunk" if read.every_page else f"chunks on one page in {read.page_rate}, which stand for all"
    line.append(f": {size(read.known.bytes)} in use with a stack, by {how}", "default")
    if read.hooked:
        line.append(f"\n{read.hooked.capitalize()}.", "default")
    if read.cut:
        line.append(f"\n{read.cut}.", "default")
    if read.unseen.bytes:
        line.append(f"\n{size(read.unseen.bytes)} in use was allocated before, or by code that is not seen.", "default")
    if read.without_stack.bytes:
        line.append(f"\n{size(read.without_stack.bytes)} in use has no stack.", "default")
    without = read.allocated_without_stack
    if not read.sampled:
        line.append(f"\n{UNSAMPLED.capitalize()}.", "default")
    elif without and without.bytes:
        line.append(f"\n{size(without.bytes)} (estimate) was allocated without a stack.", "default")
    for each in read.unknown_interpreters or ():
        line.append(f"\n{printable(str(each))}.", "yellow")
    if read.wrong:
        line.append(f"\n{count(read.wrong)} of {count(read.checked)} checked stacks were wrong.", "yellow")
    return line


def render_top(profile: Profile, measure: str, shown: int, *, what: str = "function", compared: bool = False) -> Group:
    """The functions: what each allocates itself (flat), and with all that it calls (cum). `compared`: a difference."""
    found = [row for row in rows(profile.sites, measure) if row.cum or row.flat]
    if not found:
        return Group(f"No function has more or less {measure}." if compared else _nothing(profile, measure))
    total = sum(abs(site.values.get(measure, 0)) for site in profile.sites)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("flat", "flat %", "sum %", "cum", "cum %"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column(what, overflow="fold")
    seen = 0
    for row in found[:shown]:
        seen += row.flat
        table.add_row(
            measured(measure, row.flat),
            _share(row.flat, total),
            _share(seen, total),
            measured(measure, row.cum),
            _share(row.cum, total),
            Text(short_name(row.name)),
        )
    parts: list[RenderableType] = [table]
    if len(found) > shown:
        parts.append(f"and {count(len(found) - shown)} more {what}s (--number)")
    return Group(*parts)


def _nothing(profile: Profile, measure: str) -> str:
    freed = measure in IN_USE and any(site.values.get(ALLOCATED) for site in profile.sites)
    hint = f" Freed since: --measure {ALLOCATED}." if freed else ""
    return f"No function has any {measure}.{hint}"


class _Branch:
    """A function below its callers."""

    def __init__(self) -> None:
        self.value = 0
        self.below: dict[str, _Branch] = {}


def render_tree(profile: Profile, measure: str) -> Tree:
    """From the outermost functions inwards; below each, the largest first."""
    top = _Branch()
    for site in profile.sites:
        value = site.values.get(measure, 0)
        at = top
        at.value += value
        for name in [name for frame in site.outwards() for name in frame.names()][::-1][:DEEPEST]:
            at = at.below.setdefault(name, _Branch())
            at.value += value
    tree = Tree(Text(f"{measured(measure, top.value)} in all"))
    _grow(tree, top, measure, top.value)
    return tree


def _grow(tree: Tree, branch: _Branch, measure: str, total: int) -> None:
    for name, below in sorted(branch.below.items(), key=lambda item: (-item[1].value, item[0])):
        if below.value * SMALLEST_SHARE < total or below.value == 0:
            break
        text = f"{measured(measure, below.value)} {_share(below.value, total)}  {short_name(name)}"
        _grow(tree.add(Text(text)), below, measure, total)
