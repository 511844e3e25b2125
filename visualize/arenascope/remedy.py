# SPDX-License-Identifier: MIT
"""The command that gives a process's free memory back: the one place that knows it."""

from __future__ import annotations

import shlex
from typing import Any

Json = dict[str, Any]


def trim_command(target: Json) -> str | None:
    """What trims a summary's target as malloc_trim(0) does, with what every machine has; None when it does not live."""
    if "process" not in {target["kind"], target["dump_of"]} or not target["pid"]:
        return None
    return f"gdb -p {target['pid']} -batch -ex {shlex.quote('call (int)malloc_trim(0)')}"


def deep_trim_command(target: Json) -> str | None:  # noqa: ARG001 - nothing can, yet
    """What returns the tops of thread arenas as well; None where nothing does."""
    return None
