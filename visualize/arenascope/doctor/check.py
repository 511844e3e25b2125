# SPDX-License-Identifier: MIT
"""What a check of `arenascope doctor` answers."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

BASES: Final = {"proc": "/proc/sys/kernel", "sys": "/sys/kernel/mm"}  # every kernel has them


class Status(enum.Enum):
    """How a thing stands."""

    OK = "ok"
    LIMITED = "limited"  # arenascope works, but less well or not everywhere
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    status: Status
    found: str  # what was found, in words
    fix: str | None = None  # the command that mends it; None when nothing is to be mended, or nothing can
    basic: bool = False  # without it nothing works: doctor fails


class Unreadable(NamedTuple):
    """There may be such a file: it is not known what it says."""

    why: str


def read(path: str) -> str | Unreadable | None:
    """A small file of /proc or /sys, stripped; None: the kernel has none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        base = BASES[Path(path).parts[1]]
        return None if Path(base).is_dir() else Unreadable(f"{base} is not mounted here")
    except OSError as error:
        return Unreadable(f"{error.strerror}: run arenascope with sudo")


def read_text(path: str) -> str:
    """The same; nothing where it is not known."""
    found = read(path)
    return found if isinstance(found, str) else ""
