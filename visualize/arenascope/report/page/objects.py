# SPDX-License-Identifier: MIT
"""The page's table of a runtime's objects by type: of one snapshot, or with the difference from the snapshot before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.humanize import UNKNOWN, printable
from arenascope.report.amounts import Amount, Change, amount
from arenascope.report.page.compare import change_in, grown_by
from arenascope.wire.summary import objects_by_type

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from arenascope.compare import Comparison
    from arenascope.findings.inputs import Facts
    from arenascope.wire.summary.runtimes import ObjectClass, Objects

    Grown = Mapping[Hashable, int | None] | None

SHOWN: Final = 200  # types


class TypeLine(NamedTuple):
    """The objects of one type."""

    name: str
    objects: int
    tracked: int | None  # by the collector; of a class: those made since the last GC
    whole: Amount  # the objects, and what only they point to
    owned: Amount  # of it, what they point to
    in_malloc: Amount  # of it, what is in chunks of malloc
    change: Change | None  # of the whole, since the snapshot before


class ObjectTable(NamedTuple):
    """All of one runtime's."""

    whose: str  # "Python's"
    by: str  # "type" or "class"
    exact: bool
    searched: bool  # what they own was; not where another malloc has it
    lines: list[TypeLine]
    types: int  # how many there are, those not shown included
    other_blocks: int
    other: Amount


def tables(now: Facts, comparison: Comparison | None = None) -> list[ObjectTable]:
    """The objects of the last snapshot, as far as they were counted, with the difference from the snapshot before."""
    types, classes = (
        grown_by(lines) for lines in ((comparison.objects, comparison.classes) if comparison else (None, None))
    )
    made = []
    for whose, objects in objects_by_type(now.summary):
        made.append(_table(whose, objects, types, now.whole))
        if objects.classes:
            made.append(_class_table(whose, objects, objects.classes, classes, now.whole))
    return made


def _table(whose: str, now: Objects, grown: Grown, rss: int) -> ObjectTable:
    named = Counter(each.name for each in now.types)
    shown = [
        TypeLine(
            printable(each.name) if each.name else UNKNOWN,
            each.count,
            each.tracked,
            amount(each.held, rss),
            amount(each.owned),
            amount(each.in_malloc),
            _change(grown, (whose, each.name), named[each.name]),
        )
        for each in now.types[:SHOWN]
    ]
    return ObjectTable(
        whose, "type", now.exact, _searched(now), shown, len(now.types), now.other_blocks, amount(now.other_bytes, rss)
    )


def _searched(now: Objects) -> bool:
    return all(each.owned is not None for each in now.types)


def _change(grown: Grown, key: Hashable, same: int) -> Change | None:
    """Nobody knows which of several things of one name was which: their sum is among what grew."""
    return change_in(grown, key) if same == 1 or grown is None else Change(None, "")


def _class_table(whose: str, now: Objects, classes: Sequence[ObjectClass], grown: Grown, rss: int) -> ObjectTable:
    named = Counter((each.title, each.type) for each in classes)
    shown = [
        TypeLine(
            f"{printable(each.title)} ({each.type})" if each.kind == "internal" else printable(each.title),
            each.count,
            each.not_marked,
            amount(each.held, rss),
            amount(each.owned),
            amount(each.owned),
            _change(grown, (each.title, each.type), named[each.title, each.type]),
        )
        for each in classes[:SHOWN]
    ]
    return ObjectTable(whose, "class", now.exact, _searched(now), shown, len(classes), 0, amount(0, rss))
