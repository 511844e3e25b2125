# SPDX-License-Identifier: MIT
"""What changed from one snapshot to another: pure functions on digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from arenascope.compare.comparability import elapsed_s, notes, same_layout, same_process
from arenascope.compare.digest import NOTHING, UNKNOWN, Portion
from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from arenascope.compare.comparability import Note
    from arenascope.compare.digest import ArenaHeld, Digest, Group, Pages, Seen

T = TypeVar("T")
NEW: Final = "new"
GONE: Final = "gone"
BOTH: Final = "both"


def difference(before: int | None, after: int | None) -> int | None:
    """How much more it is; None: one of the two is not known."""
    return None if before is None or after is None else after - before


@dataclass(frozen=True)
class Delta:
    """A number at both times."""

    before: int | None
    after: int | None

    @property
    def change(self) -> int | None:
        """How much more it is."""
        return difference(self.before, self.after)


@dataclass(frozen=True)
class Growing:
    """A thing at both times. `status`: NEW, GONE, BOTH; None: not known."""

    key: Hashable
    title: str
    status: str | None
    bytes: Delta
    count: Delta | None

    @property
    def moved(self) -> bool:
        """Whether anything of it changed, or this is not known."""
        return self.bytes.change != 0 or (self.count is not None and self.count.change not in {0, None})


class NamedTable(NamedTuple):
    """Things that have names: which of a comparison's, a title, what a line is about, and its lines."""

    kind: str
    title: str
    what: str
    counts: str  # what there are so many of
    lines: Sequence[Growing] = ()


PINS: Final = "Pins: chunks in use that keep free memory from being returned"
NAMED: Final = (
    NamedTable("types", "Chunks in use by type", "type", "chunks"),
    NamedTable("owners", "What owners retain", "owner", "chunks"),
    NamedTable("leaks", "Lost chunks", "type and size", "chunks"),
    NamedTable("objects", "A runtime's objects by type, with what they own", "type", "objects"),
    NamedTable("classes", "Ruby's objects by class, with what they own", "class", "objects"),
    NamedTable("sites", "What call stacks allocated and is in use", "call stack", "chunks"),
)


@dataclass(frozen=True)
class ArenaGrowth(Growing):
    """An arena: `bytes` are resident, `count` are chunks in use."""

    address: int
    in_use: Delta
    rows: Mapping[str, Delta]


@dataclass(frozen=True)
class PinGrowth:
    """The pins of one size."""

    chunk_size: int
    count: Delta
    pages: Delta
    stranded: Delta

    @property
    def line(self) -> Growing:
        """As a line of a table: the free memory that they keep, and how many they are."""
        ends = (self.count.before, self.count.after)
        status = None if None in ends else NEW if not ends[0] else BOTH if ends[1] else GONE
        return Growing(self.chunk_size, f"{self.chunk_size}", status, self.stranded, self.count)


@dataclass(frozen=True)
class PinnedPages:
    """The pages that a single chunk in use keeps. Bytes: free memory there, in the last snapshot with the page."""

    came: Portion
    stayed: Portion
    went: Portion


@dataclass(frozen=True)
class Comparison:
    """All of it, each table sorted by growth. None: not compared, and a note says why."""

    before: Seen
    after: Seen
    same_process: bool | None
    elapsed_s: float | None
    notes: tuple[Note, ...]
    rss: Delta
    swap: Delta
    rows: tuple[Growing, ...]
    chunks: tuple[Growing, ...]
    arenas: tuple[ArenaGrowth, ...]
    sizes: tuple[Growing, ...]
    pins: tuple[PinGrowth, ...]
    pinned_pages: PinnedPages | None
    types: tuple[Growing, ...] | None
    owners: tuple[Growing, ...] | None
    leaks: tuple[Growing, ...] | None
    objects: tuple[Growing, ...] | None
    classes: tuple[Growing, ...] | None
    sites: tuple[Growing, ...] | None

    @property
    def named(self) -> tuple[NamedTable, ...]:
        """The tables of things that have names, as far as both snapshots have them."""
        return tuple(
            table._replace(lines=lines)
            for table in NAMED
            for lines in [getattr(self, table.kind)]
            if lines and any(line.moved for line in lines)
        )

    def per_minute(self, of: Delta | None) -> float | None:
        """A rate; None where there is none: of two processes, or without a time between the snapshots."""
        if of is None or of.change is None or self.same_process is False:
            return None
        return of.change * 60 / self.elapsed_s if self.elapsed_s and self.elapsed_s > 0 else None


def ends(lines: Sequence[T], shown: int) -> list[T]:
    """Returns so many lines of a sorted table: those that grew most, and those that shrank most."""
    shrank = shown // 3
    return list(lines) if len(lines) <= shown else [*lines[: shown - shrank], *lines[-shrank:]]


