# SPDX-License-Identifier: MIT
"""What the application holds, what is not malloc's, and what is not in Rss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from arenascope.coverage import total
from arenascope.findings.finding import Finding, Rank
from arenascope.findings.inputs import LARGE, MIB, NAMED, NOTABLE
from arenascope.findings.next_steps import (
    is_node,
    java_native,
    of_growth,
    of_leaks,
    of_mapped,
    of_mappings,
    of_owners,
    of_runtime,
    of_siblings,
    of_sites,
    of_threads,
    runtimes,
)
from arenascope.findings.parts import WholeBytes
from arenascope.findings.runtimes import largest_types, not_marked
from arenascope.humanize import UNKNOWN, count, plural, printable, share
from arenascope.rows import RESIDENT
from arenascope.wire.graph_parts import MAPPING, owner_name
from arenascope.wire.summary import objects_by_type

if TYPE_CHECKING:
    from arenascope.findings.inputs import Facts
    from arenascope.wire.summary.findings import Step
    from arenascope.wire.summary.heaps import ChunkSize

USED: Final = 0.1  # of Rss: what is in use, and is less, is not named unless it is the largest row
MOST: Final = 0.5  # of what is in use: one size that has as much, in MANY chunks, may be a leak
MANY: Final = 10_000
FEW: Final = 0.01  # of what is in use: sizes that have less are not named


def gone_already(facts: Facts) -> Finding | None:
    """Free memory that is not in RAM any more, which mallinfo still counts as held."""
    absent, chunks = facts.summary.absent, facts.summary.chunks
    free = total(tally.bytes for tally in (chunks.binned, chunks.top, chunks.fastbin))
    returned, swapped_free = absent["returned"], absent["swapped_free"]
    gone = total((returned, swapped_free))
    if free is None or gone is None or not facts.matters(gone):
        return None
    swapped = f", and {facts.tell_apart(swapped_free)} of it or of caches is swapped out" if swapped_free else ""
    return Finding(
        "gone already",
        Rank.BESIDE,
        gone,
        f"{facts.tell(returned, WholeBytes(free))} of malloc's free memory has been returned to the kernel "
        f"already{swapped}.",
        f"It costs no RAM. mallinfo() and malloc_info() still count it: they report {facts.tell_apart(free)} of free "
        "memory.",
        lights="row:returned" if returned else "row:swapped_free",
    )


def swapped_in_use(facts: Facts) -> Finding | None:
    """Part of what the application holds is swapped out."""
    held = facts.summary.absent["swapped_in_use"]
    if not facts.matters(held):
        return None
    return Finding(
        "swapped",
        Rank.BESIDE,
        held,
        f"{facts.tell_apart(held)} that the application holds in malloc's heaps is swapped out.",
        "This memory is in use but not in Rss: the process is larger than Rss says.",
        lights="row:swapped_in_use",
    )


def open_files(facts: Facts) -> Finding | None:
    """Files in memory that are open and not mapped: a cgroup counts them, Rss does not."""
    files = facts.summary.open_files
    if files is None or not facts.matters(files.bytes):
        return None
    all_ = WholeBytes(files.bytes)
    largest = ", ".join(
        f"{printable(each.name or UNKNOWN)} ({facts.tell(each.bytes, all_)})"
        for each in files.largest[:NAMED]
        if each.bytes
    )
    left = plural(files.descriptors_left or 0, "more descriptor")
    beyond = f" {left} were not searched." if files.descriptors_left else ""
    return Finding(
        "open files in memory",
        Rank.BESIDE,
        files.bytes,
        f"{facts.tell_apart(files.bytes)} is in {plural(files.count, 'file')} in memory that the process has open and "
        "does not map.",
        f"The largest: {largest}. A memfd and files on tmpfs stay in memory, or in swap, until they have no name and "
        f"nobody has them open. A cgroup counts them, Rss does not. Other processes may have them open, too.{beyond}",
        estimate=f"{left} were not searched" if files.descriptors_left else None,
    )


def in_use(facts: Facts) -> Finding | None:
    """The application holds much of it: in chunks of which sizes, and whether that resembles a leak."""
    held = facts.summary.sums.used
    if held is None or not facts.is_large(held, "in_use", "mmapped_in_use", least=USED):
        return None
    allocated = facts.allocated.bytes or 0
    largest = [each for each in facts.summary.largest_sizes[:NAMED] if each.bytes >= FEW * allocated]
    most = largest[0] if largest and largest[0].bytes >= NOTABLE * allocated else None
    typed = _largest_type(facts, max(most.bytes if most else 0, NOTABLE * allocated))
    lost = _lost(facts)
    suspicion = _suspicion(facts, most) if lost < MOST * allocated else ""
    garbage = "perhaps garbage, " if "ruby" in runtimes(facts) else ""
    maybe = f", {garbage}perhaps a leak, perhaps a cache" if suspicion else ""
    if lost and lost >= FEW * allocated:
        maybe = f"{maybe}; {facts.tell(lost, facts.in_graph)} is lost"
        maybe += "" if most else facts.in_graph.words
    named = 1 if most and not typed else 0
    which = f": {typed or _size(facts, most)}{maybe}" if most or typed else maybe
    more = [f"{_chunks(each)} ({facts.tell(each.bytes, facts.allocated)})" for each in largest[named:]]
    then = f" The {'next' if named else 'largest'} sizes{facts.allocated.words}: {', '.join(more)}." if more else ""
    return Finding(
        "in use",
        Rank.ROW,
        held,
        f"{facts.tell(held)} of it ({share(held, facts.whole)}) is in use by the application{which}.",
        "malloc has handed it out, and it was not freed: no trim returns it. How much of it the program still uses is "
        f"not known.{suspicion}{then}"
        f"{_of_graph(facts, named=bool(typed))}{_of_runtime(facts)}",
        lights="row:in_use",
        rows=("in_use", "mmapped_in_use"),
        next=_who_holds_it(facts, suspected=bool(suspicion)),
    )


def _largest_type(facts: Facts, least: float) -> str | None:
    """What the chunks of one type hold, if the snapshot has a graph, and they hold more than this. A size says less."""
    graph = facts.summary.graph
    # A runtime's objects are not what this finding is about.
    types = graph.types if graph and graph.exact and not graph.objects.count else ()
    known = [each for each in types if each.type and each.evidence != MAPPING]
    if not known or known[0].bytes <= least:
        return None
    first = known[0]
    hold = "chunk of type {} holds" if first.count == 1 else "chunks of type {} hold"
    return (
        f"{count(first.count)} {hold.format(printable(first.type or ''))} {facts.tell(first.bytes, facts.in_chunks)}"
        + (facts.in_chunks.words)
    )


def _size(facts: Facts, most: ChunkSize | None) -> str:
    """What the chunks of one size hold, by their sizes: not all of it needs to be resident."""
    if most is None:
        return ""
    hold = "holds" if most.count == 1 else "hold"
    return f"{_chunks(most)} {hold} {facts.tell(most.bytes, facts.allocated)}{facts.allocated.words}"


def _chunks(each: ChunkSize) -> str:
    return f"{plural(each.count, 'chunk')} of {count(each.chunk_size)} bytes"


def _suspicion(facts: Facts, most: ChunkSize | None) -> str:
    """What may be a leak, said as what it is."""
    if not most or most.count < MANY or most.bytes < MOST * (facts.allocated.bytes or 0):
        return ""
    return (
        f" {share(most.bytes, facts.allocated.bytes)} of what is allocated is in {count(most.count)} chunks of one "
        "size. A leak resembles this; so do a cache and a large table. A leak goes on growing while the work stays the "
        "same."
    )


def _lost(facts: Facts) -> int:
    """Bytes that nobody holds, where the snapshot has a graph; of a process that ran on they are no fact."""
    graph = facts.summary.graph
    return graph.direct.bytes + graph.indirect.bytes if graph and graph.exact else 0


def _of_graph(facts: Facts, *, named: bool = False) -> str:
    """Who holds it, of what types it is, and what nobody holds, where the dump has a graph.

    `named`: the largest type has been named already.
    """
    graph = facts.summary.graph
    if graph is None or not graph.bytes:
        return ""
    owners = [each for each in graph.owners if each.retained >= FEW * graph.bytes][:NAMED]
    types = [each for each in graph.types if each.bytes >= FEW * graph.bytes and each.evidence != MAPPING][:NAMED]
    words = ""
    if owners:
        listed = ", ".join(f"{owner_name(each.owner)} ({facts.tell(each.retained, facts.in_graph)})" for each in owners)
        words += f" Who holds it,{facts.in_graph.words}: {listed}."
    if types[named:]:
        listed = ", ".join(
            f"{printable(each.type or '')} ({facts.tell(each.bytes, facts.in_chunks)})" for each in types[named:]
        )
        words += f" The {'next' if named else 'largest'} types{facts.in_chunks.words}: {listed}."
    if graph.typed < graph.bytes:
        words += f" {share(graph.bytes - graph.typed, graph.bytes)} of these bytes have no known type."
    lost = graph.direct.bytes + graph.indirect.bytes
    if lost:
        chunks = plural(graph.direct.count + graph.indirect.count, "chunk")
        words += f" {facts.tell(lost, facts.in_graph)} in {chunks} is lost: no pointer was found that leads there."
    return words if graph.exact else f"{words} (Who holds it was not read of one instant, or not wholly.)"


def _of_runtime(facts: Facts) -> str:
    """What a runtime's own objects are of it, and what may be garbage."""
    words = ""
    for whose, objects in objects_by_type(facts.summary):
        in_malloc = sum(each.in_malloc or 0 for each in objects.types)
        if in_malloc:
            held = facts.tell(in_malloc, facts.allocated)
            types = largest_types(facts, objects, lambda each: each.in_malloc or 0, WholeBytes(in_malloc))
            words += f" {whose} objects hold {held}{facts.allocated.words}: {types}."
    if "ruby" in runtimes(facts):
        words += (
            " What Ruby's strings, arrays and hashes hold is part of it, garbage included, until Ruby's next full GC."
        )
        words += not_marked(facts)
    if "jvm" in runtimes(facts):
        words += " Direct buffers are part of it, and what the Java virtual machine itself allocates."
    if is_node(facts):
        words += (
            " Node's Buffers are part of it, and what addons allocate: process.memoryUsage().arrayBuffers in the "
            "process tells the bytes of Buffers."
        )
    return words + _of_tracemalloc(facts)


