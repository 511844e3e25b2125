# SPDX-License-Identifier: MIT
"""The `arenascope` command: its subcommands, and the one place where an error becomes an exit code."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from arenascope.cli.groups import Suggesting
from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import printable
from arenascope.version import described

if TYPE_CHECKING:
    from collections.abc import Sequence


class Place(NamedTuple):
    """A subcommand: where in this package it stands, and its line of `arenascope --help`.

    The line is the first sentence of its docstring (tests/cli/test_cli_process.py): no module is loaded for it.
    """

    where: str
    help: str


COMMANDS = {
    "agent-path": Place("run:agent_path", "Print the path of the agent's library."),
    "diff": Place("diff:diff", "Show what grew from BEFORE to AFTER, and how fast."),
    "doctor": Place("doctor:doctor", "Print what works on this machine, and how to repair the rest."),
    "dump": Place("dump:dump", "Write the state of every page of TARGET's heaps to a file."),
    "experiment": Place("experiment:experiment", "Compare allocator settings under the same workload."),
    "exporter": Place("exporter:exporter", "Serve what processes hold as OpenMetrics, for Prometheus."),
    "trace": Place("trace:trace", "Read the trace of a process: every malloc and free."),
    "gdb-script": Place("inject:gdb_script", "Print the path of the script that injects with gdb."),
    "inject": Place("inject:inject", "Load the agent into the running process PID."),
    "leaks": Place("graph:leaks", "Find chunks in use that nothing points to any more."),
    "owners": Place("graph:owners", "Find who holds the chunks in use."),
    "profile": Place("profile:profile", "Record who allocates, and show who allocated what is in use."),
    "report": Place("report:report", "Write a page: why TARGET is large, what brings memory back."),
    "run": Place("run:run", "Run COMMAND with the agent preloaded."),
    "schema": Place("schema:schema", "Print the JSON Schema of what --json prints."),
    "summary": Place("summary:summary", "Show what holds TARGET's memory, and what would come back."),
    "timeline": Place("timeline:timeline", "Show what a timeline has."),
    "top": Place("top:top", "Show what processes hold, and what would come back, live."),
    "trim": Place("trim:trim", "Return the free memory of process PID to the kernel."),
    "types": Place("graph:types", "Find out what the chunks in use are."),
    "watch": Place("watch:watch", "Inspect processes again and again, and keep a timeline."),
    "why": Place("graph:why", "Find out why the chunk at ADDRESS is still held."),
}

# Those that touch no process.
HARMLESS = {"agent-path", "doctor", "experiment", "trace", "gdb-script", "schema", "timeline"}


class Subcommands(Suggesting):
    """A subcommand is loaded when it is asked for: to load all takes longer than most of them need."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, in alphabetical order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The subcommand of this name; None: there is none."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].where.partition(":")
        command: click.Command = getattr(import_module(f"arenascope.cli.{module}"), name)
        if cmd_name not in HARMLESS:
            command.epilog = "docs/hazards.md: all that can happen to a running process."
        return command

    def meant_without_command(self, args: list[str]) -> list[str]:
        """A target alone is to be shown."""
        return ["summary", *args] if re.fullmatch("[0-9]+", args[0]) or Path(args[0]).exists() else []

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of commands, as click writes it, from the table alone: to load all takes half a second."""
        room = formatter.width - 6 - max(map(len, COMMANDS))
        known = [click.Command(name, help=COMMANDS[name].help) for name in sorted(COMMANDS)]
        lines = [(str(each.name), each.get_short_help_str(room)) for each in known]
        with formatter.section("Commands"):
            formatter.write_dl(lines)


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - as click calls it
    if wanted and not context.resilient_parsing:
        click.echo(f"arenascope {described()}")
        context.exit()


@click.group(cls=Subcommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show version and commit, and exit.",
)
def cli() -> None:
    """Where did a process's memory go, and what will bring it back?

    TARGET is a PID, a core file or a dump file. A number is a PID; write ./123 for a file of that name. dump, types,
    leaks, owners and why refuse a dump file: it has no contents of memory.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; errors are some lines on stderr, never a traceback."""
    try:
        code = cli.main(args=arguments, prog_name="arenascope", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 128 + signal.SIGINT
    except (ArenascopeError, OSError, MemoryError) as error:
        return _fail(error)
    return code if isinstance(code, int) else Code.OK


def run() -> None:
    """What the console script does once the program is loaded."""
    # A reader that goes away (`| head`) ends us as it ends every other filter, without a word.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # The temporary dump is removed when we are told to go.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without our bars and arrows
    sys.exit(main())


def _open_what_is_closed() -> None:
    """A standard stream that our caller has closed: else a file of ours gets its number, and Python has None for it.

    What is written to stdout fails, as arenadump's does, and what is written to stderr is for nobody. What we start has
    the stream closed, as we had.
    """
    for name, mode, flags in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            raw = io.FileIO(os.open(os.devnull, flags), mode)  # the lowest number that is free: its own
            setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", write_through=True))


def _fail(error: Exception) -> int:
    if isinstance(error, ArenascopeError):
        code, words = error.code, str(error)
    elif isinstance(error, OSError):
        code, words = Code.IO, f"{error.filename or 'output'}: {error.strerror}" if error.strerror else str(error)
    else:
        code, words = Code.NO_MEMORY, "out of memory"
    with suppress(OSError):  # the exit code says it, too
        click.echo("arenascope: " + "\n".join(map(printable, words.splitlines())), err=True)
    return int(code)
