# SPDX-License-Identifier: MIT
"""The directory in which a watch keeps dumps: the newest ones, and never more than a part of the disk."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import size

if TYPE_CHECKING:
    from typing import NoReturn

    from arenascope.processes import Process

SHARE: Final = 1 / 10  # of the file system: what all dumps may take
FREE: Final = 1 / 20  # of it: what a dump leaves free
STEP: Final = 1 << 20
NAME: Final = re.compile(r"[\w.+-]+\.[0-9]+\.([0-9]{8}T[0-9]{6}\.[0-9]{3}Z)\.[a-z+]+\.dump")
# A dump that is not whole has the PID of its watch in its name, or 16 digits: an agent's, of a time without a watch.
UNFINISHED: Final = re.compile(r"\.arenascope-(?:[0-9]{1,10}|([0-9a-f]{16}))\.partial")
STALE: Final = 3600  # seconds after which an agent's is of a process that was killed


class KeptDump(NamedTuple):
    """A dump that a watch has kept."""

    time: str
    name: str
    size: int


class DumpFolder:
    """The directory, which only one watch uses at a time."""

    def __init__(self, path: str, keep: int, max_size: int) -> None:
        """Made if there is none. `keep`: how many dumps; `max_size`: bytes of all together."""
        self.path: Final = path
        self.keep: Final = keep
        self.max_size: Final = max_size
        try:
            self._fd: Final = self._open()
        except OSError as error:
            raise ArenascopeError(Code.IO, f"cannot keep dumps in '{path}': {error.strerror}") from error
        self._unfinished()  # a watch may have been killed while it wrote

    def _open(self) -> int:
        with suppress(FileExistsError):
            os.mkdir(self.path, 0o700)  # noqa: PTH102 - as it was typed
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            about = os.fstat(fd)
            if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                self._refuse("others can write to it, or own it")
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._refuse("another arenascope watch uses it")
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _refuse(self, why: str) -> NoReturn:
        raise ArenascopeError(Code.IO, f"cannot keep dumps in '{self.path}': {why}: choose another directory")

    def kept(self) -> list[KeptDump]:
        """The dumps of this and of earlier watches, the oldest first."""
        found = []
        for name in os.listdir(self._fd):  # noqa: PTH208 - of a descriptor
            match = NAME.fullmatch(name)
            if match:
                with suppress(FileNotFoundError):  # the user has taken it away
                    about = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode):
                        found.append(KeptDump(match[1], name, about.st_size))
        return sorted(found)

    def _to_go(self) -> list[KeptDump]:
        """Those that `kept` gives, the first to go first.

        Where the clock was set back, there are dumps of a time to come. They go before all others: as the newest ones
        they would stay for ever, and each new dump would go at once.
        """
        now = _stamp(datetime.now(timezone.utc))
        return sorted(self.kept(), key=lambda each: (each.time <= now, each))

    def _unfinished(self) -> int:
        """The bytes of dumps that are not whole, once those of killed writers are gone."""
        left = 0
        for name in os.listdir(self._fd):  # noqa: PTH208 - of a descriptor
            match = UNFINISHED.fullmatch(name)
            if not match:
                continue
            with suppress(FileNotFoundError):
                about = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
                if not stat.S_ISREG(about.st_mode):
                    continue
                if match[1] and about.st_mtime + STALE >= time.time():
                    left += about.st_size
                else:
                    os.unlink(name, dir_fd=self._fd)
        return left

    def add(self, process: Process, kind: str, descriptor: int) -> str:
        """Keep a dump, and return its name. ArenascopeError: it is not kept; those before it are.

        `descriptor`: of the dump, which may have no name.
        """
        try:
            needed = os.fstat(descriptor).st_size
            self._make_room(needed)
            name = self._write(process, kind, descriptor, needed)
            others = [each for each in self._to_go() if each.name != name]
            self._drop(others[: max(0, len(others) + 1 - self.keep)])
        except OSError as error:
            raise ArenascopeError(Code.IO, f"cannot keep a dump in '{self.path}': {error.strerror}") from error
        return name

    def _write(self, process: Process, kind: str, descriptor: int, needed: int) -> str:
        now = _stamp(datetime.now(timezone.utc))
        comm = re.sub(r"[^\w+-]", "_", process.comm, flags=re.ASCII) or "_"
        name = f"{comm}.{process.pid}.{now}.{kind}.dump"
        part = f".arenascope-{os.getpid()}.partial"
        self._copy(part, descriptor, needed)
        os.rename(part, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        os.fsync(self._fd)
        return name

    def _copy(self, name: str, descriptor: int, needed: int) -> None:
        """The file is whole, and on the disk, or it is gone."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        out = os.open(name, flags, 0o600, dir_fd=self._fd)
        try:
            _send(descriptor, out, needed)
            os.fsync(out)
        except BaseException:
            os.unlink(name, dir_fd=self._fd)
            raise
        finally:
            os.close(out)

    def _make_room(self, needed: int) -> None:
        """Let old dumps go, if that is of use. ArenascopeError: there is no room, whatever goes."""
        disk = os.fstatvfs(self._fd)
        whole, free = disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
        most = min(self.max_size, int(SHARE * whole))
        ours = self._to_go()
        unfinished = self._unfinished()
        held = unfinished + sum(each.size for each in ours)
        if unfinished + needed > most or free + held - unfinished - needed < FREE * whole:
            raise ArenascopeError(
                Code.IO,
                f"a dump of {size(needed)} is not kept in '{self.path}': {size(free)} of {size(whole)} are free there, "
                f"{size(most)} is the limit for all dumps, and a twentieth of the disk stays free",
            )
        while ours and (held + needed > most or free - needed < FREE * whole):
            first = ours.pop(0)
            self._drop([first])
            held, free = held - first.size, free + first.size

    def _drop(self, dumps: list[KeptDump]) -> None:
        for each in dumps:
            with suppress(FileNotFoundError):
                os.unlink(each.name, dir_fd=self._fd)

    def close(self) -> None:
        """Another watch may use it."""
        os.close(self._fd)


def _stamp(when: datetime) -> str:
    """As dumps have it in their names: its order is that of time."""
    return f"{when:%Y%m%dT%H%M%S}.{when.microsecond // 1000:03}Z"


def _send(descriptor: int, out: int, needed: int) -> None:
    done = 0
    while done < needed:
        sent = os.sendfile(out, descriptor, done, min(STEP, needed - done))
        if not sent:
            raise OSError(errno.EIO, "the dump has become shorter")
        done += sent
