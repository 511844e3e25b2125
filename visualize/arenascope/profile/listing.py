# SPDX-License-Identifier: MIT
"""The source lines of a function, with what each allocates."""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.profile.model import Profile, Site, SourceLine

LARGEST: Final = 16 << 20  # bytes of a source file that is read
AROUND: Final = 3  # lines that are shown before and behind one that counts


@dataclass
class Listing:
    """A function in a source file: what its lines allocate themselves (flat), and with all that they call (cum)."""

    function: str
    file: str
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
    """The functions of this name, those that allocate most first; where there is none, all whose name contains it."""
    found: dict[tuple[str, str], Listing] = {}
    for site in profile.sites:
        value = site.values.get(measure, 0)
        if value:
            _count(found, site, value, function)
    same = [each for each in found.values() if function in (each.function, plain_name(each.function))]
    return sorted(same or found.values(), key=lambda each: (-each.whole, each.function, each.file))


def _count(found: dict[tuple[str, str], Listing], site: Site, value: int, wanted: str) -> None:
    """Adds a site to the functions that have `wanted` in their name."""
    lines: list[SourceLine] = [line for frame in site.frames for line in frame.lines]
    innermost = site.frames[0].lines[:1] if site.frames else ()
    for name, file in dict.fromkeys((line.function, line.file) for line in lines if wanted in line.function):
        listing = found.setdefault((name, file), Listing(name, file))
        listing.whole += value
        for number in {line.line for line in lines if (line.function, line.file) == (name, file)}:
            listing.cum[number] += value
        for line in innermost:
            if (line.function, line.file) == (name, file):
                listing.flat[line.line] += value


def source_lines(path: str) -> list[str] | None:
    """The lines of a source file. None: there is no such file, or it is nothing to read (a device, a FIFO, too large).

    The path comes from the target's debug information. So it is opened without effect first, and read only if a regular
    file is there: nothing that waits, or does something when it is opened.
    """
    if not path.startswith("/") or "\0" in path:
        return None
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None
        with Path(f"/proc/self/fd/{place}").open("rb") as file:
            return file.read(LARGEST).decode("utf-8", "replace").split("\n")
    except OSError:
        return None
    finally:
        os.close(place)


def is_newer(path: str, program: str) -> bool:
    """Whether a source file was changed after the program was built: its lines may have moved."""
    try:
        return Path(path).stat().st_mtime > Path(program).stat().st_mtime
    except (OSError, ValueError):
        return False
