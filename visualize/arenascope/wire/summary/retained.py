# SPDX-License-Identifier: MIT
"""Who holds the chunks in use. Part of the schema "arenascope.summary/1"."""

from typing import Annotated, NamedTuple, Optional

from arenascope.wire.graph_parts import Evidence, Owner, Several, Sum, TypeName
from arenascope.wire.json_types import Bounds, Unsigned


class Pinned(NamedTuple):
    """Pages with stranded bytes that only this keeps, and its part of those that others keep, too."""

    pages: Unsigned  # Pages on which all chunks in use are of this one.
    stranded: Unsigned  # Stranded bytes on these pages.
    part: Unsigned  # Its part of the stranded bytes of all other pages: each chunk in use on a page has an equal part.


class HeldType(NamedTuple):
    """The chunks in use of one type."""

    type: Optional[TypeName]
    evidence: Optional[Evidence]
    count: Unsigned  # type: ignore[assignment]
    bytes: Unsigned
    retained: Unsigned  # Bytes: with what only single chunks of the type hold.
    pinned: Pinned


class HeldBy(NamedTuple):
    """What would be free without one owner. Of kind "several": what no owner alone holds."""

    owner: Owner
    retained: Unsigned
    pinned: Pinned


class PinnedBy(NamedTuple):
    """The chunks of one type that one owner holds."""

    type: Optional[TypeName]
    evidence: Optional[Evidence]
    owner: Optional[Owner]
    count: Unsigned  # type: ignore[assignment]
    bytes: Unsigned
    pinned: Pinned


class HeldGraph(NamedTuple):
    """Who holds the chunks in use: what holds most."""

    exact: bool  # All was read, and of one instant.
    chunks: Unsigned
    bytes: Unsigned
    # What of these is no chunk of malloc's: the blocks in use of a Python's arenas, the slots in use of a Ruby's pages.
    objects: Sum
    # Likewise, anonymous mappings that the program made, and what of them is resident. null: a dump before 1.2.
    mappings: Optional[Sum]
    typed: Unsigned  # Bytes of chunks whose type has a name.
    reached: Unsigned  # Bytes that some owner leads to.
    unreached: Unsigned  # Bytes that no owner leads to: lost.
    direct: Sum  # Lost chunks to which nothing leads.
    indirect: Sum  # Lost chunks to which only lost chunks lead.
    suspects: Sum  # Chunks to which only one word of a stack leads. They are not lost.
    types: Annotated[tuple[HeldType, ...], Bounds(maxItems=10)]  # The types with most bytes, most first.
    # The owners that retain most, most first. Kind "several": what no owner alone retains.
    owners: Annotated[tuple[HeldBy, ...], Bounds(maxItems=10)]
    several: Several  # What no owner retains alone.
    # The types and owners that have the largest parts of the stranded bytes (stranded and part), largest first.
    pins: Annotated[tuple[PinnedBy, ...], Bounds(maxItems=10)]
