# SPDX-License-Identifier: MIT
"""Two profiles beside each other in a terminal: of what each is, and how far they can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from arenascope.humanize import printable, size
from arenascope.render.profile import render_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.wire.graph import GraphTarget
    from arenascope.wire.profile_json import ReadProfile


def render_diff_head(before: ReadProfile, after: ReadProfile) -> Text:
    """What `top` says of each, and a line for each thing besides the program's doing that makes them differ."""
    head = Text("Before: ").append_text(render_head(before)).append("\nAfter: ").append_text(render_head(after))
    for line in _unlike(before, after):
        head.append(f"\n{line}", "yellow")
    return head


def _unlike(before: ReadProfile, after: ReadProfile) -> Iterator[str]:
    processes = [_process(each.target) for each in (before, after)]
    if processes[0] != processes[1]:
        yield f"Two processes: {' and '.join(processes)}. Stacks are the same by functions and lines."
    if before.started and after.started and before.started != after.started:
        yield "Two profiles: what was allocated is counted from the beginning of each."
    rates = [each.page_rate if not each.every_page else 1 for each in (before, after)]
    if rates[0] != rates[1]:
        words = ["every chunk" if rate == 1 else f"chunks on one page in {rate}" for rate in rates]
        yield f"Other rates: what is in use is known by {words[0]} before, by {words[1]} after."
    if before.mean != after.mean:
        known = [f"from a sample in {size(each.mean)}" if each.sampled else "not at all" for each in (before, after)]
        yield f"Other rates: what was allocated is known {known[0]} before, {known[1]} after."


def _process(target: GraphTarget) -> str:
    return printable(target.comm) + (f" (pid {target.pid})" if target.pid else "")