def compare(before: Digest, after: Digest) -> Comparison:
    """What changed. In what the two differ in kind: see `notes`."""
    alike = same_layout(before.who, after.who)
    return Comparison(
        before=before.who,
        after=after.who,
        same_process=same_process(before.who, after.who),
        elapsed_s=elapsed_s(before.who, after.who),
        notes=tuple(notes(before, after)),
        rss=Delta(before.rss, after.rss),
        swap=Delta(before.swap, after.swap),
        rows=_sorted(
            Growing(name, name, BOTH, Delta(before.rows[name], after.rows[name]), None) for name in after.rows
        ),
        chunks=_sorted(_line(name, name, BOTH, before.chunks[name], after.chunks[name]) for name in after.chunks),
        arenas=_arenas(before.arenas, after.arenas),
        sizes=_lines(before.sizes, after.sizes) or (),
        pins=_pins(before, after),
        pinned_pages=_pinned(before, after) if alike else None,
        types=_lines(before.types, after.types),
        owners=_lines(before.owners, after.owners),
        leaks=_lines(before.leaks, after.leaks),
        objects=_lines(before.objects, after.objects),
        classes=_lines(before.classes, after.classes),
        sites=_lines(before.sites, after.sites),
    )


def _line(key: Hashable, title: str, status: str | None, one: Portion, other: Portion) -> Growing:
    return Growing(key, title, status, Delta(one.bytes, other.bytes), Delta(one.count, other.count))


def _growth(change: int | None, held: int | None) -> tuple[bool, int, int]:
    """What grew most comes first, what is not known last."""
    return (change is None, -(change or 0), -(held or 0))


def _sorted(lines: Iterable[Growing]) -> tuple[Growing, ...]:
    return tuple(sorted(lines, key=lambda line: _growth(line.bytes.change, line.bytes.after)))


def _status(in_before: bool, in_after: bool, one: Portion, other: Portion) -> str | None:  # noqa: FBT001 - a pair
    if in_before and in_after:
        return BOTH
    return None if UNKNOWN in {one, other} else GONE if in_before else NEW


def _lines(before: Group | None, after: Group | None) -> tuple[Growing, ...] | None:
    if before is None or after is None:
        return None
    made = []
    for key in {**after.listed, **before.listed}:
        one, other = before.held(key), after.held(key)
        named = after.listed.get(key) or before.listed[key]
        made.append(_line(key, named.title, _status(key in before.listed, key in after.listed, one, other), one, other))
    return _sorted(made)


def _arena(address: int, one: ArenaHeld | None, other: ArenaHeld | None) -> ArenaGrowth:
    """An arena that is not there holds nothing."""
    first, last = (each.in_use if each else NOTHING for each in (one, other))
    rows = {**(one.rows if one else {}), **(other.rows if other else {})}
    return ArenaGrowth(
        key=address,
        address=address,
        title=other.name if other else one.name if one else "",
        status=BOTH if one and other else GONE if one else NEW,
        bytes=Delta(one.resident if one else 0, other.resident if other else 0),
        count=Delta(first.count, last.count),
        in_use=Delta(first.bytes, last.bytes),
        rows={name: Delta(one.rows[name] if one else 0, other.rows[name] if other else 0) for name in rows},
    )


def _arenas(before: Mapping[int, ArenaHeld], after: Mapping[int, ArenaHeld]) -> tuple[ArenaGrowth, ...]:
    made = [_arena(address, before.get(address), after.get(address)) for address in {**after, **before}]
    made.sort(key=lambda arena: (_growth(arena.bytes.change, None), _growth(arena.in_use.change, arena.in_use.after)))
    return tuple(made)


def _pins(before: Digest, after: Digest) -> tuple[PinGrowth, ...]:
    made = []
    known = before.who.residency_known, after.who.residency_known
    for size in {**after.pins, **before.pins}:
        of = [digest.pins.get(size) for digest in (before, after)]
        # Without residency no page is known to be kept: no pins there are unknown, and not none.
        none = [0 if each else None for each in known]
        numbers = [
            Delta(*(getattr(each, field) if each else nothing for each, nothing in zip(of, none)))
            for field in ("count", "pages", "stranded")
        ]
        made.append(PinGrowth(size, *numbers))
    made.sort(key=lambda pin: (_growth(pin.stranded.change, pin.stranded.after), pin.chunk_size))
    return tuple(made)


def _pinned(before: Digest, after: Digest) -> PinnedPages | None:
    """None: in one of the two snapshots the pages are not known, or have another size."""
    one, other = before.pages, after.pages
    known = before.who.residency_known and after.who.residency_known
    if one is None or other is None or not known or before.who.page_size != after.who.page_size:
        return None
    first, last = _kept(one), _kept(other)
    stayed = np.isin(other.address[last], one.address[first])
    went = ~np.isin(one.address[first], other.address[last])
    return PinnedPages(
        came=_pages(other, last[~stayed]), stayed=_pages(other, last[stayed]), went=_pages(one, first[went])
    )


def _kept(pages: Pages) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Which pages a pin keeps."""
    return np.flatnonzero(pages.state == fmt.PageState.PINNED)


def _pages(pages: Pages, which: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Portion:
    stranded = None if pages.stranded is None else int(pages.stranded[which].sum())
    return Portion(stranded, len(which))