def _of_tracemalloc(facts: Facts) -> str:
    """What a Python pays for being asked where its blocks come from."""
    python = next((each for each in facts.summary.runtimes if each.traces and each.trace_bytes), None)
    if python is None or (python.trace_bytes or 0) < FEW * (facts.allocated.bytes or 0):
        return ""
    return (
        f" Python's tracemalloc is on: its {count(python.traces)} traces take "
        f"{facts.tell(python.trace_bytes, facts.allocated)} or more{facts.allocated.words}. tracemalloc.stop() in the "
        "process frees them."
    )


def _who_holds_it(facts: Facts, *, suspected: bool) -> tuple[Step, ...]:
    if facts.pid is not None and "jvm" in runtimes(facts):
        return (*java_native(facts.pid), *of_owners(facts), *of_siblings(facts), *of_leaks(facts), *of_sites(facts))
    native = "v8", "go"  # whose steps tell nothing of malloc's memory
    to_json = of_runtime(facts) if not set(native) & set(runtimes(facts)) else ()
    # A runtime's own objects are no chunks of malloc's: what is large here is its libraries', and may be lost.
    leaks = of_leaks(facts) if suspected or runtimes(facts) else ()
    return (*to_json, *of_owners(facts), *of_siblings(facts), *leaks, *of_sites(facts), *of_growth(facts))


