# SPDX-License-Identifier: MIT
"""Ruby's own heap as a part of Rss: what its objects hold, what its free slots do, and what is not Ruby's at all.

What the article that began this drew first, for this process: is it Ruby's heap that is so large, its fragmentation,
or what malloc keeps beside it?
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.coverage import total
from arenascope.humanize import count, share, size
from arenascope.report.amounts import Amount, Change, amount, change
from arenascope.report.page.inputs import address_of
from arenascope.report.page.tables import BarPart, bar, threads_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.report.map.order import Regions
    from arenascope.report.page.inputs import PageFacts
    from arenascope.wire.summary.runtimes import Ruby, Slots

FREE: Final = 0.25  # of Rss: where less of it is free, the process is large because it uses so much
SHOWN_ARENAS: Final = 64


class Part(NamedTuple):
    """A part of Rss, and how chart and table show it."""

    name: str
    paint: str  # class of its colour in the style sheet; "" of a sum
    title: str
    meaning: str


OWN: Final = (  # both in the order of the bar
    Part("live", "ruby", "live objects", "slots with an object, dead since the last sweep or alive"),
    Part("free", "ruby-free", "free slots", "and the headers of the pages"),
    Part("unsplit", "ruby", "objects and free slots", "part of it is swapped out, and it is unknown which part"),
)
REST: Final = (
    Part("whole", "releasable", "whole free pages", "malloc keeps them, releasable or withheld"),
    Part("scattered", "stranded", "other free memory", "malloc's: stranded on pages in use, or cached"),
    Part("other", "other", "all else", "strings, arrays and all other memory in use; code; stacks"),
)


def parts(facts: PageFacts) -> dict[str, int | None]:
    """Rss in these parts; those that do not apply are 0."""
    held, live = facts.row("ruby_pages"), _live(facts)
    whole, scattered = facts.summary.sums.free_pages, facts.summary.sums.scattered
    named = total((held, whole, scattered))
    rss = facts.summary.kernel.rss
    split = held is not None and live is not None
    return {
        "live": live if split else 0,
        "free": held - live if held is not None and live is not None else 0,
        "unsplit": 0 if split else held,
        "whole": whole,
        "scattered": scattered,
        # The parts of a live snapshot need not add up.
        "other": None if rss is None or named is None else max(rss - named, 0),
    }


def _live(facts: PageFacts) -> int | None:
    """Resident bytes of slots with an object. All of them are resident, unless something is swapped out."""
    pages = facts.dump.ruby
    sized = pages["slot_size"].astype("u8")
    live = int(((pages["total_slots"] - pages["free_slots"]) * sized).sum())
    held = facts.row("ruby_pages")
    whole = bool((pages["resident"] == pages["size"]).all())
    certain = whole or facts.summary.kernel.swap == 0
    return live if certain and held is not None and live <= held else None


class RubyLine(NamedTuple):
    """A part of Rss, of each dump."""

    part: Part
    amounts: list[Amount]
    change: Change | None


class SlotLine(NamedTuple):
    """Pages of one slot size."""

    size: str
    numbers: list[int]  # pages, slots, live, free
    share: str  # of free slots


@dataclass(frozen=True)
class RubyArena:
    """An arena, and what is resident of it."""

    index: int  # on the map
    name: str
    threads: str
    resident: Amount
    cells: list[Amount]


@dataclass(frozen=True)
class Section:
    """All that the page says of Ruby's heap."""

    says: list[str]
    bars: list[list[BarPart]]
    parts: list[RubyLine]
    releases: str | None
    pages: int
    slots: list[SlotLine]
    arenas: list[RubyArena]
    arena_count: int
    in_arenas: bool  # some of its pages are chunks of malloc's


def section(facts: list[PageFacts], laid: Regions) -> Section | None:
    """All that the page says of Ruby's heap; None where there is none, or it was not found. `facts`: of each dump."""
    now = facts[-1]
    ruby = now.summary.ruby
    if ruby is None:
        return None
    sides = [parts(fact) for fact in facts]
    known = all(fact.summary.kernel.rss is not None and fact.row("ruby_pages") is not None for fact in facts)
    sizes = sorted(ruby.slot_sizes, key=lambda line: line.slot_size or math.inf)  # those in reserve last
    named = [(f"{count(each.slot_size)} B" if each.slot_size else "in reserve", each) for each in sizes]
    return Section(
        says=sentences(now) if known else [],
        bars=_bars(sides) if known else [],
        parts=_table(facts, sides) if known else [],
        releases=ruby.releases,
        pages=ruby.pages,
        slots=[*(_slots(title, each) for title, each in named), _slots("all", ruby)],
        arenas=_arenas(now, laid) if known and now.summary.allocator.is_glibc else [],
        arena_count=len(now.summary.arenas),
        in_arenas=any(arena.ledger["ruby_pages"] for arena in now.summary.arenas),
    )


