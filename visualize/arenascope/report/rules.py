# SPDX-License-Identifier: MIT
"""The verdict: what a process's memory is made of, in sentences, each with its evidence and what acts on it.

Each cause is one rule: a function that looks at the facts and returns a Finding, or None where the cause is not there.
RULES lists them all. A rule states only what was counted or computed; where a number holds under an assumption,
`estimate` says which. A command stands beside a finding only if the forecast computed what it brings.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Callable, Final, NamedTuple, Optional

from arenascope.text import count, plural, share, size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arenascope.report.facts import Facts

Json = dict[str, Any]

MIB: Final = 1 << 20
SHARE: Final = 0.03  # of Rss: what is less is not worth a sentence
MOST: Final = 0.5
LARGE: Final = 0.25
DEFAULT_THRESHOLD: Final = 128 << 10  # of trimming and of mmapping (glibc's DEFAULT_*_THRESHOLD)
NAMED: Final = 3  # arenas, mappings and the like that a sentence names

FREE_ROWS: Final = ("tcache", "fastbin", "stranded", "releasable", "withheld")
OTHER_ROWS: Final = ("other_file", "other_anon", "other_shmem", "stacks")


class Finding(NamedTuple):
    """One cause, as the page shows it."""

    rule: str
    held: int | None  # bytes that it explains
    says: str  # the sentence with the numbers
    why: str  # the evidence, and how it came to be
    command: str | None = None  # what brings those bytes back
    lights: str | None = None  # what to light up on the map: "row:…", "state:…"
    estimate: str | None = None  # under which assumption `held` is right
    part: bool = False  # of what other findings count


Rule = Callable[["Facts"], Optional[Finding]]


class Verdict(NamedTuple):
    """The whole answer: a sentence, the causes (largest first), and what limits one's trust in them."""

    lead: str
    findings: list[Finding]
    caveats: list[str]


def judge(facts: Facts) -> Verdict:
    """Apply every rule."""
    findings = [finding for rule in RULES for finding in (rule(facts),) if finding]
    # What changes how everything else is to be read comes first, then by size; last what tells of a part once more.
    findings.sort(key=lambda finding: (finding.rule not in FIRST, finding.part, -(finding.held or 0)))
    return Verdict(_lead(facts), findings, list(_caveats(facts)))


# --- the rules ------------------------------------------------------------------------------------------------------


def another_allocator(facts: Facts) -> Finding | None:
    """Somebody else answers malloc(): glibc's arenas are not where the program's blocks are."""
    kind = facts.summary["allocator"]["malloc"]
    if kind == "glibc":
        return None
    detail = facts.summary["allocator"]["detail"] or "no reason was found"
    held = facts.row("other_anon")
    if kind == "unknown":
        says = "Which malloc this program uses is not known."
        why = f"{_sentence(detail)} Memory outside glibc's arenas stands in the rows that are not malloc's."
    else:
        says = f"{kind} answers malloc() here, not glibc: its memory stands in “other anonymous”, {size(held)}."
        why = f"{_sentence(detail)} malloc_trim(0) does not touch it. The arenas below are glibc's."
    return Finding("another allocator", held, says, why)


def residency_unknown(facts: Facts) -> Finding | None:
    """A core of gcore, or one without its holes: the chunks are known, the pages are not."""
    if facts.summary["snapshot"]["residency_known"]:
        return None
    chunks = facts.summary["chunks"]
    held, free = (
        chunks["in_use"]["bytes"],
        _sum(chunks[name]["bytes"] for name in ("binned", "top", "fastbin", "tcache")),
    )
    return Finding(
        "residency unknown",
        None,
        f"{size(held)} is in chunks in use, {size(free)} in free ones, resident or not.",
        "Cores by gdb's gcore, and cores that lost their holes on the way, do not tell. The living process does.",
    )


def free_pages(facts: Facts) -> Finding | None:
    """Whole free pages that malloc kept: the forecast of malloc_trim(0)."""
    trim = facts.summary["forecast"]["malloc_trim"]
    if not facts.matters(trim):
        return None
    arenas = sum(1 for arena in facts.summary["arenas"] if arena["ledger"]["releasable"])
    swap = facts.summary["forecast"]["malloc_trim_swap"]
    more = f" {size(swap)} of swap goes with it." if swap else ""
    return Finding(
        "free pages kept",
        trim,
        f"{size(trim)} would come back with one malloc_trim(0).",
        f"It lies in whole free pages of {plural(arenas, 'arena')}. free() gives back only the end of a heap; what is "
        f"freed in the middle glibc keeps for later.{more}",
        command=facts.gdb("call (int)malloc_trim(0)"),
        lights="row:releasable",
    )


