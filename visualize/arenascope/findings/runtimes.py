# SPDX-License-Identifier: MIT
"""What runtimes keep in heaps of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arenascope.findings.facts import MOST
from arenascope.findings.finding import Finding, Rank
from arenascope.text import count, plural, share, size

if TYPE_CHECKING:
    from arenascope.findings.facts import Facts


def ruby_pages(facts: Facts) -> Finding | None:
    """Ruby's own heap, and how much of it holds no object."""
    held, ruby = facts.row("ruby_pages"), facts.summary.ruby
    if not ruby or not facts.matters(held):
        return None
    free = share(ruby.free_slots, ruby.slots)
    return Finding(
        "Ruby's pages",
        Rank.PART,
        held,
        f"{size(held)} is in pages of Ruby's own heap; {free} of their slots are free.",
        f"{plural(ruby.pages, 'page')} with {plural(ruby.slots, 'slot')}. Ruby gives a page back only when all "
        "its slots are free; a trim does not touch these pages.",
    )


def python_arenas(facts: Facts) -> Finding | None:
    """CPython's own heap, and what of it no object holds."""
    held = facts.row("python_arenas")
    found = next((r for r in facts.summary.runtimes if r.row == "python_arenas" and r.found), None)
    if not found or held is None or not facts.matters(held):
        return None
    most = max(found.size_classes, key=lambda c: c.size * c.in_use, default=None)
    which = f" The largest part is {count(most.in_use)} blocks of {most.size} bytes." if most else ""
    return Finding(
        "Python's arenas",
        Rank.ACCOUNT if held >= MOST * facts.whole else Rank.PART,
        held,
        f"{size(held)} of it ({share(held, facts.whole)}) is in the arenas of Python's own allocator: "
        f"{size(found.in_use)} in blocks in use, {size(found.free)} in free blocks between them.",
        f"{plural(found.regions or 0, 'arena')} of {size(found.region_size)}.{which} Python returns an arena only when "
        "no block of it is in use; no trim and no setting of malloc changes that. The module tracemalloc tells which "
        "lines of the program allocated the blocks.",
    )
