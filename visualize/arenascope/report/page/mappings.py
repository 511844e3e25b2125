# SPDX-License-Identifier: MIT
"""The page's tables of what is not malloc's: by name, and anonymous memory mapping by mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.coverage import total
from arenascope.humanize import printable
from arenascope.report.amounts import Amount, amount

if TYPE_CHECKING:
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
    """An anonymous mapping, or several that are not listed one by one."""

    address: str  # or what they are
    left: Amount  # resident, and neither malloc's nor a runtime's
    size: Amount | None = None
    protection: str = ""
    name: str = ""
    may_be: str = ""
    evidence: str = ""


def anonymous(facts: Facts) -> list[MappingLine]:
    """The largest anonymous mappings, and what else the row has."""
    memory = facts.summary.mappings.anonymous
    lines = [_line(mapping, facts.whole) for mapping in memory.largest]
    if memory.rest.count:
        lines.append(MappingLine(f"{memory.rest.count:,} more", amount(memory.rest.bytes, facts.whole)))
    return lines


def _line(mapping: AnonymousMapping, whole: int) -> MappingLine:
    return MappingLine(
        mapping.address or "",
        amount(mapping.bytes, whole),
        amount(mapping.size),
        mapping.protection,
        printable(mapping.name or ""),
        printable(mapping.may_be or ""),
        printable(mapping.evidence or ""),
    )
