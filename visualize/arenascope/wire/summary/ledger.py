# SPDX-License-Identifier: MIT
"""The rows of a ledger, and sums of them. Part of the schema "arenascope.summary/1"."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Optional

from arenascope import rows
from arenascope.wire.json_decode import DecodeError, mapping
from arenascope.wire.json_types import Unsigned

KNOWN_OR_NOT: Final = frozenset({int, type(None)})


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
        held = {row.name: table.get(row.name, "") for row in cls.KIND}
        if not KNOWN_OR_NOT.issuperset(map(type, held.values())):
            for name in held:
                here = f"{place}.{name}" if place else name
                if name not in table:
                    raise DecodeError(f"{here} is missing")
                if type(table[name]) not in KNOWN_OR_NOT:
                    raise DecodeError(f"{here} is no number of bytes")
        return cls(held)

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
    """Resident bytes, each in one row. If snapshot.exact is true, the rows of the process add up to kernel.rss.

    If ruby_pages is null, its bytes are in the other rows.
    """

    KIND = rows.RESIDENT


class Absent(Rows):
    """malloc's bytes that are not resident."""

    KIND = rows.ABSENT


class Forecast(Rows):
    """What a trim would return: right as long as the target does nothing in between."""

    KIND = rows.FORECAST


class Beside(Rows):
    """What is counted apart from Rss; in JSON, keys beside the ledger."""

    KIND = rows.BESIDE
    INLINE = True


class Sums(NamedTuple):
    """Sums of the ledger's rows. null: a row of the sum is unknown.

    But Ruby's pages, where they could not be proven, are counted in other rows.
    """

    resident: Optional[Unsigned]  # All rows of the ledger.
    known: Optional[Unsigned]  # The rows of the ledger that are known.
    used: Optional[Unsigned]  # What the application holds: in use and mmapped in use.
    cached: Optional[Unsigned]  # Freed by the application, in a cache of malloc's.
    scattered: Optional[Unsigned]  # Cached and stranded: free memory on pages that something else keeps resident.
    free_pages: Optional[Unsigned]  # Releasable and withheld: whole free pages.
    free: Optional[Unsigned]  # scattered and free_pages: all that the application freed and that is resident.
    not_malloc: Optional[Unsigned]  # The rows that are not malloc's, Ruby's pages included.
    deep_trim_adds: Optional[Unsigned]  # Resident bytes that a deep trim would return beyond malloc_trim(0).
