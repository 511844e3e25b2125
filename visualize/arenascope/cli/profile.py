# SPDX-License-Identifier: MIT
"""`arenascope profile top | tree | threads | list | folded | pprof | diff`: who allocated what is in use."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable

import click

from arenascope import api
from arenascope.cli.groups import Suggesting
from arenascope.cli.options import snapshot_options
from arenascope.cli.progress import waiting
from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import printable
from arenascope.private_files import write_whole
from arenascope.profiles.filters import Filters
from arenascope.profiles.folded import folded as folded_stacks
from arenascope.profiles.language import CHOICES
from arenascope.profiles.pprof import encode
from arenascope.profiles.source_lines import listings
from arenascope.profiles.sources import rights_of
from arenascope.render.growth import render_growth
from arenascope.render.listing import render_listings
from arenascope.render.profile import language_hint, render_head, render_top, render_tree
from arenascope.render.profile_diff import render_diff_head
from arenascope.render.terminal import console
from arenascope.wire import commands
from arenascope.wire.profile import ALLOCATED, GROWN, KEPT, MEASURES, OF_SITES, Site, by_thread, difference
from arenascope.wire.profile_json import profile_of

if TYPE_CHECKING:
    from arenascope.api import Options
    from arenascope.wire.profile import Profile
    from arenascope.wire.profile_json import ReadProfile

measure_option = click.option(
    "--measure",
    type=click.Choice((*MEASURES, *OF_SITES)),
    metavar="MEASURE",
    default=MEASURES[-1],
    show_default=True,
    help="inuse_space, inuse_objects: bytes and number of the chunks in use now. alloc_space, alloc_objects: the same "
    "of all that was allocated since the profile began, estimated from samples. pinned: pages that one chunk keeps. "
    "stranded: free bytes on pages that chunks in use keep. returned: what "
    "malloc_trim(0) would return if a stack's chunks were freed; a sum of several is the least that comes back. "
    "grown: the part of what `arenascope profile PID` saw grow, by size, from its beginning to its end.",
)
thread_option = click.option("--by-thread", "by_threads", is_flag=True, help="Each stack below its thread.")
number_option = click.option(
    "--number", type=click.IntRange(1), default=30, show_default=True, help="How many functions."
)


def _pattern(_: click.Context, __: click.Parameter, value: str | None) -> re.Pattern[str] | None:
    try:
        return None if value is None else re.compile(value)
    except re.error as wrong:
        raise click.BadParameter(f"'{value}' is no regular expression: {wrong}") from wrong


_FILTERS = (
    click.option(
        "--language",
        type=click.Choice(tuple(CHOICES)),
        help="Show only functions in this language. What other functions allocate on their behalf, the interpreter "
        "for example, counts as theirs.",
    ),
    click.option(
        "--focus",
        metavar="PATTERN",
        callback=_pattern,
        help="Show only stacks with a function whose name has this regular expression. Shares are of these stacks.",
    ),
    click.option(
        "--hide",
        metavar="PATTERN",
        callback=_pattern,
        help="Leave out functions whose name has this regular expression: '^(xmalloc|operator new)'. What they "
        "allocate counts as their callers'.",
    ),
)


def _filtering(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of Filters to a command, which gets them as `filters`."""

    @functools.wraps(command)
    def run(
        *args: Any, language: str | None, focus: re.Pattern[str] | None, hide: re.Pattern[str] | None, **options: Any
    ) -> None:
        command(*args, filters=Filters(language, focus, hide), **options)

    for option in reversed(_FILTERS):
        run = option(run)
    return run


