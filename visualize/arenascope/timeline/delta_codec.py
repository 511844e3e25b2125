# SPDX-License-Identifier: MIT
"""A digest as bytes: whole (a frame), or as what differs from a frame.

A snapshot refers to its frame alone, never to another snapshot: so any snapshot can go without harm to the others.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from arenascope import rows
from arenascope.compare.digest import ArenaHeld, Digest, Group, HeapHeld, Named, Pages, PinsOf, Portion, Seen
from arenascope.profiles.site_digest import group_of
from arenascope.timeline import shape
from arenascope.timeline.columns import DamagedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Json = dict[str, Any]

LEVEL: Final = 6
GONE: Final = "-"  # of a delta: the names that are no longer there
SET: Final = "="  # the values that are new
INTO: Final = "/"  # the mappings that changed
MOST: Final = 1 << 31  # bytes that a blob may become
HEAD: Final = 16  # bytes of the states of pages before the runs
HIGHEST: Final = np.uint64(1 << 62)  # address


@dataclass(frozen=True)
class Frame:
    """What snapshots are told by their difference from."""

    body: Json
    pages: Pages | None


def _squeeze(data: bytes) -> bytes:
    return zlib.compress(data, LEVEL)


def _expand(data: bytes) -> bytes:
    machine = zlib.decompressobj()
    try:
        made = machine.decompress(data, MOST)
    except zlib.error:
        raise DamagedError("a blob cannot be unpacked") from None
    if not machine.eof:
        raise DamagedError("a blob is cut short")
    return made


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def delta(base: Json, now: Json) -> Json:
    """What makes `now` of `base`, mapping by mapping."""
    made: Json = {}
    gone = [name for name in base if name not in now]
    into, put = {}, {}
    for name, value in now.items():
        old = base.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = delta(old, value)
            if inner:
                into[name] = inner
        elif name not in base or old != value:
            put[name] = value
    for name, part in ((GONE, gone), (SET, put), (INTO, into)):
        if part:
            made[name] = part
    return made


def applied(base: Json, change: Json) -> Json:
    """The other way."""
    made = {name: value for name, value in base.items() if name not in set(change.get(GONE, ()))}
    made.update(change.get(SET, {}))
    made.update({name: applied(base[name], inner) for name, inner in change.get(INTO, {}).items()})
    return made


def body_of(digest: Digest, findings: Mapping[str, int | None], sites: Mapping[str, Any] | None = None) -> Json:
    """All of a digest but its pages, its rows, and what only --graph and --objects know."""
    return {
        **({} if sites is None else {"sites": dict(sites)}),
        "who": asdict(digest.who) | {"time": None, "time_ns": None},
        "swap": digest.swap,
        "chunks": {name: [each.bytes, each.count] for name, each in digest.chunks.items()},
        "arenas": {
            f"{address:x}": {
                "name": each.name,
                "resident": each.resident,
                "in_use": [each.in_use.bytes, each.in_use.count],
                "rows": {name: held for name, held in each.rows.items() if held != 0},
            }
            for address, each in digest.arenas.items()
        },
        "heaps": {f"{start:x}": [f"{heap.arena:x}", heap.pages] for start, heap in digest.heaps.items()},
        "sizes": {str(size): each.held.count for size, each in digest.sizes.listed.items()},
        "pins": {str(size): [each.count, each.pages, each.stranded] for size, each in digest.pins.items()},
        "findings": dict(findings),
    }


def digest_from(  # noqa: PLR0913, PLR0917 - the columns of a snapshot
    body: Json,
    held: Mapping[str, int | None],
    rss: int | None,
    time: tuple[str, int],
    pages: Pages | None,
    groups: Mapping[str, Group],
) -> Digest:
    """The digest of a body, with its rows, its Rss and its time. `groups`: its types, owners, ... (named_totals.py)."""
    who = body["who"] | {"main_arenas": tuple(body["who"]["main_arenas"]), "time": time[0], "time_ns": time[1]}
    names = tuple(row.name for row in rows.RESIDENT)
    return Digest(
        who=Seen(**who),
        rss=rss,
        swap=body["swap"],
        rows={row.name: held.get(row.name) for row in rows.ALL},
        chunks={name: Portion(*each) for name, each in body["chunks"].items()},
        arenas={
            int(address, 16): ArenaHeld(
                each["name"],
                each["resident"],
                Portion(*each["in_use"]),
                {name: each["rows"].get(name, 0) for name in names},
            )
            for address, each in body["arenas"].items()
        },
        sizes=Group(
            {
                int(size): Named(size, Portion(None if count is None else int(size) * count, count))
                for size, count in body["sizes"].items()
            }
        ),
        pins={int(size): PinsOf(*each) for size, each in body["pins"].items()},
        types=groups.get("types"),
        owners=groups.get("owners"),
        leaks=groups.get("leaks"),
        objects=groups.get("objects"),
        classes=groups.get("classes"),
        sites=group_of(body["sites"]) if "sites" in body else None,
        page_rate=body.get("sites", {}).get("page_rate"),
        pages=pages,
        heaps=heaps_of(body),
    )


def heaps_of(body: Json) -> dict[int, HeapHeld]:
    """The heaps of arenas."""
    return {int(start, 16): HeapHeld(int(heap[0], 16), int(heap[1])) for start, heap in body["heaps"].items()}


def pack_body(body: Json, base: Frame | None) -> bytes:
    """A body as bytes."""
    return _squeeze(_json(body if base is None else delta(base.body, body)))


def unpack_body(data: bytes, base: Frame | None) -> Json:
    """The other way. DamagedError: it is no body, or does not fit its frame."""
    read = unpack_json(data)
    if base is None:
        return shape.body(read)
    try:
        return shape.body(applied(base.body, read))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        words = str(error) if isinstance(error, DamagedError) else "a snapshot does not fit its frame"
        raise DamagedError(words) from None


def unpack_json(data: bytes) -> Any:
    """What a blob of JSON says. DamagedError: nothing."""
    try:
        return json.loads(_expand(data).decode("utf-8", "surrogatepass"))
    except DamagedError:
        raise
    except (ValueError, RecursionError):
        raise DamagedError("a blob is not JSON") from None


def pack_pages(pages: Pages, page_size: int, base: Pages | None) -> bytes:
    """The states of pages as bytes: runs of neighbours, then a byte for each page, XORed with that of the base."""
    address = pages.address
    breaks = np.flatnonzero(np.diff(address) != np.uint64(page_size)) + 1
    first = np.concatenate(([0], breaks)).astype(np.int64) if len(address) else np.empty(0, np.int64)
    counts = np.diff(np.append(first, len(address))).astype("<u8")
    head = np.array([len(first), page_size], "<u8")
    states = pages.state ^ _states_at(base, address)
    return _squeeze(
        b"".join((head.tobytes(), address[first].astype("<u8").tobytes(), counts.tobytes(), states.tobytes()))
    )


@dataclass(frozen=True)
class Runs:
    """The runs of neighbouring pages of a snapshot."""

    page_size: int
    start: NDArray[np.uint64]  # address
    count: NDArray[np.int64]  # pages


def unpack_pages(data: bytes, base: Pages | None) -> Pages:
    """The other way."""
    runs, states = _runs_and_states(data)
    within = np.arange(len(states)) - np.repeat(np.cumsum(runs.count) - runs.count, runs.count)
    address = np.repeat(runs.start, runs.count) + within.astype(np.uint64) * np.uint64(runs.page_size)
    return Pages(address, states ^ _states_at(base, address), None)


def unpack_runs(data: bytes) -> Runs:
    """Where the pages are, without their states."""
    return _runs_and_states(data)[0]


def _runs_and_states(data: bytes) -> tuple[Runs, NDArray[np.uint8]]:
    """The states are as they are packed: told by their difference from a base."""
    plain = _expand(data)
    runs, page_size = (int(each) for each in np.frombuffer(plain[:HEAD].ljust(HEAD, b"\0"), "<u8"))
    behind = HEAD + 16 * runs
    if page_size not in shape.PAGE_SIZES or behind > len(plain):
        raise DamagedError("the states of pages are cut short")
    starts = np.frombuffer(plain, "<u8", runs, HEAD)
    counts = np.frombuffer(plain, "<u8", runs, HEAD + 8 * runs)
    states = np.frombuffer(plain, np.uint8, -1, behind) if behind < len(plain) else np.empty(0, np.uint8)
    # No sum below can wrap: no run has more pages than there are states, and no address is beyond half of all.
    if (counts > len(states)).any() or (starts > HIGHEST).any() or counts.sum() != len(states):
        raise DamagedError("the states of pages do not fit their runs")
    ends = starts + counts * np.uint64(page_size)
    if (ends > HIGHEST).any() or (starts[1:] < ends[:-1]).any() or (starts % np.uint64(page_size)).any():
        raise DamagedError("runs of pages are out of order")
    return Runs(page_size, starts, counts.astype(np.int64)), states


def _states_at(base: Pages | None, address: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The base's states at these addresses; 0: it has no such page."""
    if base is None or not len(base.address):
        return np.zeros(len(address), np.uint8)
    place = np.minimum(np.searchsorted(base.address, address), len(base.address) - 1)
    return np.where(base.address[place] == address, base.state[place], 0).astype(np.uint8)
