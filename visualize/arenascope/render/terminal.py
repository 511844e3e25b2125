# SPDX-License-Identifier: MIT
"""The summary as tables in a terminal: Rss, what holds it, what would come back, the worst arenas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from arenascope.text import UNKNOWN, count, printable, share, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    Json = dict[str, Any]

WORST_ARENAS: Final = 5
WORST_PINS: Final = 5
SHOWN_THREADS: Final = 4

# What each row of the ledger is, in the words of docs/ledger.md. Red holds memory in use, grey holds free memory.
ROWS: Final = {
    "in_use": ("in use", "chunks that the application holds", "red"),
    "mmapped_in_use": ("mmapped in use", "large chunks with a mapping of their own", "red"),
    "mmapped_slack": ("mmapped slack", "the rest of those mappings' pages", "dim"),
    "tcache": ("tcache", "freed, cached by a thread", "yellow"),
    "fastbin": ("fastbin", "freed, cached by an arena", "yellow"),
    "stranded": ("stranded", "free, on pages that something else keeps", "bright_black"),
    "releasable": ("releasable", "free whole pages: malloc_trim(0) returns them", "green"),
    "withheld": ("withheld", "free whole pages: only a deep trim returns them", "cyan"),
    "metadata": ("metadata", "malloc's own headers", "dim"),
    "other_anon": ("other anonymous", "anonymous memory that is not malloc's", "dim"),
    "other_file": ("other files", "code and mapped files", "dim"),
    "other_shmem": ("other shared", "tmpfs, memfd, shared anonymous memory", "dim"),
    "stacks": ("stacks", "of the threads", "dim"),
    "unknown": ("unknown", "could not be told apart", "magenta"),
}
FREE_ROWS: Final = ("tcache", "fastbin", "stranded", "releasable", "withheld")
MALLOC_ROWS: Final = (*FREE_ROWS, "in_use", "metadata", "unknown")


def console(*, stderr: bool = False) -> Console:
    """A console that reads neither markup nor emoji in anything, and does not squeeze tables for a file or a pipe."""
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not made.is_terminal:
        made.width = max(made.width, 120)
    return made


def render_summary(summary: Json) -> RenderableType:
    """Everything that the terminal shows of a summary."""
    return Group(*_parts(summary))


def _parts(summary: Json) -> Iterator[RenderableType]:
    yield _heading(summary)
    yield _ledger(summary)
    yield _forecast(summary)
    if summary["arenas"]:
        yield _arenas(summary["arenas"])
    if summary["pins"]:
        yield _pins(summary["pins"])
    if summary["warnings"]:
        yield Text()
    for warning in summary["warnings"]:
        words = warning["text"] if isinstance(warning, dict) else warning
        yield Text(f"warning: {printable(words)}", style="magenta")


def _heading(summary: Json) -> Text:
    target, allocator, snapshot = summary["target"], summary["allocator"], summary["snapshot"]
    line = Text(printable(target["comm"] or UNKNOWN), style="bold")
    if target["pid"] is not None:
        line.append(f" {target['pid']}")
    if target["exe"]:
        line.append(f"  {printable(target['exe'])}", style="dim")
    facts = [_plural(target["threads"], "thread")]
    if allocator["glibc"]:
        facts.append(f"glibc {printable(allocator['glibc'])}")
    facts.append(f"layout by {allocator['layout_source']}" if allocator["layout_source"] else "no glibc malloc found")
    if allocator["malloc"] != "glibc":
        facts.append(f"malloc() is {allocator['malloc']}'s")
    facts.append(str(snapshot["mode"]))
    if snapshot["pause_ms"]:
        facts.append(f"stopped for {snapshot['pause_ms']:.1f} ms")
    if snapshot["torn_chunks"]:
        facts.append(f"{count(snapshot['torn_chunks'])} torn chunks")
    line.append("\n" + ", ".join(facts), style="dim")
    line.append("\nRss ")
    line.append(size(summary["kernel"]["rss"]), style="bold")
    line.append(f", swapped {size(summary['kernel']['swap'])}")
    return line


def _ledger(summary: Json) -> Table:
    table = _table("What holds it")
    table.add_column("row", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("of Rss", justify="right", no_wrap=True)
    table.add_column("what it is", style="dim")
    rss = summary["kernel"]["rss"]
    for name, (title, meaning, style) in ROWS.items():
        held = summary["ledger"][name]
        if held != 0:  # None is unknown, and is shown as such
            table.add_row(Text(title, style=style), size(held), share(held, rss), meaning)
    absent = summary["absent"]
    gone = ((name.replace("_", " "), absent[name]) for name in ("returned", "untouched"))
    swapped = ((f"swapped, {state.replace('_', ' ')}", absent[f"swapped_{state}"]) for state in ("in_use", "free"))
    words = [f"{title} {size(held)}" for title, held in (*gone, *swapped) if held != 0]
    if words:
        table.caption = f"not resident: {', '.join(words)}"
    return table


def _forecast(summary: Json) -> Table:
    table = _table("What would come back")
    table.add_column("how", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("of Rss", justify="right", no_wrap=True)
    table.add_column("what it is", style="dim")
    rss, forecast = summary["kernel"]["rss"], summary["forecast"]
    meanings = {
        "malloc_trim": ("malloc_trim(0)", "what the process itself can call"),
        "deep_trim": ("deep trim", "malloc_trim(0), and the tops of thread arenas with it"),
    }
    for name, (title, meaning) in meanings.items():
        table.add_row(Text(title, style="green"), size(forecast[name]), share(forecast[name], rss), meaning)
    return table


def _arenas(arenas: list[Json]) -> Table:
    shown = sorted(arenas, key=_free, reverse=True)[:WORST_ARENAS]
    more = f" of {len(arenas)}" if len(arenas) > len(shown) else ""
    table = _table(f"Arenas with the most free memory resident ({len(shown)}{more})")
    table.add_column("arena", no_wrap=True)
    for title in ("heaps", "resident", "in use", "cached", "stranded", "releasable", "withheld"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("threads")
    for arena in shown:
        ledger = arena["ledger"]
        cached = _total(ledger, ("tcache", "fastbin"))
        cells = (_total(ledger, MALLOC_ROWS), ledger["in_use"], cached)
        free = (ledger[name] for name in ("stranded", "releasable", "withheld"))
        name = arena["address"] + (" main" if arena["main"] else "")
        table.add_row(name, count(arena["heaps"]), *map(size, (*cells, *free)), _threads(arena))
    return table


def _threads(arena: Json) -> str:
    threads = arena["threads"]
    names = [f"{thread['tid']} {printable(thread['name'] or '')}".strip() for thread in threads[:SHOWN_THREADS]]
    if len(threads) > SHOWN_THREADS:
        names.append(f"and {len(threads) - SHOWN_THREADS} more")
    if names:
        return ", ".join(names)
    attached = arena["attached_threads"]
    return "none" if attached == 0 else f"{count(attached)} attached"


def _pins(pins: list[Json]) -> Table:
    shown = sorted(pins, key=lambda pin: pin["stranded"] or 0, reverse=True)[:WORST_PINS]
    table = _table("Chunks that keep pages from being returned")
    for title in ("chunk size", "chunks", "pages kept", "stranded with them"):
        table.add_column(title, justify="right", no_wrap=True)
    for pin in shown:
        table.add_row(size(pin["chunk_size"]), count(pin["count"]), count(pin["pages"]), size(pin["stranded"]))
    return table


def _table(title: str) -> Table:
    return Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )


def _total(ledger: Json, names: tuple[str, ...]) -> int | None:
    """The sum of some rows: unknown when one of them is."""
    rows = [ledger[name] for name in names]
    return None if None in rows else sum(rows)


def _free(arena: Json) -> int:
    return sum(arena["ledger"][name] or 0 for name in FREE_ROWS)


def _plural(number: int | None, noun: str) -> str:
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")
