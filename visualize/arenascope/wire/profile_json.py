# SPDX-License-Identifier: MIT
"""A profile from what `arenadump sites --json` prints."""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Optional, Union

from arenascope.humanize import count, plural, printable, signed, size
from arenascope.wire import commands
from arenascope.wire.graph import GraphTarget
from arenascope.wire.graph_parts import Sum
from arenascope.wire.how import DEFAULT, How
from arenascope.wire.json_decode import parse
from arenascope.wire.json_types import Address, Positive, Unsigned
from arenascope.wire.profile import (
    GROWN,
    INTERPRETED,
    KEPT,
    Module,
    Profile,
    Share,
    Site,
    SourceLine,
    StackFrame,
    StackThread,
    apart,
)

if TYPE_CHECKING:
    from arenascope.wire.dump import Dump

NAMED: Final = 3  # types in a sentence
UNSAMPLED: Final = "no allocations were sampled (bytes=0): what was allocated is not known"
NO_MALLOC: Final = "its malloc is not glibc's (`arenascope summary` names it)"
UNRECORDED: Final = f"No allocation was recorded: the program made none, or {NO_MALLOC}."
UNSEEN: Final = (
    "No allocation was recorded: the program made none, or so few that the samples missed them (`--exact` records "
    f"each), or {NO_MALLOC}."
)
HOOKED: Final = {
    "slots": "hooks in slots: calls through pointers that were copied before are not seen",
    "entries": "hooks at the entries of malloc and its kin: calls through pointers are seen, too",
}


class ReadModule(NamedTuple):
    """An object in which code is; addresses are hexadecimal."""

    path: str
    build_id: str
    start: Address
    end: Address
    bias: Address


class ReadFunction(NamedTuple):
    """A function at an address. None: not known."""

    name: Optional[str]
    file: Optional[str]
    line: Optional[Positive]
    inlined: bool


class ReadFrame(NamedTuple):
    """A return address: in a module's own addresses, or (None) in the process's. Or a line of interpreted code."""

    module: Optional[Unsigned]  # Index in modules. null: code that is in no module.
    # A return address: in the module's own addresses (without bias), or in the process's. 0x0 of a line of interpreted
    # code.
    offset: Address
    # native, or what an interpreter runs: python or ruby. Then the frame has one function, no module and no address.
    language: str
    # The functions at the call, innermost first: more than one where functions were inlined, none where none is known.
    functions: tuple[ReadFunction, ...]


class ReadPinned(NamedTuple):
    """What a site's chunks in use keep: pages, and bytes. None: not known."""

    pinned: Optional[Unsigned]  # Pages that one chunk of the site keeps alone. An estimate unless every_page.
    # Free bytes on pages that chunks in use keep: each chunk in use on a page has an equal part. An estimate unless
    # every_page.
    stranded: Optional[Unsigned]
    # Pages with stranded bytes on which all chunks in use are of this site. null unless every_page, as are the next
    # two.
    pages: Optional[Unsigned]
    pages_stranded: Optional[Unsigned]  # Stranded bytes on these.
    returned: Optional[Unsigned]  # What malloc_trim(0) would return besides if all chunks of the site were freed.


class ReadGrown(NamedTuple):
    """A site's part of what grew. None: not known.

    Of each size that grew, the site has as large a part as it has of the recorded chunks of this size.
    """

    count: Optional[Unsigned]  # type: ignore[assignment]  # An estimate unless every_page and growth.exact.
    bytes: Optional[Unsigned]  # Likewise.


class ReadSize(NamedTuple):
    """How many chunks of one size were in use when the profile began, and are now."""

    size: Unsigned  # Bytes of each, header included.
    before: Unsigned
    after: Unsigned
    recorded: Unsigned  # Chunks in use that were allocated since: a count with every_page, else an estimate.

    @property
    def net(self) -> int:
        """Bytes that came."""
        return (self.after - self.before) * self.size

    @property
    def gone(self) -> Optional[int]:
        """Chunks that were in use when the profile began, and are not now. None: some new ones were not seen."""
        return _gone(self.recorded, self.after - self.before)


def _gone(recorded: Optional[int], net: int) -> Optional[int]:
    return None if recorded is None or recorded < net else recorded - net


