# SPDX-License-Identifier: MIT
"""What is known where a snapshot does not know all (a core): what shares are of, and what there is to say of an arena.

The terminal and the page both ask here. Sums of the ledger's rows are arenadump's (Summary.sums).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.rows import RESIDENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from arenascope.wire.summary import Summary
    from arenascope.wire.summary.heaps import Arena


SHORT: Final = {
    "in use": ("HELD",),
    "cached": ("CACHED",),
    "stranded": ("STRANDED",),
    "releasable": ("RELEASABLE",),
    "withheld": ("WITHHELD",),
    "other": ("OVERHEAD", "OTHER", "UNKNOWN"),
}
"""The ledger in six columns, which add up to Rss: groups of its rows."""


def shortened(held: Mapping[str, int | None]) -> dict[str, int | None]:
    """The bytes in each of these columns, of the bytes in each row."""
    return {
        title: total(held.get(row.name) for row in RESIDENT if row.group in groups) for title, groups in SHORT.items()
    }


class Whole(NamedTuple):
    """What shares are of, in bytes, and how their column is called."""

    bytes: int
    title: str


def whole_of(summary: Summary) -> Whole:
    """Rss; where it is not known, the sum of the ledger's rows that are."""
    if summary.kernel.rss is not None:
        return Whole(summary.kernel.rss, "of Rss")
    return Whole(summary.sums.known or 0, "of known")


class ArenaCells(NamedTuple):
    """What is shown of an arena: bytes by column, in the table's order; and how many the application has freed."""

    held: dict[str, int | None]
    free: int | None


def cells_of(summary: Summary, arena: Arena) -> ArenaCells:
    """The resident rows of an arena; where no arena's are known (gcore), its chunks, in memory or not."""
    if by_chunks(summary):
        chunks = arena.chunks
        cached = total((chunks.tcache.bytes, chunks.fastbin.bytes))
        held = {
            "in use": chunks.in_use.bytes,
            "cached": cached,
            "in bins": chunks.binned.bytes,
            "top": chunks.top.bytes,
            "system_mem": arena.system_mem,
        }
        return ArenaCells(held, total((cached, chunks.binned.bytes, chunks.top.bytes)))
    held = {
        "in use": arena.ledger["in_use"],
        "cached": arena.sums.cached,
        **{name: arena.ledger[name] for name in ("releasable", "withheld", "stranded")},
    }
    return ArenaCells(held, arena.sums.free)


def by_chunks(summary: Summary) -> bool:
    """Whether residency is unknown of every arena, so that only chunks can be shown."""
    return not summary.snapshot.residency_known and all(arena.ledger["in_use"] is None for arena in summary.arenas)


def total(numbers: Iterable[int | None]) -> int | None:
    """A sum: unknown when a part of it is."""
    parts = list(numbers)
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)