def large_blocks(facts: Facts) -> Finding | None:
    """Large blocks in mappings of their own: in use, whatever one suspects of malloc."""
    held = facts.row("mmapped_in_use")
    if held is None or held < MIB or held < LARGE * facts.whole:
        return None
    blocks, largest = facts.summary.chunks.mmapped.count, facts.summary.largest_mmapped
    all_ = WholeBytes(facts.summary.chunks.mmapped.bytes, "allocated")
    which = f"one large block of {facts.tell_apart(largest)}, mapped on its own"
    if blocks != 1:
        which = (
            f"{plural(blocks, 'large block')}, each mapped on its own, the largest with {facts.tell(largest, all_)}"
            f"{all_.words}"
        )
    return Finding(
        "large blocks",
        Rank.PART,
        held,
        f"{facts.tell(held, WholeBytes(facts.summary.sums.used))} of what is in use is in {which}.",
        "free() returns such a block to the kernel at once, and no trim makes it smaller. How much of these blocks the "
        "program uses is not known.",
        lights="row:mmapped_in_use",
    )


def files(facts: Facts) -> Finding | None:
    """Pages of files: the program, its libraries, and what it mapped."""
    return _mapped(facts, "other_file", "of files", "The kernel takes such pages back when memory is short.")


def shared_memory(facts: Facts) -> Finding | None:
    """Memory that other processes may have, too."""
    says = "in shared memory"
    return _mapped(facts, "other_shmem", says, "It is counted in Rss of each process that has touched it.")


