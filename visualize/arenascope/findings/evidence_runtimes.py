# SPDX-License-Identifier: MIT
"""What shows the findings about runtimes' heaps, and about other allocators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from arenascope.coverage import total
from arenascope.findings.inputs import NAMED
from arenascope.findings.next_steps import mostly_free
from arenascope.findings.parts import WholeBytes
from arenascope.humanize import UNKNOWN, count, plural, printable
from arenascope.runtime_names import NAMES

if TYPE_CHECKING:
    from arenascope.findings.inputs import Facts
    from arenascope.wire.summary.findings import Finding
    from arenascope.wire.summary.runtimes import Objects, ObjectType, Runtime


def another_allocator(facts: Facts, _: Finding) -> str:
    """How it was found, and what that means."""
    allocator = facts.summary.allocator
    detail = printable(allocator.detail or "no reason was found").strip().rstrip(".") + "."
    if allocator.malloc == UNKNOWN:
        return f"{detail} {allocator.not_glibc.memory if allocator.not_glibc else ''}".rstrip()
    nevertheless = " The arenas are those of glibc's malloc, which some code uses nevertheless."
    own = any(arena.heaps for arena in facts.summary.arenas)
    return f"{detail} malloc_trim(0) does not touch this memory.{nevertheless if own else ''}"


def residency_unknown(_: Facts, __: Finding) -> str:
    """How that comes about."""
    return (
        "A core by gdb's gcore, or a core that lost its holes in a copy, does not record which pages were resident. "
        "A snapshot of the living process shows it."
    )


def ruby_pages(facts: Facts, _: Finding) -> str:
    """How many slots there are, and what empties them."""
    ruby = facts.summary.ruby
    if ruby is None:
        return ""
    scattered = " The few objects left keep them: GC.compact moves objects together." if mostly_free(facts) else ""
    return (
        f"{plural(ruby.pages, 'page')} with {plural(ruby.slots, 'slot')}. Slots that are not free hold objects, "
        "garbage included, until Ruby's next full GC. Ruby gives a page back only when all its slots are free; a trim "
        f"does not touch these pages.{scattered}{not_marked(facts)}"
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


def python_arenas(facts: Facts, _: Finding) -> str:
    """Which types fill them, and what of them no object holds."""
    found = next((r for r in facts.summary.runtimes if r.row == "python_arenas" and r.found), None)
    if found is None:
        return ""
    most = max(found.size_classes, key=lambda c: c.size * c.in_use, default=None)
    which = f" The largest part is {count(most.in_use)} blocks of {most.size} bytes." if most else ""
    if found.objects:
        both = WholeBytes(total((found.in_use, facts.allocated.bytes)), "allocated")
        types = largest_types(facts, found.objects, lambda each: each.held, both)
        which = f" The largest types, in blocks and in malloc's chunks,{both.words}: {types}."
    size = WholeBytes(found.size)
    return (
        f"{plural(found.regions or 0, 'arena')} of {facts.tell(found.region_size, size)}, resident or not, have "
        f"{facts.tell(found.in_use, size)} in blocks in use, and {facts.tell(found.free, size)} in free blocks between "
        f"them,{size.words}.{which} Python returns an arena only when "
        f"no block of it is in use; no trim and no setting of malloc changes that.{_lines(found)}"
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


def managed(facts: Facts, _: Finding) -> str:
    """The heaps of runtimes that collect garbage, part by part."""
    unknown = "What may be garbage is not told from outside. No trim and no setting of malloc changes this memory."
    return f"{_parts(facts, 'managed')}{unknown}"


def other_malloc(facts: Facts, _: Finding) -> str:
    """Memory of an allocator beside glibc's, part by part."""
    php = (
        " In PHP, memory_get_usage() tells what is used. gc_collect_cycles(), then gc_mem_caches(), return at most the "
        "chunks of 2 MiB in which nothing is in use."
    )
    has_php = any(
        each.runtime == "zend" and each.row == "other_malloc" and each.found for each in facts.summary.runtimes
    )
    return f"{_parts(facts, 'other_malloc')}No trim and no setting of glibc changes it.{php if has_php else ''}"


def _parts(facts: Facts, row: str) -> str:
    return "".join(f"{_part(facts, each)} " for each in facts.summary.runtimes if each.row == row and each.found)


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
