# SPDX-License-Identifier: MIT
"""Whose memory it is, and how it was inspected. Part of the schema "arenascope.summary/1"."""

from typing import Annotated, NamedTuple, Optional

from arenascope import rows
from arenascope.wire.json_types import Address, Duration, EnumNames, Mode, PageSize, Time, Unsigned

LayoutSource = Annotated[
    str,
    EnumNames("LayoutSource", but=("none",)),
    "How main_arena, mp_ and the structs' layout were found; always proven before use. null: no glibc malloc.",
]
GlibcVersion = Annotated[str, 'As glibc\'s own banner has it, such as "2.36". Reported, never relied upon.']


class Target(NamedTuple):
    """What was inspected."""

    # The kind of target of this command. A dump is an earlier snapshot.
    kind: Annotated[str, EnumNames("TargetKind", also=("dump",))]
    # The kind of target that the dump shows; null if kind is not "dump".
    dump_of: Optional[Annotated[str, EnumNames("TargetKind")]]
    pid: Optional[Unsigned]  # Process id in the inspector's PID namespace; for a core, the process id at the crash.
    comm: str  # The kernel's name of the process, up to 15 bytes.
    exe: Optional[str]  # Path of the executable.
    cmdline: Optional[str]  # The arguments, joined by spaces.
    arch: Optional[Annotated[str, EnumNames("Arch", but=("unknown",))]]
    page_size: PageSize
    threads: Unsigned  # How many threads the process has.


class NotGlibc(NamedTuple):
    """What it means for the summary that malloc() is not glibc's, in words."""

    says: str  # A clause that `detail` completes.
    memory: str  # In which rows the memory of that malloc is.
    meanings: dict[str, str]  # By name, the rows of the ledger that mean something else then, and what.


class Allocator(NamedTuple):
    """Who answers malloc(), and how its structures were found."""

    # The library that answers malloc() in this process. If it is not glibc, the memory in glibc's arenas is shown
    # nevertheless.
    malloc: Annotated[str, EnumNames("MallocKind")]
    detail: Optional[str]  # The evidence for `malloc`, or the attempts, in words.
    glibc: Optional[GlibcVersion]
    layout_source: Optional[LayoutSource]
    layout_versions: Optional[str]  # The releases of glibc that have the layout used, such as "2.27-2.34".
    main_arena: Optional[Address]  # Address of main_arena in the target.
    mp: Optional[Address]  # Address of mp_ (struct malloc_par) in the target.
    heap_max_size: Optional[Unsigned]  # HEAP_MAX_SIZE: the maximum size of a heap of a thread arena.
    # What it means for this summary that malloc() is not glibc's, in words. null: it is glibc's.
    not_glibc: Optional[NotGlibc]

    @property
    def is_glibc(self) -> bool:
        """Whether malloc() is glibc's."""
        return self.not_glibc is None

    def meaning(self, row: rows.Row) -> str:
        """What is in a row, for people."""
        return (self.not_glibc.meanings if self.not_glibc else {}).get(row.name, row.meaning)


class Consistency(NamedTuple):
    """How the snapshot was taken, and what that means for its numbers."""

    mode: Mode
    pause_ms: Optional[Duration]  # How long the target stood still, in milliseconds.
    read_ms: Optional[Duration]  # How long the reading took, in milliseconds.
    # Number of chunks with impossible headers; the skipped bytes are in the row `unknown`.
    torn_chunks: Optional[Unsigned]
    time: Optional[Time]
    # True: the target stood still, no chunk was torn and no warning concerns a number; the rows sum to kernel.rss to
    # the byte.
    exact: bool
    # False: it is unknown which pages are resident (a core by gcore), and the rows that depend on it are null.
    residency_known: bool


class Kernel(NamedTuple):
    """What the kernel counts of the process."""

    rss: Optional[Unsigned]  # Resident bytes by the process's page tables (smaps), which statm and ps only approximate.
    swap: Optional[Unsigned]  # Swapped bytes by the process's page tables (smaps).
    # Bytes of hugetlb pages (smaps Private_Hugetlb and Shared_Hugetlb), which are never part of rss.
    hugetlb: Optional[Unsigned]


class Doubt(NamedTuple):
    """A warning: what limits the trust in the numbers, or a note."""

    # note: concerns no number. corrupt: the walk could not continue at a chunk. residency: unknown for some or all
    # pages. tcache: the tcache of a thread was not found. mmapped: the mmapped chunks found differ from mp_'s count.
    # sum: the rows do not add up to Rss. locked: an arena was locked. allocator: another malloc answers malloc().
    # layout: no layout could be proven. estimated: a number is right only under an assumption that the text names.
    code: Annotated[str, EnumNames("WarningCode")]
    text: str
    arena: Optional[Address]  # Address of the arena that the warning concerns.
    heap: Optional[Address]  # Start of the heap that the warning concerns.
    address: Optional[Address]  # Address that the warning concerns.
