# SPDX-License-Identifier: MIT
"""The tree of calls: functions below their callers, each with what it and all that it calls have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from arenascope.profiles.language import UNKNOWN, has_java, language_of
from arenascope.wire.profile import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arenascope.wire.profile import Module, Profile, Site, StackFrame

DEEPEST: Final = 512  # functions of a stack; of a deeper one the outermost and the innermost, half of them each


@dataclass
class Call:
    """A function below its caller. Values are those of all stacks that begin with the calls down to here."""

    name: str
    module: Module | None
    language: str = ""
    values: dict[str, int] = field(default_factory=dict)
    below: dict[tuple[str, str], Call] = field(default_factory=dict)  # by their names and their modules'
    number: int = -1  # among those that are kept (numbered)


def _steps(site: Site) -> list[tuple[str, StackFrame]]:
    """The functions of a stack with their frames, outermost first. What is left out is between others, never innermost.

    The innermost one has the bytes: it is who allocated.
    """
    steps = [(name, frame) for frame in site.outwards() for name in frame.names()][::-1]
    if len(steps) <= DEEPEST:
        return steps
    left_out = [(name, MISSING) for name in MISSING.names()]
    return [*steps[: DEEPEST // 2], *left_out, *steps[-(DEEPEST // 2) :]]


def _key(name: str, frame: StackFrame) -> tuple[str, str]:
    return name, frame.module.path if frame.module else ""


def grow(profile: Profile) -> Call:
    """The tree of all stacks. Its root is no function."""
    root = Call("", None)
    java = has_java(profile)
    for site in profile.sites:
        at = root
        for name, frame in _steps(site):
            key = _key(name, frame)
            if key not in at.below:
                language = UNKNOWN if frame is MISSING else language_of(name, frame, java=java)
                at.below[key] = Call(name, frame.module, language)
            at = at.below[key]
        _add(at, site.values)
    for call in reversed([root, *(call for _, call in _walk(root))]):
        for below in call.below.values():
            _add(call, below.values)
    return root


def _add(call: Call, values: dict[str, int]) -> None:
    for measure, value in values.items():
        call.values[measure] = call.values.get(measure, 0) + value


def numbered(root: Call, most: int, measures: Sequence[str]) -> list[tuple[int, Call]]:
    """At most so many calls, those with the largest share of any measure, in the order of a walk, with their depth.

    A call comes after its caller and before what it does not call itself; of two, the larger first. Their numbers are
    their places in the list.
    """
    calls = list(_walk(root))
    wholes = {measure: root.values.get(measure, 0) for measure in measures}

    def rank(call: Call) -> float:
        return max((call.values.get(m, 0) / whole for m, whole in wholes.items() if whole), default=0.0)

    # A caller has at least what it calls has, so with each call that is kept its caller is.
    ranked = sorted(range(len(calls)), key=lambda at: (-rank(calls[at][1]), calls[at][0], at))
    kept = [calls[at] for at in sorted(ranked[:most])]
    for number, (_, call) in enumerate(kept):
        call.number = number
    return kept


def _walk(root: Call) -> Iterator[tuple[int, Call]]:
    waiting = [(0, call) for call in root.below.values()]
    waiting.sort(key=_smaller_first)
    while waiting:
        depth, call = waiting.pop()
        yield depth, call
        waiting += sorted(((depth + 1, below) for below in call.below.values()), key=_smaller_first)


def _smaller_first(entry: tuple[int, Call]) -> tuple[int, str]:
    return entry[1].values.get("inuse_space", 0), entry[1].name


def place_of(root: Call, site: Site) -> int:
    """The number of the innermost call of a stack that is kept; -1: none is."""
    at, number = root, -1
    for name, frame in _steps(site):
        key = _key(name, frame)
        if key not in at.below:
            break
        at = at.below[key]
        number = at.number if at.number >= 0 else number
    return number
