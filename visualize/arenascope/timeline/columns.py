# SPDX-License-Identifier: MIT
"""Rows of a timeline, each value of the type that schema.sql gives its column.

SQLite keeps a value of any type in any column, and a file may come from anywhere. So every reader, and the watch that
goes on in a file, has its rows from `select`.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Values = tuple[Any, ...]

SCHEMA: Final = Path(__file__).with_name("schema.sql")
TYPES: Final = {"INTEGER": int, "TEXT": str, "BLOB": bytes}
NOT_UTF8: Final = "Could not decode to UTF-8"
NAMES: Final = {int: "a number", float: "a fraction", str: "text", bytes: "a blob", type(None): "missing"}


class DamagedError(ValueError):
    """What does not fit, in words that follow "is damaged: "."""


@dataclass(frozen=True)
class SchemaColumn:
    """A column of a table."""

    name: str
    type: type
    required: bool

    def fits(self, value: Any) -> bool:
        """Whether a value may stand there. No number of a timeline is negative."""
        if value is None:
            return not self.required
        return type(value) is self.type and not (isinstance(value, int) and value < 0)


@dataclass(frozen=True)
class SchemaTable:
    """A table as this arenascope makes it."""

    name: str
    columns: Mapping[str, SchemaColumn]


@lru_cache(maxsize=1)
def _made() -> tuple[dict[str, SchemaTable], dict[str, str], int]:
    """The tables, the statement of each table and index, and the version: what SQLite itself says of schema.sql."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA.read_text(encoding="utf-8"))
        statements = {name: sql for _, name, _, sql in _objects(db) if sql is not None}
        names = [name for kind, name, _, _ in _objects(db) if kind == "table"]
        (number,) = db.execute("PRAGMA user_version").fetchone()
        return {name: SchemaTable(name, _columns(db, name)) for name in names}, statements, number


def tables() -> Mapping[str, SchemaTable]:
    """The tables of a timeline by name."""
    return _made()[0]


def version() -> int:
    """The version of a timeline as this arenascope makes it."""
    return _made()[2]


def _columns(db: sqlite3.Connection, table: str) -> dict[str, SchemaColumn]:
    return {
        name: SchemaColumn(name, TYPES[kind], bool(required or key))
        for _, name, kind, required, _, key in db.execute(f"PRAGMA table_info({table})")
    }


def _objects(db: sqlite3.Connection) -> list[Values]:
    return list(_found(db, "sqlite_master", ("type", "name", "tbl_name", "sql")))


def check_schema(db: sqlite3.Connection) -> None:
    """DamagedError: a table is missing or is another one, or there is a view or a trigger.

    A constraint, a generated column, a trigger or an index by an expression would be code of the file's, which runs
    when the file is read or written.
    """
    known, statements, _ = _made()
    found = _objects(db)
    for kind, name, table, sql in found:
        if kind in {"view", "trigger"}:
            raise DamagedError(f"it has a {kind}, '{name}'")
        ours = name in known or (table in known and sql is not None)
        if ours and (kind not in {"table", "index"} or _plain(sql) != _plain(statements.get(name))):
            raise DamagedError(f"its {kind} '{name}' is not as arenascope makes it")
    there = {name for kind, name, _, _ in found if kind == "table"}
    for name in known:
        if name not in there:
            raise DamagedError(f"it has no table '{name}'")


def _plain(sql: object) -> str:
    return " ".join(str(sql).split())


def select(
    db: sqlite3.Connection, table: str, names: Sequence[str], rest: str = "", values: Sequence[Any] = ()
) -> Iterator[Values]:
    """Rows of a table. DamagedError: a value has another type than its column. `rest`: SQL behind the table's name."""
    columns = [tables()[table].columns[name] for name in names]
    for row in _found(db, table, names, rest, values):
        for value, column in zip(row, columns):
            if not column.fits(value):
                raise DamagedError(f"{table}.{column.name} is {_named(value)}")
        yield row


def _found(
    db: sqlite3.Connection, table: str, names: Sequence[str], rest: str = "", values: Sequence[Any] = ()
) -> Iterator[Values]:
    try:
        yield from db.execute(f"SELECT {', '.join(names)} FROM {table} {rest}", values)  # noqa: S608 - names of ours
    except sqlite3.OperationalError as error:
        if not str(error).startswith(NOT_UTF8):
            raise
        raise DamagedError(f"{table} has text that is not UTF-8") from None  # SQLite's words have all of the text


def _named(value: Any) -> str:
    return "a negative number" if isinstance(value, int) and value < 0 else NAMES[type(value)]


def check_rows(db: sqlite3.Connection) -> None:
    """DamagedError: a value has another type than its column, or a record refers to one that is not there.

    What is inside blobs is not read.
    """
    there = {name for _, name, _, _ in _objects(db)}
    for name, table in tables().items():
        if name in there:
            for _ in select(db, name, [each.name for each in table.columns.values() if each.type is not bytes]):
                pass
            _check_blobs(db, table)
    for table, _, other, _ in db.execute("PRAGMA foreign_key_check"):
        raise DamagedError(f"a record of {table} refers to one of {other} that is not there")


def _check_blobs(db: sqlite3.Connection, table: SchemaTable) -> None:
    for column in table.columns.values():
        if column.type is bytes:
            allowed = "('blob')" if column.required else "('blob', 'null')"
            query = f"SELECT 1 FROM {table.name} WHERE typeof({column.name}) NOT IN {allowed} LIMIT 1"  # noqa: S608 - likewise
            if db.execute(query).fetchone():
                raise DamagedError(f"{table.name}.{column.name} is no blob")