class ReadType(NamedTuple):
    """How many chunks, and objects of runtimes, of one type were in use when the profile began, and are now."""

    type: Optional[str]  # null: not known.
    others: bool  # The sum of all types for which there was no room at the beginning, or at the end.
    before: Sum
    after: Sum
    # Chunks in use that were allocated since: a count with every_page, else an estimate. null: objects that are no
    # chunks of malloc are among them.
    recorded: Optional[Unsigned]

    @property
    def title(self) -> str:
        """What a reader is told of which type it is."""
        return "all other types" if self.others else printable(self.type) if self.type else "type not known"

    @property
    def net(self) -> int:
        """Bytes that came."""
        return self.after.bytes - self.before.bytes

    @property
    def gone(self) -> Optional[int]:
        """As of a size."""
        return _gone(self.recorded, self.after.count - self.before.count)


class ReadGrowth(NamedTuple):
    """What grew between two walks: when the profile began, and at the snapshot."""

    since: Optional[str]  # Time of the first walk.
    exact: bool  # Both walks were: the numbers before and after are counts.
    sizes: tuple[ReadSize, ...]  # Ascending; sizes of which no chunk came or went are left out.
    types_exact: bool  # Both walks had an exact graph: likewise of types.
    # Most bytes more first; types that did not change are left out. null: one of the walks had no graph (--graph).
    types: Optional[tuple[ReadType, ...]]

    @property
    def came(self) -> int:
        """Bytes that sizes have more, of those that grew."""
        return sum(max(0, each.net) for each in self.sizes)

    @property
    def went(self) -> int:
        """Bytes that sizes have less, of those that shrank."""
        return sum(max(0, -each.net) for each in self.sizes)

    @property
    def words(self) -> str:
        """The sum, in a sentence."""
        words = "While the profile was made, "
        if not self.came and not self.went:
            return f"{words}nothing grew: of each size as many chunks are in use as at its beginning."
        sums = f"{signed(self.came)} of sizes that grew, {signed(-self.went)} of sizes that shrank"
        about = "" if self.exact else " (about: a walk was not exact)"
        return f"{words}what is in use changed by {signed(self.came - self.went)}{about}: {sums}."

    def changed_types(self) -> list[ReadType]:
        """The types that have more, or less, the largest change first."""
        return sorted((each for each in self.types or () if each.net), key=lambda each: -abs(each.net))

    @property
    def words_by_type(self) -> str:
        """The types that changed most, in a sentence; or that they are not known."""
        if self.types is None:
            return "By type it is not known: `arenascope profile PID --graph` counts types, too, at both ends."
        changed = self.changed_types()
        about = "" if self.types_exact else " (about: a graph was not exact)"
        if not changed:
            return f"By type{about}: none has more or less."
        named = ", ".join(f"{signed(each.net)} {each.title}" for each in changed[:NAMED])
        rest = f", and {plural(len(changed) - NAMED, 'more type')}" if len(changed) > NAMED else ""
        return f"By type{about}: {named}{rest}."


class ReadThread(NamedTuple):
    """A thread that was seen to allocate. None: not known; the name: of a thread that has ended, too."""

    tid: Optional[int]  # In the thread's own pid namespace.
    # The name that the thread had at the snapshot. null: it had ended, or its process is in another pid namespace.
    name: Optional[str]


class ReadShare(NamedTuple):
    """What a thread has of a site. None: it is not known which."""

    thread: Optional[Unsigned]  # Index in threads. null: a thread that is not known, or several.
    in_use: Sum
    allocated: Sum


class ReadSite(NamedTuple):
    """A stack, innermost frame first, and what stands for it."""

    in_use: Sum  # What the recorded chunks in use stand for: a count with every_page, else an estimate.
    seen: Sum  # The recorded chunks in use themselves.
    allocated: Sum  # All allocations since the profile began, freed or not: an estimate from samples.
    # What each thread has of the site; all together are the site. Empty: not known, as in each dump that the agent has
    # written.
    threads: tuple[ReadShare, ...]
    grown: ReadGrown
    # Pages that the site's chunks in use keep resident. null: unknown, as in each dump that the agent has written.
    pinned: ReadPinned
    samples: Unsigned
    complete: bool  # false: outermost frames are missing.
    stack: Unsigned  # Index in stacks: the caller of malloc.


