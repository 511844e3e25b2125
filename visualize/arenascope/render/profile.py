# SPDX-License-Identifier: MIT
"""A profile in a terminal: the functions that allocated what is in use, or the stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from arenascope.humanize import MINUS, count, plural, printable, short_name, signed, signed_count, size
from arenascope.profiles.stack_titles import is_for_others
from arenascope.render.group import Group
from arenascope.render.terminal import Uncut
from arenascope.wire.profile import IN_BYTES, INTERPRETED, rows
from arenascope.wire.profile_json import unrecorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from arenascope.wire.profile import FunctionRow, Profile, Site
    from arenascope.wire.profile_json import ReadProfile

IN_USE: Final = ("inuse_objects", "inuse_space")
ALLOCATED: Final = "alloc_space"
SMALLEST_SHARE: Final = 100  # of what is less than one part in so many, the tree has the number alone
# Functions in which a program or a thread begins.
OF_EACH_PROGRAM: Final = frozenset(
    {
        *("main", "_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main"),
        *("start_thread", "clone", "clone3", "__clone", "__clone3", "thread_start"),
    }
)
INDENTATION: Final = 4  # columns of a level of the tree
ROOM: Final = 40  # columns that a line of the tree has at least


def measured(measure: str, value: int) -> str:
    """A value with its unit."""
    return size(value) if measure in IN_BYTES else count(value)


def _changed(measure: str, value: int) -> str:
    return signed(value) if measure in IN_BYTES else signed_count(value)


def _share(value: int, total: int) -> str:
    return f"{100 * value / total:.1f} %".replace("-", MINUS) if total else ""


def render_head(read: ReadProfile) -> Text:
    """Says what the profile is, and how sure."""
    line = Text(printable(read.target.comm) + (f" (pid {read.target.pid})" if read.target.pid else ""), style="bold")
    line.append(f": {size(read.known.bytes)} in use with a stack, by {read.how}", "default")
    for words, doubt in read.remarks():
        line.append(f"\n{words}", "yellow" if doubt else "default")
    return line


def render_top(profile: Profile, measure: str, shown: int, *, what: str = "function", compared: bool = False) -> Group:
    """The functions: what each allocates itself (flat), and with all that it calls (cum). `compared`: a difference."""
    found = [row for row in _in_order(profile.sites, measure) if row.cum or row.flat]
    if not found:
        return Group(f"No function has more or less {measure}." if compared else _nothing(profile, measure))
    total = sum(abs(site.values.get(measure, 0)) for site in profile.sites)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("flat", "flat %", "sum %", "cum", "cum %"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column(what, overflow="fold")
    seen, answer = 0, _changed if compared else measured
    for row in found[:shown]:
        seen += row.flat
        table.add_row(
            answer(measure, row.flat),
            _share(row.flat, total),
            _share(seen, total),
            answer(measure, row.cum),
            _share(row.cum, total),
            Text(short_name(row.name)),
        )
    parts: list[RenderableType] = [Uncut(table)]
    if len(found) > shown:
        parts.append(f"and {count(len(found) - shown)} more {what}s (--number)")
    return Group(*parts)


def _in_order(sites: Sequence[Site], measure: str) -> list[FunctionRow]:
    """The functions, first those that have most themselves; what allocates for its caller has nothing itself.

    Of functions that have the same, what every program has, or what allocates for others, comes last, and of a chain of
    calls the innermost first.
    """
    depths: dict[str, int] = {}
    found = {row.name: row for row in rows(sites, measure)}
    for site in sites:
        names = list(dict.fromkeys(site.names()))
        for depth, name in enumerate(names):
            depths[name] = min(depth, depths.get(name, depth))
        if names:
            value, asks = site.values.get(measure, 0), next((n for n in names if not is_for_others(n)), names[0])
            found[names[0]].flat -= value
            found[asks].flat += value

    def key(row: FunctionRow) -> tuple[int, bool, int, int, str]:
        return -abs(row.flat), _says_nothing(row.name), -abs(row.cum), depths.get(row.name, 0), row.name

    return sorted(found.values(), key=key)


def _says_nothing(name: str) -> bool:
    return name in OF_EACH_PROGRAM or is_for_others(name)


def language_hint(profile: Profile, measure: str) -> str:
    """Which option shows the program's own functions, where an interpreter's C functions stand in their place."""
    total = sum(abs(site.values.get(measure, 0)) for site in profile.sites)
    for language, title in INTERPRETED.items():
        own = sum(
            abs(site.values.get(measure, 0))
            for site in profile.sites
            if any(frame.language == language for frame in site.frames)
        )
        if own * 2 > total:
            return f"Most was allocated for {title}: --language {language} shows the functions in {title} alone."
    return ""


def _nothing(profile: Profile, measure: str) -> str:
    if not profile.sites:
        return unrecorded(whole=profile.whole)
    freed = measure in IN_USE and any(site.values.get(ALLOCATED) for site in profile.sites)
    hint = f" Freed since: --measure {ALLOCATED}." if freed else ""
    return f"No function has any {measure}.{hint}"


class _Branch:
    """A function below its callers."""

    def __init__(self) -> None:
        self.value = 0
        self.below: dict[str, _Branch] = {}

    def functions(self) -> int:
        """How many are below it that have something, each as often as it is there."""
        found, waiting = 0, [self]
        while waiting:
            inner = [below for below in waiting.pop().below.values() if below.value]
            found += len(inner)
            waiting += inner
        return found


class _Drawing(NamedTuple):
    """How a tree is drawn."""

    measure: str
    total: int
    levels: int  # of indentation

    def line(self, name: str, branch: _Branch) -> str:
        return f"{measured(self.measure, branch.value)} {_share(branch.value, self.total)}  {short_name(name)}"

    def parts(self, branch: _Branch) -> tuple[list[tuple[str, _Branch]], list[_Branch]]:
        """What is called there: what is shown, the largest first; and the smaller ones."""
        called = sorted(branch.below.items(), key=lambda item: (-item[1].value, item[0]))
        large = [item for item in called if item[1].value and item[1].value * SMALLEST_SHARE >= self.total]
        return large, [below for _, below in called[len(large) :] if below.value]


def render_tree(profile: Profile, measure: str, width: int) -> Tree:
    """From the outermost functions inwards; below each, the largest first. `width`: columns that there are.

    A function that another one calls alone stands below it without more indentation: deep stacks stay on the screen.
    """
    top = _Branch()
    for site in profile.sites:
        value = site.values.get(measure, 0)
        at = top
        at.value += value
        for name in [name for frame in site.outwards() for name in frame.names()][::-1]:
            at = at.below.setdefault(name, _Branch())
            at.value += value
    tree = Tree(Text(f"{measured(measure, top.value)} in all"))
    _grow(tree, top, _Drawing(measure, top.value, max(1, (width - ROOM) // INDENTATION)), 1)
    return tree


def _grow(tree: Tree, branch: _Branch, drawing: _Drawing, level: int) -> None:
    large, small = drawing.parts(branch)
    if large and level > drawing.levels:
        deeper = measured(drawing.measure, sum(below.value for below in branch.below.values()))
        tree.add(Text(f"… and {plural(branch.functions(), 'function')} deeper ({deeper})"))
        return
    for name, below in large:
        lines, innermost = _chain(name, below, drawing)
        _grow(tree.add(Text("\n".join(lines))), innermost, drawing, level + 1)
    if small:
        tree.add(Text(f"… and {_smaller(small, drawing)}"))


def _chain(name: str, branch: _Branch, drawing: _Drawing) -> tuple[list[str], _Branch]:
    """A function, and those below it as long as each calls one that is shown; and the last of them."""
    lines, at = [drawing.line(name, branch)], branch
    while True:
        large, small = drawing.parts(at)
        if len(large) != 1:
            return lines, at
        ((called, at),) = large
        lines.append(drawing.line(called, at) + (f" … and {_smaller(small, drawing)}" if small else ""))


def _smaller(branches: Sequence[_Branch], drawing: _Drawing) -> str:
    value = measured(drawing.measure, sum(each.value for each in branches))
    return f"{plural(len(branches), 'smaller one')} ({value})"
