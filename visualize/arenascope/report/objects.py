# SPDX-License-Identifier: MIT
"""The page's table of a runtime's objects by type: of one look, or with the difference from the look before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.report.tables import Amount, Change, amount, change
from arenascope.text import UNKNOWN, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.findings.facts import Facts
    from arenascope.summary import Objects, ObjectType

SHOWN: Final = 200  # types


class TypeLine(NamedTuple):
    """The objects of one type."""

    name: str
    objects: int
    tracked: int
    whole: Amount  # the objects, and what only they point to
    owned: Amount  # of it, what they point to
    in_malloc: Amount  # of it, what is in chunks of malloc
    change: Change | None  # of the whole, since the look before


class ObjectTable(NamedTuple):
    """All of them."""

    exact: bool
    lines: list[TypeLine]
    types: int  # how many there are, those not shown included
    other_blocks: int
    other: Amount


def section(facts: Sequence[Facts]) -> ObjectTable | None:
    """The objects of the last look. None where they were not counted."""
    now = _objects(facts[-1])
    if now is None:
        return None
    before = _objects(facts[0]) if len(facts) > 1 else None
    held = {each.address: _whole(each) for each in before.types} if before else None
    shown = [_line(each, held, facts[-1].whole) for each in now.types[:SHOWN]]
    return ObjectTable(now.exact, shown, len(now.types), now.other_blocks, amount(now.other_bytes, facts[-1].whole))


def _objects(facts: Facts) -> Objects | None:
    return next((runtime.objects for runtime in facts.summary.runtimes if runtime.objects), None)


def _whole(each: ObjectType) -> int:
    return each.bytes + each.owned


def _line(each: ObjectType, before: dict[str, int] | None, rss: int) -> TypeLine:
    # A type that another process has at this address is another type; one that is new had nothing.
    grown = change([before.get(each.address, 0), _whole(each)]) if before is not None else None
    return TypeLine(
        printable(each.name) if each.name else UNKNOWN,
        each.count,
        each.tracked,
        amount(_whole(each), rss),
        amount(each.owned),
        amount(each.in_malloc),
        grown,
    )
