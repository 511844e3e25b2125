# SPDX-License-Identifier: MIT
"""The call stacks of a snapshot of a process whose allocations are recorded, by what other snapshots know them by."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Final

from arenascope.compare.digest import NOTHING, UNKNOWN, Group, Named, Portion
from arenascope.errors import ArenascopeError
from arenascope.wire import dump_records as fmt
from arenascope.wire.profile import NATIVE
from arenascope.wire.profile_json import profile_of, read_profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from arenascope.compare.digest import Digest
    from arenascope.wire.dump import Dump
    from arenascope.wire.profile import Profile, Site, StackFrame

    Json = dict[str, Any]

MOST: Final = 200  # call stacks of a timeline's snapshot: those with most bytes in use
MOST_COMPARED: Final = 10_000  # of two snapshots that are compared
NAMED: Final = 3  # functions of a call stack, innermost first
NAMES_EVERY: Final = 10  # snapshots: names are looked up again no sooner
BETWEEN: Final = " < "


class Stacks:
    """Knows the names of call stacks that it has seen: looking them up costs more than a snapshot."""

    def __init__(self, most: int = MOST) -> None:
        """It knows none. `most`: of a snapshot."""
        self._most: Final = most
        self._names: dict[str, str] = {}
        self._snapshots = 0

    def of(self, dump: Dump, profile: Profile | None = None) -> Json | None:
        """What a timeline keeps. None: nobody records. `profile`: of this dump, if its names are looked up already."""
        if not len(dump.profile):
            return None
        head, sites = dump.profile[0], dump.profile_sites
        frames = _frames(dump)
        listed = {_key(frames(int(each["stack"]))): each for each in sites[: self._most]}
        if self._snapshots <= 0 and any(key not in self._names for key in listed):
            with suppress(ArenascopeError):  # a snapshot without names is better than none
                self._learn(
                    profile
                    or profile_of(read_profile(f"/proc/self/fd/{dump.descriptor}", descriptors=[dump.descriptor]))
                )
            self._snapshots = NAMES_EVERY
        self._snapshots -= 1
        return {
            "mean": int(head["mean"]),
            "page_rate": int(head["page_rate"]),
            "whole": len(sites) <= self._most,
            "listed": {
                key: [
                    self._names.get(key) or _place(frames(int(each["stack"]))),
                    *(int(each[name]) for name in ("bytes", "count", "alloc_bytes")),
                ]
                for key, each in listed.items()
            },
        }

    def _learn(self, profile: Profile) -> None:
        for site in profile.sites:
            self._names[_key(map(_identity, site.frames))] = _title(site)


def _title(site: Site) -> str:
    """Interpreted code has a title of its own: the innermost functions are the interpreter's, and much the same."""
    own = [name for frame in site.frames if frame.language != NATIVE for name in frame.names()]
    return BETWEEN.join((own or list(site.names()))[:NAMED])


def _identity(frame: StackFrame) -> tuple[str, int]:
    """The same in each snapshot of a process: object and offset, or function and line."""
    if frame.language != NATIVE:
        (line,) = frame.lines
        return f"{line.file}:{line.function}", line.line
    module = frame.module
    return (module.build_id or module.path, frame.address - module.bias) if module else ("", frame.address)


def _frames(dump: Dump) -> Callable[[int], list[tuple[str, int]]]:
    """The frames of a call stack, innermost first: the object, by its build-id if it has one, and the offset there.

    A line of interpreted code has its function, and the line.
    """
    modules = {
        index: dump.string(each["build_id"]) or dump.string(each["path"])
        for index, each in enumerate(dump.profile_modules)
    }
    modules[fmt.NO_INDEX] = ""
    lines = [
        (f"{dump.string(each['file'])}:{dump.string(each['function'])}", int(each["line"]))
        for each in dump.profile_lines
    ]
    frames = [
        lines[line - 1] if line else (modules[module], offset)
        for module, line, offset in dump.profile_frames[["module", "line", "offset"]].tolist()
    ]
    stacks = dump.profile_stacks.tolist()

    def of(stack: int) -> list[tuple[str, int]]:
        made = []
        while stack != fmt.NO_INDEX:
            frame, stack = stacks[stack]
            made.append(frames[frame])
        return made

    return of


def _key(frames: Iterable[tuple[str, int]]) -> str:
    words = ";".join(f"{module}+{offset:x}" for module, offset in frames)
    return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _place(frames: list[tuple[str, int]]) -> str:
    """A call stack whose functions are not known yet."""
    return BETWEEN.join(f"{module[:12]}+{offset:#x}" for module, offset in frames[:NAMED])


def group_of(answer: Mapping[str, Any]) -> Group:
    """The call stacks that Stacks told, as a group of a digest."""
    return Group(
        {key: Named(str(title), Portion(bytes_, count)) for key, (title, bytes_, count, _) in answer["listed"].items()},
        bool(answer["whole"]),
        NOTHING if answer["whole"] else UNKNOWN,
    )


def with_stacks(digest: Digest, dump: Dump, profile: Profile | None = None) -> Digest:
    """A digest with the call stacks that its dump has. `profile`: of the dump, if its names are looked up already."""
    answer = Stacks(MOST_COMPARED).of(dump, profile)
    if answer is None:
        return replace(digest, sites=None)
    return replace(digest, sites=group_of(answer), page_rate=answer["page_rate"])
