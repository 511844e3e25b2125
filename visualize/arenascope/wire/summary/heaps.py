# SPDX-License-Identifier: MIT
"""malloc's arenas and chunks, and what keeps pages. Part of the schema "arenascope.summary/1"."""

from typing import Literal, NamedTuple, Optional

from arenascope.wire.json_types import Address, Unsigned, keywords
from arenascope.wire.summary.ledger import Absent, Beside, Forecast, Resident, Sums
from arenascope.wire.summary.origin import GlibcVersion, LayoutSource


class Tally(NamedTuple):
    """Chunks of one kind, resident or not."""

    count: Optional[Unsigned]  # type: ignore[assignment]  # Chunks.
    bytes: Optional[Unsigned]  # Sum of their chunk sizes, headers included.


class Tallies(NamedTuple):
    """Chunks by their state, resident or not. Mmapped chunks are not in `in_use`."""

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
    tcache_count: Optional[Unsigned]  # Chunks in the thread's tcache; null if the tcache was not found.
    tcache_bytes: Optional[Unsigned]  # Their bytes.


class Arena(NamedTuple):
    """An arena of malloc."""

    # What every surface calls the arena: "main arena" (with several libcs "main arena 2"), or "arena 3", by its place
    # in this list, which begins with 0.
    name: str
    address: Optional[Address]  # Address of the arena's malloc_state.
    main: bool  # A main_arena, which grows by brk.
    malloc: Unsigned  # The malloc of the arena: an index into `mallocs`.
    heaps: Unsigned  # How many contiguous regions it has.
    system_mem: Optional[Unsigned]  # The bytes that the arena took from the system, by its own count.
    max_system_mem: Optional[Unsigned]  # The maximum of system_mem.
    # Number of threads that allocate from the arena, by glibc's count; null before 2.23.
    attached_threads: Optional[Unsigned]
    top: Optional[Address]  # Address of its top chunk.
    noncontiguous: bool  # The arena's NONCONTIGUOUS flag.
    corrupt: bool  # Part of the arena could not be walked: see `warnings`.
    locked: bool  # Its lock was held during the snapshot.
    torn_chunks: Optional[Unsigned]  # As snapshot.torn_chunks, for this arena.
    # no_thread: no thread allocates from it any more. nearly_empty: threads do, and it holds next to nothing but free
    # memory. null: it is not idle, or a main arena.
    idle: Optional[Literal["no_thread", "nearly_empty"]]
    threads: tuple[Thread, ...]  # The threads that use this arena, as far as they are known.
    ledger: Resident  # The ledger of this arena; rows that belong to no arena are 0.
    absent: Absent
    forecast: Forecast
    beside: Beside
    sums: Sums
    chunks: Tallies


class Tunables(NamedTuple):
    """The settings of a malloc."""

    trim_threshold: Optional[Unsigned]  # mp_.trim_threshold
    top_pad: Optional[Unsigned]  # mp_.top_pad
    mmap_threshold: Optional[Unsigned]  # mp_.mmap_threshold
    arena_max: Optional[Unsigned]  # mp_.arena_max; 0: no limit set
    arena_test: Optional[Unsigned]  # mp_.arena_test
    no_dyn_threshold: Optional[Unsigned]  # mp_.no_dyn_threshold; 1: the thresholds are fixed
    tcache_count: Optional[Unsigned]  # mp_.tcache_count: the maximum number of chunks in each tcache bin
    tcache_max_bytes: Optional[Unsigned]  # mp_.tcache_max_bytes
    thp_pagesize: Optional[Unsigned]  # mp_.thp_pagesize
    hp_pagesize: Optional[Unsigned]  # mp_.hp_pagesize

    def value(self, name: str) -> Optional[int]:
        """A setting by its name."""
        held: Optional[int] = getattr(self, name)
        return held


@keywords(additionalProperties=False)
class LostTcaches(NamedTuple):
    """Tcaches without a thread, after a fork, for example: part of the row tcache. null: unknown."""

    tcaches: Optional[Unsigned]  # How many.
    count: Optional[Unsigned]  # type: ignore[assignment]  # Chunks in them.
    bytes: Optional[Unsigned]  # The sum of these chunks' sizes.


