# SPDX-License-Identifier: MIT
"""A timeline in which something is wrong: each column and each part of its JSON, one after the other and at random.

No reader may end with a traceback: what is damaged is one sentence and exit code 6. Everything runs in this process.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arenascope import rows
from arenascope.cli.main import main
from arenascope.compare.digest import ArenaHeld, Digest, Group, HeapHeld, Named, Pages, PinsOf, Portion, Seen
from arenascope.errors import ArenascopeError, Code
from arenascope.processes import Identity
from arenascope.timeline import columns, delta_codec
from arenascope.timeline.store import Member, Poll, Taken, TimelineStore

SECOND = 10**9
BEGIN = 1_800_000_000 * SECOND
BOOT = "boot"
MIB = 1 << 20
POLLS = 12  # a suspect needs ten snapshots
HEAP = 0x7F00_0000_0000
ARENA = 0x7F11_0000_0000
WHO = Seen(
    kind="process",
    pid=77,
    comm="leaky",
    exe="/bin/leaky",
    malloc="glibc",
    glibc="2.36",
    page_size=4096,
    mode="auto",
    exact=True,
    residency_known=True,
    main_arenas=(ARENA,),
    time=None,
    time_ns=None,
)
BAD: tuple[Any, ...] = ("text", "", b"\x00blob", 1.5, -1, None, 2**63 - 1, b"")
BAD_JSON: tuple[Any, ...] = (None, "text", -1, 1.5, 2**70, [], {}, True, [[]], {"a": 1}, "9" * 30, "\ud800")


def digest(number: int) -> Digest:
    """A snapshot of a process that grows."""
    pages = 64 + number
    return Digest(
        who=WHO,
        rss=(10 + number) * MIB,
        swap=0,
        rows={row.name: (10 + number) * MIB if row.name == "in_use" else 0 for row in rows.ALL},
        chunks={"in_use": Portion((10 + number) * MIB, 1000), "mmapped": Portion(0, 0)},
        arenas={ARENA: ArenaHeld("main arena", MIB, Portion(MIB, 100), {"in_use": MIB})},
        sizes=Group(
            {3024: Named("3024", Portion(3024 * 100 * number, 100 * number)), 48: Named("48", Portion(480, 10))}
        ),
        pins={48: PinsOf(1, 1, 4000)},
        types=Group({"Session": Named("Session", Portion(MIB * number, number))}),
        owners=Group(
            {("variable", "g_all", "/bin/leaky", "0x10", None, None): Named("g_all", Portion(MIB * number, None))}
        ),
        leaks=Group({("Lost", 64): Named("Lost, 64 B", Portion(100_000 * number, number))}),
        objects=Group({("Python", "dict"): Named("dict", Portion(200_000 * number, number))}),
        classes=Group({("Row", "object"): Named("Row (object)", Portion(300_000 * number, number))}),
        sites=None,
        pages=Pages(HEAP + 4096 * np.arange(pages, dtype=np.uint64), np.full(pages, 1, np.uint8), None),
        heaps={HEAP: HeapHeld(ARENA, pages)},
    )


def written(path: Path) -> None:
    member = Member(Identity(77, 5), 1, "leaky", "/bin/leaky", "leaky --fast")
    store = TimelineStore(str(path), {"watched": "process 77", "mode": "auto"}, 64 * MIB, BOOT)
    for number in range(POLLS):
        when = BEGIN + 10 * number * SECOND
        sites = {
            "mean": 1000,
            "page_rate": 64,
            "whole": True,
            "listed": {"ab12": ["f < g", MIB * number, number, MIB * number]},
        }
        snapshot = Taken(member, digest(number), when, {"in_use": MIB * number}, sites)
        store.add(Poll(when, 1, 1, 1000, 10_000, "said" if number == 3 else None, [snapshot]))
    store.close()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("timeline") / "good"
    written(path)
    return path


@pytest.fixture
def bad(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(good, tmp_path / "bad"))


def reading(path: Path) -> dict[str, list[str]]:
    """Every way to read a timeline, by a name."""
    ends = [f"{path}@first", f"{path}@last"]
    return {
        "timeline": ["timeline", str(path)],
        "timeline --json": ["timeline", str(path), "--json"],
        "suspects": ["timeline", "suspects", str(path)],
        "suspects --json": ["timeline", "suspects", str(path), "--json"],
        "report": ["report", str(path), "-o", f"{path}.html"],
        "diff": ["diff", *ends, "--graph", "--objects"],
        "diff --json": ["diff", *ends, "--json"],
    }


def watch(path: Path) -> int:
    """What a watch does that goes on in the file. Its exit code."""
    member = Member(Identity(77, 5), 1, "leaky", "/bin/leaky", "leaky --fast")
    try:
        store = TimelineStore(str(path), {"watched": "process 77"}, 64 * MIB, BOOT)
        try:
            store.last()
            when = BEGIN + 10**6 * SECOND
            store.add(Poll(when, 1, 1, 1, 1, None, [Taken(member, digest(POLLS), when, {})]))
            store.thin(when)
            store.forget({Identity(77, 5)})
        finally:
            store.close()
    except ArenascopeError as error:
        return int(error.code) if "\n" not in str(error) else -1
    return 0


def codes(path: Path, said: Callable[[], Any], only: tuple[str, ...] = ()) -> dict[str, int]:
    """The exit code of each reader. An exception that main() lets through is a failure of the test."""
    made = {}
    for name, words in reading(path).items():
        if not only or name in only:
            made[name] = main(words)
            out = said()
            assert made[name] in {0, Code.BAD_INPUT, Code.NO_TARGET}, (name, out.err)
            assert len(out.err.splitlines()) == (0 if made[name] == 0 else 1) + (name == "report" and made[name] == 0)
    made["watch"] = watch(path)
    assert made["watch"] in {0, Code.BAD_INPUT}, made
    return made


def plant(path: Path, table: str, column: str, value: Any, where: str = "") -> None:
    """Puts a value into a column, whatever the table allows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        found = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"UPDATE {table} SET {column} = ? {where}", (value,))
        db.execute("PRAGMA writable_schema=ON")
        for name, sql in found:
            db.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, name))


