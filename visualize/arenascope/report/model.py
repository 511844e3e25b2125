# SPDX-License-Identifier: MIT
"""Everything that the page says, as plain values for the template: made from one dump, or from two of one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup

from arenascope import __version__
from arenascope.errors import ArenascopeError, Code
from arenascope.report import charts, figures
from arenascope.report.colours import BACKGROUND, LOOKS, Colour
from arenascope.report.compare import changes
from arenascope.report.facts import Facts
from arenascope.report.pages import Block, DumpPages, map_blocks
from arenascope.report.regions import NO_ARENA, Regions, arena_names, regions
from arenascope.report.rules import FREE_ROWS, Verdict, judge
from arenascope.report.words import ABSENT, LAYOUTS, MODES, ROWS, TUNABLES
from arenascope.text import count, duration, plural, printable, share, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.capture import Look

Json = dict[str, Any]

SHOWN_PINS: Final = 24
SHOWN_MAPPINGS: Final = 12
SHOWN_WARNINGS: Final = 50
SHOWN_THREADS: Final = 4
MAIN_COLUMNS: Final = ("in_use", "cached", "stranded", "releasable", "withheld")


class Amount(NamedTuple):
    """A number of bytes, exact and as shown."""

    exact: int | None
    shown: str
    share: str  # of the whole
    part: float  # of the whole, 0 to 1


class Page(NamedTuple):
    """What the template gets."""

    values: Json
    blocks: list[Block]
    script: Json  # what the map's script is told


def build(looks: Sequence[Look]) -> Page:
    """The page of one look, or of two: before and after."""
    facts = [Facts(look.dump, from_dump=look.from_dump) for look in looks]
    dumps = [look.dump for look in looks]
    sizes = {int(dump.meta["page_size"]) for dump in dumps}
    if len(sizes) > 1:
        raise ArenascopeError(Code.BAD_INPUT, f"pages of {sorted(sizes)} bytes: these two cannot be compared")
    laid = regions(dumps)
    now = facts[-1]
    page_size = now.summary["target"]["page_size"]
    blocks, told = map_blocks(dumps, laid, page_size)
    sides = [""] if len(looks) == 1 else ["before", "after"]
    names = arena_names(dumps[0]) | arena_names(dumps[-1])
    states = [DumpPages(dump, laid, index).states() for index, dump in enumerate(dumps)]
    values = {
        "version": __version__,
        "target": _target(now),
        "verdict": judge(now),
        "changes": changes(facts[0], now) if len(facts) > 1 else None,
        "sides": sides,
        "bars": [_bar(fact, max(_shown(each) for each in facts)) for fact in facts],
        "ledger": _ledger(facts),
        "known": any(held is not None for fact in facts for held in fact.summary["ledger"].values()),
        "chunks": _chunks(facts),
        "rss": [amount(fact.summary["kernel"]["rss"], 0) for fact in facts],
        "rss_change": change([fact.summary["kernel"]["rss"] for fact in facts]),
        "absent": _absent(facts),
        "arenas": _arenas(now, laid, names),
        "arena_sum": plural(len(now.summary["arenas"]), "arena"),
        "sizes": _sizes(now),
        "runs": _runs(states[-1], laid, page_size),
        "pins": _pins(now, told[-1]["pinSizes"]),
        "pin_count": len(now.summary["pins"]),
        "mappings": [(path, amount(rss, now.whole)) for path, rss in now.mappings[:SHOWN_MAPPINGS]],
        "mapping_count": len(now.mappings),
        "tunables": _tunables(now.summary["tunables"]),
        "trust": [_trust(fact) for fact in facts],
        "legend": _legend(states, page_size),
        "page_count": laid.total,
        "page_size": page_size,
        "map": told,
        "coarse": max((part["step"] for part in told), default=1) * 16,
    }
    script = {
        "pageSize": page_size,
        "total": laid.total,
        "background": BACKGROUND,
        "looks": {int(colour): look._asdict() for colour, look in LOOKS.items()},
        "arenas": [{"name": names[address], "threads": _threads_of(facts, address)} for address in laid.arenas],
        "idle": [laid.arenas.index(int(arena["address"], 16)) for arena in now.summary["arenas"] if _idle(arena)],
        "sides": sides,
        "dumps": told,
        "blocks": {block.name: block.layout for block in blocks},
    }
    return Page(values, blocks, script)


def amount(exact: int | None, whole: int) -> Amount:
    """A number of bytes beside the whole that it is a part of; `whole` 0: of nothing."""
    part = exact / whole if exact is not None and whole else 0.0
    return Amount(exact, size(exact), share(exact, whole), min(max(part, 0.0), 1.0))


def _target(facts: Facts) -> Json:
    target, allocator = facts.summary["target"], facts.summary["allocator"]
    malloc = allocator["malloc"]
    if malloc == "glibc" and allocator["glibc"]:
        malloc += f" {allocator['glibc']}"
    return {
        "name": printable(target["comm"]) or "a process",
        "pid": target["pid"],
        "command": printable(target["cmdline"] or target["exe"] or ""),
        "time": (facts.summary["snapshot"]["time"] or "")[:19].replace("T", " "),
        "threads": plural(target["threads"], "thread"),
        "malloc": printable(malloc),
        "core": "core" in {target["kind"], target["dump_of"]},
    }


def _shown(facts: Facts) -> int:
    """What the rows that are known add up to."""
    return sum(facts.row(row.name) or 0 for row in ROWS) or 1


def _bar(facts: Facts, whole: int) -> list[Json]:
    """The ledger's rows side by side: offsets and widths in per cent of `whole`, the same for two bars."""
    parts, behind, own = [], 0, _shown(facts)
    for row in ROWS:
        held = facts.row(row.name)
        if held:
            title = f"{row.title}: {size(held)}, {share(held, own)}"
            parts.append({"row": row, "x": 100 * behind / whole, "width": 100 * held / whole, "title": title})
            behind += held
    return parts


