# SPDX-License-Identifier: MIT
"""Which stacks of a profile are shown, and which of their functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from arenascope.profiles.language import CHOICES, within
from arenascope.wire.profile import NATIVE, SourceLine, StackFrame

if TYPE_CHECKING:
    import re

    from arenascope.wire.profile import Profile

HIDDEN: Final = (StackFrame(0, None, (SourceLine("(hidden functions alone)"),)),)


@dataclass(frozen=True)
class Filters:
    """What is shown of a profile. None: all of it."""

    language: str | None = None  # one of CHOICES: functions in it alone
    focus: re.Pattern[str] | None = None  # stacks with such a function alone
    hide: re.Pattern[str] | None = None  # without such functions: what they allocate is their callers'

    def of(self, profile: Profile) -> Profile:
        """The profile with all filters. A stack of which no function is left has one that says so."""
        if self.focus:
            profile = _focused(profile, self.focus)
        if self.language:
            profile = within(profile, CHOICES[self.language])
        return _without(profile, self.hide) if self.hide else profile


def _focused(profile: Profile, pattern: re.Pattern[str]) -> Profile:
    def has_it(frames: tuple[StackFrame, ...]) -> bool:
        return any(pattern.search(name) for frame in frames for name in frame.names())

    return replace(profile, sites=[site for site in profile.sites if has_it(site.frames)])


def _without(profile: Profile, pattern: re.Pattern[str]) -> Profile:
    known: dict[StackFrame, StackFrame | None] = {}

    def left(frame: StackFrame) -> StackFrame | None:
        if frame not in known:
            known[frame] = _left_of(frame, pattern)
        return known[frame]

    def shown(frames: tuple[StackFrame, ...]) -> tuple[StackFrame, ...]:
        return tuple(frame for frame in map(left, frames) if frame) or HIDDEN

    return replace(profile, sites=[replace(site, frames=shown(site.frames)) for site in profile.sites])


def _left_of(frame: StackFrame, pattern: re.Pattern[str]) -> StackFrame | None:
    """The frame with its other functions, as some may be inlined into others; None: it has none."""
    names = frame.names()
    hidden = [pattern.search(name) is not None for name in names]
    if not any(hidden):
        return frame
    if all(hidden) or frame.language != NATIVE:
        return None
    return replace(frame, lines=tuple(line for line, gone in zip(frame.lines, hidden) if not gone))
