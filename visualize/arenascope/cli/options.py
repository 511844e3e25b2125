# SPDX-License-Identifier: MIT
"""Options that several commands have, because arenadump has them."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Final

import click

from arenascope.api import Options
from arenascope.errors import ArenascopeError, Code
from arenascope.suppressions import LeakLimit

if TYPE_CHECKING:
    from arenascope.processes import Process

    Command = Callable[..., Any]


def process_named(pid: str, verb: str) -> Process:
    """The process of a PID as it was typed. ArenascopeError NO_TARGET: there is none; UNSUPPORTED: it has ended."""
    from arenascope.processes import is_zombie, process_at  # noqa: PLC0415 - most commands name no process so

    number = int(pid) if re.fullmatch("[0-9]+", pid) else 0
    found = process_at(number)
    words = None
    if found is None and is_zombie(number):
        words = "it is a zombie: it has ended and given its memory back; only its parent can clear it"
    elif found and found.kernel:
        words = "it is a kernel thread: it has no memory of its own"
    if words:
        raise ArenascopeError(Code.UNSUPPORTED, f"cannot {verb} {pid}: {words}")
    if found is None:
        raise ArenascopeError(Code.NO_TARGET, f"cannot {verb} {pid}: there is no such process (ps -e lists all)")
    return found


_OPTIONS = (
    click.option(
        "--mode",
        type=click.Choice(["auto", "freeze", "clone", "live"]),
        help="freeze: stop the process while it is read. clone: stop it only while a copy-on-write "
        "clone is made, and "
        "read the clone. live: stop nothing; the answer may be torn. auto (the default): freeze if "
        "that is short enough, else clone if there is memory for a clone, else live.",
    ),
    click.option(
        "--max-pause",
        metavar="TIME",
        help="Limit for how long the process is stopped: 200us, 5ms, 0.5s. Without it, auto breaks off a freeze after "
        "50ms.",
    ),
    click.option(
        "--force",
        is_flag=True,
        help="Stop the process even where a thread sleeps under a seccomp filter and its sleep may begin anew for it.",
    ),
    click.option(
        "--max-memory",
        metavar="SIZE",
        help="Limit for the memory of arenadump: 512M, 2G. A snapshot that needs more fails with exit code "
        f"{int(Code.NO_MEMORY)}. Debug information is not read then.",
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

graph_option: Final = click.option(
    "--graph",
    is_flag=True,
    help="Record who holds the chunks in use, of which types they are, and which are lost: names and sums. All memory "
    "is read for this.",
)


# These are options of commands that take snapshots again and again.
mode_option: Final = click.option(
    "--mode",
    type=click.Choice(["auto", "freeze", "clone", "live"]),
    default="auto",
    show_default=True,
    help="As of summary. live stops nothing, and leaves some rows unknown.",
)

max_pause_option: Final = click.option(
    "--max-pause",
    metavar="TIME",
    default="20ms",
    show_default=True,
    help="Limit for how long a process is stopped by a snapshot. Where mode auto cannot keep it, the snapshot is live.",
)


def snapshot_options(command: Command) -> Command:
    """Give a command the options that say how to inspect a target; it gets these and others of Options as `how`."""

    @functools.wraps(command)
    def with_how(*args: Any, **given: Any) -> Any:
        how = {name: given.pop(name) for name in Options.__annotations__ if name in given}
        return command(*args, how=how, **given)

    for option in reversed(_OPTIONS):
        with_how = option(with_how)
    return with_how


TIMES: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def read_seconds(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """A time: 10s, 24h."""
    if value is None:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)", value)
    if not match or not float(match[1]):
        raise click.BadParameter(f"{value} is not a time: write 10s, 5m, 24h, 7d")
    return float(match[1]) * TIMES[match[2]]


UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _read_bytes(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """A number of bytes: 4096, 64K, 1M, 2G."""
    match = re.fullmatch(r"([0-9]+)([KMG]?)", value or "0")
    if not match:
        raise click.BadParameter(f"{value} is not a size: give bytes, such as 4096, 64K or 1M")
    return None if value is None else int(match[1]) * UNITS[match[2]]


_LIMITS = (
    click.option(
        "--fail-over",
        callback=_read_bytes,
        metavar="SIZE",
        help=f"End with exit code {int(Code.LEAKS)} if more than this is lost: 0, 64K, 1M.",
    ),
    click.option(
        "--suppressions",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Lines leak:PATTERN, as LeakSanitizer has them: chunks of types that match do not count for --fail-over.",
    ),
)


def limiting(command: Command) -> Command:
    """Give a command the options that say what may be lost; it gets them as `limit`, a LeakLimit."""

    @functools.wraps(command)
    def with_limit(*args: Any, fail_over: int | None, suppressions: Path | None, **others: Any) -> Any:
        return command(*args, limit=LeakLimit(fail_over, suppressions), **others)

    for option in reversed(_LIMITS):
        with_limit = option(with_limit)
    return with_limit
