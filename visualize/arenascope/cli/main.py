# SPDX-License-Identifier: MIT
"""The `arenascope` command: its subcommands, and the one place where an error becomes an exit code."""

from __future__ import annotations

import io
import signal
import sys
from typing import TYPE_CHECKING

import click

from arenascope import __version__
from arenascope.cli.diff import diff
from arenascope.cli.doctor import doctor
from arenascope.cli.dump import dump
from arenascope.cli.experiment import experiment
from arenascope.cli.exporter import exporter
from arenascope.cli.graph import leaks, owners, types, why
from arenascope.cli.inject import gdb_script, inject
from arenascope.cli.profile import profile
from arenascope.cli.record import full_record
from arenascope.cli.report import report
from arenascope.cli.run import agent_path
from arenascope.cli.run import run as run_command
from arenascope.cli.summary import summary
from arenascope.cli.timeline import timeline
from arenascope.cli.top import top
from arenascope.cli.trim import trim
from arenascope.cli.watch import watch
from arenascope.errors import ArenascopeError, Code
from arenascope.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="arenascope", message="%(prog)s %(version)s")
def cli() -> None:
    """Where did a process's memory go, and what will bring it back?

    TARGET is a PID, a core file or a dump file. A number is a PID; write ./123 for a file of that name.
    """


cli.add_command(report)
cli.add_command(summary)
cli.add_command(diff)
cli.add_command(top)
cli.add_command(watch)
cli.add_command(timeline)
cli.add_command(exporter)
cli.add_command(dump)
cli.add_command(experiment)
cli.add_command(run_command)
cli.add_command(agent_path)
cli.add_command(inject)
cli.add_command(gdb_script)
cli.add_command(trim)
cli.add_command(types)
cli.add_command(leaks)
cli.add_command(owners)
cli.add_command(why)
cli.add_command(profile)
cli.add_command(full_record)
cli.add_command(doctor)


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
    """Entry point of the console script."""
    # A reader that goes away (`| head`) ends us as it ends every other filter, without a word.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # The temporary dump is removed when we are told to go.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without our bars and arrows
    sys.exit(main())


def _fail(error: Exception) -> int:
    if isinstance(error, ArenascopeError):
        code, words = error.code, str(error)
    elif isinstance(error, OSError):
        code, words = Code.IO, f"{error.filename or 'output'}: {error.strerror}"
    else:
        code, words = Code.NO_MEMORY, "out of memory"
    click.echo("arenascope: " + "\n".join(map(printable, words.splitlines())), err=True)
    return int(code)
