# SPDX-License-Identifier: MIT
"""`arenascope run -- COMMAND` and `arenascope agent-path`."""

from __future__ import annotations

import os
import re
import shutil
import signal as signals
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from arenascope.cli.options import limiting
from arenascope.elf import is_static
from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import printable
from arenascope.private_files import why_foreign
from arenascope.wire.agent import OVERRIDE, SEPARATORS, find_agent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arenascope.suppressions import LeakLimit

NOT_FOUND = 127  # as a shell has it
NOT_RUN = 126


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--signal", metavar="SIGNAL", help="The signal that asks for a dump: USR2 (the default), 12, RTMIN+3, or none."
)
@click.option(
    "-o",
    "--output",
    metavar="PATTERN",
    help="Names of the dumps: %p is the pid, %t the time, %n the number of the dump, %e the program "
    "(the default: arenascope.%e.%p.%n.dump, in the directory where the command starts).",
)
@click.option("--chunks", is_flag=True, help="Record every chunk too, not only every page.")
@click.option(
    "--trim",
    metavar="POLICY",
    help="Let the process give memory back by itself: every=60s,min=64M,deep, ... (see arenascope(7)).",
)
@click.option(
    "--dump-at",
    metavar="WHEN",
    help="Let the process write a dump by itself when WHEN is met, some of: peak (of what is in use), +64M (in use), "
    "rss=1G, allocated=1G (with --profile); with every=10s, keep=8, dumps-size=1G (see arenascope(7)).",
)
@click.option("--dumps", metavar="DIR", help="Where to keep these dumps. The default: arenascope.dumps.")
@click.option("--log", metavar="FILE", help="The agent's log file; 1: stderr.")
@click.option(
    "--leaks",
    is_flag=True,
    help="When a process of the command calls exit(), print on stderr the chunks in it that nothing points to.",
)
@click.option(
    "--profile",
    is_flag=True,
    help="Record who allocates: the call stacks of the chunks on one page in 64, and of samples of all allocations "
    "(see docs/profile.md). `arenadump sites PID` prints them, and every dump has them.",
)
@click.option("--exact", is_flag=True, help="The same, with the call stack of every chunk.")
@click.option("--rates", metavar="RATES", help="The same, at other rates: pages=8,bytes=64K,memory=1G.")
@click.option(
    "--trace",
    metavar="FILE",
    help="Write a trace to FILE: every malloc and free, with time and call stack. `arenascope trace FILE` "
    "reads it (see docs/trace-format.md). What COMMAND executes has FILE.PID.",
)
@limiting
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(  # noqa: PLR0913, PLR0917 - one parameter for each option
    command: tuple[str, ...],
    signal: str | None,
    output: str | None,
    trim: str | None,
    dump_at: str | None,
    dumps: str | None,
    log: str | None,
    trace: str | None,
    limit: LeakLimit,
    *,
    chunks: bool,
    leaks: bool,
    profile: bool,
    exact: bool,
    rates: str | None,
) -> int:
    """Run COMMAND with the agent preloaded.

    The agent writes a dump whenever the signal arrives, and trims when the policy says so. COMMAND replaces this
    process; with --leaks it is a child, whose exit code is passed on. Programs that it starts also get an agent,
    unless they get another environment. A process that gets the signal, or has a policy, keeps a thread of the agent
    from then on (`arenascope inject --help`).
    """
    _refuse_empty(click.get_current_context().params)
    if limit.most is not None and not leaks:
        raise click.UsageError("--fail-over is for --leaks")
    if dumps and not dump_at:
        raise click.UsageError("--dumps needs --dump-at, which says when")
    if trace is not None:
        _refuse_no_place(Path(trace).absolute())
    if log and log != "1":
        _refuse_no_log(Path(log).absolute())
    program = shutil.which(command[0])
    if program is None:
        there = os.path.sep in command[0] and Path(command[0]).exists()
        click.echo(f"arenascope: {printable(command[0])}: {'not a program' if there else 'no such program'}", err=True)
        return NOT_RUN if there else NOT_FOUND
    environment = preloading(find_agent())
    given = {
        "ARENASCOPE_SIGNAL": signal,
        "ARENASCOPE_OUT": output,
        "ARENASCOPE_CHUNKS": "1" if chunks else None,
        "ARENASCOPE_TRIM": trim,
        "ARENASCOPE_DUMP_AT": dump_at,
        "ARENASCOPE_DUMPS": dumps,
        "ARENASCOPE_PROFILE": ",".join(filter(None, [rates, "exact" if exact else None])) or ("1" if profile else None),
        "ARENASCOPE_PROFILE_TRACE": str(Path(trace).absolute()) if trace else None,
        "ARENASCOPE_LOG": str(Path(log).absolute()) if log and log != "1" else log,
    }
    environment.update({name: value for name, value in given.items() if value is not None})
    if signal or trim or rates or dump_at:
        _refuse_nonsense(environment)
    if why := _not_preloaded(Path(program)):
        click.echo(f"arenascope: {printable(program)} {why}", err=True)
    try:
        if leaks:
            # It takes as long to load as all else: a command without --leaks starts in half the time.
            from arenascope.cli.run_leaks import ExitSnapshots, run_to_its_end  # noqa: PLC0415

            return run_to_its_end(program, command, environment, ExitSnapshots(limit))
        _become(program, command, environment)
    except OSError as error:
        click.echo(f"arenascope: {printable(program)}: {error.strerror}", err=True)
    return NOT_RUN


