# SPDX-License-Identifier: MIT
"""The numbers behind the charts: bytes by chunk size, and by the length of free runs, in steps of a factor of two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope.report.colours import Colour
from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from arenascope.report.map.order import Regions
    from arenascope.wire.dump import Dump

MAX_LOG2: Final = 63
PINNING: Final = "stranded by pins"  # the series that is not part of the others
SERIES: Final = {  # each series, and its colour
    "in use": Colour.USED,
    "cached": Colour.CACHED,
    "free": Colour.RELEASABLE,
    PINNING: Colour.STRANDED,
    "releasable": Colour.RELEASABLE,
    "withheld": Colour.WITHHELD,
    "returned already": Colour.RETURNED,
}
PAINTS: Final = {name: colour.name.lower() for name, colour in SERIES.items()}  # the style sheet's classes
FREE: Final = (Colour.RELEASABLE, Colour.WITHHELD, Colour.RETURNED)


class Histogram(NamedTuple):
    """Bytes in classes [2^first, 2^(first+1)), …, one series for each name."""

    first: int
    series: dict[str, NDArray[Any]]

    @property
    def bounds(self) -> list[int]:
        """The lower bound of each class, bytes."""
        return [1 << (self.first + index) for index in range(len(next(iter(self.series.values()))))]

    def rows(self) -> list[tuple[int, list[int]]]:
        """As a table: lower bound, and each series' bytes; classes in which nothing is are left out."""
        table = np.array(list(self.series.values())).T
        return [(bound, [int(v) for v in row]) for bound, row in zip(self.bounds, table) if row.any()]


def by_chunk_size(dump: Dump) -> Histogram | None:
    """In use, cached, free, and what pins keep free beside them, by chunk size. None when there are no chunks."""
    sizes = dump.sizes
    sizes = sizes[(sizes["chunk_size"] > 0) & (sizes["chunk_size"] != fmt.UNKNOWN)]
    each = sizes["chunk_size"].astype(np.float64)
    series = {
        "in use": _known(sizes["in_use"]) * each,
        "cached": (_known(sizes["tcache"]) + _known(sizes["fastbin"])) * each,
        "free": _known(sizes["binned"]) * each,
        PINNING: _known(sizes["pin_stranded"]),
    }
    return _histogram(sizes["chunk_size"], series)


def by_free_run(states: NDArray[np.uint8], laid: Regions, page_size: int) -> Histogram | None:
    """Free pages by the length of the run of free pages they lie in. None when no page is free."""
    colours = states & 0xF
    free = np.isin(colours, [int(colour) for colour in FREE])
    # A run ends where a region does.
    starts = free.copy()
    if len(free):
        starts[1:] &= ~free[:-1]
        first = laid.first[(laid.pages > 0) & (laid.first < len(free))]
        starts[first] = free[first]
    run = np.cumsum(starts) - 1
    of = run[free]
    if not len(of):
        return None
    lengths = np.bincount(of) * page_size
    shown = {"releasable": Colour.RELEASABLE, "withheld": Colour.WITHHELD, "returned already": Colour.RETURNED}
    series = {}
    for name, colour in shown.items():
        series[name] = np.bincount(of[colours[free] == colour], minlength=len(lengths)) * float(page_size)
    return _histogram(lengths, series)


def _known(counts: NDArray[Any]) -> NDArray[np.float64]:
    return np.where(counts == fmt.UNKNOWN, 0, counts).astype(np.float64)


def _histogram(keys: NDArray[Any], series: dict[str, NDArray[Any]]) -> Histogram | None:
    if not len(keys):
        return None
    # The exponent of a double is the floor of its binary logarithm, exactly.
    classes = np.minimum(np.frexp(keys.astype(np.float64))[1] - 1, MAX_LOG2)
    first = int(classes.min())
    width = int(classes.max()) - first + 1
    binned = {name: np.bincount(classes - first, weights=values, minlength=width) for name, values in series.items()}
    return Histogram(first, binned)
