# SPDX-License-Identifier: MIT
"""Leak suspects in a terminal: a sentence for each, with its interval and its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from arenascope.humanize import count
from arenascope.render.group import Group
from arenascope.render.terminal import title
from arenascope.timeline.suspect_text import evidence, names_words, none_words, suspect_words

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import RenderableType

    from arenascope.timeline.reader import Timeline
    from arenascope.timeline.suspects import Suspect

SHOWN: Final = 8


def render_suspects(
    timeline: Timeline, found: Sequence[Suspect], deep: Collection[int], shown: int | None = SHOWN
) -> RenderableType:
    """A sentence for each suspect. `deep`: the snapshots that have types; `shown`: so many at most; None: all."""
    parts: list[RenderableType] = [title("Leak suspects")]
    if not found:
        parts.append(Text(none_words(timeline), style="dim"))
    several = len({snapshot.process for poll in timeline.polls for snapshot in poll.snapshots}) > 1
    for each in found[:shown]:
        parts += [
            Text(suspect_words(each, several=several), style="yellow"),
            Text(f"  {evidence(each)}", style="dim"),
        ]
    if len(found) > len(found[:shown]):
        parts.append(Text(f"... and {count(len(found) - len(found[:shown]))} more", style="dim"))
    missing = names_words(timeline, deep)
    return Group(*parts, *([Text(missing, style="dim")] if missing and timeline.polls else []))
