# SPDX-License-Identifier: MIT
"""The page's tables of what is not malloc's: by name, and anonymous memory mapping by mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.coverage import total
from arenascope.humanize import printable
from arenascope.report.amounts import Amount, amount

if TYPE_CHECKING:
    from collections.abc import Hashable

    from arenascope.findings import Facts
    from arenascope.wire.summary.mappings import AnonymousMapping

SHOWN: Final = 12  # names


def by_name(facts: Facts) -> list[tuple[str, Amount]]:
    """Each name with what is resident of it, largest first; the last may be all others together."""
    named = facts.not_mallocs
    lines = [(printable(name), amount(left, facts.whole)) for name, left in named[:SHOWN]]
    others = total([*(left for _, left in named[SHOWN:]), facts.summary.mappings.files.rest.bytes])
    if others != 0:
        lines.append(("all others", amount(others, facts.whole)))
    return lines


class MappingLine(NamedTuple):
    """An anonymous mapping, or several: that are alike, or that are not listed one by one."""

    address: str  # or how many they are
    left: Amount  # resident, and neither malloc's nor a runtime's
    size: Amount | None = None
    protection: str = ""
    name: str = ""
    may_be: str = ""
    evidence: str = ""
    alike: int = 1  # so many mappings


def anonymous(facts: Facts) -> list[MappingLine]:
    """The largest anonymous mappings, and what else the row has."""
    memory = facts.summary.mappings.anonymous
    alike: dict[Hashable, list[AnonymousMapping]] = {}
    for mapping in memory.largest:
        alike.setdefault(
            mapping._replace(address=None, bytes=None, resident=None) if mapping.may_be else mapping, []
        ).append(mapping)
    lines = [_line(mappings, facts.whole) for mappings in alike.values()]
    if memory.rest.count:
        lines.append(MappingLine(f"{memory.rest.count:,} more", amount(memory.rest.bytes, facts.whole)))
    return lines


def _line(mappings: list[AnonymousMapping], whole: int) -> MappingLine:
    """`mappings`: one, or several that differ in their address and in what is resident alone."""
    mapping = mappings[0]
    return MappingLine(
        mapping.address or "",
        amount(total(each.bytes for each in mappings), whole),
        amount(total(each.size for each in mappings)),
        mapping.protection,
        printable(mapping.name or ""),
        printable(mapping.may_be or ""),
        printable(mapping.evidence or ""),
        len(mappings),
    )
