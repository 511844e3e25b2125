# SPDX-License-Identifier: MIT
"""The page's tables, as values for the template: of one dump, or of two side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from arenascope import format as fmt
from arenascope.known import by_chunks, cells_of, total
from arenascope.report.words import TUNABLES
from arenascope.rows import ABSENT, BAR, BESIDE, RESIDENT, meaning_of
from arenascope.text import count, printable, share, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.report import figures
    from arenascope.report.facts import Facts
    from arenascope.report.regions import Regions

Json = dict[str, Any]

SHOWN_ARENAS: Final = 200
SHOWN_PINS: Final = 24
SHOWN_THREADS: Final = 4


class Amount(NamedTuple):
    """A number of bytes, exact and as shown."""

    exact: int | None
    shown: str
    share: str  # of the whole


def amount(exact: int | None, whole: int = 0) -> Amount:
    """A number of bytes beside the whole that it is a part of; `whole` 0: of nothing."""
    return Amount(exact, size(exact), share(exact, whole))


def change(held: Sequence[int | None]) -> Json | None:
    """The difference of the last from the first, with a sign. None of one number alone; unknown of an unknown one."""
    if len(held) == 1:
        return None
    first, last = held[0], held[-1]
    if first is None or last is None:
        return {"exact": None, "shown": "unknown"}
    sign = "+" if last > first else "\N{MINUS SIGN}" if last < first else ""
    return {"exact": last - first, "shown": f"{sign}{size(abs(last - first))}"}


def bars(facts: list[Facts]) -> list[list[Json]]:
    """The ledger's rows side by side: offsets and widths in per cent, of the same length for the same bytes."""
    lengths = [sum(fact.row(row.name) or 0 for row in RESIDENT) for fact in facts]
    return [_bar(fact, own, max([*lengths, 1])) for fact, own in zip(facts, lengths)]


def _bar(facts: Facts, own: int, whole: int) -> list[Json]:
    parts, behind = [], 0
    for row in BAR:
        held = facts.row(row.name)
        if held:
            title = f"{row.title}: {size(held)}, {share(held, own)}"
            parts.append({"row": row, "x": 100 * behind / whole, "width": 100 * held / whole, "title": title})
            behind += held
    return parts


def ledger(facts: list[Facts]) -> list[Json]:
    """The rows in which something is, largest first; what is not known comes last, lest it look like the largest."""
    table = []
    for row in RESIDENT:
        held = [fact.row(row.name) for fact in facts]
        if any(number != 0 for number in held):
            amounts = [amount(number, fact.whole) for number, fact in zip(held, facts)]
            says = meaning_of(row, facts[-1].summary["allocator"]["malloc"])
            table.append({"row": row, "meaning": says, "amounts": amounts, "change": change(held)})
    return sorted(table, key=lambda line: -max((a.exact if a.exact is not None else -1) for a in line["amounts"]))


def absent(facts: list[Facts]) -> list[Json]:
    """What malloc has beside Rss."""
    lines = []
    for row in (*ABSENT, *BESIDE):
        held = [fact.summary["absent"][row.name] if row in ABSENT else fact.summary[row.name] for fact in facts]
        if any(held) or None in held:
            amounts = [amount(number) for number in held]
            lines.append({"row": row, "amounts": amounts, "change": change(held)})
    return lines


def chunks(facts: list[Facts]) -> list[Json]:
    """All chunks, resident or not, by what they are: what there is to say where residency is not known."""
    lines = []
    for name in facts[0].summary["chunks"]:
        tallies = [fact.summary["chunks"][name] for fact in facts]
        amounts = [(count(tally["count"]), amount(tally["bytes"])) for tally in tallies]
        lines.append({"name": name.replace("_", " "), "amounts": amounts})
    return lines


def address_of(arena: Json) -> int:
    """An arena's address as the dump has it."""
    return fmt.UNKNOWN if arena["address"] is None else int(arena["address"], 16)


# How the resident rows of an arena are drawn, from left to right. Of chunks nothing is: they need not be resident.
PARTS: Final = {
    "in use": "used",
    "cached": "cached",
    "stranded": "stranded",
    "releasable": "releasable",
    "withheld": "withheld",
}


