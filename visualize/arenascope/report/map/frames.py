# SPDX-License-Identifier: MIT
"""The map through time: for each generation the page states of one process, as what changed from snapshot to snapshot.

A reel has the states at its first snapshot, and then, for each further snapshot, which cells changed and by what (XOR):
so it can be played both ways. All reels together stay below LIMIT. What does not fit is told coarser, and the page says
so: fewer snapshots, then several pages in a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope.report.colours import Colour
from arenascope.report.map.data import Block, pack
from arenascope.timeline.delta_codec import heaps_of
from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from arenascope.compare.digest import HeapHeld, Pages
    from arenascope.timeline.delta_codec import Runs
    from arenascope.timeline.reader import SnapshotRow
    from arenascope.timeline.snapshot_bodies import Details

LIMIT: Final = 2_600_000  # bytes of deflated data, of all reels
MOST_REELS: Final = 8  # the last generations
MOST_FRAMES: Final = 400
MOST_READ: Final = 130_000_000  # pages of all frames of a reel: what is read in some seconds
MOST_CELLS: Final = 1 << 20
MOST_MOVES: Final = 6_000_000  # changes that the script keeps in memory
MOST_SPAN: Final = 1 << 28  # pages, from the first heap to the last, of all snapshots of a reel
OTHERS: Final = "mmapped"  # single chunks, each a mapping of its own
STATES: Final = max(fmt.PageState) + 1

_COLOURS: Final = np.full(256, Colour.UNKNOWN, np.uint8)
_COLOURS[: fmt.PageState.SWAPPED] = np.arange(fmt.PageState.SWAPPED, dtype=np.uint8)  # these have the same numbers
_COLOURS[fmt.PageState.SWAPPED] = Colour.USED_SWAPPED


class Shown(NamedTuple):
    """A process of which the map is shown: its snapshots, by the number of the poll."""

    generation: int
    snapshots: Mapping[int, SnapshotRow]


@dataclass(frozen=True)
class Reel:
    """The map of one process. `polls`: the number of each frame's instant; none: there is no map, and `why`."""

    generation: int
    pid: int
    polls: list[int]
    total: int = 0  # cells
    arenas: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    why: str = ""


class Reels(NamedTuple):
    """All of them. `pages`: that stand in one cell."""

    reels: list[Reel]
    page_size: int
    pages: int


@dataclass(frozen=True)
class _Laid:
    """Cells in the order of addresses: where each run of them begins, by cell number, and how many they are."""

    first: NDArray[np.int64]
    count: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.count.sum())


class _Film(NamedTuple):
    """The frames of a reel: the first whole, of each other what changed."""

    start: NDArray[np.uint8]
    moves: list[tuple[NDArray[np.uint32], NDArray[np.uint8]]]


def reels(details: Details, shown: Sequence[Shown]) -> Reels:
    """The reels of the last generations, of which each has the same share of the room."""
    having = [each for each in shown if each.snapshots]
    early, wanted = having[:-MOST_REELS], having[-MOST_REELS:]
    scouts = [_Scout(details, each) for each in wanted]
    page_size = max((scout.page_size for scout in scouts), default=0) or 4096
    cells = max((scout.laid(page_size).total for scout in scouts), default=0)
    pages = 1
    while cells > MOST_CELLS * pages:
        pages *= 2
    why = "This file has no room for the map of generation {}."
    made = [_none(each, why.format(each.generation)) for each in early]
    made += [scout.reel(page_size * pages, len(early) + number, len(scouts)) for number, scout in enumerate(scouts)]
    return Reels(made, page_size, pages)


def _none(shown: Shown, why: str) -> Reel:
    """No map of a process."""
    return Reel(shown.generation, next(iter(shown.snapshots.values())).pid, [], why=why)


