# SPDX-License-Identifier: MIT
"""What a check of `arenascope doctor` answers."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path


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


def read_text(path: str) -> str | None:
    """A small file of /proc or /sys, stripped; None when the kernel has none or does not show it."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
