# SPDX-License-Identifier: MIT
"""The file of a timeline: SQLite, one transaction for each poll (docs/over-time.md).

A poll is either whole in the file, and on the disk, or not there at all. Neither SIGKILL nor a full disk changes that.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from arenascope.errors import ArenascopeError, Code
from arenascope.humanize import utf8
from arenascope.private_files import check_companion, go_on, is_shared
from arenascope.timeline import delta_codec, named_totals
from arenascope.timeline.columns import SCHEMA, DamagedError, check_rows, check_schema, select, version
from arenascope.timeline.delta_codec import Frame
from arenascope.timeline.retention import PollTime, surplus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from arenascope.compare.digest import Digest
    from arenascope.processes import Identity

APPLICATION: Final = 0x4152544C  # "ARTL", in the header of the file
MAGIC: Final = b"SQLite format 3\0"
HEAD: Final = 72  # bytes of the file that say this
COMPANIONS: Final = ("-wal", "-shm", "-journal")  # of files that SQLite keeps beside it
RESERVE: Final = 1 / 8  # of the limit: for the write-ahead log
MOST_LOG: Final = 4 << 20  # bytes of the log, from which on it goes into the file
BATCH: Final = 64  # polls that go in one transaction, at most
BATCH_PAGES: Final = 4  # of the log, for each of them
FILL: Final = 0.9  # of the rest: from there on, more is thinned out
MOST_SNAPSHOTS: Final = 500  # that have one frame
THIN_EVERY: Final = 30  # polls
COARSEST: Final = 1 << 12


class NoRoomError(ArenascopeError):
    """The disk is full, or the file as large as it may be."""


class Member(NamedTuple):
    """A process of a timeline, as it is recorded."""

    identity: Identity
    parent: int
    comm: str
    exe: str | None
    cmdline: str


@dataclass(frozen=True)
class Taken:
    """A snapshot of a member."""

    member: Member
    digest: Digest
    time_ns: int
    findings: Mapping[str, int | None]
    sites: Mapping[str, Any] | None = None  # call stacks (sites.py); None: nobody records them


@dataclass(frozen=True)
class PollHead:
    """A pass of snapshots, without the snapshots."""

    time_ns: int
    generation: int
    processes: int
    cost_us: int
    interval_ms: int
    notes: str | None


POLL_COLUMNS: Final = tuple(each.name for each in fields(PollHead))
"""The same as columns of the table."""


@dataclass(frozen=True)
class Poll(PollHead):
    """A pass of snapshots that is to be written."""

    snapshots: Sequence[Taken]


class _Base(NamedTuple):
    """A process's newest frame: whose it is, its id, its content, its bytes, and how many snapshots have it."""

    process: int  # id
    id: int
    frame: Frame
    size: int
    snapshots: int


