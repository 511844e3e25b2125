# SPDX-License-Identifier: MIT
"""What is kept of snapshots beside their rows: body and pages of one snapshot after another, of a file that is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from arenascope.errors import ArenascopeError, Code
from arenascope.timeline import delta_codec
from arenascope.timeline.columns import select
from arenascope.timeline.reader import frame_of

if TYPE_CHECKING:
    import sqlite3

    from arenascope.compare.digest import Pages


class Details:
    """The last frame is kept: snapshots that are asked for in the order of time need few of them."""

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        """`path`: for errors."""
        self._db: Final = db
        self._path: Final = path
        self._number = -1
        self._frame = delta_codec.Frame({}, None)
        self._with_pages = False

    def _take(self, column: str, snapshot: int, *, with_pages: bool) -> Any:
        """A snapshot's column; its frame becomes the one that is kept."""
        row = next(select(self._db, "snapshots", ("frame", column), "WHERE id = ?", (snapshot,)), None)
        if row is None:
            raise ArenascopeError(Code.NO_TARGET, f"'{self._path}' no longer has this snapshot: it was thinned out")
        if row[0] != self._number or with_pages > self._with_pages:
            self._frame = frame_of(self._db, row[0], with_pages=with_pages)
            self._number, self._with_pages = row[0], with_pages
        return row[1]

    def body(self, snapshot: int) -> dict[str, Any]:
        """All but rows and pages, as delta_codec.body_of() made it."""
        return delta_codec.unpack_body(self._take("body", snapshot, with_pages=False), self._frame)

    def pages(self, snapshot: int) -> Pages | None:
        """The states of its pages."""
        data = self._take("pages", snapshot, with_pages=True)
        return delta_codec.unpack_pages(data, self._frame.pages) if data else None

    def runs(self, snapshot: int) -> delta_codec.Runs | None:
        """Where its pages are."""
        data = self._take("pages", snapshot, with_pages=False)
        return delta_codec.unpack_runs(data) if data else None