def _become(program: str, command: tuple[str, ...], environment: dict[str, str]) -> NoReturn:
    # Python ignores these from its start, and execve hands on what is ignored: the command would go on where it has to
    # end. Python does not say whether its caller ignored them, too. As subprocess does, which starts it for --leaks.
    for number in (signals.SIGPIPE, signals.SIGXFSZ):
        signals.signal(number, signals.SIG_DFL)
    os.execve(program, command, environment)  # noqa: S606 - to become the command is the purpose


@click.command("agent-path")
def agent_path() -> None:
    """Print the path of the agent's library.

    To preload it: LD_PRELOAD=$(arenascope agent-path) COMMAND.
    """
    click.echo(find_agent())


def preloading(library: Path) -> dict[str, str]:
    """This environment, with the library before whatever else is to be preloaded."""
    if any(separator in str(library) for separator in SEPARATORS):
        raise ArenascopeError(
            Code.UNSUPPORTED,
            f"LD_PRELOAD cannot hold the path {library}: the loader splits LD_PRELOAD at spaces and colons, and "
            "~/.cache/arenascope cannot have a link to it; copy the library elsewhere, and name the copy in "
            f"${OVERRIDE}",
        )
    others = os.environ.get("LD_PRELOAD")
    return {**os.environ, "LD_PRELOAD": f"{library}:{others}" if others else str(library)}


def _refuse_empty(options: Mapping[str, object]) -> None:
    """Refuses an empty value, as of a script's unset variable: nothing would be recorded, and nobody would know."""
    for name, value in options.items():
        if value == "":
            raise click.UsageError(f"--{name.replace('_', '-')} is empty")


def _refuse_no_place(trace: Path) -> None:
    """That there can be no trace the agent says in its log, where nobody may inspect: so it is tried before."""
    try:
        os.close(os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        trace.unlink()  # the agent makes it itself
    except FileExistsError as error:
        raise ArenascopeError(
            Code.IO, f"'{trace}' exists: a trace never replaces a file; remove it, or choose another name"
        ) from error
    except OSError as error:
        raise ArenascopeError(Code.IO, f"cannot write a trace to '{trace}': {error.strerror}") from error


def _refuse_no_log(log: Path) -> None:
    """The agent has nowhere to say that it cannot write its log, or will not: others may have put the file there."""
    try:
        os.close(os.open(log.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        status = log.lstat()
    except FileNotFoundError as error:
        if not log.parent.is_dir():
            raise ArenascopeError(Code.IO, f"cannot write the agent's log to '{log}': {error.strerror}") from error
        return
    except OSError as error:
        raise ArenascopeError(Code.IO, f"cannot write the agent's log to '{log}': {error.strerror}") from error
    why = None if stat.S_ISCHR(status.st_mode) else why_foreign(status)
    if why:
        raise ArenascopeError(Code.IO, f"the agent will not write its log to '{log}', which exists already: {why}")


def _refuse_nonsense(environment: dict[str, str]) -> None:
    """What the agent does not understand it says in its log, where nobody may inspect: it is asked beforehand."""
    asked = shutil.which("true")
    if asked is None:
        return
    # Only the profile that a trace has with it is asked for: the trace's file is the program's.
    recorded = environment.get("ARENASCOPE_PROFILE_TRACE")
    asking = {"ARENASCOPE_LOG": "1", "ARENASCOPE_PROFILE_TRACE": ""}
    done = subprocess.run(
        [asked],
        env={"ARENASCOPE_PROFILE": "1" if recorded else "", **environment, **asking},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    words = done.stderr.decode("utf-8", "replace")
    for variable, option in (
        ("ARENASCOPE_SIGNAL", "--signal"),
        ("ARENASCOPE_TRIM", "--trim"),
        ("ARENASCOPE_DUMP_AT", "--dump-at"),
        ("ARENASCOPE_PROFILE", "--rates"),
    ):
        found = re.search(rf"^arenascope\[\d+\]: {variable}: (.*)$", words, re.MULTILINE)
        if found:
            raise click.UsageError(f"{option}: {found[1]}")


def _not_preloaded(program: Path) -> str:
    """Why the program gets no agent; empty: it gets one, as far as its file tells."""
    if is_privileged(program):
        return "runs with more rights than its caller: the loader preloads nothing into it"
    if is_static(program):
        return "is a static program: no loader preloads anything into it"
    return ""


def is_privileged(program: Path) -> bool:
    """Whether the kernel gives the program another user or group, or capabilities: AT_SECURE then."""
    status = program.stat()
    other_user = bool(status.st_mode & stat.S_ISUID) and status.st_uid != os.getuid()
    other_group = bool(status.st_mode & stat.S_ISGID) and status.st_gid != os.getgid()
    try:
        capable = bool(os.getxattr(program, "security.capability")) and os.getuid() != 0
    except OSError:
        capable = False
    return other_user or other_group or capable
