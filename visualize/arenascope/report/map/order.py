# SPDX-License-Identifier: MIT
"""The order in which the map shows pages: heap after heap, the same for two dumps, so that both maps go in step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope.report.map.areas import RUNTIME, Area, area_of
from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from arenascope.wire.dump import Dump

NO_ARENA: Final = -1  # of mmapped chunks


class Regions(NamedTuple):
    """The heaps of all dumps, by arena and address: one row for each heap, wherever it was seen."""

    start: NDArray[np.uint64]  # address
    pages: NDArray[np.int64]  # as many as the dump has that has most
    kind: NDArray[np.uint32]  # HeapKind; RUNTIME
    arena: NDArray[np.int64]  # index into `arenas`; NO_ARENA
    first: NDArray[np.int64]  # of its pages, on the map
    heaps: list[NDArray[np.int64]]  # for each dump: the heap's index there; -1
    arenas: list[int]  # addresses; behind them, for each runtime on the map, its RuntimeKind with a minus sign
    total: int  # pages on the map
    malloc_total: int  # those of malloc's heaps: the first of them
    areas: list[Area]  # for each dump: its heaps and pages


def regions(dumps: Sequence[Dump]) -> Regions:
    """Lay the heaps of one dump, or of two, in one order."""
    arenas = list(dict.fromkeys(int(arena["address"]) for dump in dumps for arena in dump.arenas))
    areas = [area_of(dump) for dump in dumps]
    runtimes = sorted({int(kind) for area in areas for kind in _runtimes_of(area)})
    keys = [_keys(dump, area, arenas, runtimes) for dump, area in zip(dumps, areas)]
    merged, places = np.unique(np.concatenate(keys), return_inverse=True)
    places = places.reshape(-1)
    pages = np.zeros(len(merged), np.int64)
    heaps = []
    behind = 0
    for area, own in zip(areas, keys):
        place = places[behind : behind + len(own)]
        behind += len(own)
        # Two heaps of one dump never have the same key unless the dump lies; then the last of them is shown.
        index = np.full(len(merged), -1, np.int64)
        index[place] = np.arange(len(own))
        heaps.append(index)
        shown = index >= 0
        pages[shown] = np.maximum(pages[shown], area.heaps["page_count"][index[shown]].astype(np.int64))
    order = merged["order"].astype(np.int64)
    arena = np.where(order == len(arenas), NO_ARENA, order - (order > len(arenas)))
    ends = np.cumsum(pages)
    total = int(ends[-1]) if len(ends) else 0
    malloc_total = int(pages[merged["kind"] != RUNTIME].sum())
    names = [*arenas, *(-kind for kind in runtimes)]
    return Regions(
        merged["start"], pages, merged["kind"], arena, ends - pages, heaps, names, total, malloc_total, areas
    )


def _runtimes_of(area: Area) -> NDArray[np.uint32]:
    """Which runtimes have a heap in an area."""
    kinds: NDArray[np.uint32] = np.unique(area.heaps["arena"][area.heaps["kind"] == RUNTIME])
    return kinds


def _keys(dump: Dump, area: Area, arenas: list[int], runtimes: list[int]) -> NDArray[np.void]:
    """What says which heap is which: arena, start, kind; mmapped chunks come behind arenas, and runtimes last."""
    keys = np.zeros(len(area.heaps), [("order", "<u4"), ("start", "<u8"), ("kind", "<u4")])
    place = {address: index for index, address in enumerate(arenas)}
    order = np.array([place[int(arena["address"])] for arena in dump.arenas] + [len(arenas)], np.uint32)
    owner = area.heaps["arena"].copy()
    own = area.heaps["kind"] == RUNTIME
    behind = len(arenas) + 1 + np.searchsorted(np.array(runtimes, np.uint32), owner[own])
    owner[own] = fmt.NO_INDEX
    keys["order"] = order[np.where(owner == fmt.NO_INDEX, len(order) - 1, owner)]
    keys["order"][own] = behind
    keys["start"], keys["kind"] = area.heaps["start"], area.heaps["kind"]
    return keys


def sources(area: Area, heaps: NDArray[np.int64], laid: Regions) -> NDArray[np.int64]:
    """For each page of the map: which page record of this dump it is; -1 for none."""
    mine = np.flatnonzero(heaps >= 0)
    records = area.heaps[heaps[mine]]
    counts = records["page_count"].astype(np.int64)
    total = int(counts.sum())
    # 0, 1, 2, … within each heap, without a loop over heaps: there can be 65,536 mmapped ones.
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.full(laid.total, -1, np.int64)
    found[np.repeat(laid.first[mine], counts) + within] = (
        np.repeat(records["first_page"].astype(np.int64), counts) + within
    )
    return found


def struct_of(laid: Regions, page_size: int) -> dict[str, Any]:
    """The regions as the page's script has them, columns of numbers: page numbers, not addresses, are exact doubles."""
    size = np.uint64(page_size)
    return {
        "page": (laid.start // size).astype(np.float64),
        "lead": (laid.start % size).astype(np.uint32),
        "pages": laid.pages.astype(np.uint32),
        "arena": laid.arena.astype(np.int32),
        "kind": laid.kind.astype(np.uint8),
    }
