# SPDX-License-Identifier: MIT
"""What each page and each 16 bytes is shown as: one numbering for Python, the page's script, and its style sheet.

The colours and their rules are those of the C program's pictures: inspector/png/palette.c, docs/user-guide.md#pictures.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope import rows
from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Colour(enum.IntEnum):
    """What a page is shown as. NONE: no page of this process's heaps (before it came, or after it went)."""

    NONE = 0
    USED = 1
    PINNED = 2
    CACHED = 3
    STRANDED = 4
    RELEASABLE = 5
    WITHHELD = 6
    RETURNED = 7
    UNTOUCHED = 8
    USED_SWAPPED = 9
    FREE_SWAPPED = 10
    UNKNOWN = 11
    FREE_UNKNOWN = 12
    METADATA = 13  # never a whole page's: 16 bytes of it
    MIXED = 14  # of a whole page only: bytes in use, and free ones


class Appearance(NamedTuple):
    """How a colour appears, and what it is called."""

    name: str
    letter: str  # stands in a page's cell where there is room, so that nothing is told by colour alone
    meaning: str
    phusion: str
    safe: str


BACKGROUND: Final = "#1f2430"

APPEARANCES: Final = {
    Colour.USED: Appearance("in use", "U", "resident, and the application holds it", "#d62728", "#d55e00"),
    Colour.MIXED: Appearance(
        "mixed", "+", "bytes in use beside free ones: the colour is their mean", "#ae5555", "#ad6850"
    ),
    Colour.PINNED: Appearance("pinned", "P", "one chunk in use keeps it; all else on it is free", "#860f14", "#7d3600"),
    Colour.CACHED: Appearance(
        "cached", "C", "freed by the application, kept in a tcache or a fastbin", "#f29e2e", "#f0e442"
    ),
    Colour.STRANDED: Appearance("stranded", "S", "free and resident; no trim returns it", "#707070", "#707070"),
    Colour.RELEASABLE: Appearance(
        "releasable", "R", "free and resident; malloc_trim(0) returns it", "#b9b9b9", "#b9b9b9"
    ),
    Colour.WITHHELD: Appearance(
        "withheld", "W", "free and resident; malloc_trim(0) never reaches it", "#7d9fc9", "#56b4e9"
    ),
    Colour.RETURNED: Appearance("returned", "·", "free, and back with the kernel already", "#ffffff", "#ffffff"),
    Colour.UNTOUCHED: Appearance("never touched", "N", "not resident, because never written", "#f6d5d3", "#f8e0cc"),
    Colour.USED_SWAPPED: Appearance(
        "swapped in use", "X", "swapped out; the application holds it", "#7b3a93", "#cc79a7"
    ),
    Colour.FREE_SWAPPED: Appearance(
        "swapped free", "x", "swapped out, though nothing is in use on it", "#cdabdb", "#ebccdd"
    ),
    Colour.UNKNOWN: Appearance("unknown", "?", "unknown: the heap is corrupt here", "#ffe14d", "#009e73"),
    Colour.FREE_UNKNOWN: Appearance(
        "free, residency unknown", "f", "free; unknown whether it was resident", "#d8d3b0", "#d8d3b0"
    ),
    Colour.METADATA: Appearance(
        "metadata", "M", "headers of arenas, heaps and pools, fenceposts, tcache structs", "#2f62b0", "#0072b2"
    ),
}


class PartColour(NamedTuple):
    """The colour of a part of the ledger that is no state of a page."""

    phusion: str
    safe: str


PARTS: Final = {  # by the class that the style sheet has for it
    **{row.paint: PartColour(*row.colours.split()) for row in rows.ALL if row.colours},
    "ruby-free": PartColour("#e6b5c7", "#efd3e2"),
    "other": PartColour("#98a3b0", "#98a3b0"),
}

INK: Final = {True: "#00000099", False: "#ffffffd9"}  # of a letter on a bright colour, and on a dark one
BRIGHT: Final = 125


def bright(colour: str) -> bool:
    """Whether dark letters show on a colour ("#rrggbb")."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue > BRIGHT


def classes() -> str:
    """The style sheet's class of each part: c-file, ..."""
    return "".join(f".c-{name}{{fill:var(--{name})}}" for name in PARTS)


def properties(palette: str) -> str:
    """A palette as the style sheet's custom properties: each colour, and the ink that shows on it."""
    colours = {
        colour.name.lower().replace("_", "-"): getattr(appearance, palette)
        for colour, appearance in APPEARANCES.items()
    }
    colours |= {name: getattr(part, palette) for name, part in PARTS.items()}
    return "".join(f"--{name}:{value};--on-{name}:{INK[bright(value)]};" for name, value in colours.items())


# Above the colour, in the byte of a page: what else the kernel says of it.
HUGE_BIT: Final = 0x10
ZERO_BIT: Final = 0x20
RESIDENCY_UNKNOWN_BIT: Final = 0x80

_BY_STATE: Final = np.arange(max(fmt.PageState) + 1, dtype=np.uint8)  # the first eight have the same numbers


def page_bytes(pages: NDArray[np.void]) -> NDArray[np.uint8]:
    """One byte for each page record: its Colour, and the bits above."""
    state, residency = pages["state"], pages["residency"]
    colour: NDArray[np.uint8] = _BY_STATE[state]
    free = (pages["binned"] | pages["top"] | pages["tcache"] | pages["fastbin"]) != 0
    colour[(state == fmt.PageState.USED) & free] = Colour.MIXED
    odd = np.flatnonzero(state >= fmt.PageState.SWAPPED)
    if len(odd):
        colour[odd] = _odd_colours(pages[odd])
    colour[(residency & fmt.Residency.HUGE) != 0] |= HUGE_BIT
    colour[(residency & fmt.Residency.ZERO) != 0] |= ZERO_BIT
    colour[(residency & fmt.Residency.UNKNOWN) != 0] |= RESIDENCY_UNKNOWN_BIT
    return colour


def _odd_colours(pages: NDArray[np.void]) -> Any:
    """Returns the colours of pages that are swapped or unknown: what lies on them decides."""
    held = (pages["in_use"] | pages["metadata"]) != 0
    cached = (pages["tcache"] | pages["fastbin"]) != 0
    lost = ((pages["residency"] & fmt.Residency.UNKNOWN) == 0) | (pages["unknown"] != 0)
    swapped = np.where(held, Colour.USED_SWAPPED, Colour.FREE_SWAPPED)
    unknown = np.select([lost, held, cached], [Colour.UNKNOWN, Colour.USED, Colour.CACHED], Colour.FREE_UNKNOWN)
    return np.where(pages["state"] == fmt.PageState.SWAPPED, swapped, unknown).astype(np.uint8)