def anonymous_memory(facts: Facts) -> Finding | None:
    """Anonymous memory of which nothing else is known."""
    if facts.summary.allocator.not_glibc:
        return None  # premises.another_allocator tells of it
    return _mapped(facts, "other_anon", "anonymous memory that is not malloc's", "No setting of malloc changes that.")


def stacks(facts: Facts) -> Finding | None:
    """What threads have touched of their stacks."""
    held, threads = facts.row("stacks"), plural(facts.summary.target.threads, "thread")
    if held is None or not facts.is_large(held, "stacks"):
        return None
    return Finding(
        "stacks",
        Rank.ROW,
        held,
        f"{facts.tell(held)} of it ({share(held, facts.whole)}) is in the stacks of {threads}.",
        "A stack keeps the pages of the deepest call that its thread ever made, until the thread ends."
        + _unused(facts),
        rows=("stacks",),
        next=of_threads(facts),
    )


def _unused(facts: Facts) -> str:
    """What calls that have returned have left on the stacks, and on whose."""
    stacks, held = facts.summary.stacks, WholeBytes(facts.row("stacks"))
    if stacks is None:
        return ""
    largest = ", ".join(
        f"{printable(each.name)} {each.tid} with {facts.tell(each.resident, held)} "
        f"({facts.tell(each.unused, WholeBytes(each.resident))} unused)"
        for each in stacks.largest[:NAMED]
    )
    unused = facts.tell(stacks.unused, held)
    return f" {unused} lies below the stack pointers: calls that have returned left it unused. The largest: {largest}."


def any_other(facts: Facts) -> Finding | None:
    """The largest row, if no rule is about it."""
    row = next((row for row in RESIDENT if row.name == facts.largest_row), None)
    if row is None:
        return None
    held = facts.row(row.name)
    return Finding(
        row.title,
        Rank.ROW,
        held,
        f"{facts.tell(held)} of it ({share(held, facts.whole)}) is the row “{row.title}”: {row.meaning}.",
        row.definition,
        lights=f"row:{row.name}" if row.owner == "MALLOC" else None,  # else it is not on the map
        rows=(row.name,),
        next=of_runtime(facts),
    )


def _mapped(facts: Facts, row: str, what: str, why: str) -> Finding | None:
    held = facts.row(row)
    if held is None or not facts.is_large(held, row):
        return None
    return Finding(
        next(each.title for each in RESIDENT if each.name == row),
        Rank.ROW,
        held,
        f"{facts.tell(held)} of it ({share(held, facts.whole)}) is {what}.",
        f"{_largest_of(facts, row)}{why}",
        rows=(row,),
        next=(
            *(() if row == "other_file" else of_runtime(facts)),
            *(of_mapped(facts) if row == "other_anon" else ()),
            *of_mappings(facts),
        ),
    )


def _largest_of(facts: Facts, row: str) -> str:
    if row == "other_anon":
        return _without_thread(facts) or _one_mapping(facts)
    largest = [each for each in facts.summary.mappings.files.largest if each.row == row and each.bytes][:NAMED]
    parts = [f"{printable(each.title)} ({facts.tell(each.bytes, WholeBytes(facts.row(row)))})" for each in largest]
    return f"The largest: {', '.join(parts)}. " if parts else ""


def _without_thread(facts: Facts) -> str:
    """The stacks of no thread that runs, where they are a large part of the row."""
    stacks = facts.summary.mappings.anonymous.stacks_without_thread
    held = facts.row("other_anon")
    if not stacks.bytes or stacks.count == 1 or stacks.bytes < LARGE * (held or 0):
        return ""
    return (
        f"{plural(stacks.count, 'mapping')} of {facts.tell_apart(stacks.size)} in all, "
        f"{facts.tell(stacks.bytes, WholeBytes(held))} of it resident, may be "
        "stacks of threads that have ended, or of coroutines: a guard lies just below each, and no thread's stack "
        "pointer in it. glibc keeps up to 40 MiB of such stacks for new threads (a tunable may say otherwise), and "
        "each stack of a thread that nobody has joined or detached. "
    )


def _one_mapping(facts: Facts) -> str:
    """The largest anonymous mapping, if it is worth a sentence."""
    if not facts.large_mappings:
        return ""
    largest = facts.large_mappings[0]
    held = facts.tell(largest.bytes, WholeBytes(facts.row("other_anon")))
    says = f"The largest anonymous mapping has {held}, at {largest.address}"
    if largest.may_be:
        says += f": it may be {printable(largest.may_be)}, because {printable(largest.evidence or '')}"
    return f"{says}. "
