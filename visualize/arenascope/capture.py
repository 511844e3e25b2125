# SPDX-License-Identifier: MIT
"""From what people type (a PID, a core file, a dump file) to a Dump: arenadump does the looking."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope import format as fmt
from arenascope.dump import Dump
from arenascope.errors import ArenascopeError, Code
from arenascope.interrupts import held_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM: Final = "arenadump"
OVERRIDE: Final = "ARENASCOPE_ARENADUMP"
TEMPORARY: Final = "arenascope-"  # names of directories
YOUNG: Final = 3600  # seconds
leaving: Final = threading.Event()
"""Set: programs that other threads have started are ended, within a second. Signals reach the first thread alone."""


class Look(NamedTuple):
    """A look at a target."""

    dump: Dump
    from_dump: bool  # the target is a dump file: the look was taken earlier


def find_arenadump() -> str:
    """The C program's path: $ARENASCOPE_ARENADUMP, else beside this Python's scripts, else on PATH."""
    override = os.environ.get(OVERRIDE)
    if override:
        if not os.access(override, os.X_OK) or Path(override).is_dir():
            raise ArenascopeError(Code.USAGE, f"${OVERRIDE} names {override}, which is not a program")
        return override
    beside = (Path(sysconfig.get_path("scripts")), Path(sys.argv[0]).resolve().parent)
    for folder in beside:
        if os.access(folder / PROGRAM, os.X_OK):
            return str(folder / PROGRAM)
    found = shutil.which(PROGRAM)
    if not found:
        places = ", ".join(dict.fromkeys(map(str, beside)))
        raise ArenascopeError(
            Code.INTERNAL,
            f"{PROGRAM} was found neither in {places} nor on PATH: install arenascope with pip, or name the program "
            f"in ${OVERRIDE}",
        )
    return found


def is_dump(target: str) -> bool:
    """Whether the target is a file that begins as a dump does. A number is a PID, unless it is written as a path."""
    if re.fullmatch("[0-9]+", target):
        return False
    try:
        # Not blocking: the name may be a FIFO's.
        fd = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False  # arenadump says what is wrong with it
    try:
        return os.read(fd, len(fmt.MAGIC) - 1) == fmt.MAGIC[:-1]  # one that lost its newline in a transfer, too
    except OSError:
        return False
    finally:
        os.close(fd)


def capture(target: str, options: Sequence[str] = ()) -> Look:
    """Look at the target; a dump file is opened as it is. `options` are arenadump's ("--chunks", "--mode=live").

    What arenadump remarks on stderr is passed on; its failure is an ArenascopeError with its exit code and its words.
    The temporary dump lies in a directory of ours (0700) and has no name any more when this returns: the mapping alone
    keeps it. What a capture that was killed has left goes at the next one, an hour later.
    """
    if is_dump(target):
        return Look(Dump(target), from_dump=True)
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=TEMPORARY) as folder, _claimed(folder):
        path = str(Path(folder) / "dump")
        run_arenadump(["dump", *options, "-o", path, "--", target])
        return Look(Dump(path), from_dump=False)


@contextmanager
def _claimed(folder: str) -> Iterator[None]:
    """Locked: whoever finds it knows that somebody uses it."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _sweep(place: Path) -> None:
    """Take away the directories of ours whose process was killed. A younger one is perhaps about to be locked."""
    for each in place.glob(f"{TEMPORARY}????????"):
        with suppress(OSError):
            fd = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                about = os.fstat(fd)
                if about.st_uid == os.geteuid() and about.st_mtime < time.time() - YOUNG:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(each)
            finally:
                os.close(fd)


def run_arenadump(arguments: Sequence[str], descriptors: Sequence[int] = ()) -> str:
    """Run arenadump and return its stdout; its remarks go to our stderr, its failure becomes an ArenascopeError.

    `descriptors` are open files of ours that it gets, under the same numbers.
    """
    return run_program([find_arenadump(), *arguments], descriptors)


def run_program(command: Sequence[str], descriptors: Sequence[int] = ()) -> str:
    """Run arenadump, or arenascope itself, in the same way. `command` begins with its path."""
    program = command[0]
    try:
        code, printed, remarks = _run(list(command), descriptors)
    except OSError as error:
        raise ArenascopeError(Code.INTERNAL, f"{program} could not be started: {error.strerror}") from error
    if code < 0:
        raise ArenascopeError(128 - code, f"{program} was killed by signal {-code}\n{remarks}".strip())
    if code:
        words = remarks.strip() or f"{program} failed with exit code {code} and gave no reason"
        raise ArenascopeError(code, words.removeprefix(f"{PROGRAM}: ").removeprefix("arenascope: "))
    with suppress(OSError):  # a full disk: the answer is none the worse
        sys.stderr.write(remarks)
    return printed


def _communicate(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What it says, to its end. A signal that comes just before we wait ends no waiting: so we look up now and then."""
    while not leaving.is_set():
        with suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=1)
    raise ArenascopeError(128 + signal.SIGTERM, "the command is being ended")


def _run(command: list[str], descriptors: Sequence[int]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a program that goes with us when we are told to go."""
    pipe = subprocess.PIPE
    nothing = subprocess.DEVNULL
    with (
        held_back() as release,
        subprocess.Popen(command, stdin=nothing, stdout=pipe, stderr=pipe, pass_fds=descriptors) as child,
    ):
        try:
            release()
            out, err = _communicate(child)
        except BaseException:
            child.kill()
            child.wait()  # on a KeyboardInterrupt Popen itself waits for a quarter of a second only
            raise
    return child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
