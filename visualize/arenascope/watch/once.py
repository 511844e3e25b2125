# SPDX-License-Identifier: MIT
"""Lines that a command which runs for months tells once each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from arenascope.humanize import printable

if TYPE_CHECKING:
    from collections.abc import Callable

MOST: Final = 1000  # lines


class Once:
    """Remembers what it has told. After MOST lines nothing more is told."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """`say`: tells the user a line."""
        self._say: Final = say
        self._said: Final[set[str]] = set()

    def tell(self, text: str) -> None:
        """Tell a line, if it is new."""
        if text not in self._said and len(self._said) < MOST:
            self._said.add(text)
            self._say(printable(text))