class TimelineStore:
    """A timeline that is being written: by one process at a time."""

    def __init__(self, path: str, about: Mapping[str, str], max_size: int, boot: str) -> None:
        """A new file, or one to go on with. `about`: what is watched; `max_size`: bytes, with the write-ahead log."""
        self.path: Final = path
        self.boot: Final = boot
        self.max_size: Final = max_size
        self.limit: Final = int(max_size * (1 - RESERVE))
        self.factor = 1
        self._bases: dict[Identity, _Base] = {}
        self._polls = 0
        self._batch = BATCH
        # Open until the end: SQLite's own locks go when any descriptor of the file is closed.
        self._descriptor: Final = self._open()
        new = self._claim()
        with _writing(path):
            self._db = sqlite3.connect(path, isolation_level=None, timeout=10)
            self._prepare(about, new=new)

    def _open(self) -> int:
        """The file, which is made for its owner alone if there is none."""
        shared = is_shared(Path(self.path).parent)
        for companion in COMPANIONS:
            check_companion(self.path + companion)
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL
        try:
            fd = os.open(self.path, flags, 0o600)
        except FileExistsError:
            fd = go_on(self.path)
        except OSError as error:
            raise ArenascopeError(Code.IO, f"cannot write '{self.path}': {error.strerror}") from error
        for companion in COMPANIONS[:2] if shared else ():
            _reserve(self.path + companion)
        return fd

    def _claim(self) -> bool:
        """Have the file alone. Whether it is new."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise ArenascopeError(Code.IO, f"'{self.path}' is being written by another arenascope watch") from None
        new = os.fstat(self._descriptor).st_size == 0
        if not new and not _is_head(os.pread(self._descriptor, HEAD, 0)):
            os.close(self._descriptor)
            raise ArenascopeError(
                Code.IO, f"'{self.path}' exists already, and is not a timeline: choose another name with -o"
            )
        return new

    def _prepare(self, about: Mapping[str, str], *, new: bool) -> None:
        db = self._db
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA secure_delete=OFF")  # Debian's default writes zeros over all that goes, through the log
        new = new or _is_unfinished(db)
        if new:
            db.execute("PRAGMA journal_mode=MEMORY")  # no journal beside the file before there is a write-ahead log
            db.execute(f"PRAGMA application_id={APPLICATION}")
            db.execute("PRAGMA journal_mode=WAL")
        else:
            check_version(db, self.path)
            check_schema(db)
            check_rows(db)
        with self._transaction():
            if new:
                for statement in SCHEMA.read_text(encoding="utf-8").split(";"):
                    db.execute(statement)
                db.executemany(
                    "INSERT INTO about VALUES (?, ?)", [tuple(map(_storable, each)) for each in about.items()]
                )
        self._page_size = page = self._number("page_size")
        db.execute(f"PRAGMA max_page_count={max(self.limit // page, 1)}")
        log = min((self.max_size - self.limit) // 2, MOST_LOG)
        self._batch = max(min(BATCH, log // page // BATCH_PAGES), 1)
        db.execute(f"PRAGMA journal_size_limit={log}")
        db.execute(f"PRAGMA wal_autocheckpoint={max(log // page, 1)}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def last(self) -> tuple[int, set[Identity]]:
        """The generation of the last poll, and its processes, if the machine has not been started again since."""
        from arenascope.processes import Identity  # noqa: PLC0415

        with _writing(self.path):
            row = next(select(self._db, "polls", ("id", "generation"), "ORDER BY id DESC LIMIT 1"), None)
            if row is None:
                return 0, set()
            those = "WHERE boot = ? AND id IN (SELECT process FROM snapshots WHERE poll = ?)"
            found = select(self._db, "processes", ("pid", "started"), those, (self.boot, row[0]))
            return row[1], {Identity(*each) for each in found}

    def add(self, poll: Poll) -> None:
        """Write a poll. NoRoomError: it is not in the file, which is as it was before."""
        with _writing(self.path):
            self._add(poll)
        self._polls += 1
        # The poll is in the file already: what goes wrong with old polls is tried again at the next one.
        with suppress(sqlite3.Error), _damage_reported(self.path):
            if self._polls % THIN_EVERY == 0 or self._is_nearly_full():
                self.thin(poll.time_ns)

    def _add(self, poll: Poll) -> None:
        bases = dict(self._bases)
        with self._transaction():
            made = self._db.execute(
                f"INSERT INTO polls ({', '.join(POLL_COLUMNS)}) VALUES ({_marks(POLL_COLUMNS)})",  # noqa: S608 - names
                [_storable(getattr(poll, name)) for name in POLL_COLUMNS],
            )
            for snapshot in poll.snapshots:
                self._add_snapshot(made.lastrowid or 0, poll.generation, snapshot, bases)
        self._bases = bases  # not before: what is rolled back is no base

    def _process(self, member: Member, generation: int) -> int:
        key = (self.boot, *member.identity)
        row = next(select(self._db, "processes", ("id",), "WHERE boot = ? AND pid = ? AND started = ?", key), None)
        if row:
            return int(row[0])
        values = (*key, member.parent, generation, member.comm, member.exe, member.cmdline)
        made = self._db.execute(
            "INSERT INTO processes (boot, pid, started, parent, generation, comm, exe, cmdline) "
            "VALUES (?,?,?,?,?,?,?,?)",
            tuple(map(_storable, values)),
        )
        return made.lastrowid or 0

    def _add_snapshot(self, poll: int, generation: int, snapshot: Taken, bases: dict[Identity, _Base]) -> None:
        digest = snapshot.digest
        body = delta_codec.body_of(digest, snapshot.findings, snapshot.sites)
        identity = snapshot.member.identity
        base = bases.get(identity)
        packed = self._packed(body, digest, base.frame) if base else None
        if base is None or packed is None or base.snapshots >= MOST_SNAPSHOTS or sum(map(len, packed)) > base.size // 2:
            base = self._frame(self._process(snapshot.member, generation), body, digest)
            packed = self._packed(body, digest, base.frame)
        bases[identity] = base._replace(snapshots=base.snapshots + 1)
        rows = json.dumps(dict(digest.rows), separators=(",", ":"))
        made = self._db.execute(
            "INSERT INTO snapshots (poll, process, time_ns, exact, rss, rows, frame, body, pages) "
            "VALUES (?,?,?,?,?,?,?,?,?)",
            (
                poll,
                base.process,
                snapshot.time_ns,
                digest.who.exact,
                digest.rss,
                rows,
                base.id,
                packed[0],
                packed[1] or None,
            ),
        )
        named = named_totals.packed(digest)
        if named:
            values = (made.lastrowid, delta_codec.pack_body(named, None))
            self._db.execute("INSERT INTO groups (snapshot, body) VALUES (?, ?)", values)

    @staticmethod
    def _packed(body: dict[str, Any], digest: Digest, base: Frame) -> tuple[bytes, bytes]:
        pages = digest.pages
        return (
            delta_codec.pack_body(body, base),
            delta_codec.pack_pages(pages, digest.who.page_size, base.pages) if pages else b"",
        )

    def _frame(self, process: int, body: dict[str, Any], digest: Digest) -> _Base:
        pages = digest.pages
        whole = delta_codec.pack_body(body, None)
        states = delta_codec.pack_pages(pages, digest.who.page_size, None) if pages else None
        made = self._db.execute("INSERT INTO frames (process, body, pages) VALUES (?,?,?)", (process, whole, states))
        frame = Frame(json.loads(json.dumps(body)), pages)  # as it is read back
        return _Base(process, made.lastrowid or 0, frame, len(whole) + len(states or b""), 0)

    def _is_nearly_full(self) -> bool:
        """Whether something is in most of the pages that the file may have."""
        most = FILL * self.limit / self._page_size
        pages = self._number("page_count")
        return pages > most and pages - self._number("freelist_count") > most

    def _number(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

    def thin(self, now_ns: int) -> None:
        """Let old polls go; more of them, if the file is nearly as large as it may be."""
        self._thin(now_ns)
        while self._is_nearly_full() and self.factor < COARSEST:
            self.factor *= 2
            self._thin(now_ns)

    def make_room(self, now_ns: int) -> bool:
        """After a poll for which there was no room. False: nothing more can go."""
        if self.factor >= COARSEST:
            return False
        self.factor *= 2
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            with _damage_reported(self.path):
                self._thin(now_ns)
        except sqlite3.Error:
            pass  # a full disk may have no room for that either
        return True

    def _thin(self, now_ns: int) -> None:
        with_groups = select(self._db, "snapshots", ("poll",), "WHERE id IN (SELECT snapshot FROM groups)")
        deep = {poll for (poll,) in with_groups}
        found = select(self._db, "polls", ("id", "time_ns", "generation"), "ORDER BY id")
        polls = [PollTime(poll, time_ns, generation, poll in deep) for poll, time_ns, generation in found]
        gone = [(poll,) for poll in surplus(polls, now_ns, self.factor)]
        for first in range(0, len(gone), self._batch):
            self._drop(gone[first : first + self._batch])

    def _drop(self, polls: list[tuple[int]]) -> None:
        """Let some polls go, and what only they had need of: not many at a time, lest the log grows."""
        held = tuple(base.id for base in self._bases.values())
        with self._transaction():
            self._db.executemany(
                "DELETE FROM groups WHERE snapshot IN (SELECT id FROM snapshots WHERE poll = ?)", polls
            )
            self._db.executemany("DELETE FROM snapshots WHERE poll = ?", polls)
            self._db.executemany("DELETE FROM polls WHERE id = ?", polls)
            self._db.execute(
                f"DELETE FROM frames WHERE id NOT IN (SELECT frame FROM snapshots) AND id NOT IN ({_marks(held)})",  # noqa: S608 - question marks
                held,
            )
            self._db.execute("DELETE FROM processes WHERE id NOT IN (SELECT process FROM frames)")

    @contextmanager
    def view(self) -> Iterator[sqlite3.Connection]:
        """The file to read in, which nobody may open a second time: that would take SQLite's locks away."""
        try:
            yield self._db
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def forget(self, alive: set[Identity]) -> None:
        """Processes that have ended need no base any more."""
        self._bases = {identity: base for identity, base in self._bases.items() if identity in alive}

    def close(self) -> None:
        """The write-ahead log goes into the file."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()
        os.close(self._descriptor)


def _reserve(path: str) -> None:
    """Make a file before SQLite does, which follows links: in a directory such as /tmp others can make one."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        check_companion(path)


