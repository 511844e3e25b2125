# SPDX-License-Identifier: MIT
"""The C program arenadump: where it is, and what it says. A command that reads its JSON alone loads no numpy."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Final, NamedTuple

from arenascope.errors import ArenascopeError, Code, PartialError
from arenascope.signals import held_back, leaving

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM: Final = "arenadump"
OVERRIDE: Final = "ARENASCOPE_ARENADUMP"


class Ended(NamedTuple):
    """What came of a program."""

    program: str
    code: int  # as Popen has it
    printed: str
    remarks: str  # what it said on stderr


def _no_server(_: Sequence[str], __: int | None) -> Ended | None:
    return None


def _seconds_of_children() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


ask_server: Callable[[Sequence[str], int | None], Ended | None] = _no_server
"""Asks the server that there is (arenadump_server.py). None: a program is to be started."""
seconds_of_children: Callable[[], float] = _seconds_of_children
"""Processor time of the programs that were started and have ended, and of the server."""


def _beside_package() -> tuple[Path, Path]:
    """Where `pip install --target` and a zipapp that unpacks itself have it; and the package's own folder."""
    package = Path(__file__).parents[1]
    return package.parent / "bin", package


def _scripts() -> Path:
    """The folder of this Python's scripts. sysconfig itself would read all that Python was built with, in 1.5 ms."""
    return Path(sysconfig.get_path("scripts", expand=False).format(base=os.path.normpath(sys.prefix)))


def find_arenadump() -> str:
    """The C program's path: $ARENASCOPE_ARENADUMP, else beside the package or the scripts, else on PATH."""
    override = os.environ.get(OVERRIDE)
    if override:
        if not os.access(override, os.X_OK) or Path(override).is_dir():
            raise ArenascopeError(Code.USAGE, f"${OVERRIDE} names {override}, which is not a program")
        return override
    beside = (*_beside_package(), _scripts(), Path(sys.argv[0]).resolve().parent)
    for folder in beside:
        if os.access(folder / PROGRAM, os.X_OK):
            return str(folder / PROGRAM)
    from shutil import which  # noqa: PLC0415 - brings three libraries for archives

    found = which(PROGRAM)
    if not found:
        places = ", ".join(dict.fromkeys(map(str, beside)))
        raise ArenascopeError(
            Code.INTERNAL,
            f"{PROGRAM} was found neither in {places} nor on PATH: install arenascope with pip, or name the program "
            f"in ${OVERRIDE}",
        )
    return found


def to_stderr(remarks: str) -> None:
    """Say what arenadump remarked."""
    with suppress(OSError):  # a full disk: the answer is none the worse
        sys.stderr.write(remarks)


def run_arenadump(
    arguments: Sequence[str],
    descriptors: Sequence[int] = (),
    output: int | None = None,
    remark: Callable[[str], None] = to_stderr,
) -> str:
    """Run arenadump and return its stdout; its failure becomes an ArenascopeError.

    `descriptors` are open files of ours that it gets, under the same numbers. `output`: one that is its stdout.
    `remark` gets what it says on stderr where it succeeds.
    """
    ended = None if descriptors else ask_server(arguments, output)
    if ended is None:
        return run_program([find_arenadump(), *arguments], descriptors, output, remark)
    return _judged(ended, remark)


def run_program(
    command: Sequence[str],
    descriptors: Sequence[int] = (),
    output: int | None = None,
    remark: Callable[[str], None] = to_stderr,
) -> str:
    """Run arenadump, or arenascope itself, in the same way. `command` begins with its path."""
    try:
        ended = _run(list(command), descriptors, subprocess.PIPE if output is None else output)
    except OSError as error:
        raise ArenascopeError(Code.INTERNAL, f"{command[0]} could not be started: {error.strerror}") from error
    return _judged(ended, remark)


def _judged(ended: Ended, remark: Callable[[str], None]) -> str:
    program, code, printed, remarks = ended
    if code < 0:
        raise ArenascopeError(128 - code, f"{program} was killed by signal {-code}\n{remarks}".strip())
    if code:
        words = remarks.strip() or f"{program} failed with exit code {code} and gave no reason"
        words = words.removeprefix(f"{PROGRAM}: ").removeprefix("arenascope: ")
        raise PartialError(printed, words) if code == Code.PARTIAL else ArenascopeError(code, words)
    if remarks:
        remark(remarks)
    return printed


def _communicate(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What it says, to its end. A signal that comes just before we wait ends no waiting: so we look up now and then."""
    while not leaving.is_set():
        with suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=1)
    raise ArenascopeError(128 + signal.SIGTERM, "the command is being ended")


def _run(command: list[str], descriptors: Sequence[int], output: int) -> Ended:
    """What came of a program that goes with us when we are told to go."""
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with (
        held_back() as release,
        subprocess.Popen(command, stdin=nothing, stdout=output, stderr=pipe, pass_fds=descriptors) as child,
    ):
        try:
            release()
            out, err = _communicate(child)
        except BaseException:
            child.kill()
            child.wait()  # on a KeyboardInterrupt Popen itself waits for a quarter of a second only
            raise
    printed, remarks = (each.decode("utf-8", "replace") for each in (out or b"", err))
    return Ended(command[0], child.returncode, printed, remarks)
