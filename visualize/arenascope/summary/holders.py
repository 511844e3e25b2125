# SPDX-License-Identifier: MIT
"""Who holds the chunks in use. Part of the schema "arenascope.summary/1"."""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from dataclasses import dataclass
from typing import Optional

from arenascope.graph import Owner, Several, Sum


@dataclass(frozen=True)
class Kept:
    """Pages with stranded bytes that only this keeps, and its part of those that others keep, too."""

    pages: int
    stranded: int
    part: int


@dataclass(frozen=True)
class HeldType:
    """The chunks in use of one type."""

    type: Optional[str]
    evidence: Optional[str]
    count: int
    bytes: int
    retained: int
    kept: Kept


@dataclass(frozen=True)
class HeldBy:
    """What would be free without one owner. Of kind "several": what no owner alone holds."""

    owner: Owner
    retained: int
    kept: Kept


@dataclass(frozen=True)
class Keeper:
    """The chunks of one type that one owner holds."""

    type: Optional[str]
    owner: Optional[Owner]
    count: int
    bytes: int
    kept: Kept


@dataclass(frozen=True)
class HeldGraph:
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
    keepers: tuple[Keeper, ...]
