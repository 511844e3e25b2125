# SPDX-License-Identifier: MIT
"""Files for their owner alone: mode 0600, and never through a symlink."""

from __future__ import annotations

import json
import os
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def create(path: Path) -> IO[bytes]:
    """A file to write to, empty."""
    return open(path, "wb", opener=_private)


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


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