class _Scout:
    """Inspects where the pages of a process are, and chooses as many frames as can be read."""

    def __init__(self, details: Details, shown: Shown) -> None:
        self.details: Final = details
        self.shown: Final = shown
        self.polls = _spread(sorted(shown.snapshots), MOST_FRAMES)
        self.runs: dict[int, Runs] = {}
        for poll in self.polls:
            found = details.runs(shown.snapshots[poll].id)
            if found is not None:
                self.runs[poll] = found
        self.polls = [poll for poll in self.polls if poll in self.runs]
        self.page_size = max((runs.page_size for runs in self.runs.values()), default=0)
        while len(self.polls) > 2 and self._read() > MOST_READ:  # noqa: PLR2004 - the first and the last
            self.polls = _halved(self.polls)
        while len(self.polls) > 1 and self.laid(self.page_size).total > MOST_SPAN:
            self.polls = _halved(self.polls)

    def _read(self) -> int:
        return sum(int(self.runs[poll].count.sum()) for poll in self.polls)

    def laid(self, cell: int) -> _Laid:
        """The cells of all frames."""
        firsts, ends = [], []
        for poll in self.polls:
            runs = self.runs[poll]
            start = runs.start.astype(np.int64)
            firsts.append(start // cell)
            ends.append(-(-(start + runs.count * runs.page_size) // cell))
        return _united(firsts, ends)

    def reel(self, cell: int, number: int, of: int) -> Reel:
        """The reel, with half as many frames until it fits. `number`: in its blocks' names; `of`: how many reels."""
        if not self.polls:
            return _none(self.shown, "glibc's malloc has no heap in this process.")
        if self.laid(self.page_size).total > MOST_SPAN:
            return _none(self.shown, "The heaps are too large for a map.")
        while True:
            laid = self.laid(cell)
            arenas, regions = self._regions(laid, cell)
            film = self._film(laid, cell, _order(regions), MOST_MOVES // of)
            if film is not None:
                blocks = _blocks(film, regions, number)
                if sum(len(block.data) for block in blocks) <= LIMIT // of:
                    pid = self.shown.snapshots[self.polls[0]].pid
                    return Reel(self.shown.generation, pid, self.polls, laid.total, arenas, blocks)
            if len(self.polls) == 1:
                return _none(self.shown, "This file has no room for the map.")
            self.polls = _halved(self.polls)

    def _film(self, laid: _Laid, cell: int, order: NDArray[np.int64], budget: int) -> _Film | None:
        """None: more changes than `budget`. `order`: which cell by address each of the map's is."""
        moves = []
        start = before = None
        for poll in self.polls:
            pages = self.details.pages(self.shown.snapshots[poll].id)
            now = _states(pages, laid, cell)[order]
            if before is None:
                start = now
            else:
                changed = before ^ now
                where = np.flatnonzero(changed)
                budget -= len(where)
                if budget < 0:
                    return None
                moves.append((where.astype(np.uint32), changed[where]))
            before = now
        return None if start is None else _Film(start, moves)

    def _regions(self, laid: _Laid, cell: int) -> tuple[tuple[str, ...], dict[str, NDArray[Any]]]:
        """The runs of cells as heaps.js has them, one arena after the other; and the names of the arenas.

        A heap stands with the arena that it last belonged to. What is no heap of an arena comes last.
        """
        arenas, heaps = self._heaps()
        names = sorted(set(arenas.values()), key=_by_number)
        cuts: dict[int, int] = {}  # cell → what begins there, by its place among the names
        for start, heap in sorted(heaps.items()):
            cuts[start // cell] = names.index(arenas[heap.arena]) if heap.arena in arenas else len(names)
            cuts.setdefault((start + heap.pages * self.page_size) // cell, len(names))
        first, count, arena = [], [], []
        at = sorted(cuts)
        for start, many in zip(laid.first.tolist(), laid.count.tolist()):
            inside = at[int(np.searchsorted(at, start, "left")) : int(np.searchsorted(at, start + many, "left"))]
            edges = sorted({start, *inside})
            for one, other in zip(edges, [*edges[1:], start + many]):
                first.append(one)
                count.append(other - one)
                arena.append(cuts.get(one, len(names)))
        order = sorted(range(len(first)), key=lambda number: (arena[number], first[number]))
        columns: dict[str, NDArray[Any]] = {
            "page": np.array(first, np.float64)[order],
            "pages": np.array(count, np.uint32)[order],
            "arena": np.array(arena, np.int32)[order],
            "kind": np.zeros(len(first), np.uint8),
            "behind": np.cumsum([0, *count])[:-1][order],  # how many cells have lower addresses
        }
        return (*names, OTHERS), columns

    def _heaps(self) -> tuple[dict[int, str], dict[int, HeapHeld]]:
        """The names of arenas and the heaps, by address, as they were last."""
        arenas: dict[int, str] = {}
        heaps: dict[int, HeapHeld] = {}
        for poll in self.polls:
            body = self.details.body(self.shown.snapshots[poll].id)
            arenas |= {int(address, 16): str(arena["name"]) for address, arena in body["arenas"].items()}
            heaps |= heaps_of(body)
        return arenas, heaps


def _by_number(name: str) -> tuple[int, str]:
    """Arena 2 before arena 10, and the main arena first."""
    number = name.rpartition(" ")[2]
    return int(number) if number.isascii() and number.isdecimal() else 0, name


def _order(regions: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Which cell, by address, each cell of the map is. Takes the column out that only this needs."""
    behind, counts = regions.pop("behind").astype(np.int64), regions["pages"].astype(np.int64)
    return np.repeat(behind - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))


def _blocks(film: _Film, regions: dict[str, NDArray[Any]], number: int) -> tuple[Block, ...]:
    """`moves`: the cells in the order of addresses, each as its distance from the one before."""
    gaps = [np.diff(where, prepend=np.uint32(0)).astype(np.uint32) for where, _ in film.moves]
    moves = [
        ("count", np.array([len(gap) for gap in gaps], np.uint32)),
        ("gap", np.concatenate([np.empty(0, np.uint32), *gaps])),
        ("by", np.concatenate([np.empty(0, np.uint8), *(by for _, by in film.moves)])),
    ]
    return (
        pack(f"regions-{number}", regions.items()),
        pack(f"start-{number}", [("state", film.start)]),
        pack(f"moves-{number}", moves),
    )


def _spread(polls: Sequence[int], most: int) -> list[int]:
    """So many of them, the first and the last among these."""
    if len(polls) <= most:
        return list(polls)
    return [polls[round(place * (len(polls) - 1) / (most - 1))] for place in range(most)]


def _halved(polls: list[int]) -> list[int]:
    """Half as many; of two the last."""
    return _spread(polls, max(len(polls) // 2, 2)) if len(polls) > 2 else polls[-1:]  # noqa: PLR2004


def _united(firsts: list[NDArray[np.int64]], ends: list[NDArray[np.int64]]) -> _Laid:
    """Runs that touch or overlap become one."""
    first = np.concatenate([np.empty(0, np.int64), *firsts])
    end = np.concatenate([np.empty(0, np.int64), *ends])
    order = np.argsort(first, kind="stable")
    first, end = first[order], np.maximum.accumulate(end[order])
    if not len(first):
        return _Laid(first, first)
    begins = np.flatnonzero(np.concatenate(([True], first[1:] > end[:-1])))
    last = np.append(begins[1:], len(first)) - 1
    return _Laid(first[begins], end[last] - first[begins])


def _states(pages: Pages | None, laid: _Laid, cell: int) -> NDArray[np.uint8]:
    """The colour of each cell; of several pages, the colour that most have, and of as many the stronger state."""
    total = laid.total
    if pages is None or not len(pages.address):
        return np.zeros(total, np.uint8)
    at = pages.address.astype(np.int64) // cell
    run = np.maximum(np.searchsorted(laid.first, at, "right") - 1, 0)
    index = np.cumsum(laid.count)[run] - laid.count[run] + at - laid.first[run]
    inside = (at >= laid.first[run]) & (at < laid.first[run] + laid.count[run])
    state = pages.state[inside]
    index, state = index[inside], np.where((state == 0) | (state >= STATES), STATES, state)
    counts = np.bincount(index, minlength=total)
    if counts.max(initial=0) <= 1:
        made = np.zeros(total, np.uint8)
        made[index] = state
    else:
        by_state = np.bincount(index * (STATES + 1) + state, minlength=total * (STATES + 1)).reshape(total, -1)
        made = np.where(counts > 0, by_state[:, 1:].argmax(axis=1) + 1, 0).astype(np.uint8)
    return _COLOURS[made]