def _ledger(facts: list[Facts]) -> list[Json]:
    table = []
    for row in ROWS:
        held = [fact.row(row.name) for fact in facts]
        if any(number != 0 for number in held):
            amounts = [amount(number, fact.whole) for number, fact in zip(held, facts)]
            table.append({"row": row, "amounts": amounts, "change": change(held)})
    # Largest first; what is not known comes last, lest it look like the largest.
    return sorted(table, key=lambda line: -max((a.exact if a.exact is not None else -1) for a in line["amounts"]))


def _chunks(facts: list[Facts]) -> list[Json]:
    """All chunks, resident or not, by what they are: what there is to say where residency is not known."""
    lines = []
    for name in facts[0].summary["chunks"]:
        tallies = [fact.summary["chunks"][name] for fact in facts]
        amounts = [(count(tally["count"]), amount(tally["bytes"], 0)) for tally in tallies]
        lines.append({"name": name.replace("_", " "), "amounts": amounts})
    return lines


def change(held: Sequence[int | None]) -> Json | None:
    """The difference of the last from the first, with a sign. None of one number alone, or of an unknown one."""
    if len(held) == 1:
        return None
    first, last = held[0], held[-1]
    if first is None or last is None:
        return {"exact": None, "shown": "unknown"}
    sign = "+" if last > first else "\N{MINUS SIGN}" if last < first else ""
    return {"exact": last - first, "shown": f"{sign}{size(abs(last - first))}"}


def _absent(facts: list[Facts]) -> list[Json]:
    lines = []
    for name, (title, meaning) in ABSENT.items():
        held = [fact.summary["hugetlb"] if name == "hugetlb" else fact.summary["absent"][name] for fact in facts]
        if any(held) or None in held:
            amounts = [amount(number, 0) for number in held]
            lines.append({"name": name, "title": title, "meaning": meaning, "amounts": amounts, "change": change(held)})
    return lines


def _arenas(facts: Facts, laid: Regions, names: dict[int, str]) -> list[Json]:
    """Each arena; those that hold most free memory first."""
    lines = []
    for arena in facts.summary["arenas"]:
        ledger = arena["ledger"]
        address = int(arena["address"], 16)
        cached = None if None in (ledger["tcache"], ledger["fastbin"]) else ledger["tcache"] + ledger["fastbin"]
        cells = [ledger["in_use"], cached, ledger["stranded"], ledger["releasable"], ledger["withheld"]]
        free = [ledger[row] for row in FREE_ROWS]
        waste = None if None in free else sum(free)
        parts = list(zip(("used", "cached", "stranded", "releasable", "withheld"), cells))
        lines.append(
            {
                "index": laid.arenas.index(address),
                "name": names[address],
                "address": arena["address"],
                "heaps": arena["heaps"],
                "threads": threads_of(arena),
                "attached": arena["attached_threads"],
                "cells": [amount(cell, 0) for cell in cells],
                "waste": amount(waste, 0),
                "parts": parts,
                "notes": [note for note in ("corrupt", "locked") if arena[note]],
            }
        )
    lines.sort(key=lambda line: -1 if line["waste"].exact is None else line["waste"].exact, reverse=True)
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
    return ", ".join(named) or ("no thread" if _idle(arena) else "not found")


