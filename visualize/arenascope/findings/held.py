# SPDX-License-Identifier: MIT
"""What the application holds, what is not malloc's, and what is not in Rss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from arenascope.findings.facts import MOST, NAMED, NOTABLE
from arenascope.findings.finding import Finding, Rank
from arenascope.known import total
from arenascope.rows import RESIDENT
from arenascope.text import count, plural, printable, share, size

if TYPE_CHECKING:
    from arenascope.findings.facts import Facts

LARGE: Final = 0.25  # of Rss: mmapped blocks that hold less are not named


def gone_already(facts: Facts) -> Finding | None:
    """Free memory that is not in RAM any more, which mallinfo still counts as held."""
    absent, chunks = facts.summary.absent, facts.summary.chunks
    free = total(tally.bytes for tally in (chunks.binned, chunks.top, chunks.fastbin))
    returned, swapped_free = absent["returned"], absent["swapped_free"]
    gone = total((returned, swapped_free))
    if free is None or gone is None or not facts.matters(gone):
        return None
    swapped = f", and {size(swapped_free)} is swapped out" if swapped_free else ""
    return Finding(
        "gone already",
        Rank.ACCOUNT,
        gone,
        f"{size(returned)} of malloc's free memory has been returned to the kernel already{swapped}.",
        f"It costs no RAM. mallinfo() and malloc_info() still count it: they report {size(free)} of free memory.",
        lights="row:returned" if returned else "row:swapped_free",
        in_rss=False,
    )


def swapped_in_use(facts: Facts) -> Finding | None:
    """Part of what the application holds is swapped out."""
    held = facts.summary.absent["swapped_in_use"]
    if not facts.matters(held):
        return None
    return Finding(
        "swapped",
        Rank.ACCOUNT,
        held,
        f"{size(held)} that the application holds in malloc's heaps is swapped out.",
        "This memory is in use but not in Rss: the process is larger than Rss says.",
        lights="row:swapped_in_use",
        in_rss=False,
    )


def in_use(facts: Facts) -> Finding | None:
    """Nothing to gain: the application holds most of it."""
    held = facts.summary.sums.used
    if held is None or held < MOST * facts.whole:
        return None
    most, which = next(iter(facts.summary.largest_sizes), None), ""
    if most and most.bytes >= NOTABLE * held:
        which = f" {size(most.bytes)} of it is {plural(most.count, 'chunk')} of {count(most.chunk_size)} bytes."
    return Finding(
        "in use",
        Rank.ACCOUNT,
        held,
        f"{size(held)} of it ({share(held, facts.whole)}) is in use by the application.",
        f"No trim returns it; the application has to free it.{which}",
        lights="row:in_use",
    )


def large_blocks(facts: Facts) -> Finding | None:
    """Large blocks in mappings of their own: in use, whatever one suspects of malloc."""
    held = facts.row("mmapped_in_use")
    if held is None or not facts.matters(held) or held < LARGE * facts.whole:
        return None
    blocks, largest = facts.summary.chunks.mmapped.count, facts.summary.largest_mmapped
    which = f"one large block of {size(largest)}, mapped on its own"
    if blocks != 1:
        which = f"{plural(blocks, 'large block')}, each mapped on its own, the largest of {size(largest)}"
    return Finding(
        "large blocks",
        Rank.PART,
        held,
        f"{size(held)} of what is in use is in {which}.",
        "free() returns such a block to the kernel at once: none of this memory is waste, and no "
        "trim makes it smaller.",
        lights="row:mmapped_in_use",
    )


def not_mallocs(facts: Facts) -> Finding | None:
    """Most of Rss is not malloc's at all."""
    held = facts.summary.sums.not_malloc
    if held is None or held < MOST * facts.whole or not facts.summary.allocator.is_glibc:
        return None
    most = max((row for row in RESIDENT if row.owner != "MALLOC"), key=lambda row: facts.row(row.name) or 0)
    if most.name == "python_arenas" and (facts.row(most.name) or 0) >= MOST * facts.whole:
        return None  # the rule for it says more
    parts = [f"{printable(name)} ({size(left)})" for name, left in facts.not_mallocs[:NAMED]]
    return Finding(
        "not malloc's",
        Rank.ACCOUNT,
        held,
        f"{size(held)} of it ({share(held, facts.whole)}) is not malloc's: mostly {most.title}.",
        f"The largest: {', '.join(parts)}. {_one_mapping(facts)}No setting of malloc changes that.",
    )


def _one_mapping(facts: Facts) -> str:
    """The largest anonymous mapping, if it is worth a sentence."""
    if not facts.large_mappings:
        return ""
    largest = facts.large_mappings[0]
    says = f"The largest anonymous mapping has {size(largest.bytes)}, at {largest.address}"
    if largest.may_be:
        says += f": it may be {printable(largest.may_be)}, because {printable(largest.evidence or '')}"
    return f"{says}. "
