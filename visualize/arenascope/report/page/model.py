# SPDX-License-Identifier: MIT
"""Everything that the page says, as plain values for the template: made from one dump, or from two of one process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from arenascope import rows
from arenascope.compare import compare
from arenascope.coverage import whole_of
from arenascope.errors import ArenascopeError, Code
from arenascope.findings import judge
from arenascope.humanize import duration, plural, printable, size
from arenascope.profiles.site_digest import with_stacks
from arenascope.report.amounts import Amount, amount, change
from arenascope.report.charts import bars, histograms
from arenascope.report.colours import APPEARANCES, BACKGROUND, BRIGHT, INK
from arenascope.report.map.areas import TITLES
from arenascope.report.map.data import Block, More, map_blocks
from arenascope.report.map.legend import legend, parts
from arenascope.report.map.order import regions
from arenascope.report.map.page_users import of_dumps
from arenascope.report.page import graph, mappings, objects, ruby, sites, stranded, tables
from arenascope.report.page.compare import changes, growth
from arenascope.report.page.glossary import GLOSSARY
from arenascope.report.page.inputs import PageFacts, address_of
from arenascope.report.page.labels import LAYOUTS, MODES
from arenascope.report.page.tables import threads_of
from arenascope.version import version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.compare import Comparison
    from arenascope.report.charts.bars import Bars
    from arenascope.report.charts.histograms import Histogram
    from arenascope.report.map.order import Regions
    from arenascope.wire.snapshot import TakenDump

SHOWN_WARNINGS: Final = 50


class Page(NamedTuple):
    """What the template gets."""

    values: dict[str, Any]  # by the names that the template has for them
    blocks: list[Block]
    script: dict[str, Any]  # what the map's script is told, as JSON
    template: str = "report.html.j2"
    entry: str = "main.js"  # empty: without a script
    styles: tuple[str, ...] = ("report.css",)


def build(snapshots: Sequence[TakenDump]) -> Page:
    """The page of one snapshot, or of two: before and after."""
    dumps = [snapshot.dump for snapshot in snapshots]
    allocators = [sites.Allocators(dump) for dump in dumps]
    facts = [
        PageFacts(each.dump, from_dump=each.from_dump, profile=profiled.read)
        for each, profiled in zip(snapshots, allocators)
    ]
    page_sizes = {int(dump.meta["page_size"]) for dump in dumps}
    if len(page_sizes) > 1:
        raise ArenascopeError(Code.BAD_INPUT, f"pages of {sorted(page_sizes)} bytes: these two cannot be compared")
    page_size = page_sizes.pop()
    laid = regions(dumps)
    now = facts[-1]
    names = facts[0].arena_names | now.arena_names | {-kind: title.name for kind, title in TITLES.items()}
    known, held = of_dumps(dumps)
    comparison = _compared(facts, allocators) if len(facts) > 1 else None
    calls = sites.Tree(allocators)
    placed = [partial(calls.places, each, limit=sites.PLACE_LIMIT // len(dumps)) for each in allocators]
    drawn = map_blocks(dumps, laid, page_size, held, More(calls.block, placed))
    sides = [""] if len(snapshots) == 1 else ["before", "after"]
    values = {
        "version": version(),
        "target": _target(now),
        "verdict": judge(now),
        "changes": changes(comparison) if comparison else None,
        "growth": growth(comparison) if comparison else None,
        "sides": sides,
        "glibc": now.summary.allocator.is_glibc,
        "known": any(held is not None for fact in facts for held in fact.summary.ledger.values()),
        "share_title": whole_of(now.summary).title,
        "bars": tables.bars(facts),
        "ledger": tables.ledger(facts),
        "rss": [amount(fact.summary.kernel.rss) for fact in facts],
        "rss_change": change([fact.summary.kernel.rss for fact in facts]),
        "absent": tables.absent(facts),
        "chunks": tables.chunks(facts),
        "ruby": ruby.section(facts, laid),
        "objects": objects.tables(now, comparison),
        "graph": graph.section(held, known, comparison),
        "profile": sites.section(allocators[-1], calls),
        "calls": calls.json_data(),
        "arenas": tables.arenas(now, laid),
        "arena_columns": [f">>{title}" for title in tables.arena_columns(now)],
        "arena_count": len(now.summary.arenas),
        "sizes": _sizes(now),
        "runs": _runs(drawn.states[-1][: laid.malloc_total], laid, page_size),
        "pins": tables.pins(now, drawn.json_data[-1]["pinSizes"]),
        "stranded": stranded.tables(now),
        "pin_count": len(now.summary.pins),
        "mappings": mappings.by_name(now),
        "anonymous": mappings.anonymous(now),
        "tunables": tables.tunables(now),
        "trust": [_trust(fact) for fact in facts],
        "glossary": GLOSSARY,
        "legend": legend(drawn.legends),
        "runtime_rows": [title.row for kind, title in TITLES.items() if -kind in laid.arenas],
        "legend_sides": parts(drawn.legends),
        "page_count": laid.total,
        "page_size": page_size,
        "map": [{**part, "fromDump": snapshot.from_dump} for part, snapshot in zip(drawn.json_data, snapshots)],
        "coarse": max((part["step"] for part in drawn.json_data), default=1) * 16,
    }
    script = {
        "pageSize": page_size,
        "total": laid.total,
        "mallocTotal": laid.malloc_total,
        "background": BACKGROUND,
        "inks": {int(bright): ink for bright, ink in INK.items()},
        "bright": BRIGHT,
        "appearances": {int(colour): appearance._asdict() for colour, appearance in APPEARANCES.items()},
        "arenas": [{"name": names[address], "threads": _threads_at(facts, address)} for address in laid.arenas],
        "runtimes": {laid.arenas.index(-kind): title.row for kind, title in TITLES.items() if -kind in laid.arenas},
        "rows": {row.name: row.paint for row in rows.ALL if row.paint},
        "titles": {row.paint: row.title for row in rows.ALL if row.paint},
        "idle": [laid.arenas.index(address_of(arena)) for arena in now.idle_arenas],
        "sides": sides,
        "dumps": drawn.json_data,
        "names": {"types": known.types.shown, "owners": known.owners.shown, "short": known.short},
        "icicle": graph.icicle(held[-1]),
        "calls": calls.json_data(),
        "blocks": {block.name: block.layout for block in drawn.blocks},
    }
    return Page(values, drawn.blocks, script)


def _compared(facts: Sequence[PageFacts], allocators: Sequence[sites.Allocators]) -> Comparison:
    return compare(*(with_stacks(each.digest, of.dump, of.profile) for each, of in zip(facts, allocators)))


class Who(NamedTuple):
    """The process, as the page's head names it."""

    name: str
    pid: int | None
    command: str
    time: str
    threads: str
    malloc: str
    core: bool


