# SPDX-License-Identifier: MIT
"""Options that several commands have, because arenadump has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import click

if TYPE_CHECKING:
    Command = Callable[..., Any]

_MODE = click.option(
    "--mode",
    type=click.Choice(["freeze", "live"]),
    help="freeze (the default): a process stands still while it is read. live: it runs on, and the answer may be torn.",
)
_LAYOUT_SOURCE = click.option(
    "--layout-source",
    metavar="LIST",
    help="How glibc's structures may be found, of dwarf,symtab,relocation,decode,scan (the default: all).",
)


def looking(command: Command) -> Command:
    """Give a command the options that say how to look at a target, as `mode` and `layout_source`."""
    return _MODE(_LAYOUT_SOURCE(command))


def for_arenadump(mode: str | None, layout_source: str | None, *, chunks: bool = False) -> list[str]:
    """The same options as arenadump takes them."""
    given = {"mode": mode, "layout-source": layout_source}
    words = [f"--{name}={value}" for name, value in given.items() if value is not None]
    return [*words, "--chunks"] if chunks else words
