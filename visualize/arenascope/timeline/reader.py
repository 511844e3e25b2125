# SPDX-License-Identifier: MIT
"""Reads a timeline, of a watch that still writes it, too.

Nothing in the file is believed: what does not fit is an error.
"""

from __future__ import annotations

import os
import re
import sqlite3
import zlib
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import time_words
from arenascope.timeline import delta_codec, shape
from arenascope.timeline.columns import DamagedError, check_schema, select
from arenascope.timeline.named_totals import groups_from, unpacked
from arenascope.timeline.own_copy import untouchable
from arenascope.timeline.store import TURN_COLUMNS, TurnHead, check_version, is_timeline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from arenascope.compare import Moment

BEFORE_LAST: Final = re.compile(r"-(\d+(?:\.\d+)?)(s|m|h|d)")
UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DAMAGED: Final = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    zlib.error,
    OverflowError,
    RecursionError,
    IndexError,
)


@dataclass(frozen=True)
class LookRow:
    """A look: the numbers of one process."""

    id: int
    process: int
    pid: int
    time_ns: int
    exact: bool
    rss: int | None
    rows: Mapping[str, int | None]


@dataclass(frozen=True)
class TurnRow(TurnHead):
    """A turn and its looks, the largest process first."""

    id: int
    looks: tuple[LookRow, ...]


@dataclass(frozen=True)
class ProcessRow:
    """A process of the timeline."""

    id: int
    pid: int
    started: int
    parent: int
    generation: int
    comm: str
    exe: str | None
    cmdline: str


@dataclass(frozen=True)
class Timeline:
    """All of a timeline but the details of its looks."""

    about: Mapping[str, str]
    processes: tuple[ProcessRow, ...]
    turns: tuple[TurnRow, ...]


@contextmanager
def opened(path: str) -> Iterator[sqlite3.Connection]:
    """The file of a timeline, checked. ArenascopeError: there is none, or what is read of it meanwhile is damaged."""
    if not Path(path).exists():
        raise ArenascopeError(Code.NO_TARGET, f"cannot open '{path}': there is no such file")
    if not is_timeline(path):
        raise ArenascopeError(Code.BAD_INPUT, f"'{path}' is not a timeline of arenascope watch")
    try:
        with closing(_connect(untouchable(path))) as db:
            check_version(db, path)
            check_schema(db)
            yield db
    except sqlite3.Error as error:
        raise ArenascopeError(Code.BAD_INPUT, f"'{path}' cannot be read: {error}") from error
    except DAMAGED as error:
        raise ArenascopeError(Code.BAD_INPUT, f"'{path}' is damaged: {error}") from error


def _connect(path: str) -> sqlite3.Connection:
    """Without a write-ahead log the file is as it is: so it can be read where nothing may be written."""
    name = f"file:{quote(os.fsencode(Path(path).absolute()))}"
    db = sqlite3.connect(f"{name}?mode=ro", uri=True, timeout=10, isolation_level=None)
    try:
        db.execute("PRAGMA trusted_schema=OFF")
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        db.close()
        if Path(f"{path}-wal").exists():
            raise
        db = sqlite3.connect(f"{name}?mode=ro&immutable=1", uri=True, isolation_level=None)
    return db


def read(path: str) -> Timeline:
    """A timeline. ArenascopeError: there is none, or it is damaged."""
    with opened(path) as db:
        return read_from(db)


def read_from(db: sqlite3.Connection) -> Timeline:
    """The timeline of a file that is open, of which everything is one view from then on."""
    db.execute("BEGIN")  # one view, whatever is written meanwhile
    processes = tuple(
        ProcessRow(*row) for row in select(db, "processes", [each.name for each in fields(ProcessRow)], "ORDER BY id")
    )
    pids = {each.id: each.pid for each in processes}
    looks: dict[int, list[LookRow]] = {}
    columns = ("turn", "id", "process", "time_ns", "exact", "rss", "rows")
    for turn, number, process, time_ns, exact, rss, rows in select(db, "looks", columns, "ORDER BY turn, rss DESC, id"):
        if process not in pids:
            raise DamagedError("a look is at a process that is not there")
        look = LookRow(number, process, pids[process], time_ns, bool(exact), rss, shape.rows(rows))
        looks.setdefault(turn, []).append(look)
    turns = tuple(
        TurnRow(*[*row, tuple(looks.pop(row[-1], ()))])
        for row in select(db, "turns", (*TURN_COLUMNS, "id"), "ORDER BY id")
    )
    if looks:
        raise DamagedError("a look is of a turn that is not there")
    return Timeline(dict(select(db, "about", ("name", "value"))), processes, turns)


def moment_of_look(path: str, look: int) -> tuple[Moment, dict[str, int | None]]:
    """Everything that is kept of a look, and its findings."""
    with opened(path) as db:
        columns = ("time_ns", "rss", "rows", "body", "pages", "frame")
        row = next(select(db, "looks", columns, "WHERE id = ?", (look,)), None)
        if row is None:
            raise ArenascopeError(Code.NO_TARGET, f"'{path}' no longer has this look: it was thinned out")
        time_ns, rss, rows, body, pages, frame = row
        base = frame_of(db, frame, with_pages=True)
        whole = delta_codec.unpack_body(body, base)
        states = delta_codec.unpack_pages(pages, base.pages) if pages else None
        named = {kind: group for _, told in groups_in(db, {look}) for kind, group in groups_from(told).items()}
        moment = delta_codec.moment_from(whole, shape.rows(rows), rss, (time_words(time_ns), time_ns), states, named)
        return moment, whole["findings"]


