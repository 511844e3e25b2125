# SPDX-License-Identifier: MIT
"""The page's table of a runtime's objects by type: of one look, or with the difference from the look before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.report.tables import Amount, Change, amount, change
from arenascope.summary import objects_by_type
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
    tracked: int | None  # by the collector; of a class: those made since the last GC
    whole: Amount  # the objects, and what only they point to
    owned: Amount  # of it, what they point to
    in_malloc: Amount  # of it, what is in chunks of malloc
    change: Change | None  # of the whole, since the look before


class ObjectTable(NamedTuple):
    """All of one runtime's."""

    whose: str  # "Python's"
    by: str  # "type" or "class"
    exact: bool
    lines: list[TypeLine]
    types: int  # how many there are, those not shown included
    other_blocks: int
    other: Amount


def tables(facts: Sequence[Facts]) -> list[ObjectTable]:
    """The objects of the last look, as far as they were counted, with the difference from the first."""
    before = dict(objects_by_type(facts[0].summary)) if len(facts) > 1 else {}
    made = []
    for whose, now in objects_by_type(facts[-1].summary):
        made.append(_table(whose, now, before.get(whose), facts[-1].whole))
        if now.classes:
            made.append(_class_table(whose, now, before.get(whose), facts[-1].whole))
    return made


def _table(whose: str, now: Objects, before: Objects | None, rss: int) -> ObjectTable:
    held = {(each.address, each.name): _whole(each) for each in before.types} if before else None
    shown = [_line(each, held, rss) for each in now.types[:SHOWN]]
    return ObjectTable(whose, "type", now.exact, shown, len(now.types), now.other_blocks, amount(now.other_bytes, rss))


def _whole(each: ObjectType) -> int:
    return each.bytes + each.owned


def _line(each: ObjectType, before: dict[tuple[str | None, str | None], int] | None, rss: int) -> TypeLine:
    # A type that another process has at this address is another type; one that is new had nothing.
    grown = change([before.get((each.address, each.name), 0), _whole(each)]) if before is not None else None
    return TypeLine(
        printable(each.name) if each.name else UNKNOWN,
        each.count,
        each.tracked,
        amount(_whole(each), rss),
        amount(each.owned),
        amount(each.in_malloc),
        grown,
    )


def _class_table(whose: str, now: Objects, before: Objects | None, rss: int) -> ObjectTable:
    classes, old = now.classes or (), before.classes if before else None
    held = {(each.address, each.title, each.type): each.bytes + each.owned for each in old} if old is not None else None
    shown = [
        TypeLine(
            f"{printable(each.title)} ({each.type})" if each.kind == "internal" else printable(each.title),
            each.count,
            each.not_marked,
            amount(each.bytes + each.owned, rss),
            amount(each.owned),
            amount(each.owned),
            change([held.get((each.address, each.title, each.type), 0), each.bytes + each.owned]) if held else None,
        )
        for each in classes[:SHOWN]
    ]
    return ObjectTable(whose, "class", now.exact, shown, len(classes), 0, amount(0, rss))