def withheld_tops(facts: Facts) -> Finding | None:
    """Free pages in the tops of thread arenas: above malloc_trim's reach, below free()'s threshold."""
    withheld = facts.row("withheld")
    if not facts.matters(withheld):
        return None
    holders = [arena for arena in facts.summary["arenas"] if arena["ledger"]["withheld"]]
    idle = sum(1 for arena in holders if arena["attached_threads"] == 0)
    where = plural(len(holders), "idle arena" if idle == len(holders) else "arena")
    return Finding(
        "withheld tops",
        withheld,
        f"{size(withheld)} is free at the top of {where}, where malloc_trim(0) cannot reach.",
        f"malloc_trim(0) shrinks only the main arena's top. {_threshold(facts)}",
        lights="row:withheld",
    )


def pinned(facts: Facts) -> Finding | None:
    """Free memory on pages that a chunk in use keeps."""
    stranded = facts.row("stranded")
    if not facts.matters(stranded):
        return None
    pins = [pin for pin in facts.summary["pins"] if pin["pages"]]
    pages = _sum(pin["pages"] for pin in pins)
    says = f"{size(stranded)} is free but stranded, on pages that something in use keeps resident."
    why = "No trim returns it: only freeing what shares those pages does."
    if pins and pages:
        worst = max(pins, key=lambda pin: pin["pages"] or 0)
        why = (
            f"{count(pages)} pages are each kept by one chunk alone; chunks of {count(worst['chunk_size'])} bytes keep "
            f"{count(worst['pages'])} of them, with {size(worst['stranded'])} free beside. {why}"
        )
    return Finding("stranded by pins", stranded, says, why, lights="row:stranded")


def idle_arenas(facts: Facts) -> Finding | None:
    """Arenas that no thread uses any more, and what free memory sits in them."""
    arenas = facts.summary["arenas"]
    idle = [arena for arena in arenas if arena["attached_threads"] == 0 and not arena["main"]]
    free = _sum(_free(arena["ledger"]) for arena in idle)
    if not idle or not facts.matters(free):
        return None
    idle.sort(key=lambda arena: -(_free(arena["ledger"]) or 0))
    named = ", ".join(arena["address"] for arena in idle[:NAMED])
    rest = f" and {len(idle) - NAMED} more" if len(idle) > NAMED else ""
    verb = "has" if len(idle) == 1 else "have"
    return Finding(
        "idle arenas",
        free,
        f"{len(idle)} of {plural(len(arenas), 'arena')} {verb} no thread, and {size(free)} of free memory.",
        f"These were made for threads that have ended: {named}{rest}. New threads reuse them; until then nobody "
        f"allocates there. The process has {plural(facts.summary['target']['threads'], 'thread')}. The findings above "
        "count this memory too.",
        lights="idle",
        part=True,
    )


def caches(facts: Facts) -> Finding | None:
    """Hoards in tcaches and fastbins."""
    tcache, fastbin = facts.row("tcache"), facts.row("fastbin")
    held = _sum((tcache, fastbin))
    if held is None or not facts.matters(held):
        return None
    mostly_tcache = (tcache or 0) >= (fastbin or 0)
    says = f"{size(held)} is freed but cached: {size(tcache)} in threads' tcaches, {size(fastbin)} in fastbins."
    threads = [thread for arena in facts.summary["arenas"] for thread in arena["threads"] if thread["tcache_bytes"]]
    largest = max(threads, key=lambda thread: thread["tcache_bytes"], default=None)
    why = "A tcache is emptied when its thread ends; malloc_trim(0) leaves it alone."
    if mostly_tcache and largest:
        why = f"Thread {largest['tid']} ({largest['name']}) holds the most, {size(largest['tcache_bytes'])}. {why}"
    if not mostly_tcache:
        why = (
            "Fastbin chunks are merged with their neighbours by malloc_trim(0), but these lie on pages that something "
            "else keeps: the rest counts as releasable already."
        )
    return Finding("cached", held, says, why, lights="row:tcache" if mostly_tcache else "row:fastbin")


def large_blocks(facts: Facts) -> Finding | None:
    """Large blocks in mappings of their own: in use, whatever one suspects of malloc."""
    held = facts.row("mmapped_in_use")
    if held is None or not facts.matters(held) or held < LARGE * facts.whole:
        return None
    blocks, largest = facts.mmapped
    return Finding(
        "large blocks",
        held,
        f"{size(held)} is in {plural(blocks, 'large block')}, each mapped on its own, the largest of {size(largest)}.",
        "They are in use: free() returns such a block to the kernel at once. No trim makes them smaller.",
        lights="row:mmapped_in_use",
        part=True,
    )


def not_mallocs(facts: Facts) -> Finding | None:
    """Most of Rss is not malloc's at all."""
    held = _sum(facts.row(row) for row in OTHER_ROWS)
    if held is None or held < MOST * facts.whole or facts.summary["allocator"]["malloc"] != "glibc":
        return None
    parts = [f"{path} ({size(rss)})" for path, rss in facts.mappings[:NAMED]]
    return Finding(
        "not malloc's",
        held,
        f"{size(held)}, {share(held, facts.whole)} of it all, is not malloc's.",
        f"Most of it: {', '.join(parts)}. No setting of malloc changes that.",
        lights=None,
    )