COLUMNS = [
    (table.name, column)
    for table in columns.tables().values()
    for column in table.columns.values()
    # Keys: below.
    if column.name != "id" and (table.name, column.name) not in {("groups", "snapshot"), ("about", "name")}
]


def kept(path: Path, table: str, column: str) -> Any:
    """What SQLite has kept of a value: it makes text of a number in a column of text."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute(f"SELECT {column} FROM {table}").fetchone()[0]


def test_the_file_itself_can_be_read_in_every_way(good: Path, tmp_path: Path, capsys: Any) -> None:
    path = Path(shutil.copy(good, tmp_path / "copy"))
    assert set(codes(path, capsys.readouterr).values()) == {0}
    main(["timeline", "suspects", str(good), "--json"])
    kinds = {each["kind"] for each in json.loads(capsys.readouterr().out)["suspects"]}
    assert {"size", "site", "type", "owner", "lost", "object", "class"} <= kinds  # so all of these are read


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=[f"{table}.{column.name}" for table, column in COLUMNS])
def test_each_column_with_each_wrong_kind_of_value(
    good: Path, tmp_path: Path, capsys: Any, table: str, column: columns.SchemaColumn
) -> None:
    for number, value in enumerate(BAD):
        path = Path(shutil.copy(good, tmp_path / str(number)))
        plant(path, table, column.name, value)
        found = codes(path, capsys.readouterr, () if number < 3 else ("timeline", "suspects", "report"))
        if not column.fits(kept(path, table, column.name)):
            assert found["watch"] == Code.BAD_INPUT, (value, found)
            assert Code.BAD_INPUT in [code for name, code in found.items() if name != "watch"] or column.name in {
                "boot",
                "process",
            }, (value, found)


def test_keys_that_are_no_keys(bad: Path, tmp_path: Path, capsys: Any) -> None:
    for number, statement in enumerate(
        (
            "UPDATE snapshots SET process = 99 WHERE id = 3",
            "UPDATE snapshots SET poll = 99 WHERE id = 3",
            "UPDATE snapshots SET frame = 99 WHERE id = 3",
            "UPDATE snapshots SET id = -5 WHERE id = 3",
            "UPDATE snapshots SET id = 9223372036854775807 WHERE id = 3",
            "UPDATE frames SET process = 99",
            "UPDATE frames SET id = id + 1000",
            "UPDATE polls SET id = -id",
            "UPDATE processes SET id = -1",
            "UPDATE groups SET snapshot = -snapshot",
            "UPDATE groups SET snapshot = snapshot + 1000",
            "UPDATE about SET name = x'ff' WHERE name = 'mode'",
            "UPDATE about SET value = CAST(x'ff61' AS TEXT)",
            "UPDATE processes SET comm = CAST(x'ff61' AS TEXT)",
            "UPDATE processes SET parent = pid",
            "DELETE FROM frames",
            "DELETE FROM processes",
            "DELETE FROM polls",
            "DELETE FROM snapshots",
        )
    ):
        path = Path(shutil.copy(bad, tmp_path / str(number)))
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(statement)
        found = codes(path, capsys.readouterr)
        harmless = statement in {
            "UPDATE processes SET parent = pid",
            "UPDATE snapshots SET id = 9223372036854775807 WHERE id = 3",
        }
        assert harmless or Code.BAD_INPUT in found.values(), (statement, found)


@pytest.mark.parametrize(
    "statements",
    [
        "DROP TABLE {0}",
        "ALTER TABLE {0} RENAME TO other",
        "ALTER TABLE {0} RENAME TO other; CREATE VIEW {0} AS SELECT * FROM other",
        "ALTER TABLE {0} ADD COLUMN more TEXT",
        "DROP TABLE {0}; CREATE TABLE {0} (id INTEGER)",
        "DROP TABLE {0}; CREATE VIEW {0} AS WITH RECURSIVE c(x) AS (VALUES(1) UNION SELECT x+1 FROM c) SELECT * FROM c",
        "CREATE VIEW more AS SELECT * FROM {0}",
        "CREATE TRIGGER more AFTER INSERT ON {0} BEGIN DELETE FROM polls; END",
        "CREATE INDEX more ON {0} (length(quote(zeroblob(1000))))",
    ],
)
@pytest.mark.parametrize("table", sorted(columns.tables()))
def test_other_tables_than_ours(bad: Path, capsys: Any, table: str, statements: str) -> None:
    with closing(sqlite3.connect(bad, isolation_level=None)) as db:
        db.executescript(statements.format(table))
    found = codes(bad, capsys.readouterr)
    assert set(found.values()) == {int(Code.BAD_INPUT)}, found


def test_another_table_of_the_users_own_is_left_alone(bad: Path, capsys: Any) -> None:
    with closing(sqlite3.connect(bad, isolation_level=None)) as db:
        db.execute("CREATE TABLE notes (text)")
        db.execute("ANALYZE")
    assert set(codes(bad, capsys.readouterr).values()) == {0}


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Each place of a JSON value, by the way to it."""
    yield way
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*way, key))
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*way, number))


