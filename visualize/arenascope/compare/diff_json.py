# SPDX-License-Identifier: MIT
"""A comparison as JSON, schema "arenascope.diff/1"."""

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Optional

from arenascope import rows
from arenascope.compare.changes import BOTH, GONE, NAMED, NEW
from arenascope.humanize import plural, size
from arenascope.wire.json_encode import encode
from arenascope.wire.json_types import Bounds, EnumNames, Mode, PageSize, Time, Unsigned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.compare.changes import Comparison, Delta, Growing, PinnedPages
    from arenascope.compare.digest import Portion, Seen

SCHEMA: Final = "arenascope.diff/1"

Status = Annotated[str, Bounds(enum=(NEW, GONE, BOTH)), "null: one of the snapshots lists only the largest."]


CODES: Final = (
    "process", "layout", "program", "malloc", "kind", "time", "page_size", "residency", "graph", "objects", "profile",
    "estimate", "mode", "exact",
)  # fmt: skip


class DiffSnapshot(NamedTuple):
    """A snapshot."""

    kind: Annotated[str, EnumNames("TargetKind")]
    pid: Optional[Unsigned]
    comm: str
    exe: Optional[str]
    malloc: str  # As in arenascope.summary/1.
    glibc: Optional[str]
    page_size: PageSize
    mode: Mode
    exact: bool
    residency_known: bool
    time: Optional[Time]  # UTC. null: of a core it is not known when it was written.


class DiffNote(NamedTuple):
    """A difference in kind."""

    code: Annotated[str, Bounds(enum=CODES)]
    text: str


class DiffChange(NamedTuple):
    """A number at both times."""

    before: Optional[Unsigned]
    after: Optional[Unsigned]
    change: Optional[int]  # after - before; null if one of them is not known.
    per_minute: Optional[float]  # null: two processes, or no known time between the snapshots.


class DiffRow(NamedTuple):
    """A row of the ledger."""

    name: str
    kind: Annotated[str, Bounds(enum=tuple(kind.lower() for kind in rows.KINDS))]
    bytes: DiffChange


class DiffChunks(NamedTuple):
    """All chunks of one state, resident or not."""

    name: Annotated[str, EnumNames("TALLY_NAMES")]
    bytes: DiffChange
    count: DiffChange  # type: ignore[assignment]


class DiffArena(NamedTuple):
    """An arena, by its address."""

    name: str
    address: str
    status: Optional[Status]
    resident: DiffChange
    in_use: DiffChange  # Bytes of chunks in use, resident or not.
    chunks: DiffChange  # Chunks in use.
    rows: dict[str, DiffChange]


class DiffSize(NamedTuple):
    """Chunks in use of one size, header included."""

    chunk_size: Unsigned
    status: Optional[Status]
    bytes: DiffChange
    count: DiffChange  # type: ignore[assignment]


class DiffPin(NamedTuple):
    """Chunks in use of one size that stand alone on a page."""

    chunk_size: Unsigned
    status: Optional[Status]
    count: DiffChange  # type: ignore[assignment]
    pages: DiffChange
    stranded: DiffChange


class DiffPages(NamedTuple):
    """Pages that a single chunk in use keeps."""

    pages: Unsigned
    stranded: Optional[Unsigned]  # Free bytes on these pages.


class DiffPinnedPages(NamedTuple):
    """Pages that a single chunk in use keeps, by address: at the second time alone, at both, at the first alone."""

    came: DiffPages
    stayed: DiffPages
    went: DiffPages


class DiffLine(NamedTuple):
    """A type, an owner, a call stack, ..."""

    name: str
    status: Optional[Status]
    bytes: DiffChange
    count: Optional[DiffChange]  # type: ignore[assignment]


DiffLines = Annotated[tuple[DiffLine, ...], "null: one of the two snapshots does not have them, and a note says which."]