def _target(facts: PageFacts) -> Who:
    target, allocator = facts.summary.target, facts.summary.allocator
    malloc = allocator.malloc
    if allocator.is_glibc and allocator.glibc:
        malloc += f" {allocator.glibc}"
    return Who(
        name=printable(target.comm) or "a process",
        pid=target.pid,
        command=printable(target.cmdline or target.exe or ""),
        time=(facts.summary.snapshot.time or "")[:19].replace("T", " "),
        threads=plural(target.threads, "thread"),
        malloc=printable(malloc),
        core="core" in {target.kind, target.dump_of},
    )


def _threads_at(facts: list[PageFacts], address: int) -> str:
    """The threads of the arena at an address, as they were last seen."""
    for fact in reversed(facts):
        for arena in fact.summary.arenas:
            if address_of(arena) == address:
                return threads_of(arena)
    return ""


class Chart(NamedTuple):
    """A histogram, drawn and in numbers."""

    bars: Bars
    columns: list[str]
    rows: list[tuple[str, list[Amount]]]  # the lower bound of a class, and each column's bytes
    pinning: bool = False  # has a panel for pins


def _chart(of: Histogram, drawn: Bars, *, pinning: bool = False) -> Chart:
    table = [(size(bound), [amount(cell) for cell in cells]) for bound, cells in of.rows()]
    return Chart(drawn, [f">{name}" for name in of.series], table, pinning)


def _sizes(facts: PageFacts) -> Chart | None:
    histogram = histograms.by_chunk_size(facts.dump)
    if histogram is None:
        return None
    pinning = bool(histogram.series[histograms.PINNING].any())
    title = "Bytes in use, cached and free, and stranded by pins, by chunk size. The table has the numbers."
    return _chart(histogram, bars.draw(histogram, "chunk size, from", title, apart=histograms.PINNING), pinning=pinning)


def _runs(states: Any, laid: Regions, page_size: int) -> Chart | None:
    histogram = histograms.by_free_run(states, laid, page_size)
    if histogram is None:
        return None
    title = "Bytes of free pages by the length of the run of free pages. The table has the numbers."
    return _chart(histogram, bars.draw(histogram, "length of the run, from", title))


class Trust(NamedTuple):
    """How a dump's numbers were found."""

    lines: list[str]
    warnings: list[tuple[str, str]]  # code, text
    more_warnings: int


def _trust(facts: PageFacts) -> Trust:
    snapshot, allocator = facts.summary.snapshot, facts.summary.allocator
    pause, read = duration(snapshot.pause_ms), duration(snapshot.read_ms)
    lines = [MODES[snapshot.mode].format(pause=pause, read=read)]
    if allocator.layout_source:
        lines.append(f"Malloc's structures were found {LAYOUTS[allocator.layout_source]}, and proven on the memory.")
    else:
        lines.append("No layout of glibc's malloc could be proven.")
    if snapshot.exact:
        lines.append("Exact: no chunk was torn, and the rows add up to the kernel's Rss to the byte.")
    else:
        torn = snapshot.torn_chunks
        lines.append(
            f"Not exact: {plural(torn, 'chunk')} torn." if torn else "Not exact: the rows need not add up to Rss."
        )
    if not snapshot.residency_known:
        lines.append("For some pages it is unknown whether they were resident.")
    warnings = facts.summary.warnings
    lines += [f"{printable(w.text)}." for w in warnings if w.code == "note"][:SHOWN_WARNINGS]
    json_data = [w for w in warnings if w.code != "note"]
    return Trust(
        lines=[line[:1].upper() + line[1:] for line in lines],
        warnings=[(w.code, printable(w.text)) for w in json_data[:SHOWN_WARNINGS]],
        more_warnings=max(len(json_data) - SHOWN_WARNINGS, 0),
    )
