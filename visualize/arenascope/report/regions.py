# SPDX-License-Identifier: MIT
"""The order in which the map shows pages: heap after heap, the same for two dumps, so that both maps go in step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope import format as fmt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from arenascope.dump import Dump

NO_ARENA: Final = -1  # of mmapped chunks


class Regions(NamedTuple):
    """The heaps of all dumps, by arena and address: one row for each heap, wherever it was seen."""

    start: NDArray[np.uint64]  # address
    pages: NDArray[np.int64]  # as many as the dump has that has most
    kind: NDArray[np.uint32]  # HeapKind
    arena: NDArray[np.int64]  # index into `arenas`; NO_ARENA
    first: NDArray[np.int64]  # of its pages, on the map
    heaps: list[NDArray[np.int64]]  # for each dump: the heap's index there; -1
    arenas: list[int]  # addresses
    total: int  # pages on the map


def regions(dumps: Sequence[Dump]) -> Regions:
    """Lay the heaps of one dump, or of two, in one order."""
    arenas = list(dict.fromkeys(int(arena["address"]) for dump in dumps for arena in dump.arenas))
    keys = [_keys(dump, arenas) for dump in dumps]
    merged, places = np.unique(np.concatenate(keys), return_inverse=True)
    places = places.reshape(-1)
    pages = np.zeros(len(merged), np.int64)
    heaps = []
    behind = 0
    for dump, own in zip(dumps, keys):
        place = places[behind : behind + len(own)]
        behind += len(own)
        # Two heaps of one dump never have the same key unless the dump lies; then the last of them is shown.
        index = np.full(len(merged), -1, np.int64)
        index[place] = np.arange(len(own))
        heaps.append(index)
        shown = index >= 0
        pages[shown] = np.maximum(pages[shown], dump.heaps["page_count"][index[shown]].astype(np.int64))
    arena = merged["order"].astype(np.int64)
    arena[arena == len(arenas)] = NO_ARENA
    ends = np.cumsum(pages)
    total = int(ends[-1]) if len(ends) else 0
    return Regions(merged["start"], pages, merged["kind"], arena, ends - pages, heaps, arenas, total)


def _keys(dump: Dump, arenas: list[int]) -> NDArray[np.void]:
    """What says which heap is which: arena, start, kind; mmapped chunks come last."""
    keys = np.zeros(len(dump.heaps), [("order", "<u4"), ("start", "<u8"), ("kind", "<u4")])
    place = {address: index for index, address in enumerate(arenas)}
    order = np.array([place[int(arena["address"])] for arena in dump.arenas] + [len(arenas)], np.uint32)
    owner = dump.heaps["arena"]
    keys["order"] = order[np.where(owner == fmt.NO_INDEX, len(order) - 1, owner)]
    keys["start"], keys["kind"] = dump.heaps["start"], dump.heaps["kind"]
    return keys


def sources(dump: Dump, heaps: NDArray[np.int64], laid: Regions) -> NDArray[np.int64]:
    """For each page of the map: which page record of this dump it is; -1 for none."""
    mine = np.flatnonzero(heaps >= 0)
    records = dump.heaps[heaps[mine]]
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
