# SPDX-License-Identifier: MIT
"""The next step for each runtime: commands that tell more of its memory, each a line to paste into a shell.

A step never runs code in the process by force: it asks the runtime by a way that the runtime offers, or it says with
what to start the program the next time. tests/cli/test_next_steps.py runs each on a real process.
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Callable, Final

from arenascope.findings.inputs import LARGE, NAMED
from arenascope.listening import contains, listening, runs
from arenascope.processes import smaller_sibling
from arenascope.wire.summary import objects_by_type
from arenascope.wire.summary.findings import Step

if TYPE_CHECKING:
    from arenascope.findings.inputs import Facts
    from arenascope.wire.summary.findings import Finding
    from arenascope.wire.summary.runtimes import Runtime

PPROF: Final = b"net/http/pprof.Index"  # in the table of functions, which Go keeps in a stripped program, too
MOSTLY: Final = 0.5  # of a Ruby's slots
NOT_USED: Final = "(Not if the program uses SIGUSR2 itself, as Puma does.)"
RESTART: Final = "Then start the program again from the same shell."
# Among Node's own options only, which stand before the program's name: an argument of the program means nothing to
# Node, and the signal would end the process.
HEAP_SNAPSHOT: Final = re.compile(r"\S+( -\S+)*? --heapsnapshot-signal=SIGUSR2( |$)")
NODE: Final = ("node", "nodejs")
CHROMIUM: Final = ("chromium", "chrome", "electron")
MEMORY_TRACE: Final = (
    "--trace-startup='-*,disabled-by-default-memory-infra' --trace-startup-format=json "
    '--trace-startup-file="$PWD/memory.json" --trace-startup-duration=60'
)


def of_finding(facts: Facts, finding: Finding) -> tuple[Step, ...]:
    """What tells more of what was found."""
    if finding.rule == "in use":
        return _who_holds_it(facts, suspected="leak" in finding.tells)
    if finding.rank == "premise":
        return of_runtime(facts) if finding.rule == "another allocator" else ()
    if finding.rank != "row":
        return ()
    (row, *_) = finding.rows
    return _OF_ROW[row](facts, row) if row in _OF_ROW else of_runtime(facts)


def _who_holds_it(facts: Facts, *, suspected: bool) -> tuple[Step, ...]:
    if facts.pid is not None and "jvm" in runtimes(facts):
        return (*java_native(facts.pid), *of_owners(facts), *of_siblings(facts), *of_leaks(facts), *of_sites(facts))
    native = "v8", "go"  # whose steps tell nothing of malloc's memory
    to_json = of_runtime(facts) if not set(native) & set(runtimes(facts)) else ()
    # A runtime's own objects are no chunks of malloc's: what is large here is its libraries', and may be lost.
    leaks = of_leaks(facts) if suspected or runtimes(facts) else ()
    return (*to_json, *of_owners(facts), *of_siblings(facts), *leaks, *of_sites(facts), *of_growth(facts))


def of_runtime(facts: Facts, row: str | None = None) -> tuple[Step, ...]:
    """What the runtimes of this process tell of their memory: all of them, or those whose memory is in this row.

    Empty: none is known, or the process is no more.
    """
    if facts.pid is None:
        return ()
    return tuple(step for runtime in runtimes(facts, row) for step in _STEPS[runtime](facts, facts.pid))


def runtimes(facts: Facts, row: str | None = None) -> list[str]:
    """The runtimes that steps are known for, each once. Node is told by the name of its program, too."""
    names = [
        each.runtime
        for each in facts.summary.runtimes
        if each.runtime in _STEPS and row in {None, each.row} and not _without_arenas(each)
        if each.row != "other_malloc" or not facts.summary.allocator.is_glibc or _has_step_beside_glibc(facts, each)
    ]
    unproven = facts.row("ruby_pages") is None and facts.summary.snapshot.residency_known
    if row in {None, "ruby_pages"} and (facts.summary.ruby or unproven):
        names.append("ruby")
    if row in {None, "managed"} and is_node(facts):
        names.append("v8")
    return list(dict.fromkeys(name for name in names if name))


def _has_step_beside_glibc(facts: Facts, allocator: Runtime) -> bool:
    """Another malloc beside glibc's: it holds much (a preload may have left it idle), and is not jemalloc.

    A jemalloc inside a library or program reads another variable than MALLOC_CONF (JE_ARROW_MALLOC_CONF).
    """
    return facts.matters(allocator.resident) and allocator.runtime != "jemalloc"


def _program(facts: Facts) -> str:
    return PurePosixPath(facts.summary.target.exe or "").name


def _without_arenas(runtime: Runtime) -> bool:
    """A Python whose objects cannot be counted: it has no arenas, or they were not found."""
    return runtime.runtime == "cpython" and not runtime.found


def of_pins(facts: Facts) -> tuple[Step, ...]:
    """Which chunks keep the pages, by type and owner, where the snapshot has no graph."""
    if facts.pid is None or facts.summary.graph:
        return ()
    command = f"arenascope report {facts.pid} --graph -o pins.html"
    return (Step("Which chunks keep these pages, by size, type and owner. All memory is read.", command),)


def of_mapped(facts: Facts) -> tuple[Step, ...]:
    """Who holds the largest mapping of which nothing else is known: it is a node of the graph, but beside a CPython."""
    if facts.pid is None or not facts.summary.allocator.is_glibc or "cpython" in runtimes(facts):
        return ()
    if not facts.large_mappings or facts.large_mappings[0].may_be:
        return ()
    return (Step("Who holds the mappings.", f"arenascope owners {facts.pid}"),)


def of_mappings(facts: Facts) -> tuple[Step, ...]:
    """All mappings, the largest first, with what they may be."""
    if facts.pid is None:
        return ()
    command = f"arenascope report {facts.pid} -o memory.html"
    return (Step("The mappings that hold most, and what each may be.", command),)


def of_threads(facts: Facts) -> tuple[Step, ...]:
    """How many threads there are of each name: a pool that is too large is seen so."""
    if facts.pid is None:
        return ()
    command = f"ps -L -o comm= -p {facts.pid} | sort | uniq -c | sort -rn"
    return (Step("How many threads there are of each name.", command),)


def of_growth(facts: Facts) -> tuple[Step, ...]:
    """Two snapshots, some time apart."""
    if facts.pid is None:
        return ()
    first, second = f"arenascope dump {facts.pid} -o before.dump", f"arenascope report before.dump {facts.pid}"
    return (Step("What grows within a minute, by chunk size.", f"{first} && sleep 60 && {second} -o growth.html"),)


def of_owners(facts: Facts) -> tuple[Step, ...]:
    """Who holds it, where the snapshot has no graph."""
    if facts.pid is None or facts.summary.graph or not facts.summary.allocator.is_glibc:
        return ()
    return (
        Step("Which variables and threads hold it, by type. All memory is read.", f"arenascope owners {facts.pid}"),
    )


def of_siblings(facts: Facts) -> tuple[Step, ...]:
    """What it holds more than another worker of the same server."""
    exe = facts.summary.target.exe or ""
    other = smaller_sibling(facts.pid) if facts.pid is not None and runs(facts.pid, exe) else None
    if other is None or not facts.summary.allocator.is_glibc:
        return ()
    says = f"What it holds more than process {other}: smaller, same parent, same command. All memory of both is read."
    return (Step(says, f"arenascope diff --graph {other} {facts.pid}"),)


def of_leaks(facts: Facts) -> tuple[Step, ...]:
    """What nobody holds, where a leak is suspected and the snapshot has no graph."""
    if facts.pid is None or facts.summary.graph or not facts.summary.allocator.is_glibc:
        return ()
    return (Step("What of it is lost: chunks that no pointer leads to.", f"arenascope leaks {facts.pid}"),)


def of_sites(facts: Facts) -> tuple[Step, ...]:
    """Which code allocates, unless that is being recorded."""
    if facts.pid is None or facts.row("recorder") or not facts.summary.allocator.is_glibc:
        return ()
    command = f"arenascope profile {facts.pid} --for 60s -o calls.dump && arenascope profile top calls.dump"
    says = (
        "Which functions allocate what stays, in a minute. Loads arenascope's agent into the process "
        "(not into a static program, nor under seccomp)."
    )
    return (Step(says, command),)


def _objects(facts: Facts, pid: int) -> tuple[Step, ...]:
    if objects_by_type(facts.summary):
        return ()  # the finding names the types
    return (Step("The objects by type, counted from outside.", f"arenascope summary {pid} --objects"),)


def _java(_: Facts, pid: int) -> tuple[Step, ...]:
    return (
        Step("The heap's spaces, used and free.", f"jcmd {pid} GC.heap_info"),
        Step("The live objects by class. The command runs a full collection.", f"jcmd {pid} GC.class_histogram"),
    )


def java_native(pid: int) -> tuple[Step, ...]:
    """What the JVM allocates outside of its heap."""
    return (
        Step(
            f"Have the JVM count what it allocates outside of its heap. {RESTART}",
            "export JAVA_TOOL_OPTIONS=-XX:NativeMemoryTracking=summary",
        ),
        Step("What it counted (without that option: nothing).", f"jcmd {pid} VM.native_memory summary"),
    )


def _ruby(facts: Facts, pid: int) -> tuple[Step, ...]:
    return (*_objects(facts, pid), _compact() if mostly_free(facts) else _collect())


def mostly_free(facts: Facts) -> bool:
    """Whether a collection would free little of a Ruby's pages: most slots are free, and what is left is scattered."""
    ruby = facts.summary.ruby
    return ruby is not None and ruby.free_slots > MOSTLY * ruby.slots


