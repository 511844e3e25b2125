# SPDX-License-Identifier: MIT
"""What a trim, or the forecast of one, did to a process, as a table in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from arenascope.humanize import count, duration, plural, printable, share, size
from arenascope.render.group import Group
from arenascope.render.terminal import Fitting, known_first, plain_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from arenascope.wire.agent_answers import Trim

SHOWN_ARENAS: Final = 12


def render_trim(facts: Trim) -> RenderableType:
    """Everything that the terminal shows of `arenadump trim --json`."""
    return Group(*_parts(facts))


def _parts(facts: Trim) -> Iterator[RenderableType]:
    if facts.injected:
        words = f"The agent was loaded into process {facts.pid} and stays there, asleep"
        yield Text(f"{words}: it takes {size(facts.agent_resident)} of its memory.", style="dim")
    kind = "A deep trim" if facts.deep else "A trim"
    if facts.trimmed:
        returned = Text(f"{kind} returned ").append(size(facts.returned), style="bold green")
        returned.append(f" by the kernel's count (the forecast was {size(facts.forecast)}).")
        if facts.returned_swap:
            returned.append(f" {size(facts.returned_swap)} of swap was returned too.")
        yield returned
        yield _cost(facts)
        if facts.watched_ms is not None:
            yield _watched(facts)
    else:
        yield Text(f"{kind} would return ").append(size(facts.forecast), style="bold green").append(".")
    if facts.note:
        yield Text(f"Note: {printable(facts.note)}.", style="yellow")
    if facts.arenas:
        yield Text()
        yield Fitting(_arenas(facts), _arenas(facts, narrow=True))


def _cost(facts: Trim) -> Text:
    hold, most = facts.longest_hold_ms, facts.max_hold_ms
    over = most is not None and hold is not None and hold > most
    words = (
        "It is unknown for how long an arena was locked: libc's own malloc_trim did the work "
        "(--max-hold bounds and measures it)."
        if hold is None
        else f"An arena was locked for {duration(hold)}, longer than the {duration(most)} of --max-hold."
        if over
        else f"No arena was locked for longer than {duration(hold)}."
    )
    words += f" It took {duration(facts.elapsed_ms)}, {duration(facts.cpu_ms)} of processor time."
    line = Text(words, style="yellow" if over else "")
    if facts.skipped_arenas:
        skipped = plural(facts.skipped_arenas, "arena")
        line.append(f"\n{skipped} skipped: the note says why.", style="yellow")
    return line


def _watched(facts: Trim) -> Text:
    again, returned = facts.faulted_back, facts.returned
    part = share(again, returned)
    words = f"After {duration(facts.watched_ms)}, {size(again)} of it is resident again"
    words += f" ({part})" if part else ""
    return Text(f"{words}; the process has had {count(facts.minor_faults)} page faults meanwhile.")


def _arenas(facts: Trim, *, narrow: bool = False) -> Table:
    """`narrow`: without addresses."""
    trimmed = facts.trimmed
    titles = [">resident", ">releasable", ">withheld", *[">returned", ">locked for"] * trimmed]
    table = plain_table("", *([] if narrow else ["address"]), *titles)
    arenas = sorted(
        facts.arenas, key=lambda arena: known_first(arena.returned if trimmed else arena.releasable), reverse=True
    )
    for arena in arenas[:SHOWN_ARENAS]:
        cells = [size(held) for held in (arena.resident, arena.releasable, arena.withheld)]
        if trimmed:
            cells += [size(arena.returned), duration(arena.longest_hold_ms)]
        table.add_row(arena.name, *([] if narrow else [arena.address]), *cells)
    if len(arenas) > SHOWN_ARENAS:
        table.add_row(f"and {len(arenas) - SHOWN_ARENAS} more")
    return table