class Malloc(NamedTuple):
    """A malloc of glibc's: a process may have several."""

    path: Optional[str]  # The file it was loaded from.
    build_id: Optional[str]  # Build-id of this file, in hexadecimal.
    glibc: Optional[GlibcVersion]
    layout_source: Optional[LayoutSource]
    layout_versions: Optional[str]  # As allocator.layout_versions.
    proven: bool  # True: the layout was proven on the target's memory.
    main_arena: Optional[Address]  # Address of its main_arena.
    mp: Optional[Address]  # Address of its mp_.
    heap_max_size: Optional[Unsigned]  # As allocator.heap_max_size.
    n_mmaps: Optional[Unsigned]  # Number of mmapped chunks, by mp_'s count.
    mmapped_mem: Optional[Unsigned]  # Bytes of mmapped chunks, by mp_'s count.
    lost_tcaches: Optional[LostTcaches]
    tunables: Tunables


class Pin(NamedTuple):
    """Chunks in use of one size that keep free memory resident."""

    chunk_size: Optional[Unsigned]  # Chunk size in bytes, header included.
    # Chunks in use of this size that stand alone on at least one page: everything else on the page is free.
    count: Optional[Unsigned]  # type: ignore[assignment]
    pages: Optional[Unsigned]  # Resident pages that these chunks keep.
    stranded: Optional[Unsigned]  # Free bytes on these pages.
    # Heaps whose last chunk in use has this size, with free chunks of at least a page in total directly below it. The
    # chunk may be a pin or not.
    tails: Optional[Unsigned]
    tail_bytes: Optional[Unsigned]  # Bytes of the free chunks directly below these last chunks, resident or not.
    in_use: Optional[Unsigned]  # All chunks in use of this size.


class ByChunks(NamedTuple):
    """Pages with stranded bytes and so many chunks in use: from this number to the next class's."""

    chunks_from: Unsigned  # Lower bound of the class.
    pages: Optional[Unsigned]  # Resident pages of the class.
    in_use: Optional[Unsigned]  # Bytes in use on them.
    stranded: Optional[Unsigned]  # Bytes of the row stranded on them.


class ByShare(NamedTuple):
    """Pages with stranded bytes of which such a part is in use: from so many eighths to one more."""

    eighths_from: Unsigned  # Lower bound of the class.
    pages: Optional[Unsigned]  # Resident pages of the class.
    in_use: Optional[Unsigned]  # Bytes in use on them.
    stranded: Optional[Unsigned]  # Bytes of the row stranded on them.


class Sharer(NamedTuple):
    """Chunks in use of one size that stand with others on pages with stranded bytes."""

    chunk_size: Optional[Unsigned]  # Chunk size in bytes, header included.
    # How often a chunk of this size stands on such a page; one that stands on two counts twice.
    places: Optional[Unsigned]
    # Stranded bytes of these pages, of which each chunk in use on a page has an equal part.
    stranded: Optional[Unsigned]


class StrandedPages(NamedTuple):
    """How full the pages with stranded bytes are, and which sizes stand there together."""

    # By the number of chunks in use on the page: 0, 1, 2, 3 to 4, 5 to 8, and 9 or more.
    by_chunks: tuple[ByChunks, ...]
    by_share: tuple[ByShare, ...]  # By the part of the page that is in use, in eighths.
    # Sizes of chunks in use that stand with others on such pages; most bytes first, at most 24 sizes.
    shared: tuple[Sharer, ...]


class ChunkSize(NamedTuple):
    """Chunks in use of one size."""

    chunk_size: Unsigned  # Size of each chunk, header included.
    count: Unsigned  # type: ignore[assignment]  # How many chunks of this size are in use.
    bytes: Unsigned  # chunk_size times count.


class Releasable(NamedTuple):
    """Where the pages lie that malloc_trim(0) returns."""

    end: Optional[Unsigned]  # In the top of a main arena, the end of its heap.
    below: Optional[Unsigned]  # Below the end of a heap, between chunks in use.
    arenas: Optional[Unsigned]  # How many arenas have pages of the second kind.
