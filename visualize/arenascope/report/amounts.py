# SPDX-License-Identifier: MIT
"""Numbers of bytes as the page shows them, alone and as differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from arenascope.compare import difference
from arenascope.humanize import share, signed, size

if TYPE_CHECKING:
    from collections.abc import Sequence


class Amount(NamedTuple):
    """A number of bytes, exact and as shown."""

    exact: int | None
    shown: str
    share: str  # of the whole


def amount(exact: int | None, whole: int = 0) -> Amount:
    """A number of bytes beside the whole that it is a part of; `whole` 0: of nothing."""
    return Amount(exact, size(exact), share(exact, whole))


class Change(NamedTuple):
    """A difference in bytes, exact and as shown."""

    exact: int | None
    shown: str


def change(held: Sequence[int | None]) -> Change | None:
    """The difference of the last from the first, with a sign. None of one number alone; unknown of an unknown one."""
    if len(held) == 1:
        return None
    return change_of(difference(held[0], held[-1]))


def change_of(exact: int | None) -> Change:
    """A difference that is known already."""
    return Change(exact, signed(exact))
