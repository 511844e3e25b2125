# SPDX-License-Identifier: MIT
"""What is known where a look does not know all (a core): what shares are of, and what there is to say of an arena.

The terminal and the page both ask here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

CACHED: Final = ("tcache", "fastbin")


class Whole(NamedTuple):
    """What shares are of, in bytes, and how their column is called."""

    bytes: int
    title: str


def whole_of(summary: Json) -> Whole:
    """Rss; where it is not known, the sum of the ledger's rows that are."""
    rss = summary["kernel"]["rss"]
    if rss is not None:
        return Whole(rss, "of Rss")
    return Whole(sum(held for held in summary["ledger"].values() if held is not None), "of known")


class ArenaCells(NamedTuple):
    """What is shown of an arena: bytes by column, in the table's order; and which of them the application has freed."""

    held: dict[str, int | None]
    free: tuple[str, ...]


def cells_of(summary: Json, arena: Json) -> ArenaCells:
    """The resident rows of an arena; where no arena's are known (gcore), its chunks, in memory or not."""
    if by_chunks(summary):
        tally = {name: each["bytes"] for name, each in arena["chunks"].items()}
        held = {
            "in use": tally["in_use"],
            "cached": total(tally[name] for name in CACHED),
            "in bins": tally["binned"],
            "top": tally["top"],
            "system_mem": arena["system_mem"],
        }
        return ArenaCells(held, ("cached", "in bins", "top"))
    ledger = arena["ledger"]
    held = {
        "in use": ledger["in_use"],
        "cached": total(ledger[name] for name in CACHED),
        **{name: ledger[name] for name in ("releasable", "withheld", "stranded")},
    }
    return ArenaCells(held, ("cached", "releasable", "withheld", "stranded"))


def arena_names(mains: list[bool]) -> list[str]:
    """What each arena is called on every surface, given which ones are main arenas, in the order of the dump.

    "main arena" (with several libcs "main arena 2"), or "arena 3" by its place among all. inspector/model/view.c does
    the same for the C program.
    """
    names, main = [], 0
    for index, is_main in enumerate(mains):
        main += is_main
        names.append(f"arena {index}" if not is_main else "main arena" if sum(mains) == 1 else f"main arena {main}")
    return names


def by_chunks(summary: Json) -> bool:
    """Whether residency is unknown of every arena, so that only chunks can be shown."""
    return not summary["snapshot"]["residency_known"] and all(
        arena["ledger"]["in_use"] is None for arena in summary["arenas"]
    )


def total(numbers: Iterable[int | None]) -> int | None:
    """A sum: unknown when a part of it is."""
    parts = list(numbers)
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)
