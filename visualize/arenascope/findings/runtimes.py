# SPDX-License-Identifier: MIT
"""What runtimes keep in heaps of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from arenascope.coverage import total
from arenascope.findings.finding import Finding, Rank
from arenascope.findings.inputs import NAMED
from arenascope.findings.next_steps import mostly_free, of_owners, of_runtime
from arenascope.findings.parts import WholeBytes
from arenascope.humanize import UNKNOWN, count, plural, printable, share
from arenascope.runtime_names import NAMES

if TYPE_CHECKING:
    from arenascope.findings.inputs import Facts
    from arenascope.wire.summary.runtimes import Objects, ObjectType, Runtime


def ruby_pages(facts: Facts) -> Finding | None:
    """Ruby's own heap, and how much of it holds no object."""
    held, ruby = facts.row("ruby_pages"), facts.summary.ruby
    if not ruby or not facts.matters(held, "ruby_pages"):
        return None
    free = share(ruby.free_slots, ruby.slots)
    scattered = " The few objects left keep them: GC.compact moves objects together." if mostly_free(facts) else ""
    return Finding(
        "Ruby's pages",
        Rank.ROW,
        held,
        f"{facts.tell(held)} is in pages of Ruby's own heap; {free} of their slots are free.",
        f"{plural(ruby.pages, 'page')} with {plural(ruby.slots, 'slot')}. Slots that are not free hold objects, "
        "garbage included, until Ruby's next full GC. Ruby gives a page back only when all its slots are free; a trim "
        f"does not touch these pages.{scattered}{not_marked(facts)}",
        rows=("ruby_pages",),
        next=(*of_runtime(facts, "ruby_pages"), *of_owners(facts)),
    )


def not_marked(facts: Facts) -> str:
    """What of a Ruby's objects may be garbage, if they were counted."""
    objects = facts.summary.ruby.objects if facts.summary.ruby else None
    if objects is None:
        return ""
    if objects.not_marked is None or objects.not_marked_bytes is None:
        return " Some of its objects may be garbage, which cannot be told here: GC.start in the process first."
    held = facts.tell_apart(objects.not_marked_bytes)
    objects_in_all = sum(each.count for each in objects.types)
    return (
        f" {count(objects.not_marked)} of Ruby's {count(objects_in_all)} objects, which hold {held} in its "
        "pages and in malloc's memory, were made since its last GC: how many of them are garbage, GC.start tells."
    )


def python_arenas(facts: Facts) -> Finding | None:
    """CPython's own heap: which types fill it, and what of it no object holds."""
    held = facts.row("python_arenas")
    found = next((r for r in facts.summary.runtimes if r.row == "python_arenas" and r.found), None)
    if not found or held is None or not facts.matters(held, "python_arenas"):
        return None
    most = max(found.size_classes, key=lambda c: c.size * c.in_use, default=None)
    which = f" The largest part is {count(most.in_use)} blocks of {most.size} bytes." if most else ""
    if found.objects:
        both = WholeBytes(total((found.in_use, facts.allocated.bytes)), "allocated")
        types = largest_types(facts, found.objects, lambda each: each.held, both)
        which = f" The largest types, in blocks and in malloc's chunks,{both.words}: {types}."
    size = WholeBytes(found.size)
    return Finding(
        "Python's arenas",
        Rank.ROW,
        held,
        f"{facts.tell(held)} of it ({share(held, facts.whole)}) is in the arenas of Python's own allocator.",
        f"{plural(found.regions or 0, 'arena')} of {facts.tell(found.region_size, size)}, resident or not, have "
        f"{facts.tell(found.in_use, size)} in blocks in use, and {facts.tell(found.free, size)} in free blocks between "
        f"them,{size.words}.{which} Python returns an arena only when "
        "no block of it is in use; no trim and no setting of malloc changes that."
        f"{_lines(found)}",
        rows=("python_arenas",),
        next=(*of_runtime(facts, "python_arenas"), *of_owners(facts)),
    )


def _lines(python: Runtime) -> str:
    """How to learn which lines of the program allocated the blocks."""
    if python.traces:
        return (
            f" tracemalloc is on and has traces of {plural(python.traces, 'block')}: tracemalloc.take_snapshot() in "
            "the process tells which lines of the program allocated them."
        )
    return " The module tracemalloc tells which lines of the program allocated the blocks."