class ReadInterpreter(NamedTuple):
    """One that is there, and whose frames are not known; None: neither is its release."""

    language: str
    release: Optional[str]

    def __str__(self) -> str:
        """What a reader is told."""
        release = f"{self.release}" if self.release else "of an unknown release"
        return f"{INTERPRETED.get(self.language, self.language)} {release}: its frames are not known"


class ReadStacks(NamedTuple):
    """All stacks: each is a frame and another stack, that of its caller."""

    frame: tuple[Unsigned, ...]  # Index in frames.
    caller: tuple[Optional[Unsigned], ...]  # Index in these lists, of an earlier one. null: the outermost frame.


class ReadProfile(NamedTuple):
    """Who allocated what is in use: `arenadump sites`. Sizes are those of chunks, headers included."""

    version: str
    time: Optional[str]
    target: GraphTarget
    mode: str
    started: Optional[str]
    on: bool  # The recorder goes on.
    every_page: bool  # Chunks on all pages are recorded: sums are counts.
    # slots: of calls of malloc and its kin, those through a slot are seen. entries: all are.
    hooks: Literal["slots", "entries"]
    page_rate: Unsigned  # Chunks on one page in so many are recorded.
    large: Unsigned  # Chunks of this size and more are all recorded.
    mean: Unsigned  # Bytes between two samples of allocations; 0: none are taken.
    memory: Unsigned  # Bytes that the tables use.
    misses: Unsigned  # Allocations whose stack had to be unwound.
    checked: Unsigned  # Recognised stacks that were unwound to compare.
    wrong: Unsigned  # Those that were other stacks.
    # Allocations on watched pages, and large ones, without a stack, freed or not: there was no room in the tables, as a
    # rule.
    lost: Unsigned
    cut: Unsigned  # Unwindings that ended before the outermost frame. Many may have been of one stack.
    samples: Unsigned
    unsampled: Unsigned  # Allocations of threads for which there was no room.
    known: Sum
    unseen: Sum
    without_stack: Sum
    # What was allocated without a call stack since the profile began, freed or not: by the samples, and by threads for
    # which there was no room. What all sites allocated, and this, is what was allocated altogether.
    allocated_without_stack: Sum
    # Interpreters that are there, and whose frames are not known: stacks have their C code.
    unknown_interpreters: tuple[ReadInterpreter, ...]
    growth: Optional[ReadGrowth]  # null: nobody walked the chunks when the profile began.
    threads: tuple[ReadThread, ...]  # The threads that were seen to allocate, those that have ended, too.
    modules: tuple[ReadModule, ...]
    frames: tuple[ReadFrame, ...]
    stacks: ReadStacks
    sites: tuple[ReadSite, ...]  # Most bytes in use first.

    @property
    def sampled(self) -> bool:
        """Whether allocations are sampled: what was allocated is known by that alone."""
        return self.mean > 0

    @property
    def unrecorded(self) -> str:
        """What a reader is told where there is no site."""
        return unrecorded(whole=self.every_page)

    @property
    def how(self) -> str:
        """By which chunks it is known what is in use."""
        return "every chunk" if self.every_page else f"chunks on one page in {self.page_rate}, which stand for all"

    def remarks(self) -> Iterator[tuple[str, bool]]:
        """What a reader is told of it besides, sentence by sentence; and whether this limits the trust in the rest."""
        yield f"{self.hooked.capitalize()}.", False
        if self.lacking:
            yield f"{self.lacking}.", False
        if self.unseen.bytes:
            before = "in use was allocated before the profile began, or by code that is not seen"
            yield f"{size(self.unseen.bytes)} {before}.", False
        if self.without_stack.bytes:
            yield f"{size(self.without_stack.bytes)} in use has no stack.", False
        without = self.allocated_without_stack
        if not self.sampled:
            yield f"{UNSAMPLED.capitalize()}.", False
        elif without.bytes:
            yield f"{size(without.bytes)} (estimate) was allocated without a stack.", False
        yield from ((f"{printable(str(each))}.", True) for each in self.unknown_interpreters)
        if self.wrong:
            yield f"{count(self.wrong)} of {count(self.checked)} stacks that were checked were wrong.", True

    @property
    def lacking(self) -> str:
        """What a reader is told of stacks that lack outer frames; empty: none does."""
        cut = sum(not site.complete for site in self.sites)
        return f"{count(cut)} of {count(len(self.sites))} stacks lack outer frames" if cut else ""

    @property
    def hooked(self) -> str:
        """What a reader is told of how calls of malloc were seen."""
        return HOOKED[self.hooks]


