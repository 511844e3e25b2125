# SPDX-License-Identifier: MIT
"""A profile: call stacks with what stands for each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# The measures, in the order in which pprof shows them; the last is its default.
MEASURES = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
ALLOCATED = MEASURES[:2]  # known by samples alone
# Besides: what the chunks in use keep. A site has no value where it is not known.
KEPT = ("pinned", "stranded", "returned")
GROWN: Final = "grown"  # known where a walk was made when the profile began
OF_SITES = (*KEPT, GROWN)  # not known by thread
IN_BYTES = ("alloc_space", "inuse_space", "stranded", "returned", GROWN)


@dataclass(frozen=True)
class Module:
    """An object in which code is. Addresses are those of the process."""

    path: str
    build_id: str = ""
    start: int = 0
    end: int = 0
    bias: int = 0

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2] or self.path


@dataclass(frozen=True)
class SourceLine:
    """A function at an address, perhaps inlined into the next one."""

    function: str = ""
    file: str = ""
    line: int = 0


def last_part(path: str) -> str:
    """Returns the name of the file in a path."""
    return path.rpartition("/")[2]


NATIVE: Final = "native"
INTERPRETED: Final = {"python": "Python", "ruby": "Ruby"}  # languages of frames that are not native
UNKNOWN_THREAD: Final = "unknown thread"


@dataclass(frozen=True)
class StackFrame:
    """A return address: its functions, innermost first; none where nothing is known but module and address.

    Or a line of a function that an interpreter runs: it has no address.
    """

    address: int
    module: Module | None = None
    lines: tuple[SourceLine, ...] = ()
    language: str = NATIVE
    place: str = ""  # of an interpreted one: what its file is called, where the last part of the path does not tell it

    def names(self) -> tuple[str, ...]:
        """What the functions are called; module+0xoffset, with which another machine can name them later.

        An interpreted one has its file's name with it: each file has its <module>.
        """
        return self._names

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """Made once: a frame is on many stacks."""
        if self.language != NATIVE:
            return tuple(f"{self.place or last_part(line.file) or '?'}:{line.function or '?'}" for line in self.lines)
        place = f"{self.module.name}+{self.address - self.module.bias:#x}" if self.module else f"{self.address:#x}"
        return tuple(line.function or place for line in self.lines) or (place,)


def apart(stacks: Sequence[Sequence[StackFrame]]) -> list[tuple[StackFrame, ...]]:
    """The same stacks, with frames of which each name is that of one function in one file.

    Where files of interpreted code share their last part (`__init__.py`, `base.rb`), each is called by as many of the
    directories above it as only it has: `orders/models.py`. The names are then right wherever functions are added up.
    """
    own = {line.file for frames in stacks for f in frames if f.language != NATIVE for line in f.lines}
    titles = {file: title for file, title in _titles(own) if title != last_part(file)}

    def titled(frame: StackFrame) -> StackFrame:
        title = titles.get(frame.lines[0].file) if frame.language != NATIVE and frame.lines else None
        return replace(frame, place=title) if title and title != frame.place else frame

    return [tuple(map(titled, frames)) if titles else tuple(frames) for frames in stacks]


def _titles(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What each of these files is called: the shortest end of its path that no other has, at a directory's name."""
    waiting, length = {file: file.split("/") for file in files}, 0
    while waiting:
        length += 1
        ends = {file: "/".join(parts[-length:]) for file, parts in waiting.items()}
        shared = Counter(ends.values())
        yield from ((file, end) for file, end in ends.items() if shared[end] == 1)
        waiting = {file: parts for file, parts in waiting.items() if shared[ends[file]] > 1}


MISSING: Final = StackFrame(0, None, (SourceLine("\N{HORIZONTAL ELLIPSIS}"),))
"""Stands for frames of a stack that are not known, or not shown."""


@dataclass(frozen=True)
class StackThread:
    """Who was on a stack. None: not known."""

    tid: int | None = None
    name: str | None = None
    number: int = 1  # of those that have had this id, one after another

    @property
    def title(self) -> str:
        """Its name and id."""
        if not self.tid:
            return UNKNOWN_THREAD
        which = f"{self.tid}, the {self.number}. of this id" if self.number > 1 else f"{self.tid}"
        return f"thread {self.name} ({which})" if self.name else f"thread {which}"


