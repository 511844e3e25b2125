# SPDX-License-Identifier: MIT
"""What works on this machine, and what to do about the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arenascope.doctor import kernel, software, target
from arenascope.doctor.check import Check, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Check", "Status", "examine"]


def examine() -> Iterator[Check]:
    """Every check, as its answer comes in. Inspects a child process of its own; changes nothing."""
    program = software.arenadump()
    yield program
    yield from target.checks(can_run=program.status is not Status.MISSING)
    yield from kernel.checks()
    yield from software.checks()
