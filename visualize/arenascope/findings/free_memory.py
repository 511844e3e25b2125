# SPDX-License-Identifier: MIT
"""Free memory that malloc keeps, and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

from arenascope.coverage import total
from arenascope.findings.finding import Finding, Rank
from arenascope.findings.inputs import NAMED, NOTABLE
from arenascope.findings.next_steps import of_pins
from arenascope.findings.parts import WholeBytes
from arenascope.humanize import count, plural, printable
from arenascope.trim_commands import trim_command
from arenascope.wire.graph_parts import owner_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arenascope.findings.inputs import Facts
    from arenascope.wire.summary.heaps import Arena
    from arenascope.wire.summary.retained import PinnedBy

DEFAULT_THRESHOLD: Final = 128 << 10  # of trimming and of mmapping (glibc's DEFAULT_*_THRESHOLD)
LARGEST_THRESHOLD: Final = 32 << 20  # of mmapping, that glibc sets by itself (DEFAULT_MMAP_THRESHOLD_MAX)


def free_pages(facts: Facts) -> Finding | None:
    """Whole free pages that malloc kept: the forecast of malloc_trim(0)."""
    trim = facts.summary.forecast["malloc_trim"]
    if not facts.matters(trim, "releasable"):
        return None
    swap = facts.summary.forecast["malloc_trim_swap"]
    more = f" {facts.tell_apart(swap)} of swap goes with it." if swap else ""
    return Finding(
        "free pages kept",
        Rank.ROW,
        trim,
        f"{facts.tell(trim)} is in free pages: one malloc_trim(0) returns them.",
        f"{_why_kept(facts)}{more}",
        command=trim_command(facts.summary.target),
        lights="row:releasable",
        rows=("releasable",),
        estimate=facts.doubt,
    )


def withheld_tops(facts: Facts) -> Finding | None:
    """Free pages in the tops of thread arenas: above malloc_trim's reach, below free()'s threshold."""
    withheld = facts.row("withheld")
    if not facts.matters(withheld, "withheld"):
        return None
    idle_arenas = [arena for arena in facts.summary.arenas if arena.ledger["withheld"]]
    idle_arenas.sort(key=lambda arena: -(arena.ledger["withheld"] or 0))
    idle = sum(1 for arena in idle_arenas if arena in facts.unattached or arena in facts.nearly_empty)
    where = plural(len(idle_arenas), "idle thread arena" if idle == len(idle_arenas) else "thread arena")
    return Finding(
        "withheld tops",
        Rank.ROW,
        withheld,
        f"{facts.tell(withheld)} is free in the tops of {where}: only a deep trim returns it.",
        f"malloc_trim(0) shrinks only the main arena's top. {_threshold(facts, idle_arenas)}",
        command=trim_command(facts.summary.target, deep=True),
        lights="row:withheld",
        rows=("withheld",),
        estimate=facts.doubt,
    )


def pinned(facts: Facts) -> Finding | None:
    """Free memory on pages that a chunk in use keeps."""
    stranded = facts.row("stranded")
    if not stranded or not facts.matters(stranded, "stranded"):
        return None
    says = f"{facts.tell(stranded)} is free but stranded: something in use on the same page keeps it resident."
    why = "No trim returns this memory: it comes back when the chunks in use on its pages are freed."
    parts = [_by_size(facts, stranded), _by_user(facts, stranded), _on_unused_pages(facts), why]
    why = " ".join(part for part in parts if part)
    return Finding(
        "stranded by pins",
        Rank.ROW,
        stranded,
        says,
        why,
        lights="row:stranded",
        rows=("stranded",),
        next=of_pins(facts),
    )


def _by_size(facts: Facts, stranded: int) -> str:
    """The sizes of chunks that have half of the stranded bytes; if no few have, so much is said."""
    pages = facts.summary.stranded_pages
    if pages is None:
        return ""
    parts: Counter[int] = Counter()
    for pin in facts.summary.pins:
        parts[pin.chunk_size or 0] += pin.stranded or 0
    for sharer in pages.shared:
        parts[sharer.chunk_size or 0] += sharer.stranded or 0
    named = until_half(parts.most_common(), stranded)
    if not named:
        return ""
    have = ", ".join(
        f"those of {count(chunk)} bytes have {facts.tell(part, WholeBytes(stranded))}" for chunk, part in named
    )
    held = total(each.pages for each in pages.by_chunks if each.chunks_from)
    alone = total(each.pages for each in pages.by_chunks if each.chunks_from == 1)
    on = f"{plural(held, 'page')}, {count(alone)} of them with one chunk alone"
    words = f"Each chunk in use on a page ({on}) has an equal part of the free bytes there: {have}."
    return words + _rest(sum(part for _, part in named), stranded, "sizes")


def _by_user(facts: Facts, stranded: int) -> str:
    """The types and owners that have half of the stranded bytes, where the dump has a graph that says so."""
    pins = facts.summary.graph.pins if facts.summary.graph else ()
    parts = [(each, each.pinned.stranded + each.pinned.part) for each in pins if each.owner is not None]
    named = until_half(parts, stranded)
    if not named or named[0][1] < NOTABLE * stranded:
        return ""
    have = ", ".join(f"{_user(each)}: {facts.tell(part, WholeBytes(stranded))}" for each, part in named)
    most = named[0][0].pinned
    alone = (
        f" The first {'is' if most.pages == 1 else 'are'} alone on {plural(most.pages, 'page')}." if most.pages else ""
    )
    return f"By type and owner: {have}.{alone}" + _rest(sum(part for _, part in named), stranded, "types and owners")


def _user(pin: PinnedBy) -> str:
    what = printable(pin.type) if pin.type else "chunks of unknown type"
    if pin.owner is None or pin.owner.kind == "lost":
        return f"{what} that are lost"
    return f"{what} held by {owner_name(pin.owner)}"


def _on_unused_pages(facts: Facts) -> str:
    """What chunks in use do not keep, where it is much."""
    pages = facts.summary.stranded_pages
    left = total(each.stranded for each in pages.by_chunks if each.chunks_from == 0) if pages else 0
    if not left or left < NOTABLE * (facts.row("stranded") or 0):
        return ""
    what = "cached chunks, malloc's headers or the links of free chunks"
    return (
        f"{facts.tell(left, WholeBytes(facts.row('stranded')))} lies on pages without a chunk in use: {what} keep them."
    )


Named = TypeVar("Named")


def until_half(parts: Iterable[tuple[Named, int]], whole: int) -> list[tuple[Named, int]]:
    """The first of these, the largest first, that have half of the whole together, or the first three."""
    named: list[tuple[Named, int]] = []
    for each, part in parts:
        if len(named) == NAMED or part == 0 or 2 * sum(part for _, part in named) >= whole:
            break
        named.append((each, part))
    return named


def _rest(named: int, whole: int, words: str) -> str:
    return f" All other {words} have less each: no three have half of it." if 2 * named < whole else ""


def caches(facts: Facts) -> Finding | None:
    """Hoards in tcaches and fastbins."""
    tcache, fastbin = facts.row("tcache"), facts.row("fastbin")
    held = facts.summary.sums.cached
    if held is None or not facts.matters(held, "tcache", "fastbin"):
        return None
    mostly_tcache = (tcache or 0) >= (fastbin or 0)
    whole = WholeBytes(held)
    says = (
        f"{facts.tell(held)} is freed but cached: {facts.tell(tcache, whole)} in threads' tcaches, "
        f"{facts.tell(fastbin, whole)} in fastbins."
    )
    threads = [thread for arena in facts.summary.arenas for thread in arena.threads if thread.tcache_bytes]
    largest = max(threads, key=lambda thread: thread.tcache_bytes or 0, default=None)
    why = "A tcache is emptied when its thread ends; malloc_trim(0) does not touch it."
    if mostly_tcache and largest:
        name = printable(largest.name)
        all_ = WholeBytes(facts.summary.chunks.tcache.bytes, "in tcaches, resident or not")
        most = facts.tell(largest.tcache_bytes, all_)
        why = f"Thread {largest.tid} ({name}) holds the most, {most}{all_.words}. {why}"
    if not mostly_tcache:
        why = (
            "malloc_trim(0) merges fastbin chunks with their neighbours. These chunks lie on pages that something else "
            "keeps; the other fastbin chunks count as releasable already."
        )
    lights = "row:tcache" if mostly_tcache else "row:fastbin"
    return Finding("cached", Rank.ROW, held, says, why, lights=lights, rows=("tcache", "fastbin"))


def too_many_arenas(facts: Facts) -> Finding | None:
    """Arenas that no thread uses any more, or that hold next to nothing but free memory."""
    idle = [*facts.unattached, *facts.nearly_empty]
    free = total(arena.sums.free for arena in idle)
    if not idle or not facts.matters(free):
        return None
    of = f"of {plural(len(facts.summary.arenas), 'arena')}"
    gone, empty = len(facts.unattached), len(facts.nearly_empty)
    says = f"{gone} {of} {'has' if gone == 1 else 'have'} no thread any more"
    if gone and empty:
        says = f"{len(idle)} {of} are idle: {gone} without a thread, {empty} nearly empty"
    elif empty:
        says = f"{empty} {of} {'is' if empty == 1 else 'are'} nearly empty"
    idle.sort(key=lambda arena: -(arena.sums.free or 0))
    named = ", ".join(_idle_arena(facts, arena, WholeBytes(free)) for arena in idle[:NAMED])
    most = "The largest: " if len(idle) > NAMED else ""
    reuse = " A new thread takes an arena without threads before it makes a new one." if gone else ""
    return Finding(
        "too many arenas",
        Rank.PART,
        free,
        f"{says}; {facts.tell(free)} in them is free.",
        f"The process has {plural(facts.summary.target.threads, 'thread')}.{reuse} {_capital(most + named)}. "
        "This memory is counted in the findings above, too.",
        lights="idle",
    )


# --- parts of sentences ---------------------------------------------------------------------------------------------


def _why_kept(facts: Facts) -> str:
    """Why free() did not give back what malloc_trim(0) would."""
    pages = facts.summary.releasable
    end, below, arenas = pages.end or 0, pages.below or 0, pages.arenas
    mains = [arena for arena in facts.summary.arenas if arena.main]
    few, whole = NOTABLE * (end + below), WholeBytes(end + below)
    if end < few:
        which = "Nearly all these" if end else "These"
        where = f"{which} free pages lie below the end of a heap, in {plural(arenas, 'arena')}"
        return f"{where}. free() gives back only the end of a heap; glibc keeps other free pages for later allocations."
    if below < few:
        which = "Nearly all of it" if below else "It"
        return f"{which} is the end of the main arena's heap. {_threshold(facts, mains)}"
    return (
        f"{facts.tell(below, whole)} lies below the end of a heap, in {plural(arenas, 'arena')}: free() gives none of "
        f"it back. {facts.tell(end, whole)} is the end of the main arena's heap. {_threshold(facts, mains)}"
    )


def _threshold(facts: Facts, idle_arenas: list[Arena]) -> str:
    """What decides whether free() gives a top back, in the malloc that withholds most."""
    tunables = facts.summary.mallocs[idle_arenas[0].malloc].tunables if idle_arenas else facts.summary.tunables
    trim, mmap = tunables.trim_threshold, tunables.mmap_threshold
    if trim is None:
        return "free() gives a top back only when it is larger than the trim threshold, which is unknown here."
    words = f"free() gives a top back only once it is larger than the trim threshold, {facts.tell_apart(trim)} here"
    if mmap is not None and trim == 2 * mmap and trim > 2 * DEFAULT_THRESHOLD and tunables.no_dyn_threshold == 0:
        words += (
            f": glibc raised it from {facts.tell_apart(DEFAULT_THRESHOLD)} to twice the size of the largest mmapped "
            f"block of up to {facts.tell_apart(LARGEST_THRESHOLD)} that was freed ({facts.tell_apart(mmap)})"
        )
    return words + "."


def _idle_arena(facts: Facts, arena: Arena, all_idle: WholeBytes) -> str:
    """An idle arena, with its threads and its free memory: "arena 3 (no thread: 12.1 MiB)"."""
    threads = [f"{printable(thread.name)} {thread.tid}" for thread in arena.threads]
    who = "no thread" if arena.attached_threads == 0 else threads[0] if threads else "threads not found"
    more = f" and {len(threads) - 1} more" if len(threads) > 1 else ""
    return f"{arena.name} ({who}{more}: {facts.tell(arena.sums.free, all_idle)})"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
