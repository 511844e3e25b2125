# SPDX-License-Identifier: MIT
"""In which language a function is written, as far as a profile shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from arenascope.wire.profile import INTERPRETED, NATIVE, SourceLine, StackFrame

if TYPE_CHECKING:
    from arenascope.wire.profile import Profile

BY_ENDING: Final = {"go": "Go", "rs": "Rust"}  # of the source file
# How V8 begins the names in its perf map.
OF_V8: Final = (
    "JS:",
    "LazyCompile:",
    "Function:",
    "Script:",
    "Eval:",
    "RegExp:",
    "Builtin:",
    "BytecodeHandler:",
    "Stub:",
)
OF_JAVA: Final = "libjvm.so"
COMPILED: Final = "compiled at run time"
OTHER: Final = "C, C++ and other native code"
UNKNOWN: Final = "not known"  # code of no module, without a name: a compiler's, or of a library that is gone


def has_java(profile: Profile) -> bool:
    """Do stacks of the profile lead through a JVM?"""
    return any(frame.module and frame.module.name == OF_JAVA for site in profile.sites for frame in site.frames)


def language_of(name: str, frame: StackFrame, *, java: bool) -> str:
    """The language of a function at a frame. Code of a JIT compiler is in no module, and a perf map names it."""
    if frame.language != NATIVE:
        return INTERPRETED.get(frame.language, frame.language)
    if frame.module is None and not frame.lines:
        return UNKNOWN
    if frame.module is None:
        return "JavaScript" if name.startswith(OF_V8) else "Java" if java else COMPILED
    ending = frame.lines[-1].file.rpartition(".")[2] if frame.lines else ""
    return BY_ENDING.get(ending, OTHER)


CHOICES: Final = {
    "python": "Python",
    "ruby": "Ruby",
    "java": "Java",
    "javascript": "JavaScript",
    "go": "Go",
    "rust": "Rust",
    "native": OTHER,
}
"""The languages by the words that options have for them."""


def within(profile: Profile, language: str) -> Profile:
    """The same, of each stack the functions in this language alone: what the others allocate for them is theirs.

    `language`: as `language_of` names it. All stacks that have none are one function, so that the sum stays.
    """
    java = has_java(profile)
    none = (StackFrame(0, None, (SourceLine(f"(no function in {language})"),)),)

    def kept(frame: StackFrame) -> StackFrame | None:
        # All functions at one address are of one file, or inlined into it.
        name = next(iter(frame.names()))
        return frame if language_of(name, frame, java=java) == language else None

    def own(frames: tuple[StackFrame, ...]) -> tuple[StackFrame, ...]:
        return tuple(frame for frame in map(kept, frames) if frame) or none

    return replace(profile, sites=[replace(site, frames=own(site.frames)) for site in profile.sites])
