# SPDX-License-Identifier: MIT
"""What a poll lacks of its processes, in a line for each reason: a server may have hundreds that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.errors import ArenascopeError
    from arenascope.processes import Process


class Lacking:
    """Counts processes by what is lacking and by the exit code that says why."""

    def __init__(self) -> None:
        """Nothing is lacking."""
        self._counts: dict[tuple[str, int], int] = {}
        self._firsts: dict[tuple[str, int], tuple[int, str]] = {}

    def add(self, what: str, process: Process, error: ArenascopeError) -> None:
        """Count a process."""
        kind = what, int(error.code)
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._firsts.setdefault(kind, (process.pid, str(error).splitlines()[0]))

    def texts(self) -> Iterator[str]:
        """A line for each kind, with the reason of its first process."""
        for kind, count in self._counts.items():
            pid, reason = self._firsts[kind]
            of = f"of process {pid}" if count == 1 else f"of {count} processes, the first of which is {pid}"
            yield f"{kind[0]} {of}: {reason}"