def _collect() -> Step:
    return Step(
        f"Have Ruby collect its garbage at a signal. {RESTART} kill -USR2 with its process id collects, and "
        f"arenascope trim returns what malloc then keeps. {NOT_USED}",
        _at_usr2("gc_on_usr2.rb", "GC.start"),
    )


def _compact() -> Step:
    """GC.start frees a page only if no object is left on it."""
    return Step(
        "Have Ruby move its objects together at a signal, and give back the pages that this empties: GC.start alone "
        "frees few of them or none. (Ruby 2.7 or later. C extensions that are not ready for it keep their objects in "
        "place.) "
        f"{RESTART} kill -USR2 with its process id compacts. {NOT_USED}",
        _at_usr2("compact_on_usr2.rb", "GC.compact; GC.start"),
    )


def _at_usr2(file: str, code: str) -> str:
    words = shlex.quote(f'trap("USR2") {{ {code} }}')
    return f'echo {words} >{file} && export RUBYOPT="-r$PWD/{file}"'


def is_node(facts: Facts) -> bool:
    """Whether this process runs Node."""
    return _program(facts) in NODE


def _v8(facts: Facts, pid: int) -> tuple[Step, ...]:
    if is_node(facts):
        return _node(facts, pid)
    return _chromium(facts) if _program(facts) in CHROMIUM else ()


