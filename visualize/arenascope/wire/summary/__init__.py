# SPDX-License-Identifier: MIT
"""The summary of a target, schema "arenascope.summary/1" (docs/summary.schema.json): computed by arenadump alone.

What is not known is None. The schema says what each field means; the rows of a ledger are those of rows.py.
"""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Optional

from arenascope.version import version
from arenascope.wire.arenadump import run_arenadump
from arenascope.wire.json_decode import answer, document
from arenascope.wire.summary.heaps import (
    Arena,
    ByChunks,
    ByShare,
    ChunkSize,
    Malloc,
    Pin,
    Releasable,
    Sharer,
    StrandedPages,
    Tallies,
    Tally,
    Thread,
    Tunables,
)
from arenascope.wire.summary.ledger import Absent, Beside, Forecast, Resident, Rows, Sums
from arenascope.wire.summary.mappings import AnonymousMapping, AnonymousMemory, MappedFile, MappedFiles, Mappings
from arenascope.wire.summary.origin import Allocator, Consistency, Doubt, Kernel, NotGlibc, Target
from arenascope.wire.summary.retained import HeldBy, HeldGraph, HeldType, Pinned, PinnedBy
from arenascope.wire.summary.runtimes import ObjectClass, Objects, ObjectType, Ruby, Runtime, SizeClass, Slots, Space

if TYPE_CHECKING:
    from arenascope.wire.dump import Dump

__all__ = [
    "SCHEMA",
    "Absent",
    "Allocator",
    "AnonymousMapping",
    "AnonymousMemory",
    "Arena",
    "Beside",
    "ByChunks",
    "ByShare",
    "ChunkSize",
    "Consistency",
    "Doubt",
    "Forecast",
    "HeldBy",
    "HeldGraph",
    "HeldType",
    "Kernel",
    "Malloc",
    "MappedFile",
    "MappedFiles",
    "Mappings",
    "NotGlibc",
    "ObjectClass",
    "ObjectType",
    "Objects",
    "Pin",
    "Pinned",
    "PinnedBy",
    "Releasable",
    "Resident",
    "Rows",
    "Ruby",
    "Runtime",
    "Sharer",
    "SizeClass",
    "Slots",
    "Space",
    "StrandedPages",
    "Summary",
    "Sums",
    "Tallies",
    "Tally",
    "Target",
    "Thread",
    "Tunables",
    "document_of",
    "objects_by_type",
    "parse",
    "printed",
    "summarize",
]

SCHEMA: Final = "arenascope.summary/1"


class Summary(NamedTuple):
    """All of it."""

    target: Target
    allocator: Allocator
    snapshot: Consistency
    kernel: Kernel
    ledger: Resident
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
    """The summary that a dump has, whole. Of one that the agent or another version has written, arenadump makes it.

    `from_dump`: the target that was named is a dump file, not what was dumped just now.
    """
    text = dump.summary.tobytes().decode("utf-8", "replace")
    if not text or dump.string(dump.meta["tool_version"]) != version():
        # By its descriptor: the file may have no name any more, or another file its name.
        name = f"/proc/self/fd/{dump.descriptor}"
        text = run_arenadump(["summary", "--json", "--", name], descriptors=(dump.descriptor,))
    made = document(text, SCHEMA)
    kind = made["target"]["dump_of"] or made["target"]["kind"]
    made["target"] |= {"kind": "dump", "dump_of": kind} if from_dump else {"kind": kind, "dump_of": None}
    return made


def summarize(dump: "Dump", *, from_dump: bool = True) -> Summary:
    """The summary of a dump. `from_dump`: as document_of() has it."""
    return answer(Summary, document_of(dump, from_dump=from_dump), SCHEMA)
