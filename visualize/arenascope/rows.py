# SPDX-License-Identifier: MIT
"""The rows of the ledger, as inspector/model/rows.def has them: the table that the C program is compiled from.

An installed package carries a copy (setup.py); in a source tree the table itself is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

KINDS: Final = ("RESIDENT", "ABSENT", "FORECAST", "BESIDE")
OWNERS: Final = ("MALLOC", "RUNTIME", "PROCESS")
GROUPS: Final = ("HELD", "CACHED", "STRANDED", "RELEASABLE", "WITHHELD", "OVERHEAD", "OTHER", "UNKNOWN")
HELD: Final = ("COUNTS", "NO")
TITLE: Final = 16  # characters, at most
MEANING: Final = 30  # likewise, of a resident row

_COMMENT: Final = re.compile(r"//[^\n]*\n|\s+|#undef AS_ROW\n")
_STRING: Final = r'"([^"\\\n]*)"'
_ENTRY: Final = re.compile(
    r"AS_ROW\(([a-z][a-z_]*), ([A-Z]+), ([A-Z]+), ([A-Z]+), ([A-Z]+),\s+"
    rf"{_STRING},\s+{_STRING},\s+{_STRING},\s+{_STRING},\s+{_STRING}\)"
)


class TableError(ValueError):
    """The table is not as its own comment says."""


class Row(NamedTuple):
    """A row. What each field means: the table's own comment."""

    name: str
    kind: str  # one of KINDS
    owner: str  # one of OWNERS
    group: str  # one of GROUPS
    held: str  # one of HELD
    paint: str
    colours: str
    title: str
    meaning: str
    definition: str


def parse(text: str) -> tuple[Row, ...]:
    """The table's rows, in its order. TableError: what in it is no row, or a row that breaks the table's rules."""
    rows: list[Row] = []
    at = 0
    while at < len(text):
        found = _COMMENT.match(text, at) or _ENTRY.match(text, at)
        if not found:
            line = text.count("\n", 0, at) + 1
            raise TableError(f"rows.def, line {line}: not an entry: {text[at:].splitlines()[0]!r}")
        if found.re is _ENTRY:
            rows.append(_row(found.groups(), rows))
        at = found.end()
    return tuple(rows)


def _row(fields: tuple[str, ...], before: list[Row]) -> Row:
    row = Row(*fields)
    name, kind, owner, group, *_ = row
    for value, allowed in ((kind, KINDS), (owner, OWNERS), (group, GROUPS), (row.held, HELD)):
        if value not in allowed:
            raise TableError(f"rows.def: {name}: {value} is none of {', '.join(allowed)}")
    if len(row.title) > TITLE or (kind == "RESIDENT" and len(row.meaning) > MEANING):
        raise TableError(f"rows.def: {name}: its title or its meaning is too long for a terminal")
    if any(name == other.name or row.title == other.title for other in before):
        raise TableError(f"rows.def: {name}: there is a row of that name or title")
    return row


def _table() -> Path:
    """Where the table is: in the package, or in the source tree."""
    here = Path(__file__)
    own = here.with_name("rows.def")
    return own if own.exists() else here.parents[2] / "inspector" / "model" / "rows.def"


ALL: Final = parse(_table().read_text(encoding="utf-8"))
"""Every row, in the order of the table: that of the fields in a dump."""
BY_NAME: Final = {row.name: row for row in ALL}
RESIDENT: Final = tuple(row for row in ALL if row.kind == "RESIDENT")
ABSENT: Final = tuple(row for row in ALL if row.kind == "ABSENT")
FORECAST: Final = tuple(row for row in ALL if row.kind == "FORECAST")
BESIDE: Final = tuple(row for row in ALL if row.kind == "BESIDE")
HELD_ROWS: Final = tuple(row.name for row in ALL if row.held == "COUNTS")
"""What the application holds, of malloc and of the runtimes beside it."""
BAR: Final = tuple(sorted(RESIDENT, key=lambda row: GROUPS.index(row.group)))
"""The resident rows as a bar has them from left to right: what is alike side by side."""
