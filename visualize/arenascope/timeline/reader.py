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
from arenascope.timeline.store import POLL_COLUMNS, PollHead, check_version, is_timeline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from arenascope.compare import Digest

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
class SnapshotRow:
    """A snapshot: the numbers of one process."""

    id: int
    process: int
    pid: int
    time_ns: int
    exact: bool
    rss: int | None
    rows: Mapping[str, int | None]


@dataclass(frozen=True)
class PollRow(PollHead):
    """A poll and its snapshots, the largest process first."""

    id: int
    snapshots: tuple[SnapshotRow, ...]


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
    """All of a timeline but the details of its snapshots."""

    about: Mapping[str, str]
    processes: tuple[ProcessRow, ...]
    polls: tuple[PollRow, ...]


@contextmanager
def opened(path: str) -> Iterator[sqlite3.Connection]:
    """The file of a timeline, checked. ArenascopeError: there is none, or what is read of it meanwhile is damaged."""
    if not Path(path).exists():
        raise ArenascopeError(Code.NO_TARGET, f"cannot open '{path}': there is no such file")
    if not is_timeline(path):
        raise ArenascopeError(Code.BAD_INPUT, f"'{path}' is not a timeline of arenascope watch")
    with damage_reported(path), closing(_connect(untouchable(path))) as db:
        check_version(db, path)
        check_schema(db)
        yield db


@contextmanager
def damage_reported(path: str) -> Iterator[None]:
    """ArenascopeError: what is read of the file meanwhile is damaged."""
    try:
        yield
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
    snapshots: dict[int, list[SnapshotRow]] = {}
    columns = ("poll", "id", "process", "time_ns", "exact", "rss", "rows")
    for poll, number, process, time_ns, exact, rss, rows in select(
        db, "snapshots", columns, "ORDER BY poll, rss DESC, id"
    ):
        if process not in pids:
            raise DamagedError("a snapshot is of a process that is not there")
        snapshot = SnapshotRow(number, process, pids[process], time_ns, bool(exact), rss, shape.rows(rows))
        snapshots.setdefault(poll, []).append(snapshot)
    polls = tuple(
        PollRow(*[*row, tuple(snapshots.pop(row[-1], ()))])
        for row in select(db, "polls", (*POLL_COLUMNS, "id"), "ORDER BY id")
    )
    if snapshots:
        raise DamagedError("a snapshot is of a poll that is not there")
    return Timeline(dict(select(db, "about", ("name", "value"))), processes, polls)


def digest_of_snapshot(path: str, snapshot: int) -> tuple[Digest, dict[str, int | None]]:
    """Everything that is kept of a snapshot, and its findings."""
    with opened(path) as db:
        columns = ("time_ns", "rss", "rows", "body", "pages", "frame")
        row = next(select(db, "snapshots", columns, "WHERE id = ?", (snapshot,)), None)
        if row is None:
            raise ArenascopeError(Code.NO_TARGET, f"'{path}' no longer has this snapshot: it was thinned out")
        time_ns, rss, rows, body, pages, frame = row
        base = frame_of(db, frame, with_pages=True)
        whole = delta_codec.unpack_body(body, base)
        states = delta_codec.unpack_pages(pages, base.pages) if pages else None
        named = {
            kind: group for _, to_json in groups_in(db, {snapshot}) for kind, group in groups_from(to_json).items()
        }
        digest = delta_codec.digest_from(whole, shape.rows(rows), rss, (time_words(time_ns), time_ns), states, named)
        return digest, whole["findings"]