class _TakesByDefault(Suggesting):
    """`arenascope profile PID` is `arenascope profile take PID`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_help = not args or args[0] in ctx.help_option_names
        # Another word is a command that was mistyped, and not a process that is not there.
        if not asks_for_help and re.match("-|[0-9]+$", args[0]):
            args = ["take", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_TakesByDefault)
def profile() -> None:
    """Record who allocates, and show who allocated what is in use.

    `arenascope profile PID -o FILE` has a running process record for a while (see `arenascope profile take --help`);
    the process keeps a thread of the agent. A TARGET is such a FILE, a process that was started by
    `arenascope run --profile`, or a core or dump of one. Names of functions come from files of this machine.
    """


@profile.command()
@click.argument("pid")
@click.option("-o", "--output", metavar="FILE", help="Where to write the dump that has the profile.")
@click.option(
    "--for",
    "duration",
    metavar="TIME",
    help="End after this time: 500ms, 60s, at most 3600s. Without it, only Ctrl-C ends.",
)
@click.option("--exact", is_flag=True, help="The call stack of every chunk, not of those on one page in 64.")
@click.option("--rates", metavar="RATES", help="Other rates: pages=8,bytes=64K,memory=1G (see docs/profile.md).")
@click.option(
    "--entry",
    is_flag=True,
    help="Patch the entry of malloc and its kin while all threads stand still (x86-64): calls through copied pointers "
    "are seen, too. What grew is not known then.",
)
@click.option(
    "--graph",
    is_flag=True,
    help="What grew by type, too: all memory is read at the beginning and at the end. The dump has owners and leaks.",
)
@click.option("--stop", is_flag=True, help="End any profile in the process, and take the recorder out.")
@click.option(
    "--force",
    is_flag=True,
    help="Inject even if a thread is under a seccomp filter, which may kill the process, or with few mappings left.",
)
@click.option(
    "--timeout",
    metavar="TIME",
    help="How long to search for a thread that can load the agent safely: 500ms, 30s (the default: 10s).",
)
def take(pid: str, *, output: str | None, duration: str | None, stop: bool, **options: str | bool | None) -> None:
    """Have the running process PID record who allocates, and write a dump with the profile.

    The agent in the process does this. It is injected first if necessary, and the process keeps a thread of it
    (`arenascope inject --help`). Otherwise the process runs as before afterwards.
    """
    if output is None and not stop:
        raise click.UsageError("give -o FILE, for the dump that has the profile")
    commands.become_profile(pid, {**options, "output": output, "for": duration, "stop": stop})


def _read(target: str, how: Options, measure: str = MEASURES[-1]) -> ReadProfile:
    """The profile. ArenascopeError UNSUPPORTED: it does not know the measure."""
    with waiting(f"inspecting {target}"):
        read = api.read_profile(target, **how).facts
    if not profile_of(read).has(measure):
        raise ArenascopeError(Code.UNSUPPORTED, f"'{measure}' is unknown {_why_unknown(read, measure)}")
    return read


def _why_unknown(read: ReadProfile, measure: str) -> str:
    if measure in ALLOCATED:
        return "in a profile that took no samples of allocations: record with a rate such as bytes=512K, not bytes=0"
    if measure == GROWN:
        return "without a walk when the profile began: `arenascope profile PID -o FILE` makes one, at its beginning"
    return "in a dump that the agent has written" if read.every_page else "unless every chunk is recorded (--exact)"


def _shown(filters: Filters, *reads: ReadProfile) -> list[Profile]:
    """The profiles as far as they are to be shown. ArenascopeError BAD_INPUT: there is nothing of them."""
    shown = [filters.of(profile_of(read)) for read in reads]
    if filters.focus and not any(profile.sites for profile in shown):
        raise ArenascopeError(
            Code.BAD_INPUT,
            f"no stack has a function with '{printable(filters.focus.pattern)}' in its name (--focus): "
            "`arenascope profile top` has the names",
        )
    return shown


@profile.command()
@click.argument("target")
@measure_option
@_filtering
@number_option
@snapshot_options
def top(target: str, how: Options, measure: str, *, number: int, filters: Filters) -> None:
    """List the functions that allocated most.

    flat: by the function itself, or by what allocates for it (operator new, xmalloc). cum: with all functions that it
    calls. sum: of all lines so far.
    """
    read = _read(target, how, measure)
    (shown,) = _shown(filters, read)
    out = console()
    out.print(render_head(read))
    out.print(render_growth(read, shown))
    hint = "" if filters.language else language_hint(shown, measure)
    if hint:
        out.print(f"{hint}\n")
    out.print(render_top(shown, measure, number), crop=False)


def _threads(read: Profile, measure: str) -> Profile:
    """Each stack below its thread. ArenascopeError UNSUPPORTED: the measure is not known by thread."""
    if measure in KEPT:
        raise ArenascopeError(Code.UNSUPPORTED, f"'{measure}' is not known by thread: a page has chunks of several")
    if measure == GROWN:
        raise ArenascopeError(Code.UNSUPPORTED, f"'{measure}' is not known by thread: a size has chunks of several")
    return by_thread(read)


@profile.command()
@click.argument("target")
@measure_option
@number_option
@snapshot_options
def threads(target: str, how: Options, measure: str, number: int) -> None:
    """List the threads that allocated most, those that have ended, too.

    sum: of all lines so far. Names are those of threads that are still there.
    """
    read = _read(target, how, measure)
    by = _threads(profile_of(read), measure)
    alone = replace(by, sites=[Site(site.frames[-1:], site.values) for site in by.sites])
    out = console()
    out.print(render_head(read))
    out.print(render_growth(read, by))
    out.print(render_top(alone, measure, number, what="thread"), crop=False)


@profile.command()
@click.argument("target")
@measure_option
@_filtering
@thread_option
@snapshot_options
def tree(target: str, how: Options, measure: str, *, filters: Filters, by_threads: bool) -> None:
    """Show the calls from the outermost function inwards."""
    read = _read(target, how, measure)
    (shown,) = _shown(filters, read)
    out = console()
    out.print(render_head(read))
    out.print(render_growth(read, shown))
    out.print(render_tree(_threads(shown, measure) if by_threads else shown, measure, out.width), crop=False)


@profile.command(name="list")
@click.argument("function")
@click.argument("target")
@measure_option
@snapshot_options
def list_(function: str, target: str, how: Options, measure: str) -> None:
    """Show the source lines of FUNCTION that allocate, with the text of the source where the target may read it.

    Where no function has this name (with or without its arguments), all whose name contains it are shown. flat: by
    the line itself. cum: with all functions that it calls.
    """
    if not function:
        raise click.UsageError("FUNCTION is empty: give a name, or a part of one")
    rights = rights_of(target)
    read = profile_of(_read(target, how, measure))
    found = listings(read, function, measure)
    if not found:
        raise ArenascopeError(
            Code.BAD_INPUT,
            f"no function of the profile that has something of {measure} has '{function}' in its name: "
            f"`arenascope profile top {target}` has the names",
        )
    console().print(render_listings(found, read, measure, rights), crop=False)


@profile.command()
@click.argument("target")
@measure_option
@_filtering
@thread_option
@snapshot_options
def folded(target: str, how: Options, measure: str, *, filters: Filters, by_threads: bool) -> None:
    """Print folded stacks, a line each, as tools for flame graphs read them."""
    (shown,) = _shown(filters, _read(target, how, measure))
    stacks = folded_stacks(_threads(shown, measure) if by_threads else shown, measure)
    click.echo(stacks.encode(), nl=False)  # UTF-8, whatever the locale


@profile.command()
@click.argument("target")
@click.option("-o", "--output", metavar="FILE", required=True, help="Where to write the profile: FILE.pb.gz.")
@snapshot_options
def pprof(target: str, how: Options, output: str) -> None:
    """Write a file that pprof reads: its web page has flame graphs and source lines."""
    read = _read(target, how)
    write_whole(output, encode(profile_of(read), read.target.comm))
    written = printable(output)
    click.echo(f"wrote {written}: go tool pprof -http=: {written}", err=True)


@profile.command()
@click.argument("before")
@click.argument("after")
@measure_option
@_filtering
@number_option
@snapshot_options
def diff(before: str, after: str, how: Options, measure: str, *, filters: Filters, number: int) -> None:  # noqa: PLR0913 - one parameter for each option
    """List the functions that have more in AFTER than in BEFORE, and less."""
    one, other = (_read(target, how, measure) for target in (before, after))
    changes = difference(*_shown(filters, one, other))
    out = console()
    out.print(render_diff_head(one, other))
    out.print()
    out.print(render_top(changes, measure, number, compared=True), crop=False)