def changed(value: Any, way: tuple[Any, ...], new: Any, *, as_key: bool = False) -> Any:
    """The same with another value at a place, or another key."""
    if not way:
        return new
    made = copy.copy(value)
    if as_key and len(way) == 1 and isinstance(made, dict):
        made[str(new)] = made.pop(way[0])
    else:
        made[way[0]] = changed(value[way[0]], way[1:], new, as_key=as_key)
    return made


def packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def blob(path: Path, table: str, column: str = "body") -> Any:
    with closing(sqlite3.connect(path)) as db:
        data = db.execute(f"SELECT {column} FROM {table} ORDER BY 1 DESC").fetchone()[0]
    return delta_codec.unpack_json(data)


@pytest.mark.parametrize("table", ["frames", "groups", "snapshots"])
def test_each_place_of_the_json_with_each_wrong_kind_of_value(
    good: Path, tmp_path: Path, capsys: Any, table: str
) -> None:
    whole = blob(good, table)
    chance = random.Random(5)
    ways = [way for way in places(whole) if way]
    for number, way in enumerate(ways):
        path = Path(shutil.copy(good, tmp_path / str(number)))
        new = BAD_JSON[number % len(BAD_JSON)]
        data = packed(changed(whole, way, new, as_key=chance.random() < 0.3))
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(f"UPDATE {table} SET body = ?", (data,))
        codes(path, capsys.readouterr, chance.choice([("suspects", "diff"), ("report",), ("timeline --json",)]))
        path.unlink()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 15,
        np.array([0, 4096], "<u8").tobytes(),
        np.array([1, 4096], "<u8").tobytes(),
        np.array([2**64 - 1, 4096], "<u8").tobytes() + b"\1",
        np.array([4, 4096, HEAP, HEAP * 2, HEAP * 3, HEAP * 4, *[2**62] * 4], "<u8").tobytes(),  # their sum is 0
        np.array([1, 0, HEAP, 1], "<u8").tobytes() + b"\1",
        np.array([1, 1, HEAP, 1], "<u8").tobytes() + b"\1",
        np.array([1, 2**63, HEAP, 1], "<u8").tobytes() + b"\1",
        np.array([1, 4096, 2**64 - 4096, 1], "<u8").tobytes() + b"\1",
        np.array([2, 4096, HEAP, HEAP, 1, 1], "<u8").tobytes() + b"\1\1",
        np.array([2, 4096, HEAP, HEAP - 4096, 1, 1], "<u8").tobytes() + b"\1\1",
        np.array([1, 4096, HEAP + 1, 1], "<u8").tobytes() + b"\1",
        np.array([1, 4096, HEAP, 2], "<u8").tobytes() + b"\1",
    ],
    ids=range(14),
)
@pytest.mark.parametrize("table", ["frames", "snapshots"])
def test_states_of_pages_that_do_not_fit(bad: Path, capsys: Any, table: str, data: bytes) -> None:
    with closing(sqlite3.connect(bad, isolation_level=None)) as db:
        db.execute(f"UPDATE {table} SET pages = ?", (zlib.compress(data),))
    found = codes(bad, capsys.readouterr, ("report", "diff"))
    assert (found["report"] == Code.BAD_INPUT) == (data != np.array([0, 4096], "<u8").tobytes()), found


