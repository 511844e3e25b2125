# SPDX-License-Identifier: MIT
"""Lines of text that fill the terminal: only those are drawn again that have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Sequence


class Lines(Widget, can_focus=True):
    """A widget of lines that are cut at the right edge."""

    DEFAULT_CSS = "Lines { height: 1fr; width: 1fr; }"

    def __init__(self) -> None:
        """Nothing is shown."""
        super().__init__()
        self.shown: list[Text] = []

    def show(self, lines: Sequence[Text]) -> None:
        """From now on these."""
        before, self.shown = self.shown, list(lines)
        width = self.size.width
        for y in range(max(len(before), len(self.shown))):
            if before[y : y + 1] != self.shown[y : y + 1] or _spans(before, y) != _spans(self.shown, y):
                self.refresh(Region(0, y, width, 1))

    def render_line(self, y: int) -> Strip:
        """A line of the terminal."""
        text = self.shown[y].copy() if y < len(self.shown) else Text()
        text.truncate(self.size.width, overflow="ellipsis", pad=True)
        styled = [Segment(part, style or Style.null()) for part, style, _ in text.render(self.app.console)]
        return Strip(styled, self.size.width)


def _spans(lines: list[Text], y: int) -> object:
    return (lines[y].spans, lines[y].style) if y < len(lines) else None
