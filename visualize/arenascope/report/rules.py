# SPDX-License-Identifier: MIT
"""What a process's memory is made of: each cause in a sentence, with its evidence and what acts on it.

Each cause is one rule: a function that looks at the facts and returns a Finding, or None where the cause is not there.
RULES lists them all. A rule states only what was counted or computed; where a number holds under an assumption,
`estimate` says which. A command stands beside a finding only if the forecast computed what it brings.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Callable, Final, NamedTuple, Optional

from arenascope.known import total
from arenascope.remedy import trim_command
from arenascope.rows import RESIDENT
from arenascope.text import UNKNOWN, count, plural, printable, share, size

if TYPE_CHECKING:
    from arenascope.report.facts import Facts
    from arenascope.summary import Arena

MOST: Final = 0.5
LARGE: Final = 0.25
NOTABLE: Final = 0.1  # of all pins, or of all chunks: a size that has less is not named
DEFAULT_THRESHOLD: Final = 128 << 10  # of trimming and of mmapping (glibc's DEFAULT_*_THRESHOLD)
LARGEST_THRESHOLD: Final = 32 << 20  # of mmapping, that glibc sets by itself (DEFAULT_MMAP_THRESHOLD_MAX)
NAMED: Final = 3  # arenas, mappings and the like that a sentence names

OTHER_ROWS: Final = tuple(row.name for row in RESIDENT if row.owner != "MALLOC")


class Rank(enum.IntEnum):
    """In which order findings stand; within one rank the largest comes first."""

    PREMISE = 0  # changes how everything else is to be read
    WASTE = 1  # free memory that malloc keeps
    ACCOUNT = 2  # where the rest is
    PART = 3  # of what others have counted already


class Finding(NamedTuple):
    """One cause, as the page shows it."""

    rule: str
    rank: Rank
    held: int | None  # bytes that it explains
    says: str  # the sentence with the numbers
    why: str  # the evidence, and how it came to be
    command: str | None = None  # what brings those bytes back
    lights: str | None = None  # what to light up on the map: "row:…", "state:…", "idle"
    estimate: str | None = None  # why `held` may be off


Rule = Callable[["Facts"], Optional[Finding]]


def another_allocator(facts: Facts) -> Finding | None:
    """Somebody else answers malloc(): glibc's arenas are not where the program's blocks are."""
    kind, other = facts.summary.allocator.malloc, facts.summary.allocator.not_glibc
    if other is None:
        return None
    detail = _sentence(printable(facts.summary.allocator.detail or "no reason was found"))
    held = facts.row("other_anon")
    if kind == UNKNOWN:
        says = f"{other.says}."
        why = f"{detail} {other.memory}"
    else:
        says = (
            f"{kind} answers malloc() in this process, not glibc: its memory is part of {size(held)} of "
            "anonymous memory."
        )
        why = f"{detail} malloc_trim(0) does not touch this memory."
        if len(facts.dump.pages):
            why += " The map and the arenas show glibc's malloc, which some code uses nevertheless."
    return Finding("another allocator", Rank.PREMISE, held, says, why)


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
        f"{size(held)} is in chunks in use, {size(free)} in free chunks, resident or not.",
        "A core by gdb's gcore, or a core that lost its holes in a copy, does not record which pages were resident. "
        "A look at the living process shows it.",
    )


def free_pages(facts: Facts) -> Finding | None:
    """Whole free pages that malloc kept: the forecast of malloc_trim(0)."""
    trim = facts.summary.forecast["malloc_trim"]
    if not facts.matters(trim):
        return None
    swap = facts.summary.forecast["malloc_trim_swap"]
    more = f" {size(swap)} of swap goes with it." if swap else ""
    return Finding(
        "free pages kept",
        Rank.WASTE,
        trim,
        f"{size(trim)} is in free pages: one malloc_trim(0) returns them.",
        f"{_why_kept(facts)}{more}",
        command=trim_command(facts.summary.target),
        lights="row:releasable",
        estimate=facts.doubt,
    )


def withheld_tops(facts: Facts) -> Finding | None:
    """Free pages in the tops of thread arenas: above malloc_trim's reach, below free()'s threshold."""
    withheld = facts.row("withheld")
    if not facts.matters(withheld):
        return None
    holders = [arena for arena in facts.summary.arenas if arena.ledger["withheld"]]
    holders.sort(key=lambda arena: -(arena.ledger["withheld"] or 0))
    idle = sum(1 for arena in holders if arena in facts.unattached or arena in facts.nearly_empty)
    where = plural(len(holders), "idle thread arena" if idle == len(holders) else "thread arena")
    return Finding(
        "withheld tops",
        Rank.WASTE,
        withheld,
        f"{size(withheld)} is free in the tops of {where}: only a deep trim returns it.",
        f"malloc_trim(0) shrinks only the main arena's top. {_threshold(facts, holders)}",
        command=trim_command(facts.summary.target, deep=True),
        lights="row:withheld",
        estimate=facts.doubt,
    )


def pinned(facts: Facts) -> Finding | None:
    """Free memory on pages that a chunk in use keeps."""
    stranded = facts.row("stranded")
    if not facts.matters(stranded):
        return None
    pins = [pin for pin in facts.summary.pins if pin.pages]
    pages = total(pin.pages for pin in pins)
    says = f"{size(stranded)} is free but stranded: something in use on the same page keeps it resident."
    why = "No trim returns this memory: it comes back when the chunks in use on its pages are freed."
    if pins and pages:
        worst = max(pins, key=lambda pin: pin.pages or 0)
        most = worst.pages or 0
        who = f"the pinning chunks have {plural(len(pins), 'size')}, and no single size keeps a tenth of the pages"
        if most >= NOTABLE * pages:
            which = "all of them" if most == pages else f"{count(most)} of them"
            who = (
                f"chunks of {count(worst.chunk_size)} bytes keep {which}, with "
                f"{size(worst.stranded)} free on the same pages"
            )
        why = f"{plural(pages, 'page')} {'is' if pages == 1 else 'are each'} kept by one chunk alone; {who}. {why}"
    return Finding("stranded by pins", Rank.WASTE, stranded, says, why, lights="row:stranded")


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
    named = ", ".join(_idle_arena(arena) for arena in idle[:NAMED])
    most = "The largest: " if len(idle) > NAMED else ""
    reuse = " A new thread takes an arena without threads before it makes a new one." if gone else ""
    return Finding(
        "too many arenas",
        Rank.PART,
        free,
        f"{says}; {size(free)} in them is free.",
        f"The process has {plural(facts.summary.target.threads, 'thread')}.{reuse} {_capital(most + named)}. "
        "This memory is counted in the findings above, too.",
        lights="idle",
    )


def caches(facts: Facts) -> Finding | None:
    """Hoards in tcaches and fastbins."""
    tcache, fastbin = facts.row("tcache"), facts.row("fastbin")
    held = facts.summary.sums.cached
    if held is None or not facts.matters(held):
        return None
    mostly_tcache = (tcache or 0) >= (fastbin or 0)
    says = f"{size(held)} is freed but cached: {size(tcache)} in threads' tcaches, {size(fastbin)} in fastbins."
    threads = [thread for arena in facts.summary.arenas for thread in arena.threads if thread.tcache_bytes]
    largest = max(threads, key=lambda thread: thread.tcache_bytes or 0, default=None)
    why = "A tcache is emptied when its thread ends; malloc_trim(0) does not touch it."
    if mostly_tcache and largest:
        name = printable(largest.name)
        why = f"Thread {largest.tid} ({name}) holds the most, {size(largest.tcache_bytes)}. {why}"
    if not mostly_tcache:
        why = (
            "malloc_trim(0) merges fastbin chunks with their neighbours. These chunks lie on pages that something else "
            "keeps; the other fastbin chunks count as releasable already."
        )
    return Finding("cached", Rank.WASTE, held, says, why, lights="row:tcache" if mostly_tcache else "row:fastbin")


def large_blocks(facts: Facts) -> Finding | None:
    """Large blocks in mappings of their own: in use, whatever one suspects of malloc."""
    held = facts.row("mmapped_in_use")
    if held is None or not facts.matters(held) or held < LARGE * facts.whole:
        return None
    blocks, largest = facts.mmapped
    which = f"one large block of {size(largest)}, mapped on its own"
    if blocks > 1:
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
    most = max((row for row in RESIDENT if row.name in OTHER_ROWS), key=lambda row: facts.row(row.name) or 0)
    if most.name == "python_arenas" and (facts.row(most.name) or 0) >= MOST * facts.whole:
        return None  # the rule for it says more
    parts = [f"{printable(path)} ({size(rss)})" for path, rss in facts.mappings[:NAMED]]
    return Finding(
        "not malloc's",
        Rank.ACCOUNT,
        held,
        f"{size(held)} of it ({share(held, facts.whole)}) is not malloc's: mostly {most.title}.",
        f"The largest: {', '.join(parts)}. No setting of malloc changes that.",
    )


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
    )


def in_use(facts: Facts) -> Finding | None:
    """Nothing to gain: the application holds most of it."""
    held = facts.summary.sums.used
    if held is None or held < MOST * facts.whole:
        return None
    sizes, which = facts.largest_in_use, ""
    if sizes and sizes[2] >= NOTABLE * held:
        which = f" {size(sizes[2])} of it is {plural(sizes[1], 'chunk')} of {count(sizes[0])} bytes."
    return Finding(
        "in use",
        Rank.ACCOUNT,
        held,
        f"{size(held)} of it ({share(held, facts.whole)}) is in use by the application.",
        f"No trim returns it; the application has to free it.{which}",
        lights="row:in_use",
    )


RULES: Final[tuple[Rule, ...]] = (
    another_allocator,
    residency_unknown,
    free_pages,
    withheld_tops,
    pinned,
    caches,
    not_mallocs,
    ruby_pages,
    python_arenas,
    gone_already,
    swapped_in_use,
    in_use,
    large_blocks,
    too_many_arenas,
)


# --- parts of sentences ---------------------------------------------------------------------------------------------


def _why_kept(facts: Facts) -> str:
    """Why free() did not give back what malloc_trim(0) would."""
    end, below, arenas = facts.releasable
    mains = [arena for arena in facts.summary.arenas if arena.main]
    few = NOTABLE * (end + below)
    if end < few:
        which = "Nearly all these" if end else "These"
        where = f"{which} free pages lie below the end of a heap, in {plural(arenas, 'arena')}"
        return f"{where}. free() gives back only the end of a heap; glibc keeps other free pages for later allocations."
    if below < few:
        which = "Nearly all of it" if below else "It"
        return f"{which} is the end of the main arena's heap. {_threshold(facts, mains)}"
    return (
        f"{size(below)} lies below the end of a heap, in {plural(arenas, 'arena')}: free() gives none of it back."
        f" {size(end)} is the end of the main arena's heap. {_threshold(facts, mains)}"
    )


def _threshold(facts: Facts, holders: list[Arena]) -> str:
    """What decides whether free() gives a top back, in the malloc that withholds most."""
    tunables = facts.summary.mallocs[holders[0].malloc].tunables if holders else facts.summary.tunables
    trim, mmap = tunables.trim_threshold, tunables.mmap_threshold
    if trim is None:
        return "free() gives a top back only when it is larger than the trim threshold, which is unknown here."
    words = f"free() gives a top back only once it is larger than the trim threshold, {size(trim)} here"
    if mmap is not None and trim == 2 * mmap and trim > 2 * DEFAULT_THRESHOLD and tunables.no_dyn_threshold == 0:
        words += (
            f": glibc raised it from {size(DEFAULT_THRESHOLD)} to twice the size of the largest mmapped block of up to "
            f"{size(LARGEST_THRESHOLD)} that was freed ({size(mmap)})"
        )
    return words + "."


def _idle_arena(arena: Arena) -> str:
    """An idle arena, with its threads and its free memory: "arena 3 (no thread: 12.1 MiB)"."""
    threads = [f"{printable(thread.name)} {thread.tid}" for thread in arena.threads]
    who = "no thread" if arena.attached_threads == 0 else threads[0] if threads else "threads not found"
    more = f" and {len(threads) - 1} more" if len(threads) > 1 else ""
    return f"{arena.name} ({who}{more}: {size(arena.sums.free)})"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _sentence(words: str) -> str:
    return words.strip().rstrip(".") + "."
