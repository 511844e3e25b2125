# SPDX-License-Identifier: MIT
"""What a snapshot holds that can be compared with another snapshot: plain numbers under names.

A timeline keeps digests, too. What is not known is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arenascope import rows
from arenascope.wire import dump_records as fmt
from arenascope.wire.graph_parts import owner_words
from arenascope.wire.owners import owner_at, owner_key
from arenascope.wire.summary import objects_by_type

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from arenascope.wire.dump import Dump, Records
    from arenascope.wire.summary import Summary
    from arenascope.wire.summary.heaps import Arena
    from arenascope.wire.summary.runtimes import Objects

NO_TYPE = "type not known"
NOBODY = ("lost", "others")


class Portion(NamedTuple):
    """Some bytes, and the number of things that they are in."""

    bytes: int | None
    count: int | None  # type: ignore[assignment]


NOTHING = Portion(0, 0)
UNKNOWN = Portion(None, None)


class Named(NamedTuple):
    """The same of one thing that has a name."""

    title: str
    held: Portion


@dataclass(frozen=True)
class Group:
    """Things of one kind, each under what makes it the same thing in another snapshot.

    `whole`: all that are there are listed. If not, one that is not listed is unknown, and not nothing; `others` is the
    sum of these.
    """

    listed: Mapping[Hashable, Named]
    whole: bool = True
    others: Portion = NOTHING

    def held(self, key: Hashable) -> Portion:
        """What a thing holds."""
        found = self.listed.get(key)
        return found.held if found else NOTHING if self.whole else UNKNOWN


@dataclass(frozen=True)
class Seen:
    """Which process was inspected, and how."""

    kind: str  # "process", "core"
    pid: int | None
    comm: str
    exe: str | None
    malloc: str
    glibc: str | None
    page_size: int
    mode: str
    exact: bool
    residency_known: bool
    main_arenas: tuple[int, ...]  # one for each malloc that was found
    time: str | None
    time_ns: int | None  # None: of a core it is not known when it was written


@dataclass(frozen=True)
class ArenaHeld:
    """An arena. `resident`: the sum of its rows."""

    name: str
    resident: int | None
    in_use: Portion  # chunks, resident or not
    rows: Mapping[str, int | None]


@dataclass(frozen=True)
class PinsOf:
    """The chunks of one size that stand alone on pages, and these pages."""

    count: int | None
    pages: int | None
    stranded: int | None


@dataclass(frozen=True)
class Pages:
    """The pages of malloc's heaps, ascending. `stranded`: free bytes on each page that is kept; None: unknown."""

    address: NDArray[np.uint64]
    state: NDArray[np.uint8]
    stranded: NDArray[np.uint32] | None


class HeapHeld(NamedTuple):
    """A heap of an arena."""

    arena: int  # address
    pages: int


@dataclass(frozen=True)
class Digest:
    """One snapshot."""

    who: Seen
    rss: int | None
    swap: int | None
    rows: Mapping[str, int | None]  # all of rows.ALL
    chunks: Mapping[str, Portion]
    arenas: Mapping[int, ArenaHeld]  # by address
    sizes: Group  # chunks in use, by chunk size
    pins: Mapping[int, PinsOf]  # by chunk size
    types: Group | None  # None: the snapshot had no --graph
    owners: Group | None
    leaks: Group | None
    objects: Group | None  # of a runtime, by type; None: the snapshot had no --objects
    classes: Group | None  # of Ruby, by class
    sites: Group | None  # what call stacks allocated and is in use; None: nobody records, or it was not asked for
    pages: Pages | None
    heaps: Mapping[int, HeapHeld]  # by the address of the first page; not the mmapped chunks
    page_rate: int | None = None  # of `sites`: the chunks on one page in so many stand for all; None: unknown


def digest_of(dump: Dump, summary: Summary) -> Digest:
    """A snapshot as far as another can be compared with it. `summary`: of the same dump."""
    graph = len(dump.graph) > 0
    by_type = objects_by_type(summary)
    return Digest(
        who=_who(dump, summary),
        rss=summary.kernel.rss,
        swap=summary.kernel.swap,
        rows={row.name: _row(summary, row) for row in rows.ALL},
        chunks={name: Portion(each.bytes, each.count) for name, each in summary.chunks.items()},
        arenas={int(each.address, 16): _arena(each) for each in summary.arenas if each.address},
        sizes=_sizes(dump),
        pins={int(each["chunk_size"]): _pins(each) for each in _pinning(dump)},
        types=_types(dump) if graph else None,
        owners=_owners(dump) if graph else None,
        leaks=_leaks(dump) if graph else None,
        objects=_objects(by_type) if by_type else None,
        classes=_classes(by_type),
        sites=None,  # profile.stacks.with_stacks adds them: their names cost more than all else
        pages=_pages(dump),
        heaps=_heaps(dump),
    )


def _who(dump: Dump, summary: Summary) -> Seen:
    target, snapshot = summary.target, summary.snapshot
    kind = target.dump_of or target.kind
    # The time of a core is when the core was read.
    clocked = kind != "core" and int(dump.meta["time_ns"]) != fmt.UNKNOWN
    return Seen(
        kind=kind,
        pid=target.pid,
        comm=target.comm,
        exe=target.exe,
        malloc=summary.allocator.malloc,
        glibc=summary.allocator.glibc,
        page_size=target.page_size,
        mode=snapshot.mode,
        exact=snapshot.exact,
        residency_known=snapshot.residency_known,
        main_arenas=tuple(sorted(int(each["main_arena"]) for each in dump.mallocs)),
        time=snapshot.time if clocked else None,
        time_ns=int(dump.meta["time_ns"]) if clocked else None,
    )


