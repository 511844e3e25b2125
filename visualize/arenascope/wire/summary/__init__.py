# SPDX-License-Identifier: MIT
"""The summary of a target, schema "arenascope.summary/1": computed by arenadump alone.

What is not known is None; the rows of a ledger are those of rows.py.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Optional

from arenascope.version import version
from arenascope.wire import commands
from arenascope.wire.json_decode import answer, document
from arenascope.wire.json_types import Bounds, Unsigned
from arenascope.wire.summary.findings import Finding, Judgement
from arenascope.wire.summary.heaps import Arena, ChunkSize, Malloc, Pin, Releasable, StrandedPages, Tallies, Tunables
from arenascope.wire.summary.ledger import Absent, Beside, Forecast, Resident, Sums
from arenascope.wire.summary.mappings import Mappings, OpenFiles, ThreadStacks
from arenascope.wire.summary.origin import Allocator, Consistency, Doubt, Kernel, Target
from arenascope.wire.summary.retained import HeldGraph
from arenascope.wire.summary.runtimes import Objects, Ruby, Runtime

if TYPE_CHECKING:
    from arenascope.wire.dump import Dump

SCHEMA: Final = "arenascope.summary/1"


class Summary(NamedTuple):
    """Where the memory of a process went, and what brings it back: `arenadump summary`, `arenascope summary`."""

    target: Target
    allocator: Allocator  # The program's own malloc: the first of `mallocs`.
    snapshot: Consistency
    kernel: Kernel
    ledger: Resident
    absent: Absent
    forecast: Forecast
    beside: Beside
    sums: Sums
    chunks: Tallies
    # The chunk sizes whose chunks in use, mmapped ones included, have the most bytes, resident or not; most first.
    largest_sizes: Annotated[tuple[ChunkSize, ...], Bounds(maxItems=10)]
    largest_mmapped: Optional[Unsigned]  # Size of the largest mapping that is one mmapped chunk; 0: there is none.
    # Where the pages lie that malloc_trim(0) would return. All are null if the forecast is unknown.
    releasable: Releasable
    # Every arena, in the order of malloc's list, which begins with the main arena. Mmapped chunks belong to no arena.
    arenas: tuple[Arena, ...]
    tunables: Tunables  # Tunables of the program's own malloc, with their present values.
    # Every glibc malloc found. With dlmopen or libc_malloc_debug.so there is more than one.
    mallocs: tuple[Malloc, ...]
    # Sizes of chunks in use that keep free memory from being returned; most bytes (stranded and tail_bytes) first.
    pins: tuple[Pin, ...]
    # The pages that have the bytes of the row stranded: how full they are, and which sizes of chunks stand there
    # together. The stranded bytes of by_chunks, and those of by_share, add up to the row. null: residency is not known.
    stranded_pages: Optional[StrandedPages]
    # Who holds the chunks in use (docs/owners.md), of a dump that was made with --graph. null: the snapshot has no
    # graph. Bytes are those of chunks, headers included.
    graph: Optional[HeldGraph]
    ruby: Optional[Ruby]  # Ruby's own heap. null: there is no Ruby, or its pages could not be proven.
    # The runtimes, Ruby excepted, that keep a heap of their own. Empty: none was recognised.
    runtimes: tuple[Runtime, ...]
    mappings: Mappings  # What is resident besides malloc's memory and the runtimes' heaps, except for stacks.
    # Files in memory beside the ledger. null: not known (a core, a dump by the agent or before 1.2).
    open_files: Optional[OpenFiles]
    stacks: Optional[ThreadStacks]  # null: no stack pointer is known (mode live, a dump before 1.3).
    warnings: tuple[Doubt, ...]  # Notes and warnings, in the order of their discovery.
    verdict: Judgement
    findings: tuple[Finding, ...]  # What holds the memory, in the order in which to read it.


def objects_by_type(summary: Summary) -> list[tuple[str, Objects]]:
    """The objects of each runtime that were counted, with whose they are: "Python's", "Ruby's"."""
    found = [("Python's", runtime.objects) for runtime in summary.runtimes if runtime.objects]
    if summary.ruby and summary.ruby.objects:
        found.append(("Ruby's", summary.ruby.objects))
    return found


def parse(text: str) -> Summary:
    """What arenadump printed. ArenascopeError INTERNAL where that is no such summary."""
    return answer(Summary, document(text, SCHEMA), SCHEMA)


def document_of(dump: "Dump", *, from_dump: bool = True) -> dict[str, Any]:
    """The summary that a dump has, whole. Of one that the agent or another version has written, arenadump makes it.

    `from_dump`: the target that was named is a dump file, not what was dumped just now.
    """
    text = dump.summary.tobytes().decode("utf-8", "replace")
    if not text or dump.string(dump.meta["tool_version"]) != version():
        # By its descriptor: the file may have no name any more, or another file its name.
        name = f"/proc/self/fd/{dump.descriptor}"
        text = commands.summary(name, descriptors=(dump.descriptor,))
    made = document(text, SCHEMA)
    kind = made["target"]["dump_of"] or made["target"]["kind"]
    made["target"] |= {"kind": "dump", "dump_of": kind} if from_dump else {"kind": kind, "dump_of": None}
    return made


def summarize(dump: "Dump", *, from_dump: bool = True) -> Summary:
    """The summary of a dump. `from_dump`: as document_of() has it."""
    return answer(Summary, document_of(dump, from_dump=from_dump), SCHEMA)
