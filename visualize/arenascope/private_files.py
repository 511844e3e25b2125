# SPDX-License-Identifier: MIT
"""Files for their owner alone: mode 0600, never through a symlink, and whole pages or none.

A file that is there already is gone on with only where it is ours, and nobody else can write to it or take its place.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import utf8


def create(path: Path) -> IO[bytes]:
    """A new file to write to, in place of whatever has the name: of a symlink or another link of a file, too."""
    path.unlink(missing_ok=True)
    return open(path, "xb", opener=_private)


def create_text(path: Path) -> IO[str]:
    """The same for text: UTF-8, lines as they are."""
    path.unlink(missing_ok=True)
    return open(path, "x", encoding="utf-8", newline="", opener=_private)


def why_foreign(status: os.stat_result) -> str | None:
    """Why a file is not one to go on with: others may have written to it. None: it is ours alone."""
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return f"it belongs to another user (uid {status.st_uid})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to it (mode {stat.S_IMODE(status.st_mode):04o})"
    return "it has another name, too (a hard link)" if status.st_nlink > 1 else None


def go_on(path: str) -> int:
    """A descriptor of a file that is there, for reading and writing. ArenascopeError IO: it is not ours alone."""
    try:
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)  # has no effect: it may be a device or a FIFO
        try:
            why = why_foreign(os.fstat(place))
            if why:
                raise ArenascopeError(
                    Code.IO, f"will not write to '{path}', which exists already: {why}: choose another name with -o"
                )
            return os.open(f"/proc/self/fd/{place}", os.O_RDWR | os.O_CLOEXEC)
        finally:
            os.close(place)
    except OSError as error:
        raise ArenascopeError(Code.IO, f"cannot write '{path}': {error.strerror}") from error


def check_companion(path: str) -> None:
    """A file that is written beside another one. ArenascopeError IO: there is one that is not ours alone."""
    with suppress(FileNotFoundError):
        why = why_foreign(os.lstat(path))
        if why:
            raise ArenascopeError(
                Code.IO, f"will not write to '{path}', which exists already: {why}: choose another name with -o"
            )


def is_shared(folder: Path) -> bool:
    """Whether others can make names in a directory. ArenascopeError IO: they can take names away, there or above it."""
    real = folder.resolve()
    for each in (real, *real.parents):
        status = each.stat()
        if status.st_uid not in _trusted():
            why = f"'{each}' belongs to another user (uid {status.st_uid})"
        elif _is_open(status) and not status.st_mode & stat.S_ISVTX:
            why = f"others may write to '{each}' (mode {stat.S_IMODE(status.st_mode):04o})"
        else:
            continue
        raise ArenascopeError(
            Code.IO, f"will not write into '{folder}': {why}, and can put other files there: choose another directory"
        )
    return _is_open(real.stat())


def is_own(path: Path) -> bool:
    """Whether a file or a directory is ours, and others cannot write to it."""
    status = path.stat()
    return status.st_uid == os.geteuid() and not _is_open(status)


def check_own(folder: Path) -> None:
    """ArenascopeError IO: a directory is not ours, or others can write to it."""
    if not is_own(folder):
        raise ArenascopeError(
            Code.IO, f"will not write into '{folder}': others own it, or may write to it: choose another directory"
        )


def _trusted() -> set[int]:
    """Whose directories may be on the way: ours, root's (by whatever number), and those of the user of sudo."""
    sudo = os.environ.get("SUDO_UID", "")
    by_sudo = {int(sudo)} if os.geteuid() == 0 and sudo.isascii() and sudo.isdecimal() else set()
    return {0, os.geteuid(), Path("/").stat().st_uid, *by_sudo}


def _is_open(status: os.stat_result) -> bool:
    """Whether others can make names there. A group of our own is no other."""
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid != os.getegid()
    return bool(by_group or status.st_mode & stat.S_IWOTH)


def write_json(path: Path, value: Any) -> None:
    """A JSON file that stands under its name only when it is complete."""
    new = path.with_name(f".{path.name}.new")
    with create_text(new) as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")
    new.replace(path)


def write_page(path: str, text: str) -> None:
    """Write a page as `write_whole` does."""
    write_whole(path, utf8(text).encode())


def write_whole(path: str, content: bytes) -> None:
    """Write a file of mode 0600 that stands under its name only when it is complete; a symlink is not followed."""
    try:
        _put(Path(path), content)
    except OSError as error:
        raise ArenascopeError(Code.IO, f"cannot write '{path}': {error.strerror}") from error


def _put(place: Path, content: bytes) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(place.lstat().st_mode):
            raise ArenascopeError(
                Code.IO, f"'{place}' exists already, and is not a regular file: choose another name with -o"
            )
    descriptor, new = tempfile.mkstemp(dir=place.parent, prefix=".arenascope-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(new).replace(place)
    except BaseException:
        Path(new).unlink()
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
