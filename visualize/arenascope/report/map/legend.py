# SPDX-License-Identifier: MIT
"""The map's legend: bytes of each colour, as the ledger counts them; for states of whole pages, how many pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from arenascope.humanize import plural, size
from arenascope.report.amounts import Amount, amount
from arenascope.report.colours import APPEARANCES, Colour
from arenascope.report.map.areas import RUNTIME, TITLES
from arenascope.report.map.page_colours import shares
from arenascope.wire import dump_records as fmt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from arenascope.report.colours import Appearance
    from arenascope.report.map.areas import Area

MALLOC: Final = "malloc"
STATES: Final = (Colour.MIXED, Colour.PINNED)  # of pages: their bytes are among those of other colours
PARTS: Final = {Colour.USED: "in use", Colour.STRANDED: "free", Colour.METADATA: "headers", Colour.RETURNED: "returned"}


class Counted(NamedTuple):
    """What the legend says of a dump."""

    held: dict[str, dict[Colour, int]]  # bytes of each colour: malloc's, and each runtime's by its name on the map
    pages: dict[Colour, int]  # of the states that are no colour of bytes: how many pages


def count(area: Area, colours: NDArray[np.uint8]) -> Counted:
    """Count a dump's bytes by colour. `colours`: of the pages of the map."""
    held = {
        side: {colour: int(units.sum(dtype=np.uint64)) * unit for colour, units in shares(pages)}
        for side, unit, pages in _sides(area)
    }
    return Counted(held, {colour: int((colours == colour).sum()) for colour in STATES})


def _sides(area: Area) -> Iterator[tuple[str, int, NDArray[np.void]]]:
    """The pages of malloc, and of each runtime, with the unit of their counts."""
    yield MALLOC, fmt.UNIT, area.pages[: area.malloc_pages]
    heaps = area.heaps[area.heaps["kind"] == RUNTIME]
    for kind, title in TITLES.items():
        own = heaps[heaps["arena"] == kind]
        if len(own):
            spans = [slice(int(heap["first_page"]), int(heap["first_page"] + heap["page_count"])) for heap in own]
            yield title.name, fmt.RUNTIME_UNIT, np.concatenate([area.pages[span] for span in spans])


class Key(NamedTuple):
    """A colour of the map."""

    colour: int
    key: str  # its class in the style sheet
    appearance: Appearance
    shown: list[str]  # of each dump: bytes, or how many pages
    exact: list[int]


def legend(counted: Sequence[Counted]) -> list[Key]:
    """The colours that there are on the map."""
    lines = []
    for colour, appearance in APPEARANCES.items():
        if colour in STATES:
            exact = [each.pages[colour] for each in counted]
            shown = [plural(pages, "page") for pages in exact]
        else:
            exact = [_held(each, colour) for each in counted]
            shown = [size(held) for held in exact]
        if any(exact):
            lines.append(Key(int(colour), colour.name.lower(), appearance, shown, exact))
    return lines


def _held(counted: Counted, colour: Colour) -> int:
    """Bytes of a colour. A chunk that stands alone on its page is in use, too."""
    colours = (Colour.USED, Colour.PINNED) if colour is Colour.USED else (colour,)
    return sum(side[each] for side in counted.held.values() for each in colours)


class RuntimePart(NamedTuple):
    """What of the legend's bytes is a runtime's."""

    name: str
    of: str  # "", "before" or "after"
    amounts: list[tuple[str, Amount]]


def parts(counted: Sequence[Counted]) -> list[RuntimePart]:
    """What of the legend's bytes is a runtime's; the rest is malloc's."""
    sides = [""] if len(counted) == 1 else ["before", "after"]
    return [
        RuntimePart(name, side, [(word, amount(held[colour])) for colour, word in PARTS.items() if held[colour]])
        for each, side in zip(counted, sides)
        for name, held in each.held.items()
        if name != MALLOC
    ]
