# SPDX-License-Identifier: MIT
"""Types, owners and leaks under numbers that are the same in all dumps of one page; and what lies on which page.

A click on one of them lights its pages on the map: so the page has, for each page of a heap, the user on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope.humanize import printable
from arenascope.wire import dump_records as fmt
from arenascope.wire.graph_parts import owner_name, owner_words
from arenascope.wire.owners import owner_at, owner_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from arenascope.wire.dump import Dump
    from arenascope.wire.graph_parts import Owner

MOST: Final = 4000  # users on the map: those with most bytes; of lost chunks first
LONGEST: Final = 160  # characters of a name
NO_TYPE: Final = "?"
ON_PAGE: Final = 8  # users of a page, at most


class PageUser(NamedTuple):
    """Numbers in Names; -1: none."""

    type: int
    owner: int
    leak: int


class Numbers:
    """Numbers for names, in the order in which they come."""

    def __init__(self) -> None:
        """None yet."""
        self.shown: Final[list[str]] = []
        self._known: Final[dict[Any, int]] = {}

    def add(self, key: Any, shown: str) -> int:
        """The number of a key. `shown`: how the page calls it."""
        if key not in self._known:
            self._known[key] = len(self.shown)
            self.shown.append(shown)
        return self._known[key]


class Names:
    """The names that all dumps of a page have for types, owners and leaks."""

    def __init__(self) -> None:
        """None yet."""
        self.types: Final = Numbers()
        self.owners: Final = Numbers()  # in full
        self.short: Final[list[str]] = []  # of owners, for sentences
        self.leaks: Final = Numbers()

    def type(self, name: str | None) -> int:
        """A type; None is that which is not known."""
        return self.types.add(name, NO_TYPE if name is None else cut(printable(name)))

    def owner(self, owner: Owner) -> int:
        """An owner. A variable is the same one wherever its module is loaded."""
        number = self.owners.add(owner_key(owner), cut(owner_words(owner)))
        if number == len(self.short):
            self.short.append(cut(owner_name(owner)))
        return number

    def leak(self, kind: int, size: int) -> int:
        """The lost chunks of a type and size."""
        each = f", {size} B" if size else ""
        return self.leaks.add((kind, size), f"{self.types.shown[kind]}{each}")


def cut(text: str, longest: int = LONGEST) -> str:
    """A name of at most so many characters."""
    return text if len(text) <= longest else text[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"


class Held:
    """One dump's types, owners and leaks, by the numbers that the page has for them."""

    def __init__(self, dump: Dump, names: Names) -> None:
        """`names`: takes those of this dump."""
        self.dump: Final = dump
        self.types: Final = [names.type(dump.string(each["name"]) or None) for each in dump.graph_types]
        owners = [owner_at(dump, index) for index in range(len(dump.graph_owners))]
        self.owners: Final = [names.owner(each) for each in owners if each]
        self.leaks: Final = [
            names.leak(self._type(int(each["type"]), names), int(each["size"])) for each in dump.graph_leaks
        ]
        self._names = names

    def _type(self, index: int, names: Names) -> int:
        return self.types[index] if index < len(self.types) else names.type(None)

    def user(self, record: Any) -> PageUser:
        """Numbers for a record of section graph_page_users."""
        return PageUser(
            *(
                numbers[int(record[name])] if int(record[name]) < len(numbers) else -1
                for name, numbers in (("type", self.types), ("owner", self.owners), ("leak", self.leaks))
            )
        )

    def on_map(self) -> tuple[list[PageUser], NDArray[np.uint16]]:
        """The user that the map knows, and for each record of graph_page_users which of them it is; 0: none of them."""
        records = self.dump.graph_page_users
        lost = records["leak"] != fmt.NO_INDEX
        order = np.lexsort((records["bytes"], records["pinned"]["pages"], lost))[::-1][:MOST]
        order = order[(records["flags"][order] & fmt.GraphRecordFlag.OTHERS) == 0]
        place = np.zeros(len(records), np.uint16)
        place[order] = np.arange(1, len(order) + 1)
        return [PageUser(-1, -1, -1), *(self.user(records[index]) for index in order)], place

    def on_pages(self) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
        """For each page record how many user it has, and these, page by page: those with most bytes on it first."""
        places = self.dump.graph_places
        places = places[np.argsort(places["page"], kind="stable")]
        counts = np.bincount(places["page"], minlength=len(self.dump.pages)).astype(np.int64)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        users = self.on_map()[1][places["user"][within < ON_PAGE]]
        return np.minimum(counts, ON_PAGE).astype(np.uint8), users


def put_in_order(
    counts: NDArray[np.uint8], users: NDArray[np.uint16], source: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
    """The same for the pages of the map; `source`: of each the page record, or -1."""
    if not len(counts):
        return np.zeros(len(source), np.uint8), users[:0]
    known = (source >= 0) & (source < len(counts))
    shown = np.where(known, counts[np.where(known, source, 0)], 0).astype(np.uint8)
    first = np.cumsum(counts, dtype=np.int64) - counts
    starts = np.repeat(np.where(known, first[np.where(known, source, 0)], 0), shown)
    ends = np.cumsum(shown, dtype=np.int64)
    within = np.arange(len(starts)) - np.repeat(ends - shown, shown)
    return shown, users[starts + within]


def of_dumps(dumps: Sequence[Dump]) -> tuple[Names, list[Held]]:
    """All dumps of a page under the same numbers."""
    names = Names()
    return names, [Held(dump, names) for dump in dumps]
