# SPDX-License-Identifier: MIT
"""What the rules look at: the summary's numbers, and the few that only the whole dump has."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from arenascope import format as fmt
from arenascope.known import whole_of
from arenascope.summary import summarize

if TYPE_CHECKING:
    from arenascope.dump import Dump
    from arenascope.summary import Arena, Summary

ANONYMOUS: Final = "anonymous memory"
MIB: Final = 1 << 20
SHARE: Final = 0.03  # of Rss: what is less is not worth a sentence
EMPTY: Final = 1 / 8  # of an arena's memory: where less is in use, it is nearly empty


class Releasable(NamedTuple):
    """Bytes of pages that malloc_trim(0) returns."""

    end: int  # at the end of the main arena's heap: its top
    below: int  # between what is in use
    arenas: int  # that have pages of the second kind


class Facts:
    """One dump, with the questions that rules ask."""

    def __init__(self, dump: Dump, *, from_dump: bool = True) -> None:
        """`from_dump`: as summarize() has it."""
        self.dump: Final = dump
        self.summary: Final[Summary] = summarize(dump, from_dump=from_dump)

    def row(self, name: str) -> int | None:
        """A row of the ledger, of the whole process."""
        return self.summary.ledger[name]

    @cached_property
    def whole(self) -> int:
        """What shares are of: Rss, or the rows that are known where Rss is not."""
        return whole_of(self.summary).bytes

    def matters(self, held: int | None) -> bool:
        """Whether so many bytes are worth a sentence."""
        return held is not None and held >= MIB and held >= SHARE * self.whole

    @cached_property
    def doubt(self) -> str | None:
        """Why what is forecast is an estimate; None where it is what the call will do to the process as it was read."""
        snapshot = self.summary.snapshot
        if snapshot.torn_chunks:
            return "part of the heap could not be read and is not counted"
        if snapshot.mode == "live":
            return "the process ran on while it was read"
        return None

    @cached_property
    def arena_names(self) -> dict[int, str]:
        """What each arena is called, by address."""
        return {address_of(arena): arena.name for arena in self.summary.arenas}

    @cached_property
    def unattached(self) -> list[Arena]:
        """Arenas that no thread allocates from: those that once did have ended."""
        return [arena for arena in self.summary.arenas if not arena.main and arena.attached_threads == 0]

    @cached_property
    def nearly_empty(self) -> list[Arena]:
        """Arenas that threads do allocate from, and that hold next to nothing but free memory."""
        found = []
        for arena in self.summary.arenas:
            used, free = arena.ledger["in_use"], arena.sums.free
            if arena.main or arena.attached_threads == 0 or used is None or free is None:
                continue
            if free >= MIB and used <= EMPTY * (used + free):
                found.append(arena)
        return found

    @cached_property
    def releasable(self) -> Releasable:
        """Where the pages lie that malloc_trim(0) returns."""
        page_size, ends, below, arenas = int(self.dump.meta["page_size"]), 0, 0, set()
        for index in np.flatnonzero(self.dump.heaps["arena"] != fmt.NO_INDEX):
            pages = self.dump.heap_pages(int(index))
            free = pages["state"] == fmt.PageState.RELEASABLE
            top = int((free & (pages["top"] != 0)).sum())
            rest = int(free.sum()) - top
            ends, below = ends + top, below + rest
            if rest:
                arenas.add(int(self.dump.heaps[index]["arena"]))
        return Releasable(ends * page_size, below * page_size, len(arenas))

    @cached_property
    def mmapped(self) -> tuple[int, int]:
        """How many blocks have a mapping of their own, and the size of the largest."""
        heaps = self.dump.heaps
        own = heaps[heaps["kind"] == fmt.HeapKind.MMAPPED]
        sizes = own["end"] - own["start"]
        return len(own), int(sizes.max(initial=0))

    @cached_property
    def mappings(self) -> list[tuple[str, int]]:
        """What is resident and not malloc's, by name, largest first."""
        held: Counter[str] = Counter()
        for mapping in self.dump.mappings:
            rss, mallocs = int(mapping["rss"]), int(mapping["malloc_rss"])
            if fmt.UNKNOWN not in (rss, mallocs) and rss > mallocs:
                held[self.dump.string(mapping["path"]) or ANONYMOUS] += rss - mallocs
        return held.most_common()

    @cached_property
    def largest_in_use(self) -> tuple[int, int, int] | None:
        """The chunk size whose chunks in use hold the most bytes, how many they are, and their bytes."""
        sizes = self.dump.sizes
        known = sizes[(sizes["in_use"] != 0) & (sizes["in_use"] != fmt.UNKNOWN) & (sizes["chunk_size"] != fmt.UNKNOWN)]
        if not len(known):
            return None
        held = known["in_use"].astype(np.float64) * known["chunk_size"]
        top = known[int(np.argmax(held))]
        each, many = int(top["chunk_size"]), int(top["in_use"])
        return each, many, each * many


def address_of(arena: Arena) -> int:
    """An arena's address as the dump has it."""
    return fmt.UNKNOWN if arena.address is None else int(arena.address, 16)
