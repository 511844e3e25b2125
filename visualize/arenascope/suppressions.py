# SPDX-License-Identifier: MIT
"""What counts as lost: a limit for CI, and types that are known to be lost, named as for LeakSanitizer."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import plural, size

if TYPE_CHECKING:
    from pathlib import Path

    from arenascope.wire.graph import Leaks


class LeakLimit:
    """A limit for lost bytes, direct and indirect."""

    def __init__(self, most: int | None, suppressions: Path | None) -> None:
        """`most`: None is no limit. AS_USAGE for a file of suppressions with other lines."""
        self.most = most
        self.patterns = _read(suppressions) if suppressions else []

    def excess(self, facts: Leaks) -> str | None:
        """What to say where more is lost than the limit allows; None otherwise."""
        lost = self._lost(facts)
        if self.most is None or lost <= self.most:
            return None
        known = f" besides what {plural(len(self.patterns), 'pattern')} suppressed" if self.patterns else ""
        return f"{size(lost)} is lost{known}, more than --fail-over {size(self.most)}"

    def _lost(self, facts: Leaks) -> int:
        return sum(
            group.direct.bytes + group.indirect.bytes
            for group in facts.by_type
            if not any(_matches(pattern, group.type or "") for pattern in self.patterns)
        )


def _read(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    found = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        if not line.startswith("leak:") or line == "leak:":
            raise ArenascopeError(Code.USAGE, f"{path}, line {number}: '{line}' is not leak:PATTERN")
        found.append(line.removeprefix("leak:"))
    return found


def _matches(pattern: str, name: str) -> bool:
    """A pattern matches any part of a type's name, unless it begins with ^ or ends with $."""
    begin, end = ("" if pattern.startswith("^") else "*"), ("" if pattern.endswith("$") else "*")
    return fnmatch.fnmatchcase(name, begin + pattern.removeprefix("^").removesuffix("$") + end)
