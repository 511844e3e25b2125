# SPDX-License-Identifier: MIT
"""A trace in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from arenascope.humanize import count, printable, short_name, size, span
from arenascope.render.group import Group
from arenascope.render.terminal import Uncut
from arenascope.wire.profile_json import UNRECORDED

if TYPE_CHECKING:
    from rich.console import RenderableType

    from arenascope.wire.graph_parts import Sum
    from arenascope.wire.profile import StackFrame
    from arenascope.wire.trace import Trace, TraceSite

NO_END: Final = (
    "The record has no end: the process still runs, was killed, or ended without exit(). The last events are missing: "
    "100 ms, or more if the disk was slower."
)
FRAMES: Final = 4  # of a stack, in the table
BARS: Final = 60  # at most
LEVELS: Final = " ▁▂▃▄▅▆▇█"
MICRO: Final = 1_000
SECOND: Final = 1_000_000_000
UNITS: Final = (("s", SECOND), ("ms", 1_000_000), ("µs", MICRO))
LONG: Final = 1000 * SECOND  # three digits do not say it in seconds


def duration(nanoseconds: int | None) -> str:
    """With three digits and a unit; a long one in minutes or hours."""
    if nanoseconds is None:
        return "an unknown time"
    rounded = float(f"{nanoseconds:.3g}")  # before a unit is chosen: 999.7 ms are 1 s
    if rounded >= LONG:
        return span(nanoseconds / SECOND)
    for unit, factor in UNITS:
        if rounded >= factor:
            return f"{rounded / factor:.3g} {unit}"
    return f"{nanoseconds} ns"


def render_trace(trace: Trace, shown: int) -> Group:
    """What happened, how sure that is, and who did it."""
    if not trace.allocated.count:
        return Group(_head(trace), Text(), Text(UNRECORDED))
    parts: list[RenderableType] = [_head(trace), Text(), Uncut(_sums(trace))]
    if trace.timeline:
        parts += [Text(), _timeline(trace)]
    if trace.lifetimes:
        parts += [Text(), Uncut(_lifetimes(trace))]
    parts += [Text(), Uncut(_sites(trace, shown, "in use at the peak", "peak"))]
    if trace.temporary.count:
        parts += [Text(), Uncut(_sites(trace, shown, "freed at once", "temporary"))]
    if trace.in_use.count:
        parts += [Text(), Uncut(_sites(trace, shown, "in use at the end", "in_use"))]
    return Group(*parts)


def _head(trace: Trace) -> Text:
    line = Text(printable(trace.program), style="bold")
    line.append(f" (pid {trace.pid}), {duration(trace.duration_ns)}, threads: {count(trace.threads)}", "default")
    reasons = {
        "exit": "",
        "no_space": "The trace ends before the process: there was no room for more.",
        "error": "The trace ends before the process: its file could not be written.",
    }
    if why := reasons.get(trace.ended or "", NO_END):
        line.append(f"\n{why}", "yellow")
    if trace.torn_bytes:
        line.append(f"\nIts last {count(trace.torn_bytes)} bytes are no whole block, and were not read.", "yellow")
    if lost := trace.lost_allocations + trace.lost_frees + trace.missed:
        line.append(f"\n{count(lost)} events were lost: all sums lack them.", "yellow")
    if trace.lost_allocations + trace.lost_frees:
        line.append(
            "\nThere were more threads than buffers, or the disk was slower than the program: buffers= in "
            "ARENASCOPE_PROFILE sets their memory.",
            "yellow",
        )
    if trace.unknown_frees or trace.replaced:
        line.append(
            f"\n{count(trace.unknown_frees)} frees were of blocks that are not in the trace; of "
            f"{count(trace.replaced)} blocks the free is not in it.",
            "yellow",
        )
    for each in trace.unknown_interpreters:
        line.append(f"\n{printable(str(each))}.", "yellow")
    return line


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, justify="left" if title in {"", "stack"} else "right", no_wrap=title != "stack")
    return table


def _sums(trace: Trace) -> Table:
    table = _table("", "bytes", "blocks")
    at = f"in use at most, after {duration(trace.peak.time_ns)}"
    table.add_row("allocated", size(trace.allocated.bytes), count(trace.allocated.count))
    table.add_row(at, size(trace.peak.bytes), count(trace.peak.count))
    table.add_row("freed at once", size(trace.temporary.bytes), count(trace.temporary.count))
    table.add_row("in use at the end", size(trace.in_use.bytes), count(trace.in_use.count))
    if trace.without_stack.count:
        table.add_row("without a stack", size(trace.without_stack.bytes), count(trace.without_stack.count))
    return table


def _timeline(trace: Trace) -> Text:
    """The bytes in use over time, as bars."""
    most = max(trace.peak.bytes, 1)
    step = -(-len(trace.timeline) // BARS)
    parts = [max(m.bytes for m in trace.timeline[i : i + step]) for i in range(0, len(trace.timeline), step)]
    bars = "".join(LEVELS[-(-value * (len(LEVELS) - 1) // most)] for value in parts)
    return Text.assemble(("in use over time\n", "bold"), bars)


def _lifetimes(trace: Trace) -> Table:
    table = _table("lifetime below", "blocks", "bytes")
    for entry in trace.lifetimes:
        if entry.count:
            limit = duration(entry.below_ns) if entry.below_ns is not None else "more"
            table.add_row(limit, count(entry.count), size(entry.bytes))
    return table


def _sites(trace: Trace, shown: int, title: str, measure: str) -> Table:
    def of(site: TraceSite) -> Sum:
        found: Sum = getattr(site, measure)
        return found

    frames = trace.stack_frames()
    table = _table(title, "blocks", "stack")
    found = sorted((site for site in trace.sites if of(site).count), key=lambda site: -of(site).bytes)
    for site in found[:shown]:
        value = of(site)
        table.add_row(size(value.bytes), count(value.count), _stack(trace.stack(site, frames)))
    if len(found) > shown:
        table.add_row("", "", f"and {count(len(found) - shown)} more stacks (--number)")
    return table


def _stack(frames: tuple[StackFrame, ...]) -> Text:
    names = [short_name(name) for frame in frames for name in frame.names()]
    if not names:
        return Text("not known")
    more = ["…"] if len(names) > FRAMES else []
    return Text(" < ".join(names[:FRAMES] + more))
