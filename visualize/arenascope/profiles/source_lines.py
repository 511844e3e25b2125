# SPDX-License-Identifier: MIT
"""The source lines of a function, with what each allocates."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from arenascope.humanize import short_name
from arenascope.wire.profile import SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.wire.profile import Module, Profile, Site, StackFrame

AROUND: Final = 3  # lines that are shown before and behind one that counts


@dataclass
class Listing:
    """A function in a source file: what its lines allocate themselves (flat), and with all that they call (cum)."""

    function: str  # as a stack names it: of interpreted code with its file's name
    file: str
    module: Module | None = None  # None: interpreted code, or code of no module
    flat: Counter[int] = field(default_factory=Counter)  # by line; 0: no line is known
    cum: Counter[int] = field(default_factory=Counter)
    whole: int = 0  # a stack that is in several lines of it, by recursion, counts once

    def shown(self) -> Iterator[int]:
        """The lines that count, and those around them."""
        counted = [line for line in self.cum if line]
        around = {near for line in counted for near in range(line - AROUND, line + AROUND + 1)}
        yield from sorted(line for line in around if line > 0)


def plain_name(function: str) -> str:
    """A function's name without its arguments: "std::f" of "std::f(int)". Parentheses inside a name stay."""
    depth = 0
    for at in range(len(function) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(function[at], 0)
        if function[at] == "(" and depth == 0:
            return function[:at] or function
    return function


def listings(profile: Profile, function: str, measure: str) -> list[Listing]:
    """The functions of this name, those that allocate most first; where there is none, all whose name contains it.

    A name is one that stacks have, or a table: shortened, with or without its arguments, with or without the file of
    interpreted code.
    """
    search = _Search(function)
    for site in profile.sites:
        value = site.values.get(measure, 0)
        if value:
            search.count(site, value)
    same = [listing for key, listing in search.found.items() if key in search.same]
    return sorted(same or search.found.values(), key=lambda each: (-each.whole, each.function, each.file))


class _Search:
    """The functions that have `wanted` in their name."""

    def __init__(self, wanted: str) -> None:
        self.wanted: Final = wanted
        self.found: dict[tuple[str, str], Listing] = {}
        self.same: set[tuple[str, str]] = set()  # those of exactly this name
        # By the frame: many stacks have the same ones.
        self._known: dict[int, list[tuple[tuple[str, str], int] | None]] = {}

    def count(self, site: Site, value: int) -> None:
        """Adds a site to those of its functions."""
        lines = [self._lines(frame) for frame in site.frames]
        wanted = {line for of in lines for line in of if line}
        for key in dict.fromkeys(key for key, _ in wanted):
            self.found[key].whole += value
        for key, number in wanted:
            self.found[key].cum[number] += value
        innermost = lines[0][0] if lines and lines[0] else None
        if innermost:
            key, number = innermost
            self.found[key].flat[number] += value

    def _lines(self, frame: StackFrame) -> list[tuple[tuple[str, str], int] | None]:
        """Function and file with the line, of each of a frame's functions that is wanted; None for another."""
        if id(frame) not in self._known:
            pairs = zip(frame.names(), frame.lines or (SourceLine(),))
            self._known[id(frame)] = [self._line(frame, name, line) for name, line in pairs]
        return self._known[id(frame)]

    def _line(self, frame: StackFrame, name: str, line: SourceLine) -> tuple[tuple[str, str], int] | None:
        key = (name, line.file)
        if self.wanted in {name, plain_name(name), short_name(name), line.function, plain_name(line.function)}:
            self.same.add(key)
        # What has no name but module and offset counts only as a whole: the module's name is on each of its functions.
        elif not line.function or not any(self.wanted in each for each in (name, short_name(name))):
            return None
        self.found.setdefault(key, Listing(name, line.file, frame.module))
        return key, line.line
