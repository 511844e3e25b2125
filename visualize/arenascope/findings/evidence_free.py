# SPDX-License-Identifier: MIT
"""Why malloc keeps free memory: what shows the findings about it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

from arenascope.coverage import total
from arenascope.findings.inputs import NAMED, NOTABLE
from arenascope.findings.parts import WholeBytes
from arenascope.humanize import count, plural, printable
from arenascope.profiles.stranded_sites import stranded_by_site
from arenascope.wire.graph_parts import owner_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arenascope.findings.inputs import Facts
    from arenascope.wire.summary.findings import Finding
    from arenascope.wire.summary.heaps import Arena
    from arenascope.wire.summary.retained import PinnedBy

DEFAULT_THRESHOLD: Final = 128 << 10  # of trimming and of mmapping (glibc's DEFAULT_*_THRESHOLD)
LARGEST_THRESHOLD: Final = 32 << 20  # of mmapping, that glibc sets by itself (DEFAULT_MMAP_THRESHOLD_MAX)


def free_pages(facts: Facts, _: Finding) -> str:
    """Why free() did not give back what malloc_trim(0) would."""
    swap = facts.summary.forecast["malloc_trim_swap"]
    more = f" {facts.tell_apart(swap)} of swap goes with it." if swap else ""
    return f"{_why_kept(facts)}{more}"


def withheld_tops(facts: Facts, _: Finding) -> str:
    """Free pages above malloc_trim's reach, below free()'s threshold."""
    arenas = [arena for arena in facts.summary.arenas if arena.ledger["withheld"]]
    arenas.sort(key=lambda arena: -(arena.ledger["withheld"] or 0))
    return f"malloc_trim(0) shrinks only the main arena's top. {_threshold(facts, arenas)}"


def pinned(facts: Facts, finding: Finding) -> str:
    """What keeps the pages."""
    why = "No trim returns this memory: it comes back when the chunks in use on its pages are freed."
    stranded = finding.bytes or 0
    parts = [_by_size(facts, stranded), _by_user(facts, stranded), _by_site(facts, stranded)]
    parts += [_on_unused_pages(facts), why]
    return " ".join(part for part in parts if part)


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


def _by_site(facts: Facts, stranded: int) -> str:
    """Who allocated the chunks that have half of the stranded bytes, where a profile has recorded each chunk."""
    sites = stranded_by_site(facts.profile())
    named = until_half(sites, stranded)
    if not named or named[0][1] < NOTABLE * stranded:
        return ""
    have = ", ".join(f"{printable(site)}: {facts.tell(part, WholeBytes(stranded))}" for site, part in named)
    return f"By who allocated them: {have}." + _rest(sum(part for _, part in named), stranded, "callers")


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


def caches(facts: Facts, finding: Finding) -> str:
    """Who caches most, and what empties the caches."""
    if finding.lights != "row:tcache":
        return (
            "malloc_trim(0) merges fastbin chunks with their neighbours. These chunks lie on pages that something else "
            "keeps; the other fastbin chunks count as releasable already."
        )
    why = "A tcache is emptied when its thread ends; malloc_trim(0) does not touch it."
    threads = [thread for arena in facts.summary.arenas for thread in arena.threads if thread.tcache_bytes]
    largest = max(threads, key=lambda thread: thread.tcache_bytes or 0, default=None)
    if largest is None:
        return why
    all_ = WholeBytes(facts.summary.chunks.tcache.bytes, "in tcaches, resident or not")
    most = facts.tell(largest.tcache_bytes, all_)
    return f"Thread {largest.tid} ({printable(largest.name)}) holds the most, {most}{all_.words}. {why}"


def too_many_arenas(facts: Facts, finding: Finding) -> str:
    """The idle arenas that have most free memory."""
    idle = sorted(facts.idle_arenas, key=lambda arena: -(arena.sums.free or 0))
    named = ", ".join(_idle_arena(facts, arena, WholeBytes(finding.bytes)) for arena in idle[:NAMED])
    most = "The largest: " if len(idle) > NAMED else ""
    gone = any(arena.idle == "no_thread" for arena in idle)
    reuse = " A new thread takes an arena without threads before it makes a new one." if gone else ""
    return (
        f"The process has {plural(facts.summary.target.threads, 'thread')}.{reuse} {_capital(most + named)}. "
        "This memory is counted in the findings above, too."
    )


# --- parts of sentences ---------------------------------------------------------------------------------------------


def _why_kept(facts: Facts) -> str:
    """Where the pages lie."""
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