@dataclass(frozen=True)
class Share:
    """What one thread has of a site's MEASURES; all shares together are the site."""

    thread: StackThread | None
    values: dict[str, int]

    @property
    def title(self) -> str:
        """The thread's."""
        return self.thread.title if self.thread else UNKNOWN_THREAD


@dataclass(frozen=True)
class Site:
    """Who allocates: a stack, innermost frame first, and its measures."""

    frames: tuple[StackFrame, ...]
    values: dict[str, int]
    shares: tuple[Share, ...] = ()  # none: they are not known
    complete: bool = True  # else outer frames are missing

    def outwards(self) -> tuple[StackFrame, ...]:
        """The frames, and behind them one that stands for those that are missing."""
        return self.frames if self.complete else (*self.frames, MISSING)

    def names(self) -> Iterator[str]:
        """All functions, inlined ones too, innermost first."""
        for frame in self.frames:
            yield from frame.names()


@dataclass
class Profile:
    """What a recorder knows at one instant."""

    sites: list[Site]
    started_ns: int = 0
    taken_ns: int = 0
    mean: int = 0  # bytes between two samples of allocations
    comments: list[str] = field(default_factory=list)
    sampled: bool = True  # allocations are; else what was allocated is not known
    whole: bool = False  # every chunk is recorded, not those on some pages

    def has(self, measure: str) -> bool:
        """Whether the measure is known."""
        if measure in ALLOCATED and not self.sampled:
            return False
        return all(measure in site.values for site in self.sites)

    def total(self, measure: str) -> int:
        """Returns the sum over all sites."""
        return sum(site.values.get(measure, 0) for site in self.sites)


def by_thread(profile: Profile) -> Profile:
    """The same stacks, each below the thread that was on it. What is kept on pages is not known by thread."""
    sites = []
    for site in profile.sites:
        unknown = Share(None, {measure: site.values[measure] for measure in MEASURES if measure in site.values})
        for share in site.shares or (unknown,):
            outermost = StackFrame(0, None, (SourceLine(share.title),))
            sites.append(Site((*site.outwards(), outermost), share.values))
    return replace(profile, sites=sites)


@dataclass
class FunctionRow:
    """A function: what it allocates itself, and with all that it calls."""

    name: str
    flat: int = 0
    cum: int = 0


def rows_of(sites: Iterable[Site], measures: Sequence[str]) -> dict[str, dict[str, FunctionRow]]:
    """The functions by name, for each measure. One that is several times in a stack counts once for `cum`."""
    found: dict[str, dict[str, FunctionRow]] = {measure: {} for measure in measures}
    for site in sites:
        names = dict.fromkeys(site.names())
        for measure in measures:
            value = site.values.get(measure, 0)
            of = found[measure]
            for name in names:
                row = of.get(name) or of.setdefault(name, FunctionRow(name))
                row.cum += value
            if names:
                of[next(iter(names))].flat += value
    return found


def order(row: FunctionRow) -> tuple[int, int, str]:
    """Returns the key by which rows are sorted, the largest first."""
    return -abs(row.flat), -abs(row.cum), row.name


def rows(sites: Iterable[Site], measure: str) -> list[FunctionRow]:
    """The functions, largest first."""
    return sorted(rows_of(sites, [measure])[measure].values(), key=order)


def difference(before: Profile, after: Profile) -> Profile:
    """What `after` has more (or, negative, less) than `before`.

    Stacks are the same by functions and lines: addresses change from run to run.
    """

    def key(site: Site) -> tuple[tuple[object, ...], ...]:
        return tuple((frame.lines or frame.names()) for frame in site.frames)

    found: dict[tuple[tuple[object, ...], ...], Site] = {}
    for sites, sign in ((before.sites, -1), (after.sites, 1)):
        for site in sites:
            same = found.setdefault(key(site), Site(site.frames, {}))
            for measure, value in site.values.items():
                same.values[measure] = same.values.get(measure, 0) + sign * value
    sites = [site for site in found.values() if any(site.values.values())]
    named = apart([site.frames for site in sites])  # of both: a file may be told from one that the other has
    sites = [replace(site, frames=frames) for site, frames in zip(sites, named)]
    return Profile(sites, before.started_ns, after.taken_ns, after.mean)