def moment_at(path: str, when: str, *, named: bool = False) -> Moment:
    """The look at or before a time, "TIME" or "TIME,PID". Without a PID: at the largest process.

    `named`: the look with types and owners at or before then.
    """
    time, _, pid = when.partition(",")
    wanted = looks_with_groups(path) if named else None

    def first(turn: TurnRow) -> LookRow | None:
        there = (look for look in turn.looks if not pid or str(look.pid) == pid)
        return next((look for look in there if wanted is None or look.id in wanted), None)

    looks = [(turn.time_ns, look) for turn in read(path).turns for look in [first(turn)] if look]
    if not looks:
        words = f"no look at process {pid}" if pid else "no look"
        words += " with types and owners (watch --graph keeps some)" if named else ""
        raise ArenascopeError(Code.NO_TARGET, f"'{path}' has {words}")
    limit = _time(time, looks[0][0], looks[-1][0])
    found = [look for time_ns, look in looks if time_ns <= limit]
    if not found:
        raise ArenascopeError(Code.NO_TARGET, f"'{path}' begins later, at {time_words(looks[0][0])}")
    return moment_of_look(path, found[-1].id)[0]


def _time(words: str, first: int, last: int) -> int:
    if words in {"first", "last"}:
        return first if words == "first" else last
    if found := BEFORE_LAST.fullmatch(words):
        return last - int(float(found[1]) * UNITS[found[2]] * 1e9)
    text = words.removesuffix("Z")
    if re.fullmatch(r"\d\d:\d\d(:\d\d)?", text):
        text = f"{time_words(last)[:10]}T{text}"
    try:
        made = datetime.fromisoformat(text)
    except ValueError:
        raise ArenascopeError(
            Code.USAGE,
            f"{words} is not a time of a timeline: write first, last, -10m (before the last look), 14:03 or "
            "2026-01-31T14:03:00 (UTC)",
        ) from None
    made = made if made.tzinfo else made.replace(tzinfo=timezone.utc)
    return int(made.timestamp() * 1e9) + (10**9 - 1 if "." not in text else 10**6 - 1)


def told(timeline: Timeline, findings: Mapping[int, Mapping[str, int | None]]) -> dict[str, Any]:
    """As JSON, schema "arenascope.timeline/1". `findings`: of looks, by id."""
    return {
        "schema": "arenascope.timeline/1",
        "about": dict(timeline.about),
        "processes": [
            {name: value for name, value in vars(each).items() if name != "id"} for each in timeline.processes
        ],
        "turns": [
            {
                "time": time_words(turn.time_ns),
                "generation": turn.generation,
                "processes": turn.processes,
                "cost_ms": turn.cost_us / 1000,
                "interval_s": turn.interval_ms / 1000,
                "says": turn.says,
                "looks": [
                    {
                        "pid": look.pid,
                        "time": time_words(look.time_ns),
                        "exact": look.exact,
                        "rss": look.rss,
                        "rows": dict(look.rows),
                        "findings": dict(findings.get(look.id, {})),
                    }
                    for look in turn.looks
                ],
            }
            for turn in timeline.turns
        ],
    }


def findings_of(path: str) -> dict[int, dict[str, int | None]]:
    """The findings of each look, by the look's id."""
    return {look: body["findings"] for look, body in bodies(path)}


def bodies(path: str, looks: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """What is kept of each of these looks (None: of all) but its pages, by the look's id: each frame is read once."""
    with opened(path) as db:
        last, base = None, delta_codec.Frame({}, None)
        for look, frame, body in select(db, "looks", ("id", "frame", "body"), "ORDER BY frame, id"):
            if looks is not None and look not in looks:
                continue
            if frame != last:
                last, base = frame, frame_of(db, frame, with_pages=False)
            yield look, delta_codec.unpack_body(body, base)


def groups_of(path: str, looks: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Types, owners and objects (groups.py) of these looks (None: of all) that have some, by the look's id."""
    with opened(path) as db:
        yield from groups_in(db, looks)


def groups_in(db: sqlite3.Connection, looks: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Likewise, of a file that is open."""
    for look in _with_groups(db):
        if looks is None or look in looks:
            for (body,) in select(db, "groups", ("body",), "WHERE look = ?", (look,)):
                yield look, unpacked(body)


def looks_with_groups(path: str) -> set[int]:
    """The looks that have types, owners or objects, by id."""
    with opened(path) as db:
        return set(_with_groups(db))


def _with_groups(db: sqlite3.Connection) -> list[int]:
    """The looks that have some."""
    return [look for (look,) in select(db, "groups", ("look",), "ORDER BY look")]


def frame_of(db: sqlite3.Connection, frame: int, *, with_pages: bool) -> delta_codec.Frame:
    """What the looks of a frame are told by their difference from."""
    row = next(select(db, "frames", ("body", "pages"), "WHERE id = ?", (frame,)), None)
    if row is None:
        raise DamagedError("a look is told by its difference from a frame that is not there")
    body, pages = row
    return delta_codec.Frame(
        delta_codec.unpack_body(body, None), delta_codec.unpack_pages(pages, None) if pages and with_pages else None
    )
