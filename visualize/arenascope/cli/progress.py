# SPDX-License-Identifier: MIT
"""A sign of life on stderr while something long is under way; only where somebody watches."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rich.text import Text

from arenascope.render.terminal import console
from arenascope.text import printable


def waiting(what: str) -> AbstractContextManager[object]:
    """A spinner with words beside it, gone when the work is done; nothing when stderr is not a terminal."""
    err = console(stderr=True)
    return err.status(Text(printable(what))) if err.is_terminal else nullcontext()