def read_profile(target: str, how: How = DEFAULT, descriptors: Sequence[int] = ()) -> ReadProfile:
    """What arenadump says of a target. `descriptors`: open files of ours that it gets."""
    return parse(ReadProfile, commands.sites(target, how, descriptors))


def profile_in(dump: "Dump") -> Optional[ReadProfile]:
    """The profile of a dump. None: it has none. Names of functions are in files of this machine, not in the dump."""
    if not len(dump.profile):
        return None
    return read_profile(f"/proc/self/fd/{dump.descriptor}", descriptors=(dump.descriptor,))


def unrecorded(*, whole: bool) -> str:
    """Why a profile may have no site. `whole`: each chunk is recorded."""
    return UNRECORDED if whole else UNSEEN


def profile_of(read: ReadProfile) -> Profile:
    """The same as stacks with their measures, as the formats of other tools have them."""
    frames = frames_of(read.modules, read.frames)
    threads: list[StackThread] = []
    for each in read.threads:  # of one id in the order in which they were seen
        number = 1 + sum(before.tid == each.tid for before in threads)
        threads.append(StackThread(each.tid, each.name, number))
    sites = [
        Site(
            stack_of(site.stack, read.stacks, frames),
            {
                **_values(site, read),
                **{name: value for name in KEPT if (value := getattr(site.pinned, name)) is not None},
                **({GROWN: site.grown.bytes} if site.grown.bytes is not None else {}),
            },
            tuple(
                Share(threads[each.thread] if each.thread is not None else None, _values(each, read))
                for each in site.threads
            ),
            site.complete,
        )
        for site in read.sites
    ]
    return Profile(
        sites,
        _nanoseconds(read.started),
        _nanoseconds(read.time),
        read.mean,
        _comments(read),
        sampled=read.sampled,
        whole=read.every_page,
    )


def _values(answer: Union[ReadSite, ReadShare], read: ReadProfile) -> dict[str, int]:
    """In the order of MEASURES. Without samples arenadump says 0 for what was allocated, which is not known."""
    allocated = {"alloc_objects": answer.allocated.count, "alloc_space": answer.allocated.bytes} if read.sampled else {}
    return {**allocated, "inuse_objects": answer.in_use.count, "inuse_space": answer.in_use.bytes}


def frames_of(modules: Sequence[ReadModule], frames: Sequence[ReadFrame]) -> list[StackFrame]:
    """All frames, by their index."""
    made = [Module(m.path, m.build_id, int(m.start, 16), int(m.end, 16), int(m.bias, 16)) for m in modules]
    (named,) = apart([[_frame(frame, made) for frame in frames]])
    return list(named)


def stack_of(stack: Optional[int], stacks: ReadStacks, frames: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """The frames of a stack, innermost first; of one that is not known, none."""
    found: list[StackFrame] = []
    at = stack
    while at is not None:
        found.append(frames[stacks.frame[at]])
        at = stacks.caller[at]
    return tuple(found)


def _frame(frame: ReadFrame, modules: list[Module]) -> StackFrame:
    module = modules[frame.module] if frame.module is not None else None
    lines = tuple(SourceLine(f.name or "", f.file or "", f.line or 0) for f in frame.functions)
    return StackFrame(int(frame.offset, 16) + (module.bias if module else 0), module, lines, frame.language)


def _nanoseconds(time: Optional[str]) -> int:
    if time is None:
        return 0
    when = dt.datetime.fromisoformat(time.replace("Z", "+00:00"))
    # Not by timestamp(): a float has 53 bits, and these are 61.
    return (when - dt.datetime.fromtimestamp(0, dt.timezone.utc)) // dt.timedelta(microseconds=1) * 1000


def _comments(read: ReadProfile) -> list[str]:
    without = read.allocated_without_stack
    allocated = f"allocated without a stack: {without.bytes} bytes in {without.count} blocks (estimate)"
    return [
        f"in use: {read.how}",
        read.hooked,
        f"in use without a stack: {read.without_stack.bytes} bytes; unseen: {read.unseen.bytes} bytes",
        allocated if read.sampled else UNSAMPLED,
        f"stacks: {read.wrong} of {read.checked} that were checked were wrong",
        *([read.lacking] if read.lacking else []),
        *map(str, read.unknown_interpreters),
    ]