def arena_columns(facts: Facts) -> list[str]:
    """The columns of the table of arenas: the rows in the order in which they are drawn, or the chunks."""
    titles = list(cells_of(facts.summary, facts.summary["arenas"][0]).held) if facts.summary["arenas"] else []
    return titles if by_chunks(facts.summary) else list(PARTS)


def arenas(facts: Facts, laid: Regions, names: dict[int, str]) -> list[Json]:
    """The arenas that hold most free memory, most first."""
    lines = []
    for arena in facts.summary["arenas"]:
        held, address = arena["ledger"], address_of(arena)
        cells = cells_of(facts.summary, arena)
        lines.append(
            {
                "index": laid.arenas.index(address),
                "name": names[address],
                "address": arena["address"],
                "heaps": arena["heaps"],
                "threads": threads_of(arena),
                "cells": [amount(cells.held[title]) for title in arena_columns(facts)],
                "free": amount(total(cells.held[title] for title in cells.free)),
                "ruby": amount(held["ruby_pages"]),
                "parts": [
                    ("ruby", held["ruby_pages"]),
                    *((colour, cells.held[title]) for title, colour in PARTS.items()),
                ]
                if not by_chunks(facts.summary)
                else [],
                "notes": [note for note in ("corrupt", "locked") if arena[note]],
            }
        )
    lines.sort(key=lambda line: -1 if line["free"].exact is None else line["free"].exact, reverse=True)
    del lines[SHOWN_ARENAS:]
    largest = max((sum(held or 0 for _, held in line["parts"]) for line in lines), default=0) or 1
    for line in lines:
        behind, drawn = 0.0, []
        for colour, held in line["parts"]:
            width = 100 * (held or 0) / largest
            drawn.append({"colour": colour, "x": behind, "width": width})
            behind += width
        line["parts"] = [part for part in drawn if part["width"]]
    return lines


def threads_of(arena: Json) -> str:
    """The threads that use an arena, by name."""
    named = [f"{printable(thread['name']) or 'thread'} {thread['tid']}" for thread in arena["threads"][:SHOWN_THREADS]]
    if len(arena["threads"]) > SHOWN_THREADS:
        named.append(f"{len(arena['threads']) - SHOWN_THREADS} more")
    nobody = arena["attached_threads"] == 0 and not arena["main"]
    return ", ".join(named) or ("no thread" if nobody else "not found")


def histogram(of: figures.Histogram) -> Json:
    """A chart's numbers."""
    return {
        "columns": list(of.series),
        "rows": [(size(bound), [amount(cell) for cell in cells]) for bound, cells in of.rows()],
    }


def pins(facts: Facts, on_map: list[int]) -> list[Json]:
    """What keeps free memory, by chunk size; `on_map`: the sizes whose pages the map can light up."""
    shown = set(on_map)
    return [
        {
            "size": pin["chunk_size"],
            "count": pin["count"],
            "pages": pin["pages"],
            "stranded": amount(pin["stranded"]),
            "tails": pin["tails"],
            "tail_bytes": amount(pin["tail_bytes"]),
            "in_use": pin["in_use"],
            "on_map": pin["chunk_size"] in shown,
        }
        for pin in facts.summary["pins"][:SHOWN_PINS]
    ]


def tunables(facts: Facts) -> Json:
    """Every malloc's tunables: a column for each malloc, a line for each that any of them has."""
    mallocs = facts.summary["mallocs"]
    lines = []
    for name, (kind, meaning) in TUNABLES.items():
        values = [malloc["tunables"][name] for malloc in mallocs]
        if any(value is not None for value in values):
            cells = [_tunable(value, kind) for value in values]
            lines.append({"name": name, "cells": cells, "meaning": meaning})
    titles = [printable(malloc["path"] or "") or f"malloc {index + 1}" for index, malloc in enumerate(mallocs)]
    return {"titles": titles if len(titles) > 1 else ["value"], "lines": lines}


def _tunable(value: int | None, kind: str) -> str:
    if value is None:
        return "\N{EN DASH}"
    return size(value) if kind == "bytes" and value else count(value)