def is_timeline(path: str) -> bool:
    """Whether a file is the timeline of some version of arenascope."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return False
        return _is_head(file.read(HEAD))


def _is_head(head: bytes) -> bool:
    return head[:16] == MAGIC and head[68:HEAD] == APPLICATION.to_bytes(4, "big")


def _is_unfinished(db: sqlite3.Connection) -> bool:
    """A watch was killed while it made the file: nothing is in it yet, and its version comes with the tables."""
    (number,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(number == 0 and tables == 0)


def check_version(db: sqlite3.Connection, path: str) -> None:
    """ArenascopeError BAD_INPUT: the timeline is of another version."""
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found != version():
        raise ArenascopeError(
            Code.BAD_INPUT, f"'{path}' is a timeline of version {found}; this arenascope has version {version()}"
        )


def _marks(values: Sequence[Any]) -> str:
    return ",".join("?" * len(values))


def _storable(value: Any) -> Any:
    """What a process chose may be no valid UTF-8."""
    return utf8(value) if isinstance(value, str) else value


@contextmanager
def _damage_reported(path: str) -> Iterator[None]:
    try:
        yield
    except DamagedError as error:
        raise ArenascopeError(Code.BAD_INPUT, f"'{path}' is damaged: {error}") from error


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Errors of SQLite, and what does not fit in the file, become ours."""
    try:
        with _damage_reported(path):
            yield
    except sqlite3.Error as error:
        raise _failure(path, error) from error


def _failure(path: str, error: sqlite3.Error) -> ArenascopeError:
    words = f"cannot write '{path}': {error}"
    # "database or disk is full"; where there is no room for the index of the log, "disk I/O error".
    no_room = isinstance(error, sqlite3.OperationalError) and ("full" in str(error) or "I/O" in str(error))
    damaged = type(error) is sqlite3.DatabaseError  # "malformed", "not a database"
    return NoRoomError(Code.IO, words) if no_room else ArenascopeError(Code.BAD_INPUT if damaged else Code.IO, words)
