# SPDX-License-Identifier: MIT
"""What a poll lacks of its processes, in a line for each reason: a server may have hundreds that cannot be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.errors import ArenascopeError
    from arenascope.processes import Process


class Lacking:
    """Counts processes by what is lacking and why."""

    def __init__(self) -> None:
        """Nothing is lacking."""
        self._processes: dict[tuple[str, str], list[tuple[int, str]]] = {}

    def add(self, what: str, process: Process, error: ArenascopeError) -> None:
        """Count a process. Its number, which a reason may have in it, makes no other reason."""
        reason = str(error).splitlines()[0]
        kind = what, re.sub(rf"\b{process.pid}\b", "", reason)
        self._processes.setdefault(kind, []).append((process.pid, reason))

    def texts(self) -> Iterator[str]:
        """A line for each kind, in the words for its first process."""
        for (what, _), found in self._processes.items():
            pid, reason = found[0]
            of = f"of process {pid}" if len(found) == 1 else f"of {len(found)} processes, the first of which is {pid}"
            yield f"{what} {of}: {reason}"