def digest_at(path: str, when: str, *, named: bool = False) -> Digest:
    """The snapshot of or before a time, "TIME" or "TIME,PID". Without a PID: at the largest process.

    `named`: the snapshot with types and owners at or before then.
    """
    time, _, pid = when.partition(",")
    wanted = snapshots_with_groups(path) if named else None

    def first(poll: PollRow) -> SnapshotRow | None:
        there = (snapshot for snapshot in poll.snapshots if not pid or str(snapshot.pid) == pid)
        return next((snapshot for snapshot in there if wanted is None or snapshot.id in wanted), None)

    snapshots = [(poll.time_ns, snapshot) for poll in read(path).polls for snapshot in [first(poll)] if snapshot]
    if not snapshots:
        words = f"no snapshot of process {pid}" if pid else "no snapshot"
        words += " with types and owners (watch --graph keeps some)" if named else ""
        raise ArenascopeError(Code.NO_TARGET, f"'{path}' has {words}")
    limit = _time(time, snapshots[0][0], snapshots[-1][0])
    found = [snapshot for time_ns, snapshot in snapshots if time_ns <= limit]
    if not found:
        raise ArenascopeError(Code.NO_TARGET, f"'{path}' begins later, at {time_words(snapshots[0][0])}")
    return digest_of_snapshot(path, found[-1].id)[0]


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
            f"{words} is not a time of a timeline: write first, last, -10m (before the last snapshot), 14:03 or "
            "2026-01-31T14:03:00 (UTC)",
        ) from None
    made = made if made.tzinfo else made.replace(tzinfo=timezone.utc)
    return int(made.timestamp() * 1e9) + (10**9 - 1 if "." not in text else 10**6 - 1)


def findings_of(path: str) -> dict[int, dict[str, int | None]]:
    """The findings of each snapshot, by the snapshot's id."""
    return {snapshot: body["findings"] for snapshot, body in bodies(path)}


def bodies(path: str, snapshots: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """What is kept of each of these snapshots (None: of all) but its pages, by the snapshot's id."""
    with opened(path) as db:
        yield from bodies_in(db, snapshots)


def bodies_in(
    db: sqlite3.Connection, snapshots: Collection[int] | None = None, process: int | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Likewise, of a file that is open. `process`: whose they are. Each frame is read once."""
    last, base = None, delta_codec.Frame({}, None)
    those, values = ("", ()) if process is None else ("WHERE process = ? ", (process,))
    for snapshot, frame, body in select(db, "snapshots", ("id", "frame", "body"), f"{those}ORDER BY frame, id", values):
        if snapshots is not None and snapshot not in snapshots:
            continue
        if frame != last:
            last, base = frame, frame_of(db, frame, with_pages=False)
        yield snapshot, delta_codec.unpack_body(body, base)


def groups_of(path: str, snapshots: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Types, owners and objects (named_totals.py) of these snapshots (None: of all), where they have some."""
    with opened(path) as db:
        yield from groups_in(db, snapshots)


def groups_in(db: sqlite3.Connection, snapshots: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Likewise, of a file that is open."""
    for snapshot in with_groups(db):
        if snapshots is None or snapshot in snapshots:
            for (body,) in select(db, "groups", ("body",), "WHERE snapshot = ?", (snapshot,)):
                yield snapshot, unpacked(body)


def snapshots_with_groups(path: str) -> set[int]:
    """The snapshots that have types, owners or objects, by id."""
    with opened(path) as db:
        return set(with_groups(db))


def with_groups(db: sqlite3.Connection) -> list[int]:
    """The snapshots that have some."""
    return [snapshot for (snapshot,) in select(db, "groups", ("snapshot",), "ORDER BY snapshot")]


def frame_of(db: sqlite3.Connection, frame: int, *, with_pages: bool) -> delta_codec.Frame:
    """What the snapshots of a frame are told by their difference from."""
    row = next(select(db, "frames", ("body", "pages"), "WHERE id = ?", (frame,)), None)
    if row is None:
        raise DamagedError("a snapshot is told by its difference from a frame that is not there")
    body, pages = row
    return delta_codec.Frame(
        delta_codec.unpack_body(body, None), delta_codec.unpack_pages(pages, None) if pages and with_pages else None
    )
