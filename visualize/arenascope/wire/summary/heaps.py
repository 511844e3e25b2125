# SPDX-License-Identifier: MIT
"""malloc's arenas and chunks, and what keeps pages. Part of the schema "arenascope.summary/1"."""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import NamedTuple, Optional

from arenascope.wire.summary.ledger import Resident, Sums


class Tally(NamedTuple):
    """Chunks of one kind, resident or not."""

    count: Optional[int]  # type: ignore[assignment]
    bytes: Optional[int]


class Tallies(NamedTuple):
    """All chunks, by what they are."""

    in_use: Tally
    tcache: Tally
    fastbin: Tally
    binned: Tally
    top: Tally
    mmapped: Tally

    def items(self) -> tuple[tuple[str, Tally], ...]:
        """The kinds by name, in the schema's order."""
        return tuple(zip(self._fields, self))


class Thread(NamedTuple):
    """A thread that allocates from an arena."""

    tid: int
    name: str
    tcache_count: Optional[int]
    tcache_bytes: Optional[int]


class Arena(NamedTuple):
    """An arena of malloc."""

    name: str
    address: Optional[str]
    main: bool
    malloc: int  # in Summary.mallocs
    heaps: int
    system_mem: Optional[int]
    attached_threads: Optional[int]
    corrupt: bool
    locked: bool
    threads: tuple[Thread, ...]
    ledger: Resident
    sums: Sums
    chunks: Tallies


class Tunables(NamedTuple):
    """The settings of a malloc."""

    trim_threshold: Optional[int]
    top_pad: Optional[int]
    mmap_threshold: Optional[int]
    arena_max: Optional[int]
    arena_test: Optional[int]
    no_dyn_threshold: Optional[int]
    tcache_count: Optional[int]
    tcache_max_bytes: Optional[int]
    thp_pagesize: Optional[int]
    hp_pagesize: Optional[int]

    def value(self, name: str) -> Optional[int]:
        """A setting by its name."""
        held: Optional[int] = getattr(self, name)
        return held


class Malloc(NamedTuple):
    """A malloc of glibc's: a process may have several."""

    path: Optional[str]
    tunables: Tunables


class Pin(NamedTuple):
    """Chunks in use of one size that keep free memory resident."""

    chunk_size: Optional[int]  # null of a forged dump only
    count: Optional[int]  # type: ignore[assignment]
    pages: Optional[int]
    stranded: Optional[int]
    tails: Optional[int]
    tail_bytes: Optional[int]
    in_use: Optional[int]


class ByChunks(NamedTuple):
    """Pages with stranded bytes and so many chunks in use: from this number to the next class's."""

    chunks_from: int
    pages: Optional[int]
    in_use: Optional[int]
    stranded: Optional[int]


class ByShare(NamedTuple):
    """Pages with stranded bytes of which such a part is in use: from so many eighths to one more."""

    eighths_from: int
    pages: Optional[int]
    in_use: Optional[int]
    stranded: Optional[int]


class Sharer(NamedTuple):
    """Chunks in use of one size that stand with others on pages with stranded bytes."""

    chunk_size: Optional[int]
    places: Optional[int]
    stranded: Optional[int]


class StrandedPages(NamedTuple):
    """How full the pages with stranded bytes are, and which sizes stand there together."""

    by_chunks: tuple[ByChunks, ...]
    by_share: tuple[ByShare, ...]
    shared: tuple[Sharer, ...]


class ChunkSize(NamedTuple):
    """Chunks in use of one size."""

    chunk_size: int
    count: int  # type: ignore[assignment]
    bytes: int


class Releasable(NamedTuple):
    """Where the pages lie that malloc_trim(0) returns."""

    end: Optional[int]  # bytes at the end of a main arena's heap: its top
    below: Optional[int]  # bytes between what is in use
    arenas: Optional[int]  # that have pages of the second kind
