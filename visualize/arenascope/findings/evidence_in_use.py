# SPDX-License-Identifier: MIT
"""What shows the findings about what the application holds, what is not malloc's, and what is not in Rss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from arenascope.coverage import total
from arenascope.findings.evidence_runtimes import largest_types, not_marked
from arenascope.findings.inputs import LARGE, NAMED
from arenascope.findings.next_steps import is_node, runtimes
from arenascope.findings.parts import WholeBytes
from arenascope.humanize import UNKNOWN, count, plural, printable, share
from arenascope.rows import BY_NAME
from arenascope.wire.graph_parts import MAPPING, owner_name
from arenascope.wire.summary import objects_by_type

if TYPE_CHECKING:
    from arenascope.findings.inputs import Facts
    from arenascope.wire.summary.findings import Finding
    from arenascope.wire.summary.heaps import ChunkSize

FEW: Final = 0.01  # of what is in use: sizes that have less are not named


def gone_already(facts: Facts, _: Finding) -> str:
    """What mallinfo still counts as held."""
    chunks = facts.summary.chunks
    free = total(tally.bytes for tally in (chunks.binned, chunks.top, chunks.fastbin))
    return (
        f"It costs no RAM. mallinfo() and malloc_info() still count it: they report {facts.tell_apart(free)} of free "
        "memory."
    )


def swapped(_: Facts, __: Finding) -> str:
    """What Rss does not say."""
    return "This memory is in use but not in Rss: the process is larger than Rss says."


def open_files(facts: Facts, finding: Finding) -> str:
    """The largest, and how long they stay."""
    files = facts.summary.open_files
    largest = ", ".join(
        f"{printable(each.name or UNKNOWN)} ({facts.tell(each.bytes, WholeBytes(finding.bytes))})"
        for each in (files.largest if files else ())[:NAMED]
        if each.bytes
    )
    beyond = f" {finding.estimate}." if finding.estimate else ""
    return (
        f"The largest: {largest}. A memfd and files on tmpfs stay in memory, or in swap, until they have no name and "
        f"nobody has them open. A cgroup counts them, Rss does not. Other processes may have them open, too.{beyond}"
    )


def in_use(facts: Facts, finding: Finding) -> str:
    """In chunks of which sizes it is, who holds it, and whether that resembles a leak."""
    allocated, named = facts.allocated.bytes or 0, "size" in finding.tells
    largest = [each for each in facts.summary.largest_sizes[:NAMED] if each.bytes >= FEW * allocated]
    more = [f"{_chunks(each)} ({facts.tell(each.bytes, facts.allocated)})" for each in largest[named:]]
    then = f" The {'next' if named else 'largest'} sizes{facts.allocated.words}: {', '.join(more)}." if more else ""
    return (
        "malloc has handed it out, and it was not freed: no trim returns it. How much of it the program still uses is "
        f"not known.{_suspicion(facts, finding)}{then}"
        f"{_of_graph(facts, named='type' in finding.tells)}{_of_runtime(facts)}"
    )


def _chunks(each: ChunkSize) -> str:
    return f"{plural(each.count, 'chunk')} of {count(each.chunk_size)} bytes"


def _suspicion(facts: Facts, finding: Finding) -> str:
    """What may be a leak, said as what it is."""
    if "leak" not in finding.tells:
        return ""
    most = facts.summary.largest_sizes[0]
    return (
        f" {share(most.bytes, facts.allocated.bytes)} of what is allocated is in {count(most.count)} chunks of one "
        "size. A leak resembles this; so do a cache and a large table. A leak goes on growing while the work stays the "
        "same."
    )


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


def large_blocks(_: Facts, __: Finding) -> str:
    """What a block in a mapping of its own is, whatever one suspects of malloc."""
    return (
        "free() returns such a block to the kernel at once, and no trim makes it smaller. How much of these blocks the "
        "program uses is not known."
    )


def files(facts: Facts, _: Finding) -> str:
    """The program, its libraries, and what it mapped."""
    return f"{_largest_of(facts, 'other_file')}The kernel takes such pages back when memory is short."


def shared_memory(facts: Facts, _: Finding) -> str:
    """Memory that other processes may have, too."""
    return f"{_largest_of(facts, 'other_shmem')}It is counted in Rss of each process that has touched it."


def anonymous_memory(facts: Facts, _: Finding) -> str:
    """What it may be."""
    return f"{_without_thread(facts) or _one_mapping(facts)}No setting of malloc changes that."


def stacks(facts: Facts, _: Finding) -> str:
    """What threads have touched of their stacks."""
    return (
        f"A stack keeps the pages of the deepest call that its thread ever made, until the thread ends.{_unused(facts)}"
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


def any_other(_: Facts, finding: Finding) -> str:
    """What the row is, if no rule is about it."""
    return BY_NAME[finding.rows[0]].definition


def _largest_of(facts: Facts, row: str) -> str:
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
