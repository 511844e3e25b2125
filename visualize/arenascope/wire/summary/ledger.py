# SPDX-License-Identifier: MIT
"""The rows of a ledger, and sums of them. Part of the schema "arenascope.summary/1"."""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Optional

from arenascope import rows
from arenascope.wire.json_decode import DecodeError, mapping


@dataclass(frozen=True)
class Rows:
    """The bytes in each row of one kind, by the row's name; None: unknown."""

    KIND: ClassVar[tuple[rows.Row, ...]]
    INLINE: ClassVar[bool] = False

    held: Mapping[str, Optional[int]]

    @classmethod
    def from_json(cls, value: Any, place: str) -> "Rows":
        """From JSON. DecodeError: a row is missing, or is no number."""
        table = mapping(value, place)
        for row in cls.KIND:
            here = f"{place}.{row.name}" if place else row.name
            if row.name not in table:
                raise DecodeError(f"{here} is missing")
            if table[row.name] is not None and type(table[row.name]) is not int:
                raise DecodeError(f"{here} is no number of bytes")
        return cls({row.name: table[row.name] for row in cls.KIND})

    def __getitem__(self, name: str) -> Optional[int]:
        """The bytes in a row."""
        return self.held[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the rows, in the table's order."""
        return iter(self.held)

    def values(self) -> tuple[Optional[int], ...]:
        """The bytes in each row, in the table's order."""
        return tuple(self.held.values())


class Resident(Rows):
    """The rows that are parts of Rss."""

    KIND = rows.RESIDENT


class Absent(Rows):
    """What is malloc's and not resident."""

    KIND = rows.ABSENT


class Forecast(Rows):
    """What a trim would return."""

    KIND = rows.FORECAST


class Beside(Rows):
    """What is counted apart from Rss; in JSON, keys beside the ledger."""

    KIND = rows.BESIDE
    INLINE = True


class Sums(NamedTuple):
    """Sums of the ledger's rows, by arenadump."""

    resident: Optional[int]
    known: Optional[int]
    used: Optional[int]
    cached: Optional[int]
    scattered: Optional[int]
    free_pages: Optional[int]
    free: Optional[int]
    not_malloc: Optional[int]
    deep_trim_adds: Optional[int]
