# SPDX-License-Identifier: MIT
"""The summary of a target, schema "arenascope.summary/1" (docs/summary.schema.json): computed by arenadump alone.

What is not known is None. The schema says what each field means; the rows of a ledger are those of rows.py.
"""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Optional

from arenascope import rows
from arenascope.capture import run_arenadump
from arenascope.decode import DecodeError, answer, document, mapping
from arenascope.graph import Owner, Several, Sum

if TYPE_CHECKING:
    from arenascope.dump import Dump

SCHEMA: Final = "arenascope.summary/1"
ANONYMOUS_SHARED: Final = "anonymous shared memory"


@dataclass(frozen=True)
class Rows:
    """The bytes in each row of one kind, by the row's name; None: unknown."""

    KIND: ClassVar[tuple[rows.Row, ...]]
    INLINE: ClassVar[bool] = False

    held: Mapping[str, Optional[int]]

    @classmethod
    def from_json(cls, value: Any, place: str) -> "Rows":
        """From JSON. DecodeError: a row is missing, or is no number."""
        table = mapping(value, place)
        for row in cls.KIND:
            here = f"{place}.{row.name}" if place else row.name
            if row.name not in table:
                raise DecodeError(f"{here} is missing")
            if table[row.name] is not None and type(table[row.name]) is not int:
                raise DecodeError(f"{here} is no number of bytes")
        return cls({row.name: table[row.name] for row in cls.KIND})

    def __getitem__(self, name: str) -> Optional[int]:
        """The bytes in a row."""
        return self.held[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the rows, in the table's order."""
        return iter(self.held)

    def values(self) -> tuple[Optional[int], ...]:
        """The bytes in each row, in the table's order."""
        return tuple(self.held.values())


class Ledger(Rows):
    """The rows that are parts of Rss."""

    KIND = rows.RESIDENT


class Absent(Rows):
    """What is malloc's and not resident."""

    KIND = rows.ABSENT


class Forecast(Rows):
    """What a trim would return."""

    KIND = rows.FORECAST


class Beside(Rows):
    """What is counted apart from Rss; in JSON, keys beside the ledger."""

    KIND = rows.BESIDE
    INLINE = True


@dataclass(frozen=True)
class Sums:
    """Sums of the ledger's rows, by arenadump."""

    resident: Optional[int]
    known: Optional[int]
    used: Optional[int]
    cached: Optional[int]
    scattered: Optional[int]
    free_pages: Optional[int]
    free: Optional[int]
    not_malloc: Optional[int]
    deep_trim_adds: Optional[int]


@dataclass(frozen=True)
class Tally:
    """Chunks of one kind, resident or not."""

    count: Optional[int]
    bytes: Optional[int]


@dataclass(frozen=True)
class Tallies:
    """All chunks, by what they are."""

    in_use: Tally
    tcache: Tally
    fastbin: Tally
    binned: Tally
    top: Tally
    mmapped: Tally

    def items(self) -> tuple[tuple[str, Tally], ...]:
        """The kinds by name, in the schema's order."""
        return tuple((field.name, getattr(self, field.name)) for field in fields(self))


@dataclass(frozen=True)
class Target:
    """What was looked at."""

    kind: str
    dump_of: Optional[str]
    pid: Optional[int]
    comm: str
    exe: Optional[str]
    cmdline: Optional[str]
    page_size: int
    threads: int


@dataclass(frozen=True)
class NotGlibc:
    """What it means for the summary that malloc() is not glibc's, in words."""

    says: str
    memory: str
    meanings: dict[str, str]  # of rows that mean something else then, by name


@dataclass(frozen=True)
class Allocator:
    """Who answers malloc(), and how its structures were found."""

    malloc: str
    detail: Optional[str]
    glibc: Optional[str]
    layout_source: Optional[str]
    not_glibc: Optional[NotGlibc]

    @property
    def is_glibc(self) -> bool:
        """Whether malloc() is glibc's."""
        return self.not_glibc is None

    def meaning(self, row: rows.Row) -> str:
        """What is in a row, for people."""
        return (self.not_glibc.meanings if self.not_glibc else {}).get(row.name, row.meaning)


@dataclass(frozen=True)
class Snapshot:
    """How the look was taken, and what that means for its numbers."""

    mode: str
    pause_ms: Optional[float]
    read_ms: Optional[float]
    torn_chunks: Optional[int]
    time: Optional[str]
    exact: bool
    residency_known: bool


@dataclass(frozen=True)
class Kernel:
    """What the kernel counts of the process."""

    rss: Optional[int]
    swap: Optional[int]
    hugetlb: Optional[int]


@dataclass(frozen=True)
class Thread:
    """A thread that allocates from an arena."""

    tid: int
    name: str
    tcache_count: Optional[int]
    tcache_bytes: Optional[int]


@dataclass(frozen=True)
class Arena:
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
    ledger: Ledger
    sums: Sums
    chunks: Tallies


@dataclass(frozen=True)
class Tunables:
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


@dataclass(frozen=True)
class Malloc:
    """A malloc of glibc's: a process may have several."""

    path: Optional[str]
    tunables: Tunables


@dataclass(frozen=True)
class Pin:
    """Chunks in use of one size that keep free memory resident."""

    chunk_size: Optional[int]  # null of a forged dump only
    count: Optional[int]
    pages: Optional[int]
    stranded: Optional[int]
    tails: Optional[int]
    tail_bytes: Optional[int]
    in_use: Optional[int]


@dataclass(frozen=True)
class ByChunks:
    """Pages with stranded bytes and so many chunks in use: from this number to the next class's."""

    chunks_from: int
    pages: Optional[int]
    in_use: Optional[int]
    stranded: Optional[int]


@dataclass(frozen=True)
class ByShare:
    """Pages with stranded bytes of which such a part is in use: from so many eighths to one more."""

    eighths_from: int
    pages: Optional[int]
    in_use: Optional[int]
    stranded: Optional[int]


@dataclass(frozen=True)
class Sharer:
    """Chunks in use of one size that stand with others on pages with stranded bytes."""

    chunk_size: Optional[int]
    places: Optional[int]
    stranded: Optional[int]


@dataclass(frozen=True)
class StrandedPages:
    """How full the pages with stranded bytes are, and which sizes stand there together."""

    by_chunks: tuple[ByChunks, ...]
    by_share: tuple[ByShare, ...]
    shared: tuple[Sharer, ...]


@dataclass(frozen=True)
class Kept:
    """Pages with stranded bytes that only this keeps, and its part of those that others keep, too."""

    pages: int
    stranded: int
    part: int


@dataclass(frozen=True)
class HeldType:
    """The chunks in use of one type."""

    type: Optional[str]
    evidence: Optional[str]
    count: int
    bytes: int
    retained: int
    kept: Kept


@dataclass(frozen=True)
class HeldBy:
    """What would be free without one owner. Of kind "several": what no owner alone holds."""

    owner: Owner
    retained: int
    kept: Kept


@dataclass(frozen=True)
class Keeper:
    """The chunks of one type that one owner holds."""

    type: Optional[str]
    owner: Optional[Owner]
    count: int
    bytes: int
    kept: Kept


@dataclass(frozen=True)
class HeldGraph:
    """Who holds the chunks in use: what holds most."""

    exact: bool
    chunks: int
    bytes: int
    objects: Sum  # of these, what is no chunk of malloc's
    typed: int
    reached: int
    unreached: int
    direct: Sum
    indirect: Sum
    suspects: Sum
    types: tuple[HeldType, ...]
    owners: tuple[HeldBy, ...]
    several: Several
    keepers: tuple[Keeper, ...]


@dataclass(frozen=True)
class Slots:
    """Pages of Ruby's own heap with slots of one size."""

    slot_size: int
    pages: int
    slots: int
    free_slots: int


@dataclass(frozen=True)
class ObjectType:
    """A runtime's objects of one type. Bytes are those of whole blocks and chunks."""

    name: Optional[str]
    address: Optional[str]
    count: int
    tracked: int
    bytes: int
    owned: int
    in_malloc: int


@dataclass(frozen=True)
class ObjectClass:
    """A Ruby's objects of one class that have one type."""

    name: Optional[str]
    kind: Optional[str]
    type: Optional[str]
    address: Optional[str]
    count: int
    bytes: int
    owned: int
    not_marked: Optional[int]
    not_marked_bytes: Optional[int]

    @property
    def title(self) -> str:
        """What to call it."""
        without = {
            "anonymous": "(class without a name)",
            "singleton": "(singleton classes)",
            "internal": "(Ruby's own)",
        }
        return self.name or without.get(self.kind or "", "(unknown)")


@dataclass(frozen=True)
class Objects:
    """A runtime's objects by type, largest first, and what is in blocks that no object owns; a Ruby's by class, too."""

    exact: bool
    other_blocks: int
    other_bytes: int
    types: tuple[ObjectType, ...]
    not_marked: Optional[int]
    not_marked_bytes: Optional[int]
    classes: Optional[tuple[ObjectClass, ...]]


@dataclass(frozen=True)
class Ruby:
    """Ruby's own heap."""

    releases: Optional[str]
    pages: int
    slots: int
    free_slots: int
    slot_sizes: tuple[Slots, ...]
    objects: Optional[Objects]


@dataclass(frozen=True)
class SizeClass:
    """The blocks of one size that a runtime has."""

    size: int
    pools: int
    in_use: int
    free: int


@dataclass(frozen=True)
class Space:
    """A part of a runtime's heap, as the runtime counts it."""

    name: Optional[str]
    used: Optional[int]
    committed: Optional[int]


@dataclass(frozen=True)
class Runtime:
    """A part of a runtime's own memory, but Ruby's. Bytes are None where it was not found, or does not tell them."""

    runtime: Optional[str]
    part: Optional[str]
    releases: Optional[str]
    row: Optional[str]
    found: bool
    evidence: Optional[str]
    region_size: Optional[int]
    pool_size: Optional[int]
    regions: Optional[int]
    size: Optional[int]
    resident: Optional[int]
    used: Optional[int]
    committed: Optional[int]
    in_use: Optional[int]
    free: Optional[int]
    empty: Optional[int]
    empty_resident: Optional[int]
    size_classes: tuple[SizeClass, ...]
    spaces: tuple[Space, ...]
    objects: Optional[Objects]


@dataclass(frozen=True)
class ChunkSize:
    """Chunks in use of one size."""

    chunk_size: int
    count: int
    bytes: int


@dataclass(frozen=True)
class Releasable:
    """Where the pages lie that malloc_trim(0) returns."""

    end: Optional[int]  # bytes at the end of a main arena's heap: its top
    below: Optional[int]  # bytes between what is in use
    arenas: Optional[int]  # that have pages of the second kind


@dataclass(frozen=True)
class AnonymousMapping:
    """Anonymous memory, but for what of it is malloc's or in a runtime's row."""

    address: Optional[str]
    size: int
    resident: Optional[int]
    bytes: Optional[int]
    row: str
    protection: str
    name: Optional[str]
    may_be: Optional[str]
    evidence: Optional[str]


@dataclass(frozen=True)
class AnonymousMemory:
    """The largest anonymous mappings, and the sum of the others."""

    largest: tuple[AnonymousMapping, ...]
    rest: Tally
    copies_of_files: Optional[int]


@dataclass(frozen=True)
class MappedFile:
    """All mappings of a file, or of shared memory of one name, but for what of them is malloc's."""

    name: Optional[str]
    row: str
    count: int
    bytes: Optional[int]

    @property
    def title(self) -> str:
        """What to call it: the kernel names shared anonymous memory after a file that was never there."""
        return ANONYMOUS_SHARED if self.name in {None, "/dev/zero (deleted)"} else str(self.name)


@dataclass(frozen=True)
class MappedFiles:
    """The largest by name, and the sum of the others."""

    largest: tuple[MappedFile, ...]
    rest: Tally


@dataclass(frozen=True)
class Mappings:
    """What is resident besides malloc's memory, the runtimes' heaps and stacks."""

    anonymous: AnonymousMemory
    files: MappedFiles


@dataclass(frozen=True)
class Doubt:
    """A warning: what limits the trust in the numbers, or a note."""

    code: str
    text: str


@dataclass(frozen=True)
class Summary:
    """All of it."""

    target: Target
    allocator: Allocator
    snapshot: Snapshot
    kernel: Kernel
    ledger: Ledger
    absent: Absent
    forecast: Forecast
    beside: Beside
    sums: Sums
    chunks: Tallies
    largest_sizes: tuple[ChunkSize, ...]
    largest_mmapped: Optional[int]
    releasable: Releasable
    arenas: tuple[Arena, ...]
    tunables: Tunables
    mallocs: tuple[Malloc, ...]
    pins: tuple[Pin, ...]
    stranded_pages: Optional[StrandedPages]
    graph: Optional[HeldGraph]
    ruby: Optional[Ruby]
    runtimes: tuple[Runtime, ...]
    mappings: Mappings
    warnings: tuple[Doubt, ...]


def objects_by_type(summary: Summary) -> list[tuple[str, Objects]]:
    """The objects of each runtime that were counted, with whose they are: "Python's", "Ruby's"."""
    found = [("Python's", runtime.objects) for runtime in summary.runtimes if runtime.objects]
    if summary.ruby and summary.ruby.objects:
        found.append(("Ruby's", summary.ruby.objects))
    return found


def printed(target: str, options: Sequence[str] = ()) -> str:
    """What arenadump prints of a target, a PID, a core or a dump file: JSON. `options` are its own ("--mode=live")."""
    return run_arenadump(["summary", "--json", *options, "--", target])


def parse(text: str) -> Summary:
    """What arenadump printed. ArenascopeError INTERNAL where that is no such summary."""
    return answer(Summary, document(text, SCHEMA), SCHEMA)


def document_of(dump: "Dump", *, from_dump: bool = True) -> dict[str, Any]:
    """The summary of a dump as arenadump prints it, whole.

    `from_dump`: the target that was named is a dump file, not what was dumped just now.
    """
    # By its descriptor: the file may have no name any more, or another file its name.
    name = f"/proc/self/fd/{dump.descriptor}"
    made = document(run_arenadump(["summary", "--json", "--", name], descriptors=(dump.descriptor,)), SCHEMA)
    if not from_dump:
        answer(Summary, made, SCHEMA)  # is it one?
        made["target"] |= {"kind": made["target"]["dump_of"], "dump_of": None}
    return made


def summarize(dump: "Dump", *, from_dump: bool = True) -> Summary:
    """The summary of a dump. `from_dump`: as document_of() has it."""
    return answer(Summary, document_of(dump, from_dump=from_dump), SCHEMA)
