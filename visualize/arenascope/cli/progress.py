# SPDX-License-Identifier: MIT
"""A sign of life on stderr while something long is under way, only where somebody watches; remarks; JSON."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext, suppress

import click


def waiting(what: str) -> AbstractContextManager[object]:
    """A spinner with words beside it, gone when the work is done; nothing when stderr is not a terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.text import Text  # noqa: PLC0415 - scripts need no rich, which takes as long to load as all else

    from arenascope.humanize import printable  # noqa: PLC0415
    from arenascope.render.terminal import console  # noqa: PLC0415

    err = console(stderr=True)
    return err.status(Text(printable(what))) if err.is_terminal else nullcontext()


def remark(words: str) -> None:
    """What arenadump says besides."""
    with suppress(OSError):  # a full disk: the answer is none the worse
        sys.stderr.write(words)


def print_utf8(text: str) -> None:
    """JSON as arenadump printed it, or a page: to the byte, in UTF-8, whatever the locale."""
    click.echo(text.encode(), nl=False)