def sentences(facts: PageFacts) -> list[str]:
    """The article's conclusion, of this process: what of Rss is Ruby's heap, what else is free; last the sum of it."""
    of, held, each = facts.whole, facts.row("ruby_pages"), parts(facts)
    ruby = facts.summary.ruby
    free = share(ruby.free_slots, ruby.slots) if ruby else ""
    says = [f"Ruby's own heap is {size(held)}, {share(held, of)} of Rss; {free} of its slots are free"]
    if not each["unsplit"]:
        says[0] += f": {size(each['free'])}, {share(each['free'], of)} of Rss, is free memory in fragmented pages"
    says[0] += "."
    whole, scattered = each["whole"], each["scattered"]
    if not facts.summary.allocator.is_glibc or whole is None or scattered is None:
        return says
    says.append(
        f"Malloc keeps {size(whole)} of whole free pages, {share(whole, of)} of Rss. Another {size(scattered)}, "
        f"{share(scattered, of)}, is free memory on pages that something else keeps (fragmentation)."
    )
    says.append(_sum({"whole": whole, "scattered": scattered, "free": each["free"] or 0}, of))
    return says


def _sum(free: dict[str, int], of: int) -> str:
    """What makes this process larger than it need be."""
    if sum(free.values()) < FREE * of:
        return "Little of Rss is free: the process is large because of the memory that it uses."
    most = max(free, key=lambda name: free[name])
    if most == "whole":
        return (
            "Whole free pages make this process large, as in the article: neither Ruby's heap nor fragmentation does."
        )
    if most == "free":
        return "Ruby's own heap could be smaller: a trim does not change it, GC.compact may."
    return (
        "Fragmentation of malloc's heaps makes this process large: single blocks in use keep the free "
        "memory around them."
    )


def _bars(sides: list[dict[str, int | None]]) -> list[list[BarPart]]:
    lengths = [sum(held or 0 for held in side.values()) for side in sides]
    return [
        bar([(part, side[part.name]) for part in (*OWN, *REST)], own, max([1, *lengths]))
        for side, own in zip(sides, lengths)
    ]


def _table(facts: list[PageFacts], sides: list[dict[str, int | None]]) -> list[RubyLine]:
    """The chart in numbers: Ruby's heap and its parts, the rest of Rss and its parts."""
    lines = []
    for title, named in (("Ruby's own heap", OWN), ("The rest of Rss", REST)):
        sums = [total(side[part.name] for part in named) for side in sides]
        lines.append(_line(Part("", "", title, ""), sums, facts))
        for part in named:
            held = [side[part.name] for side in sides]
            if any(number != 0 for number in held):
                lines.append(_line(part, held, facts))
    return lines


def _line(part: Part, held: Sequence[int | None], facts: list[PageFacts]) -> RubyLine:
    amounts = [amount(number, fact.whole) for number, fact in zip(held, facts)]
    return RubyLine(part, amounts, change(held))


def _slots(title: str, of: Slots | Ruby) -> SlotLine:
    """Pages of one slot size, or of all."""
    live = of.slots - of.free_slots
    return SlotLine(title, [of.pages, of.slots, live, of.free_slots], share(of.free_slots, of.slots))


def _arenas(facts: PageFacts, laid: Regions) -> list[RubyArena]:
    """The same of each arena, in shares of what is resident of it; the largest first."""
    lines = []
    for arena in facts.summary.arenas:
        resident = arena.sums.resident
        cells = [arena.ledger["ruby_pages"], arena.sums.free_pages, arena.sums.scattered]
        known = total(cells)
        rest = None if resident is None or known is None else resident - known
        lines.append(
            RubyArena(
                index=laid.arenas.index(address_of(arena)),
                name=arena.name,
                threads=threads_of(arena),
                resident=amount(resident),
                cells=[amount(cell, resident or 0) for cell in (*cells, rest)],
            )
        )
    lines.sort(key=lambda line: -1 if line.resident.exact is None else line.resident.exact, reverse=True)
    return lines[:SHOWN_ARENAS]
