# SPDX-License-Identifier: MIT
"""The summary in a terminal: Rss, the verdict, what holds it, what would come back, the worst arenas, the pins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from arenascope.coverage import cells_of, total, whole_of
from arenascope.findings import Facts, judge
from arenascope.humanize import UNKNOWN, count, duration, plural, printable, share, size
from arenascope.render.group import Group
from arenascope.render.terminal import STYLES, Fitting, known_first, plain_table, title
from arenascope.render.verdict import render_verdict
from arenascope.rows import ABSENT, RESIDENT
from arenascope.stranded_classes import by_chunks
from arenascope.trim_commands import trim_command
from arenascope.wire.summary import objects_by_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from arenascope.wire.summary import Summary
    from arenascope.wire.summary.heaps import Arena, Pin, StrandedPages, Tallies, Thread
    from arenascope.wire.summary.ledger import Absent
    from arenascope.wire.summary.mappings import AnonymousMapping
    from arenascope.wire.summary.origin import Doubt, Target
    from arenascope.wire.summary.runtimes import ObjectClass, Objects

WORST: Final = 5  # arenas, pins
SHOWN_THREADS: Final = 6
SHOWN_WARNINGS: Final = 12
SHOWN_TYPES: Final = 12
STOPPING: Final = ("freeze", "clone")  # the modes that stop the target
BAR_COLUMNS: Final = (16, 8, 4)  # of the ledger's bars: as many as the terminal has room for


def render_summary(summary: Summary, facts: Facts | None = None, *, ascii_only: bool = False) -> RenderableType:
    """Everything that the terminal shows of a summary. `facts`: about it, where they know more."""
    return Group(*_parts(summary, facts or Facts(summary), bar="#" if ascii_only else "█"))


def _parts(summary: Summary, facts: Facts, bar: str) -> Iterator[RenderableType]:
    yield _heading(summary.target)
    yield _facts(summary)
    yield title("Verdict")
    yield from render_verdict(judge(facts))
    if any(held is not None for held in summary.ledger.values()):
        yield title("What holds it")
        yield Fitting(*(_ledger(summary, bar, columns) for columns in BAR_COLUMNS))
        yield _absent(summary.absent)
        yield title("What would come back")
        yield _forecast(summary)
        if large := facts.large_mappings[:WORST]:
            yield title("The largest anonymous mappings that are not malloc's")
            yield _mappings(large)
            yield from (_may_be(mapping) for mapping in large if mapping.may_be)
    else:
        # The core of a gcore, for example: residency is unknown, but the chunks are known.
        yield title("Chunks, resident or not (it is unknown which pages are resident)")
        yield _chunks(summary.chunks)
    arenas = summary.arenas
    if arenas:
        many = f"The {WORST} of {len(arenas)} arenas with the most free memory"
        yield title(many if len(arenas) > WORST else "Arenas")
        worst = sorted(arenas, key=lambda arena: _idle(summary, arena), reverse=True)[:WORST]
        yield Fitting(
            _arenas(summary, worst), Group(_arenas(summary, worst, narrow=True), *(_users(each) for each in worst))
        )
    if summary.pins:
        yield title("Pins: chunks in use that keep free memory from being returned")
        yield _pins(summary.pins[:WORST])
    if summary.stranded_pages and summary.ledger["stranded"]:
        yield title("Stranded pages: how many chunks in use keep each of them")
        yield _stranded(summary.stranded_pages)
    for whose, objects in objects_by_type(summary):
        yield title(f"{whose} objects by type{'' if objects.exact else ' (some changed during the snapshot)'}")
        if summary.allocator.not_glibc:
            yield Text("What they own in another malloc was not searched: bytes are those of the objects alone.", "dim")
        yield _objects(objects)
        if objects.classes:
            yield title(f"{whose} objects by class")
            yield _classes(objects.classes)
    yield title("How this was found")
    yield _provenance(summary)
    if summary.warnings:
        yield title("Warnings")
        yield from _warnings(summary.warnings)


def _heading(target: Target) -> Text:
    line = Text(printable(target.comm), style="bold", no_wrap=True, overflow="ellipsis")
    if target.pid is not None:
        line.append(f" (pid {target.pid})", style="not bold")
    return line.append(f"  {printable(target.cmdline or target.exe or '')}", style="not bold dim")


def _facts(summary: Summary) -> Text:
    target, allocator, kernel = summary.target, summary.allocator, summary.kernel
    line = Text("Rss ").append(size(kernel.rss), style="bold")
    if kernel.rss is None and whole_of(summary).bytes:
        line.append(f" ({size(whole_of(summary).bytes)} of it known)")
    facts = [f"swap {size(kernel.swap)}", plural(target.threads, "thread"), allocator.malloc]
    if allocator.is_glibc and allocator.glibc:
        facts[-1] += f" {printable(allocator.glibc)}"
    if summary.snapshot.time:
        facts.append(summary.snapshot.time)
    line.append(f", {', '.join(facts)}")
    other = allocator.not_glibc
    if other:
        detail = printable(allocator.detail or "no reason given")
        line.append(f"\n{other.says}: {detail}. {other.memory}", style="yellow")
    return line


def _ledger(summary: Summary, bar: str, columns: int) -> Table:
    whole, share_title = whole_of(summary)
    table = plain_table("", ">bytes", f">{share_title}", "", "what it is")
    ledger = summary.ledger
    known = [held for held in ledger.values() if held is not None]
    for row in sorted(RESIDENT, key=lambda row: known_first(ledger[row.name]), reverse=True):
        says, style, held = summary.allocator.meaning(row), STYLES[row.group], ledger[row.name]
        if held != 0:
            length = round(columns * held / max(known)) if held else 0
            cells = (Text(row.title, style=style), size(held), share(held, whole), Text(bar * length, style=style))
            table.add_row(*cells, Text(says, style="dim"))
    return table


def _absent(absent: Absent) -> Text:
    held = ", ".join(f"{size(absent[row.name])} {row.title}" for row in ABSENT)
    return Text(f"Not in Rss: {held}.", style="dim")


def _forecast(summary: Summary) -> Table:
    trim, more = summary.forecast["malloc_trim"], summary.sums.deep_trim_adds
    how = (trim_command(summary.target) or "") if trim else ""
    deep_how = (trim_command(summary.target, deep=True) or "") if more else ""
    whole, share_title = whole_of(summary)
    table = plain_table("", ">bytes", f">{share_title}", "how")
    table.add_row(Text("malloc_trim(0)", style="green"), size(trim), share(trim, whole), how)
    table.add_row(Text("a deep trim adds", style="cyan"), size(more), share(more, whole), deep_how)
    return table


def _mappings(mappings: list[AnonymousMapping]) -> Table:
    table = plain_table("address", ">resident", ">size", "", "name")
    for each in mappings:
        cells = (each.address or "", size(each.bytes), size(each.size), each.protection)
        table.add_row(*cells, printable(each.name or ""))
    return table


def _may_be(mapping: AnonymousMapping) -> Text:
    """What an anonymous mapping may be, as a line of its own."""
    evidence = f": {printable(mapping.evidence)}" if mapping.evidence else ""
    return Text(f"{mapping.address} may be {printable(mapping.may_be or '')}{evidence}.", style="dim")


def _chunks(chunks: Tallies) -> Table:
    table = plain_table("", ">chunks", ">bytes")
    for name, tally in chunks.items():
        table.add_row(name.replace("_", " "), count(tally.count), size(tally.bytes))
    return table


def _arenas(summary: Summary, arenas: list[Arena], *, narrow: bool = False) -> Table:
    """`narrow`: without addresses, heaps and threads."""
    held = [f">{title}" for title in cells_of(summary, arenas[0]).held]
    table = plain_table("", *held) if narrow else plain_table("", "address", ">heaps", *held, "threads")
    for arena in arenas:
        cells = [size(cell) for cell in cells_of(summary, arena).held.values()]
        if not narrow:
            cells = [arena.address or "", count(arena.heaps), *cells, _threads(arena.threads)]
        table.add_row(arena.name, *cells)
    return table


def _users(arena: Arena) -> Text:
    """The address and the threads of an arena, as a line of its own."""
    return Text(f"{arena.name} at {arena.address}: {_threads(arena.threads)}", style="dim")


def _threads(threads: tuple[Thread, ...]) -> str:
    names = [f"{printable(thread.name) or 'tid'} {thread.tid}" for thread in threads[:SHOWN_THREADS]]
    if len(threads) > SHOWN_THREADS:
        names.append(f"and {len(threads) - SHOWN_THREADS} more")
    return ", ".join(names) or "no thread found"


def _pins(pins: tuple[Pin, ...]) -> Table:
    table = plain_table(">chunk size", ">count", ">pages kept", ">stranded", ">free below")
    for pin in pins:
        cells = (count(pin.count), count(pin.pages), size(pin.stranded), size(pin.tail_bytes))
        table.add_row(size(pin.chunk_size), *cells)
    return table


def _stranded(pages: StrandedPages) -> Table:
    table = plain_table("on a page", ">pages", ">in use", ">stranded")
    for each in by_chunks(pages):
        table.add_row(each.title, count(each.pages), size(each.in_use), size(each.stranded))
    return table


def _objects(objects: Objects) -> Table:
    table = plain_table("type", ">objects", ">bytes", ">what they own", ">in malloc")
    for each in objects.types[:SHOWN_TYPES]:
        table.add_row(
            printable(each.name or UNKNOWN), count(each.count), size(each.held), size(each.owned), size(each.in_malloc)
        )
    rest = objects.types[SHOWN_TYPES:]
    if rest:
        owned, in_malloc = total(each.owned for each in rest), total(each.in_malloc for each in rest)
        cells = (sum(each.held for each in rest), owned, in_malloc)
        table.add_row(plural(len(rest), "other type"), count(sum(each.count for each in rest)), *map(size, cells))
    if objects.other_blocks:
        table.add_row("blocks that no object owns", count(objects.other_blocks), size(objects.other_bytes), "", "")
    return table


def _classes(classes: tuple[ObjectClass, ...]) -> Table:
    table = plain_table("class", "type", ">objects", ">since last GC", ">bytes", ">what they own")
    for each in classes[:SHOWN_TYPES]:
        marks = UNKNOWN if each.not_marked is None else count(each.not_marked)
        held = (size(each.held), size(each.owned))
        table.add_row(printable(each.title), each.type or UNKNOWN, count(each.count), marks, *held)
    rest = classes[SHOWN_TYPES:]
    if rest:
        marked = [each.not_marked for each in rest if each.not_marked is not None]
        marks = count(sum(marked)) if len(marked) == len(rest) else UNKNOWN
        held = (size(sum(each.held for each in rest)), size(total(each.owned for each in rest)))
        table.add_row(f"{count(len(rest))} more", "", count(sum(each.count for each in rest)), marks, *held)
    return table


def _provenance(summary: Summary) -> Text:
    snapshot = summary.snapshot
    pause, read = duration(snapshot.pause_ms), duration(snapshot.read_ms)
    stood = f"the target stood still for {pause}, " if snapshot.mode in STOPPING else ""
    words = [f"Mode {snapshot.mode}: {stood}reading took {read}."]
    words.append(f"Layout of malloc: {summary.allocator.layout_source or 'none found'}.")
    words.append("Exact: the rows sum to Rss to the byte." if snapshot.exact else "Not exact: see the warnings.")
    if not snapshot.residency_known:
        words.append("For some pages it is unknown whether they are resident.")
    return Text(" ".join(words))


def _warnings(warnings: tuple[Doubt, ...]) -> Iterator[Text]:
    for warning in warnings[:SHOWN_WARNINGS]:
        yield Text(f"{warning.code}: ", style="yellow").append(printable(warning.text), style="default")
    if len(warnings) > SHOWN_WARNINGS:
        yield Text(f"and {len(warnings) - SHOWN_WARNINGS} more: summary --json has them all", style="dim")


def _idle(summary: Summary, arena: Arena) -> int:
    """What makes an arena a bad one; one of which it is not known comes last."""
    return known_first(cells_of(summary, arena).free)
