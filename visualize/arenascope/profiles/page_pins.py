# SPDX-License-Identifier: MIT
"""Who keeps pages: the function whose calls keep many pages, with little memory in use."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.profiles.stack_titles import MOST_NAMES, bare_name, is_for_others

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAMELESS: Final = re.compile(r"(?:^|\+)0x[0-9a-f]+$")  # module+0xoffset
LEAST_EXCESS: Final = 0.2  # by how much its share of these pages is larger than its share of the bytes in use
NEAR: Final = 0.95  # of the largest excess: functions that have so much are taken for equal


class Keeping(NamedTuple):
    """A call stack, innermost function first, and what it has."""

    names: tuple[str, ...]
    pages: int  # that it keeps alone
    stranded: int  # bytes on these
    bytes: int  # in use


class FunctionKeeps(NamedTuple):
    """A function with all that it calls: the sums of the stacks that it is in."""

    name: str
    pages: int
    stranded: int
    bytes: int


def narrowest_pinner(stacks: Iterable[Keeping]) -> FunctionKeeps | None:
    """The function whose share of the pages exceeds its share of the bytes in use most.

    If some are equal, it is the one that keeps most pages, then the innermost. main has all pages and all bytes. What
    allocates for others is passed over. None: pages are kept in proportion to bytes.
    """
    found: dict[str, list[int]] = {}
    depth: dict[str, int] = {}
    pages = held = 0
    for stack in stacks:
        pages += stack.pages
        held += stack.bytes
        for at, name in _functions(stack.names):
            sums = found.setdefault(name, [0, 0, 0])
            for place, value in enumerate((stack.pages, stack.stranded, stack.bytes)):
                sums[place] += value
            depth[name] = min(at, depth.get(name, at))
    if not pages or not held:
        return None
    excess = {name: sums[0] / pages - sums[2] / held for name, sums in found.items()}
    most = max(excess.values(), default=0.0)
    if most < LEAST_EXCESS:
        return None
    near = [name for name in found if excess[name] >= NEAR * most]
    best = min(near, key=lambda name: (-found[name][0], depth[name]))
    return FunctionKeeps(best, *found[best])


def _functions(names: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Each that has a name, once, with its distance from malloc."""
    first: dict[str, int] = {}
    for at, name in enumerate(map(_counted, names)):
        if name:
            first.setdefault(name, at)
    for name, at in first.items():
        yield at, name


@lru_cache(MOST_NAMES)
def _counted(name: str) -> str:
    """The bare name of a function; empty: it has none, or allocates for others."""
    return "" if is_for_others(name) or NAMELESS.search(name) else bare_name(name)
