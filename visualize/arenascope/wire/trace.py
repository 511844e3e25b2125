# SPDX-License-Identifier: MIT
"""What `arenadump trace --json` prints of a trace."""

from typing import Literal, NamedTuple, Optional

from arenascope.wire.graph_parts import Sum
from arenascope.wire.json_types import Unsigned
from arenascope.wire.profile import StackFrame
from arenascope.wire.profile_json import ReadFrame, ReadInterpreter, ReadModule, ReadStacks, frames_of, stack_of


class Peak(NamedTuple):
    """The instant with most bytes in use."""

    time_ns: Optional[Unsigned]  # Since the beginning.
    count: Unsigned  # type: ignore[assignment]  # Blocks in use then.
    bytes: Unsigned  # In use then: the most.


class Lifetimes(NamedTuple):
    """Blocks that lived less long than this, and no less than those of the entry before. None: all others."""

    below_ns: Optional[Unsigned]  # null: all others.
    count: Unsigned  # type: ignore[assignment]  # Blocks.
    bytes: Unsigned  # The bytes of these blocks.


class TracePoint(NamedTuple):
    """A part of the time: what was in use at most."""

    from_ns: Unsigned  # Since the beginning.
    allocations: Unsigned  # In this part.
    count: Unsigned  # type: ignore[assignment]  # Blocks, when bytes were most.
    bytes: Unsigned  # The most in use in this part.


class TraceSite(NamedTuple):
    """A stack, None: not known; and its blocks."""

    context: Unsigned  # The number that the events of this stack have (--events). 1: the stack is not known.
    allocated: Sum  # By this stack.
    temporary: Sum  # Freed by their own thread before it allocated again.
    peak: Sum  # In use at the peak of the whole process.
    in_use: Sum  # At the record's end.
    complete: bool  # false: outermost frames are missing, or the stack is not known.
    stack: Optional[Unsigned]  # Index in stacks. null: not known.


class Trace(NamedTuple):
    """What a trace says: `arenadump trace`, `arenascope trace`. Sizes are as the program asked for them."""

    version: str
    program: str  # Where the program's file was; empty: not known.
    pid: Unsigned  # The process's.
    clock: Literal["counter", "monotonic"]  # counter: the processor's. monotonic: CLOCK_MONOTONIC, in nanoseconds.
    started: Optional[str]
    duration_ns: Optional[Unsigned]  # Up to the last time that the file has. null: it has only one.
    # exit: the process called exit(). no_space, error: the file took no more. null: the process was killed, executed
    # another program, or ended without exit().
    ended: Optional[Literal["exit", "no_space", "error"]]
    torn_bytes: Unsigned  # At the file's end, in no whole block: not read.
    threads: Unsigned  # Threads with events. Threads one after another whose descriptor is at the same address are one.
    events: Unsigned  # That were read.
    frees: Unsigned  # realloc's included: each ends a block and begins another.
    moved: Unsigned  # Blocks that realloc moved.
    resized: Unsigned  # Blocks that realloc resized at their place.
    # Frees of blocks that are not in the trace: from before it, by code that is not seen, or lost.
    unknown_frees: Unsigned
    replaced: Unsigned  # Blocks that ended without a free in the record: another one began at their place.
    backwards: Unsigned  # Events earlier than their thread's event before.
    lost_allocations: Unsigned  # Not recorded, as all buffers were full.
    lost_frees: Unsigned  # Likewise.
    # Events not recorded: of threads without room in the tables, or in signal handlers that had interrupted the
    # recorder.
    missed: Unsigned
    misses: Unsigned  # Allocations whose stack had to be unwound.
    checked: Unsigned  # Recognised stacks that were unwound to compare.
    wrong: Unsigned  # Those that were other stacks.
    cut: Unsigned  # Stacks that lack outer frames.
    malformed: Unsigned  # Pieces of blocks that hold no event.
    allocated: Sum  # All allocations; realloc's with their whole new size.
    temporary: Sum  # Freed by their own thread before it allocated again.
    in_use: Sum  # At the record's end.
    without_stack: Sum  # A part of allocated.
    # Interpreters that were there at any time, and whose frames are not known: stacks have their C code.
    unknown_interpreters: tuple[ReadInterpreter, ...]
    peak: Peak
    lifetimes: tuple[Lifetimes, ...]  # The blocks that have ended, in steps of ten. Empty: times are unknown.
    timeline: tuple[TracePoint, ...]  # Equal parts of the time. Empty: times are unknown.
    modules: tuple[ReadModule, ...]
    frames: tuple[ReadFrame, ...]
    stacks: ReadStacks  # The stacks as a tree, in two lists.
    sites: tuple[TraceSite, ...]  # Most bytes at the peak first.

    def stack_frames(self) -> list[StackFrame]:
        """All frames, by their index."""
        return frames_of(self.modules, self.frames)

    def stack(self, site: TraceSite, frames: list[StackFrame]) -> tuple[StackFrame, ...]:
        """The frames of a site, innermost first."""
        return stack_of(site.stack, self.stacks, frames)
