# SPDX-License-Identifier: MIT
"""What `arenadump trace --json` prints of a trace (docs/trace.schema.json)."""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from dataclasses import dataclass
from typing import Final, Optional

from arenascope.wire.arenadump import run_arenadump
from arenascope.wire.graph import Sum
from arenascope.wire.json_decode import answer, document
from arenascope.wire.profile import StackFrame
from arenascope.wire.profile_json import ReadFrame, ReadInterpreter, ReadModule, ReadStacks, frames_of, stack_of

SCHEMA: Final = "arenascope.trace/1"


@dataclass(frozen=True)
class Peak:
    """The instant with most bytes in use."""

    time_ns: Optional[int]
    count: int
    bytes: int


@dataclass(frozen=True)
class Lifetimes:
    """Blocks that lived less long than this, and no less than those of the entry before. None: all others."""

    below_ns: Optional[int]
    count: int
    bytes: int


@dataclass(frozen=True)
class TracePoint:
    """A part of the time: what was in use at most."""

    from_ns: int
    allocations: int
    count: int
    bytes: int


@dataclass(frozen=True)
class TraceSite:
    """A stack, None: not known; and its blocks."""

    allocated: Sum
    temporary: Sum
    peak: Sum
    in_use: Sum
    stack: Optional[int]


@dataclass(frozen=True)
class Trace:
    """All of it; bytes are as the program asked for them."""

    program: str
    pid: int
    started: Optional[str]
    duration_ns: Optional[int]
    ended: Optional[str]
    torn_bytes: int
    threads: int
    frees: int
    unknown_frees: int
    replaced: int
    lost_allocations: int
    lost_frees: int
    missed: int
    allocated: Sum
    temporary: Sum
    in_use: Sum
    without_stack: Sum
    unknown_interpreters: tuple[ReadInterpreter, ...]
    peak: Peak
    lifetimes: tuple[Lifetimes, ...]
    timeline: tuple[TracePoint, ...]
    modules: tuple[ReadModule, ...]
    frames: tuple[ReadFrame, ...]
    stacks: ReadStacks
    sites: tuple[TraceSite, ...]

    def stack_frames(self) -> list[StackFrame]:
        """All frames, by their index."""
        return frames_of(self.modules, self.frames)

    def stack(self, site: TraceSite, frames: list[StackFrame]) -> tuple[StackFrame, ...]:
        """The frames of a site, innermost first."""
        return stack_of(site.stack, self.stacks, frames)


def printed(path: str) -> str:
    """What arenadump says of a record's file."""
    return run_arenadump(["trace", "--json", "--", path])


def parse(text: str) -> Trace:
    """ArenascopeError where it is something else."""
    return answer(Trace, document(text, SCHEMA), SCHEMA)