def _chromium(facts: Facts) -> tuple[Step, ...]:
    return (
        Step(
            "Started so, it writes after a minute what each allocator of each of its processes holds, for "
            "chrome://tracing or Perfetto. (A page's own objects: the panel Memory of DevTools.)",
            f"{shlex.quote(facts.summary.target.exe or '')} {MEMORY_TRACE}",
        ),
    )


def _node(facts: Facts, pid: int) -> tuple[Step, ...]:
    if HEAP_SNAPSHOT.match(facts.summary.target.cmdline or ""):
        return (Step("Write Heap*.heapsnapshot, for Chromium's memory panel.", f"kill -USR2 {pid}"),)
    return (
        Step(
            f"Have Node write Heap*.heapsnapshot at SIGUSR2, for Chromium's memory panel. {RESTART}",
            "export NODE_OPTIONS=--heapsnapshot-signal=SIGUSR2",
        ),
    )


def _go(facts: Facts, pid: int) -> tuple[Step, ...]:
    """By the program's own server, if it can have one: the package is in the program, and the process listens."""
    exe = facts.summary.target.exe or ""
    places = listening(pid) if runs(pid, exe) and contains(pid, PPROF) else []
    if not places:
        return (
            Step(
                f"Have Go say at each collection how large its heap is, and how much of it is live. {RESTART}",
                "export GODEBUG=gctrace=1",
            ),
        )
    profiles = [("What allocated the live objects", "heap")]
    if _has_large_stacks(facts):
        profiles.insert(0, ("Where goroutines wait", "goroutine"))
    return tuple(
        Step(
            f"{says}, if the program serves net/http/pprof on port {place.rpartition(':')[2]} "
            "(it listens there, and has the package).",
            f"go tool pprof -top {shlex.quote(f'http://{place}/debug/pprof/{profile}')}",
        )
        for place in places[:NAMED]
        for says, profile in profiles
    )


def _has_large_stacks(facts: Facts) -> bool:
    """Whether stacks of goroutines are a large part of Go's heap."""
    of_go = [each for each in facts.summary.runtimes if each.goroutines]
    stacks = sum(each.goroutines.stacks_resident or 0 for each in of_go if each.goroutines)
    return stacks > LARGE * sum(each.resident or 0 for each in of_go)


def _jemalloc(_: Facts, __: int) -> tuple[Step, ...]:
    return (
        Step(
            f"Have jemalloc print at exit how much is allocated, and how much it keeps. {RESTART}",
            "export MALLOC_CONF=stats_print:true",
        ),
    )


def _tcmalloc(_: Facts, __: int) -> tuple[Step, ...]:
    return (
        Step(
            f"Have tcmalloc print at exit how much is in use, free, and returned to the kernel. {RESTART}",
            "export MALLOCSTATS=1",
        ),
    )


def _mimalloc(_: Facts, __: int) -> tuple[Step, ...]:
    return (
        Step(
            f"Have mimalloc print at exit how much it has reserved and committed, and its blocks by size. {RESTART}",
            "export MIMALLOC_SHOW_STATS=1",
        ),
    )


_STEPS: Final = {
    "cpython": _objects,
    "jvm": _java,
    "ruby": _ruby,
    "v8": _v8,
    "go": _go,
    "jemalloc": _jemalloc,
    "mimalloc": _mimalloc,
    "tcmalloc": _tcmalloc,
}

_OF_ROW: Final[dict[str, Callable[[Facts, str], tuple[Step, ...]]]] = {
    **dict.fromkeys(("releasable", "withheld", "tcache"), lambda _, __: ()),
    "stranded": lambda facts, _: of_pins(facts),
    **dict.fromkeys(("ruby_pages", "python_arenas"), lambda facts, row: (*of_runtime(facts, row), *of_owners(facts))),
    **dict.fromkeys(("managed", "other_malloc"), of_runtime),
    "other_file": lambda facts, _: of_mappings(facts),
    "other_anon": lambda facts, _: (*of_runtime(facts), *of_mapped(facts), *of_mappings(facts)),
    "other_shmem": lambda facts, _: (*of_runtime(facts), *of_mappings(facts)),
    "stacks": lambda facts, _: of_threads(facts),
}
"""By the first row that a finding explains; of the others, what the runtimes tell."""