def gone_already(facts: Facts) -> Finding | None:
    """Free memory that is not in RAM any more, which mallinfo still counts as held."""
    absent, chunks = facts.summary["absent"], facts.summary["chunks"]
    free = _sum(chunks[name]["bytes"] for name in ("binned", "top", "fastbin"))
    gone = _sum((absent["returned"], absent["swapped_free"]))
    if free is None or gone is None or not facts.matters(gone):
        return None
    swapped = f", and {size(absent['swapped_free'])} is swapped out" if absent["swapped_free"] else ""
    return Finding(
        "gone already",
        gone,
        f"{size(absent['returned'])} of malloc's free memory is back with the kernel already{swapped}.",
        f"mallinfo() and malloc_info() still count it, and say that {size(free)} is held free. It costs no RAM.",
        lights="state:7",
    )


def swapped_in_use(facts: Facts) -> Finding | None:
    """Part of what the application holds is swapped out."""
    held = facts.summary["absent"]["swapped_in_use"]
    if not facts.matters(held):
        return None
    return Finding(
        "swapped",
        held,
        f"{size(held)} that the application holds in malloc's heaps is swapped out.",
        "It is in use, and not in Rss: the process is larger than Rss says.",
        lights="state:9",
    )


def in_use(facts: Facts) -> Finding | None:
    """Nothing to gain: the application holds most of it."""
    held = _sum((facts.row("in_use"), facts.row("mmapped_in_use")))
    if held is None or held < MOST * facts.whole:
        return None
    sizes = facts.largest_in_use
    which = (
        f" Most of it by size: {plural(sizes[1], 'chunk')} of {count(sizes[0])} bytes, {size(sizes[2])}."
        if sizes
        else ""
    )
    return Finding(
        "in use",
        held,
        f"{size(held)}, {share(held, facts.whole)} of it all, is in use by the application.",
        f"No trim brings that back, only the application by freeing it.{which}",
        lights="row:in_use",
    )


RULES: Final[tuple[Rule, ...]] = (
    another_allocator,
    residency_unknown,
    free_pages,
    withheld_tops,
    pinned,
    idle_arenas,
    caches,
    large_blocks,
    not_mallocs,
    gone_already,
    swapped_in_use,
    in_use,
)
FIRST: Final = ("another allocator", "residency unknown")


# --- the sentences around them --------------------------------------------------------------------------------------


def _lead(facts: Facts) -> str:
    rss = facts.summary["kernel"]["rss"]
    held = _sum((facts.row("in_use"), facts.row("mmapped_in_use")))
    if rss is None and held is None:
        return "How much of this process was resident is not known."
    if facts.summary["allocator"]["malloc"] != "glibc":
        return f"{size(rss)} resident."
    other = _sum(facts.row(row) for row in OTHER_ROWS)
    if rss is not None and other is not None and other >= MOST * rss:
        return f"{size(rss)} resident; {size(rss - other)} of it is malloc's."
    if rss is None:
        return f"{size(held)} of what was resident is in use."
    return f"{size(rss)} resident; {size(held)} is in use."


def _caveats(facts: Facts) -> Iterable[str]:
    snapshot, ledger = facts.summary["snapshot"], facts.summary["ledger"]
    if snapshot["torn_chunks"]:
        torn = plural(snapshot["torn_chunks"], "chunk")
        yield f"The heap changed, or is corrupt, at {torn}: what lies behind is unknown."
    if ledger["unknown"]:
        yield f"{size(ledger['unknown'])} could not be told apart."
    if not snapshot["exact"] and snapshot["residency_known"] and not snapshot["torn_chunks"]:
        yield "The rows need not add up to Rss to the byte: see “How this was found”."


def _threshold(facts: Facts) -> str:
    """What decides whether free() gives a top back."""
    tunables = facts.summary["tunables"]
    trim, mmap = tunables["trim_threshold"], tunables["mmap_threshold"]
    if trim is None:
        return "free() gives a top back only when it is larger than the trim threshold, which is not known here."
    words = f"free() gives a top back only once it is larger than the trim threshold, {size(trim)} here"
    if mmap is not None and trim == 2 * mmap and trim > 2 * DEFAULT_THRESHOLD and tunables["no_dyn_threshold"] == 0:
        words += (
            f": glibc raised it from {size(DEFAULT_THRESHOLD)} to twice the size of the largest mmapped block that was "
            f"freed ({size(mmap)})"
        )
    return words + "."


def _free(ledger: Json) -> int | None:
    return _sum(ledger[row] for row in FREE_ROWS)


def _sum(numbers: Iterable[int | None]) -> int | None:
    """A sum: unknown when a part of it is."""
    parts = list(numbers)
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)


def _sentence(words: str) -> str:
    return words.strip().rstrip(".") + "."


def gdb_command(pid: int, call: str) -> str:
    """The command that has a living process do something, with what every machine has today."""
    return f"gdb -p {pid} -batch -ex {shlex.quote(call)}"
