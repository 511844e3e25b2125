# SPDX-License-Identifier: MIT
"""A comparison as JSON, schema "arenascope.diff/1" (docs/diff.schema.json)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from arenascope import rows
from arenascope.humanize import plural, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.compare.changes import Comparison, Delta, Growing, PinnedPages
    from arenascope.compare.digest import Portion, Seen

    Json = dict[str, Any]

SCHEMA: Final = "arenascope.diff/1"


class _Teller:
    def __init__(self, comparison: Comparison) -> None:
        self.of = comparison

    def change(self, held: Delta | None) -> Json | None:
        if held is None:
            return None
        rate = self.of.per_minute(held)
        return {
            "before": held.before,
            "after": held.after,
            "change": held.change,
            "per_minute": None if rate is None else round(rate, 3),
        }

    def lines(self, lines: Sequence[Growing] | None) -> list[Json] | None:
        if lines is None:
            return None
        return [
            {
                "name": line.title,
                "status": line.status,
                "bytes": self.change(line.bytes),
                "count": self.change(line.count),
            }
            for line in lines
        ]

    def rows(self) -> list[Json]:
        return [
            {"name": line.title, "kind": rows.BY_NAME[line.title].kind.lower(), "bytes": self.change(line.bytes)}
            for line in self.of.rows
        ]

    def arenas(self) -> list[Json]:
        return [
            {
                "name": arena.title,
                "address": f"{arena.address:#x}",
                "status": arena.status,
                "resident": self.change(arena.bytes),
                "in_use": self.change(arena.in_use),
                "chunks": self.change(arena.count),
                "rows": {name: self.change(each) for name, each in arena.rows.items()},
            }
            for arena in self.of.arenas
        ]

    def sizes(self) -> list[Json]:
        return [
            {
                "chunk_size": line.key,
                "status": line.status,
                "bytes": self.change(line.bytes),
                "count": self.change(line.count),
            }
            for line in self.of.sizes
        ]

    def pins(self) -> list[Json]:
        return [
            {
                "chunk_size": pin.chunk_size,
                "status": pin.line.status,
                "count": self.change(pin.count),
                "pages": self.change(pin.pages),
                "stranded": self.change(pin.stranded),
            }
            for pin in self.of.pins
        ]


def to_json(comparison: Comparison) -> Json:
    """The whole comparison."""
    teller = _Teller(comparison)
    return {
        "schema": SCHEMA,
        "before": _who(comparison.before),
        "after": _who(comparison.after),
        "same_process": comparison.same_process,
        "elapsed_s": comparison.elapsed_s,
        "notes": [note._asdict() for note in comparison.notes],
        "rss": teller.change(comparison.rss),
        "swap": teller.change(comparison.swap),
        "rows": teller.rows(),
        "chunks": [
            {"name": line.title, "bytes": teller.change(line.bytes), "count": teller.change(line.count)}
            for line in comparison.chunks
        ],
        "arenas": teller.arenas(),
        "sizes": teller.sizes(),
        "pins": teller.pins(),
        "pinned_pages": _pinned(comparison.pinned_pages),
        "types": teller.lines(comparison.types),
        "owners": teller.lines(comparison.owners),
        "leaks": teller.lines(comparison.leaks),
        "objects": teller.lines(comparison.objects),
        "classes": teller.lines(comparison.classes),
        "sites": teller.lines(comparison.sites),
    }


def pinned_words(pages: PinnedPages) -> str:
    """The pinned pages in a sentence."""

    def words(held: Portion) -> str:
        return plural(held.count, "page") + (f" with {size(held.bytes)} stranded" if held.bytes is not None else "")

    if [each.count for each in (pages.stayed, pages.came, pages.went)] == [0, 0, 0]:
        return "No page is kept by one chunk alone, at either time."
    return (
        f"{words(pages.stayed)} {'was' if pages.stayed.count == 1 else 'were'} kept by one chunk in use alone at both "
        f"times; {words(pages.came)} came, {words(pages.went)} went."
    )


def _who(who: Seen) -> Json:
    names = ("kind", "pid", "comm", "exe", "malloc", "glibc", "page_size", "mode", "exact", "residency_known", "time")
    return {name: getattr(who, name) for name in names}


def _pinned(pages: PinnedPages | None) -> Json | None:
    def of(held: Portion) -> Json:
        return {"pages": held.count, "stranded": held.bytes}

    return None if pages is None else {"came": of(pages.came), "stayed": of(pages.stayed), "went": of(pages.went)}