def _idle(arena: Json) -> bool:
    return not arena["main"] and arena["attached_threads"] == 0


def _threads_of(facts: list[Facts], address: int) -> str:
    for fact in reversed(facts):
        for arena in fact.summary["arenas"]:
            if int(arena["address"], 16) == address:
                return threads_of(arena)
    return ""


def _sizes(facts: Facts) -> Json | None:
    histogram = figures.by_chunk_size(facts.dump)
    if histogram is None:
        return None
    figure = charts.draw(histogram, "chunk size, from", apart="stranded by pins")
    title = "Bytes in use, cached and free, and stranded by pins, by chunk size. The table has the numbers."
    return {"svg": Markup(charts.for_page(figure, "sizes", title)), **_table(histogram)}  # noqa: S704 - all ours: numbers


def _runs(states: Any, laid: Regions, page_size: int) -> Json | None:
    histogram = figures.by_free_run(states, laid, page_size)
    if histogram is None:
        return None
    figure = charts.draw(histogram, "length of the run, from")
    title = "Bytes of free pages by the length of the run that they lie in. The table has the numbers."
    return {"svg": Markup(charts.for_page(figure, "runs", title)), **_table(histogram)}  # noqa: S704 - all ours: numbers


def _table(histogram: figures.Histogram) -> Json:
    return {
        "columns": list(histogram.series),
        "rows": [(size(bound), [amount(cell, 0) for cell in cells]) for bound, cells in histogram.rows()],
    }


def _pins(facts: Facts, on_map: list[int]) -> list[Json]:
    shown = set(on_map)
    return [
        {
            "size": pin["chunk_size"],
            "count": pin["count"],
            "pages": pin["pages"],
            "stranded": amount(pin["stranded"], 0),
            "tails": pin["tails"],
            "tail_bytes": amount(pin["tail_bytes"], 0),
            "in_use": pin["in_use"],
            "on_map": pin["chunk_size"] in shown,
        }
        for pin in facts.summary["pins"][:SHOWN_PINS]
    ]


def _tunables(tunables: Json) -> list[tuple[str, str, str]]:
    """Name, value, meaning; what this libc does not have is left out."""
    lines = []
    for name, (kind, meaning) in TUNABLES.items():
        value = tunables[name]
        if value is not None:
            lines.append((name, size(value) if kind == "bytes" and value else count(value), meaning))
    return lines


def _trust(facts: Facts) -> Json:
    snapshot, allocator = facts.summary["snapshot"], facts.summary["allocator"]
    pause, read = duration(snapshot["pause_ms"]), duration(snapshot["read_ms"])
    lines = [MODES[snapshot["mode"]].format(pause=pause, read=read)]
    if allocator["layout_source"]:
        lines.append(f"Malloc's structures were found {LAYOUTS[allocator['layout_source']]}, and proven on the memory.")
    else:
        lines.append("No layout of glibc's malloc could be proven.")
    if snapshot["exact"]:
        lines.append("Exact: nothing was torn, and the rows add up to the kernel's Rss to the byte.")
    else:
        torn = snapshot["torn_chunks"]
        lines.append(
            f"Not exact: {plural(torn, 'chunk')} torn." if torn else "Not exact: the rows need not add up to Rss."
        )
    if not snapshot["residency_known"]:
        lines.append("Which pages were resident is not wholly known.")
    warnings = facts.summary["warnings"]
    return {
        "lines": lines,
        "warnings": [(w["code"], printable(w["text"])) for w in warnings[:SHOWN_WARNINGS]],
        "more_warnings": max(len(warnings) - SHOWN_WARNINGS, 0),
    }


def _legend(states: list[Any], page_size: int) -> list[Json]:
    """The colours that there are on the map, with how many pages of each."""
    lines = []
    for colour, look in LOOKS.items():
        held = [int(((state & 0xF) == colour).sum()) for state in states]
        if any(held):
            amounts = [amount(pages * page_size, 0) for pages in held]
            lines.append(
                {"colour": int(colour), "key": colour.name.lower(), "look": look, "pages": held, "amounts": amounts}
            )
    return lines


__all__ = ["NO_ARENA", "Amount", "Colour", "Page", "Verdict", "amount", "build", "change"]