class Diff(NamedTuple):
    """What changed from one snapshot to another: `arenascope diff`.

    Each table is sorted by the growth of its bytes, with what is not known last.
    """

    before: DiffSnapshot
    after: DiffSnapshot
    # Whether both snapshots are of one process: the same PID and executable, and malloc at the same address. null: not
    # known.
    same_process: Optional[bool]
    # From the first snapshot to the second, by the clock of the machine; negative if the first was taken later.
    elapsed_s: Optional[float]
    notes: tuple[DiffNote, ...]  # In what the two snapshots differ in kind, the gravest first.
    rss: DiffChange
    swap: DiffChange
    rows: tuple[DiffRow, ...]  # Every row of the ledger.
    chunks: tuple[DiffChunks, ...]
    arenas: tuple[DiffArena, ...]
    sizes: tuple[DiffSize, ...]
    pins: tuple[DiffPin, ...]
    # null: the two snapshots have no pages in common, or do not know which are resident.
    pinned_pages: Optional[DiffPinnedPages]
    types: Optional[DiffLines]  # Chunks in use by type. null: see notes.
    owners: Optional[DiffLines]  # What each owner retains. null: see notes.
    leaks: Optional[DiffLines]  # Lost chunks by type and size, suspects included. null: see notes.
    objects: Optional[DiffLines]  # A runtime's objects by type, with what they own. null: see notes.
    classes: Optional[DiffLines]  # Ruby's objects by class, with what they own. null: see notes.
    # What call stacks allocated and is in use, of processes with a recorder: the three innermost functions are the
    # name. Estimates where the profile is one. null: see notes.
    sites: Optional[DiffLines]


class _Changes:
    def __init__(self, comparison: "Comparison") -> None:
        self.of = comparison

    def change(self, held: "Optional[Delta]") -> Any:  # a DiffChange, or None
        if held is None:
            return None
        rate = self.of.per_minute(held)
        return DiffChange(held.before, held.after, held.change, None if rate is None else round(rate, 3))

    def lines(self, lines: "Optional[Sequence[Growing]]") -> Optional[tuple[DiffLine, ...]]:
        if lines is None:
            return None
        return tuple(
            DiffLine(each.title, each.status, self.change(each.bytes), self.change(each.count)) for each in lines
        )

    def rows(self) -> tuple[DiffRow, ...]:
        kinds = {row.name: row.kind.lower() for row in rows.ALL}
        return tuple(DiffRow(row.title, kinds[row.title], self.change(row.bytes)) for row in self.of.rows)

    def arenas(self) -> tuple[DiffArena, ...]:
        change = self.change
        return tuple(
            DiffArena(
                each.title, f"{each.address:#x}", each.status, change(each.bytes), change(each.in_use),
                change(each.count), {name: change(held) for name, held in each.rows.items()},
            )
            for each in self.of.arenas
        )  # fmt: skip

    def pins(self) -> tuple[DiffPin, ...]:
        change = self.change
        return tuple(
            DiffPin(pin.chunk_size, pin.line.status, change(pin.count), change(pin.pages), change(pin.stranded))
            for pin in self.of.pins
        )


def to_json(comparison: "Comparison") -> dict[str, Any]:
    """The whole comparison."""
    changes = _Changes(comparison)
    change = changes.change
    made = Diff(
        before=_who(comparison.before),
        after=_who(comparison.after),
        same_process=comparison.same_process,
        elapsed_s=comparison.elapsed_s,
        notes=tuple(DiffNote(*note) for note in comparison.notes),
        rss=change(comparison.rss),
        swap=change(comparison.swap),
        rows=changes.rows(),
        chunks=tuple(DiffChunks(each.title, change(each.bytes), change(each.count)) for each in comparison.chunks),
        arenas=changes.arenas(),
        sizes=tuple(
            DiffSize(each.key, each.status, change(each.bytes), change(each.count))  # type: ignore[arg-type]
            for each in comparison.sizes
        ),
        pins=changes.pins(),
        pinned_pages=_pinned(comparison.pinned_pages),
        **{each.kind: changes.lines(getattr(comparison, each.kind)) for each in NAMED},
    )
    return {"schema": SCHEMA, **encode(made)}


def pinned_words(pages: "PinnedPages") -> str:
    """The pinned pages in a sentence."""

    def words(held: "Portion") -> str:
        return plural(held.count, "page") + (f" with {size(held.bytes)} stranded" if held.bytes is not None else "")

    if [each.count for each in (pages.stayed, pages.came, pages.went)] == [0, 0, 0]:
        return "No page is kept by one chunk alone, at either time."
    return (
        f"{words(pages.stayed)} {'was' if pages.stayed.count == 1 else 'were'} kept by one chunk in use alone at both "
        f"times; {words(pages.came)} came, {words(pages.went)} went."
    )


def _who(who: "Seen") -> DiffSnapshot:
    return DiffSnapshot(*(getattr(who, name) for name in DiffSnapshot._fields))


def _pinned(pages: "Optional[PinnedPages]") -> Optional[DiffPinnedPages]:
    if pages is None:
        return None
    parts = (pages.came, pages.stayed, pages.went)
    return DiffPinnedPages(*(DiffPages(held.count, held.bytes) for held in parts))  # type: ignore[arg-type]
