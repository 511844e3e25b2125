# SPDX-License-Identifier: MIT
"""The commands that give a process's free memory back: the one place that knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arenascope.summary import Target


def trim_command(target: Target, *, deep: bool = False) -> str | None:
    """What trims a summary's target, as malloc_trim(0) does or deeper; None where there is no living process."""
    if "process" not in {target.kind, target.dump_of} or not target.pid:
        return None
    return f"arenascope trim {target.pid}{' --deep' if deep else ''}"
