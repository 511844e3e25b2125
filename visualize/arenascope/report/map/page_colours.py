# SPDX-License-Identifier: MIT
"""What the bytes of each page are shown as: the legend adds them up, and a pixel is the mean of their colours.

The rules are those by which the ledger counts a page (inspector/ledger/ledger.c), so that legend and ledger have the
same bytes. The page's script (map_canvas.js) and the C program's overviews (inspector/png/palette.c) have the same
rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from arenascope.report.colours import APPEARANCES, Colour
from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_SRGB_KNEE: Final = 0.04045
_LINEAR_KNEE: Final = 0.0031308


def shares(pages: NDArray[np.void]) -> Iterator[tuple[Colour, NDArray[np.uint16]]]:
    """Each colour, and how much of each page has it, in the unit of the page's counts: each unit has one colour."""
    residency, state = pages["residency"], pages["state"]
    unknown = (residency & fmt.Residency.UNKNOWN) != 0
    there = unknown | ((residency & fmt.Residency.PRESENT) != 0)
    swapped = ~there & ((residency & fmt.Residency.SWAPPED) != 0)
    absent = ~there & ~swapped
    whole = there & ((state == fmt.PageState.RELEASABLE) | (state == fmt.PageState.WITHHELD))
    pinned = state == fmt.PageState.PINNED
    cached = pages["tcache"] + pages["fastbin"]
    free = pages["binned"] + pages["top"]
    own = pages["metadata"]
    everything = pages["in_use"] + cached + free + own + pages["unknown"]
    yield Colour.USED, _where(there & ~pinned & ~whole, pages["in_use"])
    yield Colour.PINNED, _where(there & pinned, pages["in_use"])
    yield Colour.METADATA, _where(there & ~whole, own)
    yield Colour.CACHED, _where(there & ~whole, cached)
    yield Colour.STRANDED, _where(there & ~unknown & ~whole, free)
    yield Colour.FREE_UNKNOWN, _where(unknown & ~whole, free)
    yield Colour.RELEASABLE, _where(whole & (state == fmt.PageState.RELEASABLE), everything)
    yield Colour.WITHHELD, _where(whole & (state == fmt.PageState.WITHHELD), everything)
    yield Colour.UNKNOWN, _where(there & ~whole, pages["unknown"])
    yield Colour.USED_SWAPPED, _where(swapped, pages["in_use"] + own + pages["unknown"])
    yield Colour.FREE_SWAPPED, _where(swapped, free + cached)
    yield Colour.UNTOUCHED, _where(absent, pages["in_use"] + pages["top"] + own + pages["unknown"])
    yield Colour.RETURNED, _where(absent, pages["binned"] + cached)


def _where(mask: NDArray[np.bool_], units: NDArray[np.uint16]) -> NDArray[np.uint16]:
    return np.where(mask, units, np.uint16(0)).astype(np.uint16)


def light_of(pages: NDArray[np.void], palette: str = "phusion") -> NDArray[np.float32]:
    """For each page the mean of its bytes' colours, as linear light (red, green, blue)."""
    light = np.zeros((len(pages), 3), np.float32)
    total = np.zeros(len(pages), np.float32)
    for colour, units in shares(pages):
        some = np.flatnonzero(units)
        if len(some):
            weight = units[some].astype(np.float32)
            light[some] += weight[:, None] * linear(rgb(getattr(APPEARANCES[colour], palette)))
            total[some] += weight
    light /= np.maximum(total, 1)[:, None]
    return light


def rgb(colour: str) -> NDArray[np.float32]:
    """A colour ("#rrggbb") as three numbers from 0 to 1, as sRGB encodes them."""
    return np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)], np.float32)


def linear(encoded: NDArray[np.float32]) -> NDArray[np.float32]:
    """Light, of what sRGB encodes."""
    return np.where(encoded <= _SRGB_KNEE, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4).astype(np.float32)


def encoded(light: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Light as bytes of sRGB."""
    out = np.where(light <= _LINEAR_KNEE, light * 12.92, 1.055 * np.maximum(light, 0) ** (1 / 2.4) - 0.055)
    image: NDArray[np.uint8] = np.rint(out * 255).astype(np.uint8)
    return image
