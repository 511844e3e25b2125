# SPDX-License-Identifier: MIT
"""From what people type (a PID, a core file, a dump file) to a Dump: arenadump does the looking."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope import dump_records as fmt
from arenascope.arenadump import run_arenadump
from arenascope.dump import Dump

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TEMPORARY: Final = "arenascope-"  # names of directories
YOUNG: Final = 3600  # seconds


class Look(NamedTuple):
    """A look at a target."""

    dump: Dump
    from_dump: bool  # the target is a dump file: the look was taken earlier


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
