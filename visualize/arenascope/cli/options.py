# SPDX-License-Identifier: MIT
"""Options that several commands have, because arenadump has them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Final

import click

if TYPE_CHECKING:
    Command = Callable[..., Any]

_OPTIONS = (
    click.option(
        "--mode",
        type=click.Choice(["auto", "freeze", "snapshot", "live"]),
        help="freeze: stop the process while it is read. snapshot: stop it only while a copy-on-write "
        "clone is made, and "
        "read the clone. live: stop nothing; the answer may be torn. auto (the default): freeze if "
        "that is short enough.",
    ),
    click.option(
        "--max-pause",
        metavar="TIME",
        help="Limit for how long the process is stopped: 5ms, 0.5s. Without it, auto breaks off a freeze after 50ms.",
    ),
    click.option(
        "--layout-source",
        metavar="LIST",
        help="Sources for the layout of glibc's malloc: some of dwarf,symtab,relocation,decode,scan (the "
        "default: all).",
    ),
)


objects_option: Final = click.option(
    "--objects",
    is_flag=True,
    help="Count Python's or Ruby's objects by type too. All their memory is read for this.",
)


def looking(command: Command) -> Command:
    """Give a command the options that say how to look at a target; it gets them as `how`, in arenadump's own words."""

    @functools.wraps(command)
    def with_how(
        *args: Any,
        mode: str | None,
        max_pause: str | None,
        layout_source: str | None,
        **others: Any,
    ) -> Any:
        given = {"mode": mode, "max-pause": max_pause, "layout-source": layout_source}
        how = [f"--{name}={value}" for name, value in given.items() if value is not None]
        return command(*args, how=how, **others)

    for option in reversed(_OPTIONS):
        with_how = option(with_how)
    return with_how
