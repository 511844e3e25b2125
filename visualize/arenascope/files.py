# SPDX-License-Identifier: MIT
"""Files for their owner alone: mode 0600, never through a symlink, and whole pages or none."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from arenascope.errors import ArenascopeError, Code


def create(path: Path) -> IO[bytes]:
    """A file to write to, empty."""
    return open(path, "wb", opener=_private)


def create_new(path: Path) -> IO[bytes]:
    """The same, in place of whatever has the name: of a symlink too, which is not followed."""
    path.unlink(missing_ok=True)
    return open(path, "xb", opener=_private)


def create_text(path: Path) -> IO[str]:
    """The same for text: UTF-8, lines as they are."""
    return open(path, "w", encoding="utf-8", newline="", opener=_private)


def write_json(path: Path, value: Any) -> None:
    """A JSON file that stands under its name only when it is complete."""
    new = path.with_name(f".{path.name}.new")
    with create_text(new) as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")
    new.replace(path)


def write_page(path: str, text: str) -> None:
    """Write a page as `write_whole` does."""
    write_whole(path, text.encode("utf-8", "replace"))


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
