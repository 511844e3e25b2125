# SPDX-License-Identifier: MIT
"""What the map shows of one dump: malloc's heaps, and behind them the heaps of runtimes, in the same records.

A piece of a runtime's heap (an arena of CPython's, a page of Ruby's) becomes a heap of kind RUNTIME, and its pages
become page records, whose counts are in units of fmt.RUNTIME_UNIT bytes. Ruby's pages that are chunks of malloc are on
malloc's pages, and not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from arenascope.wire.dump import Dump

RUNTIME: Final = 5  # the kind of such a heap, behind those of fmt.HeapKind


class Title(NamedTuple):
    """How the map calls a runtime's heap, and the row of the ledger that has its bytes."""

    name: str
    row: str


TITLES: Final = {
    fmt.RuntimeKind.CPYTHON: Title("Python (pymalloc)", "python_arenas"),
    fmt.RuntimeKind.RUBY: Title("Ruby", "ruby_pages"),
}


class Area(NamedTuple):
    """One dump's heaps and pages: malloc's first."""

    heaps: NDArray[np.void]  # fmt.HEAP; `arena` of a runtime's heap is its RuntimeKind
    pages: NDArray[np.void]  # fmt.PAGE
    malloc_pages: int  # how many of the pages are malloc's
    block_sizes: NDArray[np.uint8]  # of the other pages: in fmt.RUNTIME_UNIT; 0: none, or several
    means: NDArray[np.bool_]  # likewise: `in_use` is a mean of the pool's

    def units(self) -> NDArray[np.uint16]:
        """For each page: bytes of the unit that its counts are in."""
        out = np.full(len(self.pages), fmt.UNIT, np.uint16)
        out[self.malloc_pages :] = fmt.RUNTIME_UNIT
        return out


def area_of(dump: Dump) -> Area:
    """What the map shows of a dump."""
    records = dump.runtime_pages
    records = records[np.isin(records["kind"], list(TITLES))]
    pieces = np.array(list(_pieces(dump)), [("address", "<u8"), ("size", "<u8"), ("kind", "<u4")])
    pieces = pieces[np.argsort(pieces["address"], kind="stable")]
    place = np.searchsorted(pieces["address"], records["address"], side="right") - 1
    inside = place >= 0
    inside[inside] = records["address"][inside] - pieces["address"][place[inside]] < pieces["size"][place[inside]]
    inside[inside] &= pieces["kind"][place[inside]] == records["kind"][inside]
    records, place = records[inside], place[inside]
    order = np.lexsort((records["address"], place))
    records, place = records[order], place[order]
    fresh = np.ones(len(records), bool)  # a dump that lies may name a page twice
    fresh[1:] = records["address"][1:] != records["address"][:-1]
    records, place = records[fresh], place[fresh]
    heaps = _heaps(records, place, len(dump.pages), int(dump.meta["page_size"]))
    return Area(
        heaps=np.concatenate((dump.heaps, heaps)),
        pages=np.concatenate((dump.pages, _page_records(records, int(dump.meta["page_size"]))))
        if len(records)
        else dump.pages,
        malloc_pages=len(dump.pages),
        block_sizes=np.ascontiguousarray(records["block_size"]),
        means=(records["flags"] & fmt.RuntimePageFlag.MEAN) != 0,
    )


def _pieces(dump: Dump) -> Iterator[tuple[int, int, int]]:
    """Address, size and runtime of each piece of a runtime's heap."""
    kinds = dump.runtimes["kind"]
    for region in dump.regions:
        yield int(region["address"]), int(region["size"]), int(kinds[region["runtime"]])
    for page in dump.ruby:
        if page["heap"] == fmt.NO_INDEX:
            yield int(page["address"]), int(page["size"]), fmt.RuntimeKind.RUBY


def _heaps(records: NDArray[np.void], place: NDArray[Any], first_page: int, page_size: int) -> NDArray[np.void]:
    """A heap for each run of pages that are of one piece and follow each other: as a rule a piece is one run."""
    breaks = np.ones(len(records), bool)
    breaks[1:] = (place[1:] != place[:-1]) | (np.diff(records["address"]) != page_size)
    starts = np.flatnonzero(breaks)
    heaps = np.zeros(len(starts), fmt.HEAP)
    counts = np.diff(np.append(starts, len(records)))
    heaps["start"] = records["address"][starts]
    heaps["end"] = heaps["protected_end"] = heaps["start"] + (counts * page_size).astype(np.uint64)
    heaps["kind"], heaps["arena"] = RUNTIME, records["kind"][starts]
    heaps["first_page"], heaps["page_count"] = first_page + starts, counts
    return heaps


def _page_records(records: NDArray[np.void], page_size: int) -> NDArray[np.void]:
    """Their blocks in use and free as chunks would be; what is neither is the runtime's own."""
    pages = np.zeros(len(records), fmt.PAGE)
    pages["in_use"], pages["binned"], pages["residency"] = records["in_use"], records["free"], records["residency"]
    pages["metadata"] = page_size // fmt.RUNTIME_UNIT - records["in_use"] - records["free"]
    residency, held = records["residency"], records["in_use"] > 0
    pages["state"] = np.select(
        [
            (residency & fmt.Residency.UNKNOWN) != 0,
            (residency & fmt.Residency.PRESENT) != 0,
            (residency & fmt.Residency.SWAPPED) != 0,
        ],
        [fmt.PageState.UNKNOWN, np.where(held, fmt.PageState.USED, fmt.PageState.STRANDED), fmt.PageState.SWAPPED],
        np.where(held, fmt.PageState.UNTOUCHED, fmt.PageState.RETURNED),
    )
    # Nothing is known of absent pages but that they are: headers were never written there.
    absent = (pages["state"] == fmt.PageState.RETURNED) & (pages["metadata"] > 0)
    pages["binned"][absent] += pages["metadata"][absent]
    pages["metadata"][absent] = 0
    return pages
