# SPDX-License-Identifier: MIT
"""What changes how everything else is to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arenascope.coverage import total
from arenascope.findings.finding import Finding, Rank
from arenascope.findings.next_steps import of_runtime
from arenascope.humanize import UNKNOWN, printable
from arenascope.runtime_names import NAMES

if TYPE_CHECKING:
    from arenascope.findings.inputs import Facts


def another_allocator(facts: Facts) -> Finding | None:
    """Somebody else answers malloc(): glibc's arenas are not where the program's blocks are."""
    kind, other = facts.summary.allocator.malloc, facts.summary.allocator.not_glibc
    if other is None:
        return None
    detail = _sentence(printable(facts.summary.allocator.detail or "no reason was found"))
    located = facts.row("other_malloc")
    row = "other_malloc" if located else "other_anon"
    held = facts.row(row)
    if kind == UNKNOWN:
        says = f"{other.says}."
        why = f"{detail} {other.memory}"
    else:
        says = f"{NAMES.get(kind or UNKNOWN, kind)} answers malloc() in this process, not glibc: its memory is " + (
            f"{facts.tell(held)}, blocks in use and free ones."
            if located
            else f"part of {facts.tell(held)} of anonymous memory."
        )
        why = f"{detail} malloc_trim(0) does not touch this memory."
        if any(arena.heaps for arena in facts.summary.arenas):
            why += " The arenas are those of glibc's malloc, which some code uses nevertheless."
    return Finding("another allocator", Rank.PREMISE, held, says, why, rows=(row,), next=of_runtime(facts))


def residency_unknown(facts: Facts) -> Finding | None:
    """A core of gcore, or one without its holes: the chunks are known, the pages are not."""
    if facts.summary.snapshot.residency_known:
        return None
    chunks = facts.summary.chunks
    held = total(tally.bytes for tally in (chunks.in_use, chunks.mmapped))
    free = total(tally.bytes for tally in (chunks.binned, chunks.top, chunks.fastbin, chunks.tcache))
    return Finding(
        "residency unknown",
        Rank.PREMISE,
        None,
        f"{facts.tell_apart(held)} is in chunks in use, {facts.tell_apart(free)} in free chunks, resident or not.",
        "A core by gdb's gcore, or a core that lost its holes in a copy, does not record which pages were resident. "
        "A snapshot of the living process shows it.",
    )


def _sentence(words: str) -> str:
    return words.strip().rstrip(".") + "."
