# SPDX-License-Identifier: MIT
"""The text of source files, read with no more rights than the target has.

A path comes from the target's debug information, or from a dump: it may name any file. So a child of ours reads it,
below the target's root directory and as the target's user. Only root can be another user: others read as themselves,
what they may read anyway.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import select
import signal
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST: Final = 16 << 20  # bytes of a source file that is read
PATIENCE: Final = 10.0  # seconds: a file system of the target's may not answer
NOBODY: Final = 65534
READS_ALL: Final = (1 << 1) | (1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
CAPABILITIES: Final = 0x20080522  # version of the kernel's interface


@dataclass(frozen=True)
class Rights:
    """Whose rights a file is read with."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    reads_all: bool = False  # as root does
    root: int | None = None  # descriptor of its root directory


class Source(NamedTuple):
    """A source file: its lines, and when it was changed (seconds since the epoch)."""

    lines: list[str]
    changed: float


def rights_of(target: str) -> Rights | None:
    """Those of a process, or of the user who may have written a file. None: our own are all that we have.

    To be asked before the snapshot: a process may become one of another user meanwhile.
    """
    if os.geteuid() != 0:
        return None
    from arenascope.wire.snapshot import is_dump  # noqa: PLC0415 - numpy comes with it, which only `list` has need of

    process = re.fullmatch("[0-9]+", target)
    return _of_process(int(target)) if process and not is_dump(target) else _of_file(target)


def _of_process(pid: int) -> Rights:
    """Returns its rights: of two users or groups that it has (set-user-id), those of the one that is not root's."""
    try:
        words = Path(f"/proc/{pid}/status").read_bytes().decode("utf-8", "replace")
        held: Mapping[str, list[str]] = {
            name: value.split() for name, _, value in (line.partition(":") for line in words.split("\n"))
        }
        uid, gid = (max(int(held[name][0]), int(held[name][1])) for name in ("Uid", "Gid"))
        reads_all = uid == 0 and bool(int(held["CapEff"][0], 16) & READS_ALL)
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return Rights(uid, gid, tuple(map(int, held["Groups"])), reads_all, root)
    except (OSError, KeyError, ValueError, IndexError):  # it has ended: the snapshot says so
        return Rights(NOBODY, NOBODY, ())


def _of_file(path: str) -> Rights:
    """A dump of root's may be of anybody's process: of it nothing is known but what everybody may read."""
    try:
        status = Path(path).stat()
    except OSError:
        return Rights(NOBODY, NOBODY, ())
    if status.st_uid == 0:
        return Rights(NOBODY, NOBODY, ())
    try:
        user = pwd.getpwuid(status.st_uid)
        return Rights(status.st_uid, user.pw_gid, tuple(os.getgrouplist(user.pw_name, user.pw_gid)))
    except KeyError:
        return Rights(status.st_uid, NOBODY, ())


def read_source(path: str, rights: Rights | None = None) -> Source | None:
    """A source file. None: there is none that may be read, or it is nothing to read (a device, a FIFO, too large).

    `rights`: None for our own.
    """
    if not path.startswith("/") or "\0" in path:
        return None
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _serve(path, rights, writer)
    os.close(writer)
    try:
        said = _all_of(reader)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)  # ours until it is waited for
        os.waitpid(child, 0)
    changed, end, content = said.partition(b"\n")
    if not end:
        return None
    return Source(content.decode("utf-8", "replace").split("\n"), float(changed))


def _all_of(reader: int) -> bytes:
    """What the child says, if it says all of it in time; else nothing."""
    parts: list[bytes] = []
    end = time.monotonic() + PATIENCE
    while select.select([reader], [], [], max(end - time.monotonic(), 0))[0]:
        part = os.read(reader, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return b""


def _serve(path: str, rights: Rights | None, writer: int) -> None:
    """In the child: never returns."""
    try:
        reopen = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if rights:
            _become(rights)
        # Opened without effect first: nothing that waits, or does something when it is opened, is opened.
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        status = os.fstat(place)
        # What the kernel makes up when it is read has no size: an environment, say.
        if stat.S_ISREG(status.st_mode) and 0 < status.st_size <= LARGEST:
            file = os.open(str(place), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=reopen)
            with os.fdopen(file, "rb") as source, os.fdopen(writer, "wb") as out:
                content = source.read(status.st_size)
                out.write(b"%r\n" % status.st_mtime + content)
    except BaseException:  # noqa: BLE001, S110 - whatever it is, there is no source
        pass
    finally:
        os._exit(0)


def _become(rights: Rights) -> None:
    """The groups first: another user cannot change them."""
    if rights.root is not None:
        os.fchdir(rights.root)
        os.chroot(".")
    os.setgroups(rights.groups)
    os.setresgid(rights.gid, rights.gid, rights.gid)
    os.setresuid(rights.uid, rights.uid, rights.uid)  # of another user than root the kernel takes all capabilities
    if not rights.reads_all:
        _drop_capabilities()


def _drop_capabilities() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(CAPABILITIES, 0)
    if libc.capset(head, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def is_newer(source: Source, program: str) -> bool:
    """Whether a source file was changed after the program was built: its lines may have moved. Empty: not known."""
    if not program:
        return False  # an empty path would be the current directory
    try:
        return source.changed > Path(program).stat().st_mtime
    except (OSError, ValueError):
        return False