def test_the_file_at_random(good: Path, tmp_path: Path, capsys: Any) -> None:
    """Bytes of the file, and values of several columns at once, with a fixed seed."""
    chance = random.Random(44)
    whole = good.read_bytes()
    refused = 0
    for number in range(80):
        path = tmp_path / str(number)
        data = bytearray(whole)
        for _ in range(chance.choice([1, 3, 30])):
            data[chance.randrange(72, len(data))] = chance.randrange(256)
        path.write_bytes(data if number % 2 else whole)
        path.chmod(0o600)
        if number % 2 == 0:
            for _ in range(chance.choice([1, 2, 4])):
                table, column = chance.choice(COLUMNS)
                try:
                    plant(
                        path,
                        table,
                        column.name,
                        chance.choice(BAD),
                        f"WHERE rowid % {chance.randrange(1, 4)} = 0" * (table != "about"),
                    )
                except sqlite3.IntegrityError:
                    continue
        names = chance.sample(sorted(reading(path)), 2)
        refused += Code.BAD_INPUT in codes(path, capsys.readouterr, tuple(names)).values()
    assert refused > 30, refused  # the damage is met, and not only survived


def test_a_huge_number_of_any_kind_is_one_number(good: Path, tmp_path: Path, capsys: Any) -> None:
    """What fits is shown: no reader computes with it what numpy cannot."""
    for table, column in COLUMNS:
        if column.type is int and not column.name.startswith(("process", "poll", "frame")):
            for where in ("", "WHERE id = 3", "WHERE id = 12"):
                path = Path(shutil.copy(good, tmp_path / f"{table}.{column.name}{len(where)}"))
                plant(path, table, column.name, 2**63 - 1, where)
                codes(path, capsys.readouterr)


def test_a_taken_snapshot_is_as_it_is_read(good: Path) -> None:
    """What the tests above damage is what a watch writes."""
    from arenascope.timeline.reader import digest_at  # noqa: PLC0415

    read = digest_at(str(good), "last")
    made = digest(POLLS - 1)
    assert replace(read, who=made.who, pages=None, sites=None, page_rate=None, arenas={}) == replace(
        made, pages=None, arenas={}
    )
