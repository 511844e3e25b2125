# SPDX-License-Identifier: MIT
"""A timeline that somebody else may write to is read from a copy.

SQLite opens a log beside a file that it only reads, too. It follows a link of that name, makes the file to which the
link leads where it is missing, and as root gives it to the owner of the timeline.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from arenascope.errors import ArenascopeError, Code
from arenascope.private_files import check_companion, create, is_shared, why_foreign
from arenascope.timeline.store import COMPANIONS

LOG: Final = COMPANIONS[0]
TRIES: Final = 5  # to copy a file that is being written


def untouchable(path: str) -> str:
    """The file itself where nobody else can write to it or beside it, otherwise a copy."""
    real = Path(path).resolve()
    return path if _is_ours(real) else Copy.of(str(real)).path


def _is_ours(real: Path) -> bool:
    try:
        for companion in COMPANIONS:
            check_companion(f"{real}{companion}")
        return not is_shared(real.parent) and why_foreign(real.stat()) is None
    except ArenascopeError:
        return False


class Copy:
    """A timeline with its log, in a directory of our own that is removed in the end."""

    last: ClassVar[Copy | None] = None  # a command reads a file several times

    def __init__(self, path: str) -> None:
        """ArenascopeError IO: it is changed all the time."""
        self._folder: Final = tempfile.TemporaryDirectory(prefix="arenascope-")
        self.path: Final = str(Path(self._folder.name) / "timeline")
        for _ in range(TRIES):
            self.state = _states(path)
            for companion in ("", LOG):
                _copy(path + companion, self.path + companion)
            if _states(path) == self.state:
                return
        raise ArenascopeError(Code.IO, f"'{path}' is written all the time: copy it and its log, and read the copy")

    @classmethod
    def of(cls, path: str) -> Copy:
        """A copy of the file as it is now."""
        if cls.last is None or cls.last.state != _states(path):
            cls.last = cls(path)
        return cls.last


def _states(path: str) -> list[Any]:
    """What changes when a file or its log is written."""
    found: list[Any] = [path]
    for each in (path, path + LOG):
        with suppress(FileNotFoundError):
            status = os.lstat(each)
            found.append((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
    return found


def _copy(path: str, to: str) -> None:
    """Only a regular file is opened, and none by way of a link; a log that is none does not count."""
    Path(to).unlink(missing_ok=True)
    try:
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if stat.S_ISREG(os.fstat(place).st_mode):
            with Path(f"/proc/self/fd/{place}").open("rb") as source, create(Path(to)) as made:
                shutil.copyfileobj(source, made, 1 << 20)
    finally:
        os.close(place)
