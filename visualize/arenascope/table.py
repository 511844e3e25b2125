# SPDX-License-Identifier: MIT
"""A table of the Python API: rows that are named tuples, as they are, for numpy, pandas and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, overload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Row = TypeVar("Row", bound=NamedTuple)
SHOWN: Final = 50  # rows in a notebook


class Table(Sequence[Row], Generic[Row]):
    """Rows of one kind, in an order that the function says which returned the table. None is what is not known."""

    def __init__(self, kind: type[Row], rows: Sequence[Row]) -> None:
        """`kind`: the class of the rows, which names the columns."""
        self.columns: Final[tuple[str, ...]] = kind._fields
        self._rows: Final = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """A row, or some."""
        return self._rows[index]

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def __repr__(self) -> str:
        """The columns and the number of rows."""
        return f"<Table of {len(self)} rows: {', '.join(self.columns)}>"

    def column(self, name: str) -> tuple[Any, ...]:
        """One column. ValueError: there is none of that name."""
        place = self.columns.index(name)
        return tuple(row[place] for row in self._rows)

    def to_numpy(self) -> NDArray[np.void]:
        """The table as a structured array. Numbers that are all known have 64 bits, all else is objects."""
        import numpy as np  # noqa: PLC0415 - only who asks for it needs it

        columns = {name: self.column(name) for name in self.columns}
        kinds = {name: _whole(values) if None not in values else None for name, values in columns.items()}
        made = np.empty(len(self), [(name, kinds[name] or np.object_) for name in self.columns])
        for name, values in columns.items():
            made[name] = values if kinds[name] else np.fromiter(values, np.object_, len(self))
        return made

    def to_pandas(self) -> Any:
        """The table as a DataFrame; numbers are Int64 or UInt64, <NA> is what is not known. ImportError: no pandas."""
        import pandas as pd  # type: ignore[import-untyped,import-not-found,unused-ignore]  # noqa: PLC0415 - likewise

        columns = {}
        for name in self.columns:
            values = self.column(name)
            kind = _whole(values)
            nullable = {"int64": "Int64", "uint64": "UInt64", None: None}[kind]
            columns[name] = pd.array(values, dtype=nullable) if nullable else pd.Series(values, dtype=object)
        return pd.DataFrame(columns)

    def _repr_html_(self) -> str:
        """The first rows, for a notebook. Names are a target's, and escaped."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{'unknown' if value is None else escape(_text(value))}</td>" for value in row)
            + "</tr>"
            for row in self._rows[:SHOWN]
        )
        more = f"<p>and {len(self) - SHOWN:,} more</p>" if len(self) > SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _whole(values: Sequence[Any]) -> str | None:
    """The type that holds the numbers of a column: an address may need all 64 bits. None: they are no numbers."""
    known = [value for value in values if value is not None]
    if not all(type(value) is int for value in known):
        return None
    return "int64" if all(value < 1 << 63 for value in known) else "uint64"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " < ".join(map(str, value))
    return f"{value:,}" if type(value) is int else str(value)
