# SPDX-License-Identifier: MIT
"""arenadump's commands, a function for each. Nothing but these makes a command line of its.

What arenadump prints is returned as it is; an ArenascopeError has its exit code and its words. Times and sizes are
as people type them ("20ms", "2G").
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Union

from arenascope.wire import arenadump
from arenascope.wire.arenadump import find_arenadump, run_arenadump, run_program, to_stderr
from arenascope.wire.how import DEFAULT, How, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Words = Mapping[str, Union[str, bool, None]]  # options, by their names


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


def inject(pid: str, options: Words) -> str:
    """Load the agent into a process. What it did, as JSON."""
    return run_arenadump(["inject", "--json", *words_of(options), "--", pid])


def trim(pid: str, options: Words) -> str:
    """Return the free memory of a process to the kernel, or compute what would come back, as JSON."""
    return run_arenadump(["trim", "--json", *words_of(options), "--", pid])


def profile(pid: str, options: Words, output: str, remark: Callable[[str], None]) -> None:
    """Have a process record who allocates, and write a dump with the profile. `remark`: as of dump()."""
    run_arenadump(["profile", *words_of({**options, "output": output}), "--", pid], remark=remark)


def become_profile(pid: str, options: Words) -> None:
    """The same in our place: Ctrl-C is for it alone, and who kills us kills it. It does not return."""
    path = find_arenadump()
    os.execv(path, [path, "profile", *words_of(options), "--", pid])  # noqa: S606


def start_profile(pid: str, output: str, stderr: int) -> subprocess.Popen[bytes]:
    """The same beside us, until its standard input ends. `stderr`: a file that takes what it says. OSError."""
    # In a session of its own: the end of the terminal ends it through us.
    return subprocess.Popen(
        [find_arenadump(), "profile", "--until-eof", f"--output={output}", "--", pid],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        start_new_session=True,
    )


def report_of(target: str, output: str) -> None:
    """Have an arenascope of its own write a report: to draw one takes seconds."""
    run_program([sys.executable, "-m", "arenascope", "report", f"--output={output}", "--", target])