def _row(summary: Summary, row: rows.Row) -> int | None:
    parts = {"RESIDENT": summary.ledger, "ABSENT": summary.absent, "FORECAST": summary.forecast}
    return parts.get(row.kind, summary.beside)[row.name]


def _arena(arena: Arena) -> ArenaHeld:
    in_use = Portion(arena.chunks.in_use.bytes, arena.chunks.in_use.count)
    return ArenaHeld(arena.name, arena.sums.resident, in_use, dict(arena.ledger.held))


def _known(value: Any) -> int | None:
    return None if int(value) == fmt.UNKNOWN else int(value)


def _known_all(values: Any) -> list[int | None]:
    """As _known, of an array: one conversion for all takes a tenth of the time."""
    return [None if each == fmt.UNKNOWN else each for each in values.tolist()]


def _sizes(dump: Dump) -> Group:
    both = zip(_known_all(dump.sizes["chunk_size"]), _known_all(dump.sizes["in_use"]))
    return Group(
        {
            size: Named(str(size), Portion(None if count is None else size * count, count))
            for size, count in both
            if size and count != 0
        }
    )


def _pinning(dump: Dump) -> Records:
    found: Records = dump.sizes[(dump.sizes["pin_count"] > 0) & (dump.sizes["chunk_size"] != fmt.UNKNOWN)]
    return found


def _pins(record: Any) -> PinsOf:
    return PinsOf(_known(record["pin_count"]), _known(record["pin_pages"]), _known(record["pin_stranded"]))


def _group(of: Iterable[tuple[Hashable, str, int, int | None]], others: Portion = NOTHING) -> Group:
    """Things with their bytes and counts; what has one key is one thing. `others`: of what is not listed."""
    listed: dict[Hashable, Named] = {}
    for key, title, bytes_, count in of:
        before = listed[key].held if key in listed else NOTHING
        both = None if count is None or before.count is None else before.count + count
        listed[key] = Named(title, Portion((before.bytes or 0) + bytes_, both))
    return Group(listed, others == NOTHING, others)


def _listed(records: Any) -> tuple[Any, Any]:
    """The records that are of one thing each; and those that are the sum of others."""
    others = (records["flags"] & fmt.GraphRecordFlag.OTHERS) != 0
    return records[~others], records[others]


def _sum(records: Any) -> Portion:
    return Portion(int(records["bytes"].sum()), int(records["count"].sum()))


def _types(dump: Dump) -> Group:
    listed, others = _listed(dump.graph_types)
    named = ((dump.string(each["name"]), each) for each in listed)
    return _group(
        ((name, name or NO_TYPE, int(each["bytes"]), int(each["count"])) for name, each in named), _sum(others)
    )


def _owners(dump: Dump) -> Group:
    """What each retains. Lost chunks have a table of their own."""
    found = [(owner_at(dump, index), record) for index, record in enumerate(dump.graph_owners)]
    _, left_out = _listed(dump.graph_branches[dump.graph_branches["depth"] == 0])
    others = Portion(int(left_out["retained"].sum()), None) if len(left_out) else NOTHING
    return _group(
        (
            (owner_key(owner), owner_words(owner), int(record["retained"]), None)
            for owner, record in found
            if owner and owner.kind not in NOBODY and record["retained"]
        ),
        others,
    )


def _leaks(dump: Dump) -> Group:
    """Lost chunks by type and size, the suspects among them."""
    listed, others = _listed(dump.graph_leaks)
    kinds = ("direct", "indirect", "suspects")
    names = [dump.string(each["name"]) for each in dump.graph_types]
    found = []
    for each in listed:
        name = names[int(each["type"])] if int(each["type"]) < len(names) else ""
        bytes_, count = (sum(int(each[kind][field]) for kind in kinds) for field in ("bytes", "count"))
        found.append(((name, int(each["size"])), f"{name or NO_TYPE}, {int(each['size'])} B", bytes_, count))
    sums = [_sum(others[kind]) for kind in kinds]
    return _group(found, Portion(*(sum(getattr(each, field) or 0 for each in sums) for field in ("bytes", "count"))))


def _objects(by_type: Sequence[tuple[str, Objects]]) -> Group:
    """A runtime's objects by type, with what they own. Types of one name are one: processes differ in addresses."""
    return _group(
        (
            ((whose, each.name), each.name or NO_TYPE, each.held, each.count)
            for whose, objects in by_type
            for each in objects.types
        )
    )


def _classes(by_type: Sequence[tuple[str, Objects]]) -> Group | None:
    found = [each for _, objects in by_type if objects.classes is not None for each in objects.classes]
    if not found:
        return None
    return _group(((each.title, each.type), f"{each.title} ({each.type})", each.held, each.count) for each in found)


def _pages(dump: Dump) -> Pages | None:
    if not len(dump.heaps):
        return None
    size = np.uint64(dump.meta["page_size"])
    counts = dump.heaps["page_count"].astype(np.int64)
    within = (np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)).astype(np.uint64)
    address = (np.repeat(dump.heaps["start"] // size, counts) + within) * size
    order = np.argsort(address, kind="stable")
    pages = (np.repeat(dump.heaps["first_page"], counts) + within)[order]
    stranded = dump.pages["binned"][pages].astype(np.uint32) + dump.pages["top"][pages]
    return Pages(address[order], dump.pages["state"][pages].astype(np.uint8), stranded * np.uint32(fmt.UNIT))


def _heaps(dump: Dump) -> dict[int, HeapHeld]:
    size = int(dump.meta["page_size"])
    return {
        int(heap["start"]) // size * size: HeapHeld(
            int(dump.arenas[int(heap["arena"])]["address"]), int(heap["page_count"])
        )
        for heap in dump.heaps[dump.heaps["arena"] < len(dump.arenas)]
    }