def largest_types(facts: Facts, objects: Objects, held: Callable[[ObjectType], int], whole: WholeBytes) -> str:
    """The types with the most bytes: "list: 300,247 objects, 22.9 MiB with what they own; …"."""
    largest = sorted(objects.types, key=held, reverse=True)[:NAMED]
    return "; ".join(
        f"{printable(each.name or UNKNOWN)}: {plural(each.count, 'object')}, {facts.tell(held(each), whole)}"
        + (" with what they own" if each.owned else "")
        for each in largest
        if held(each)
    )


def managed(facts: Facts) -> Finding | None:
    """The heaps of runtimes that collect garbage."""
    held = facts.row("managed")
    if not facts.matters(held, "managed"):
        return None
    parts = [each for each in facts.summary.runtimes if each.row == "managed" and each.found]
    names = sorted({NAMES.get(each.runtime or "", "a runtime") for each in parts}) or ["a runtime"]
    return Finding(
        "managed memory",
        Rank.ROW,
        held,
        f"{facts.tell(held)} of it ({share(held, facts.whole)}) is in the memory of {' and '.join(names)}, garbage "
        f"included{_goroutines(facts, parts)}.",
        f"{_parts(facts, parts)} What may be garbage is not told from outside. No trim and no setting of malloc "
        "changes this memory.".strip(),
        rows=("managed",),
        next=of_runtime(facts, "managed"),
    )


def _parts(facts: Facts, parts: list[Runtime]) -> str:
    return " ".join(_part(facts, each) for each in parts)


def _goroutines(facts: Facts, parts: list[Runtime]) -> str:
    """The part of Go's heap that is stacks, and how many goroutines have these."""
    go = next((each for each in parts if each.goroutines), None)
    if not go or not go.goroutines:
        return ""
    held = facts.tell(go.goroutines.stacks_resident, WholeBytes(go.resident))
    number = go.goroutines.count
    whose = "goroutines, whose number is not known" if number is None else plural(number, "goroutine")
    return f"; {held} of it is in stacks of {whose}"


def _part(facts: Facts, each: Runtime) -> str:
    usable = WholeBytes(each.committed, "committed")
    used = (
        ""
        if each.used is None
        else f", {facts.tell(each.used, usable)} used by its own count (live objects and garbage)"
    )
    committed = "" if each.committed is None else f" of {facts.tell(each.committed, WholeBytes(each.size))} committed"
    name = f"{NAMES.get(each.runtime or '', 'A runtime')}'s {each.part or 'memory'}"
    spaces = ", ".join(f"{printable(space.name or UNKNOWN)} {facts.tell(space.used, usable)}" for space in each.spaces)
    by_space = f" Used by space: {spaces}." if spaces else ""
    return f"{name}: {facts.tell(each.resident)} resident{committed}{used}.{by_space}"


def other_malloc(facts: Facts) -> Finding | None:
    """Memory of an allocator beside glibc's. One that answers malloc() in its place is a premise."""
    held = facts.row("other_malloc")
    if not facts.matters(held, "other_malloc") or facts.summary.allocator.not_glibc:
        return None
    parts = [each for each in facts.summary.runtimes if each.row == "other_malloc" and each.found]
    names = sorted({NAMES.get(each.runtime or "", "another allocator") for each in parts}) or ["another allocator"]
    php = (
        " In PHP, memory_get_usage() tells what is used. gc_collect_cycles(), then gc_mem_caches(), return at most the "
        "chunks of 2 MiB in which nothing is in use."
    )
    return Finding(
        "other malloc",
        Rank.ROW,
        held,
        f"{facts.tell(held)} of it ({share(held, facts.whole)}) is in the memory of {' and '.join(names)}, not of "
        "glibc's malloc.",
        f"{_parts(facts, parts)} No trim and no setting of glibc changes it."
        f"{php if any(each.runtime == 'zend' for each in parts) else ''}".strip(),
        rows=("other_malloc",),
        next=of_runtime(facts, "other_malloc"),
    )
