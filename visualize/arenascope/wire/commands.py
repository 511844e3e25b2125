# SPDX-License-Identifier: MIT
"""arenadump's commands, a function for each. Nothing but these makes a command line of its.

What arenadump prints is returned as it is; an ArenascopeError has its exit code and its words. Times and sizes are
as people type them ("20ms", "2G").
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from arenascope.wire import arenadump
from arenascope.wire.arenadump import find_arenadump, run_arenadump, run_program, to_stderr
from arenascope.wire.how import DEFAULT, How, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def program() -> str:
    """The path of arenadump. ArenascopeError: there is none."""
    return find_arenadump()


def version() -> str:
    """What it is, and what it was built with."""
    return run_arenadump(["--version"])


def processor_seconds() -> float:
    """Processor time of all that was started here and has ended, and of the server that runs."""
    return arenadump.seconds_of_children()


def summary(target: str, how: How = DEFAULT, descriptors: Sequence[int] = ()) -> str:
    """The summary of a PID, a core or a dump file, as JSON. `descriptors`: open files of ours that it gets."""
    return run_arenadump(["summary", "--json", *how.words(), "--", target], descriptors)


def dump(
    target: str,
    how: How,
    output: str,
    *,
    stdout: int | None = None,
    remark: Callable[[str], None] = to_stderr,
) -> None:
    """Write a dump into the file `output`; "-": to the open file `stdout`. `remark` gets what it says besides."""
    run_arenadump(["dump", *how.words(), f"--output={output}", "--", target], output=stdout, remark=remark)


def check(dumps: Sequence[str], descriptors: Sequence[int]) -> None:
    """Check dump files, as their open files are named in /proc/self/fd."""
    run_arenadump(["check", "--", *dumps], descriptors)


def leaks(target: str, how: How = DEFAULT) -> str:
    """The chunks in use that nothing points to, as JSON. PartialError has it, too; so do types() and owners()."""
    return _of_graph("leaks", how, target)


def types(target: str, how: How = DEFAULT) -> str:
    """What the chunks in use are, as JSON."""
    return _of_graph("types", how, target)


def owners(target: str, how: How = DEFAULT) -> str:
    """Who holds the chunks in use, as JSON."""
    return _of_graph("owners", how, target)


def why(target: str, address: str, how: How = DEFAULT) -> str:
    """The shortest path to the chunk at an address, as JSON."""
    return _of_graph("why", how, target, address)


def _of_graph(command: str, how: How, *words: str) -> str:
    return run_arenadump([command, "--json", *how.words(), "--", *words])


def sites(target: str, how: How = DEFAULT, descriptors: Sequence[int] = ()) -> str:
    """Who allocated what is in use, as JSON. `descriptors`: as of summary()."""
    return run_arenadump(["sites", "--json", *how.words(), "--", target], descriptors)


def trace(file: str) -> str:
    """What the file of a trace says, as JSON."""
    return run_arenadump(["trace", "--json", "--", file])


def policy(pid: int, timeout: str) -> str:
    """What the policy of the agent in a process has done, as JSON."""
    return run_arenadump(["policy", "--json", f"--timeout={timeout}", "--", str(pid)])


def png(file: str, folder: str) -> None:
    """Draw the heat maps of a dump file."""
    run_arenadump(["png", "-o", folder, "--", file])


def inject(pid: str, *, timeout: str | None = None, force: bool = False, as_json: bool = False) -> str:
    """Load the agent into a process."""
    return run_arenadump(["inject", *words_of({"timeout": timeout, "force": force, "json": as_json}), "--", pid])


def trim(  # noqa: PLR0913 - each an option of the command
    pid: str,
    *,
    max_hold: str | None = None,
    max_pause: str | None = None,
    arena: str | None = None,
    watch: str | None = None,
    timeout: str | None = None,
    forecast: bool = False,
    deep: bool = False,
    force: bool = False,
) -> str:
    """Return the free memory of a process to the kernel, or compute what would come back, as JSON."""
    given = {"max-hold": max_hold, "max-pause": max_pause, "arena": arena, "watch": watch, "timeout": timeout}
    options = words_of({**given, "forecast": forecast, "deep": deep, "force": force})
    return run_arenadump(["trim", "--json", *options, "--", pid])


def _profiling(  # noqa: PLR0913 - each an option of the command
    pid: str,
    *,
    output: str | None,
    duration: str | None = None,
    rates: str | None = None,
    timeout: str | None = None,
    exact: bool = False,
    entry: bool = False,
    stop: bool = False,
    force: bool = False,
    until_eof: bool = False,
) -> list[str]:
    given = {"output": output, "for": duration, "rates": rates, "timeout": timeout}
    flags = {"exact": exact, "entry": entry, "stop": stop, "force": force, "until-eof": until_eof}
    return ["profile", *words_of({**given, **flags}), "--", pid]


def profile(  # noqa: PLR0913 - each an option of the command
    pid: str,
    *,
    output: str,
    duration: str,
    rates: str | None = None,
    exact: bool = False,
    remark: Callable[[str], None] = to_stderr,
) -> None:
    """Have a process record who allocates for so long, and write a dump with the profile."""
    run_arenadump(_profiling(pid, output=output, duration=duration, rates=rates, exact=exact), remark=remark)


def become_profile(  # noqa: PLR0913 - each an option of the command
    pid: str,
    *,
    output: str | None,
    duration: str | None,
    rates: str | None,
    timeout: str | None,
    exact: bool,
    entry: bool,
    stop: bool,
    force: bool,
) -> None:
    """The same in our place: Ctrl-C is for it alone, and who kills us kills it. It does not return."""
    words = _profiling(
        pid,
        output=output,
        duration=duration,
        rates=rates,
        timeout=timeout,
        exact=exact,
        entry=entry,
        stop=stop,
        force=force,
    )
    path = find_arenadump()
    os.execv(path, [path, *words])  # noqa: S606


def start_profile(pid: str, output: str, stderr: int) -> subprocess.Popen[bytes]:
    """The same beside us, until its standard input ends. `stderr`: a file that takes what it says. OSError."""
    # In a session of its own: the end of the terminal ends it through us.
    return subprocess.Popen(
        [find_arenadump(), *_profiling(pid, output=output, until_eof=True)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        start_new_session=True,
    )


def report_of(target: str, output: str) -> None:
    """Have an arenascope of its own write a report: to draw one takes seconds."""
    run_program([sys.executable, "-m", "arenascope", "report", f"--output={output}", "--", target])
