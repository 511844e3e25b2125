# SPDX-License-Identifier: MIT
"""Who holds the chunks in use. Part of the schema "arenascope.summary/1"."""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import NamedTuple, Optional

from arenascope.wire.graph import Owner, Several, Sum


class Pinned(NamedTuple):
    """Pages with stranded bytes that only this keeps, and its part of those that others keep, too."""

    pages: int
    stranded: int
    part: int


class HeldType(NamedTuple):
    """The chunks in use of one type."""

    type: Optional[str]
    evidence: Optional[str]
    count: int  # type: ignore[assignment]
    bytes: int
    retained: int
    pinned: Pinned


class HeldBy(NamedTuple):
    """What would be free without one owner. Of kind "several": what no owner alone holds."""

    owner: Owner
    retained: int
    pinned: Pinned


class PinnedBy(NamedTuple):
    """The chunks of one type that one owner holds."""

    type: Optional[str]
    owner: Optional[Owner]
    count: int  # type: ignore[assignment]
    bytes: int
    pinned: Pinned


class HeldGraph(NamedTuple):
    """Who holds the chunks in use: what holds most."""

    exact: bool
    chunks: int
    bytes: int
    objects: Sum  # of these, what is no chunk of malloc's
    typed: int
    reached: int
    unreached: int
    direct: Sum
    indirect: Sum
    suspects: Sum
    types: tuple[HeldType, ...]
    owners: tuple[HeldBy, ...]
    several: Several
    pins: tuple[PinnedBy, ...]
