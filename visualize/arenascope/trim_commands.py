# SPDX-License-Identifier: MIT
"""The commands that give a process's free memory back: the one place that knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arenascope.wire.summary.origin import Target


def trim_command(target: Target, *, deep: bool = False) -> str | None:
    """What trims a summary's target, as malloc_trim(0) does or deeper; None where there is no living process."""
    pid = living_pid(target)
    return None if pid is None else f"arenascope trim {pid}{' --deep' if deep else ''}"


def living_pid(target: Target) -> int | None:
    """The process that was inspected, by the process id that it has for the inspector; None: a core, or itself."""
    return target.pid or None if "process" in {target.kind, target.dump_of} else None
