# SPDX-License-Identifier: MIT
"""The heaps of runtimes, and their objects. Part of the schema "arenascope.summary/1"."""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import NamedTuple, Optional


class Slots(NamedTuple):
    """Pages of Ruby's own heap with slots of one size."""

    slot_size: int
    pages: int
    slots: int
    free_slots: int


class ObjectType(NamedTuple):
    """A runtime's objects of one type. Bytes are those of whole blocks and chunks."""

    name: Optional[str]
    address: Optional[str]
    count: int  # type: ignore[assignment]
    tracked: int
    bytes: int
    owned: int
    in_malloc: int


class ObjectClass(NamedTuple):
    """A Ruby's objects of one class that have one type."""

    name: Optional[str]
    kind: Optional[str]
    type: Optional[str]
    address: Optional[str]
    count: int  # type: ignore[assignment]
    bytes: int
    owned: int
    not_marked: Optional[int]
    not_marked_bytes: Optional[int]

    @property
    def title(self) -> str:
        """What to call it."""
        without = {
            "anonymous": "(class without a name)",
            "singleton": "(singleton classes)",
            "internal": "(Ruby's own)",
        }
        return self.name or without.get(self.kind or "", "(unknown)")


class Objects(NamedTuple):
    """A runtime's objects by type, largest first, and what is in blocks that no object owns; a Ruby's by class, too."""

    exact: bool
    other_blocks: int
    other_bytes: int
    types: tuple[ObjectType, ...]
    not_marked: Optional[int]
    not_marked_bytes: Optional[int]
    classes: Optional[tuple[ObjectClass, ...]]


class Ruby(NamedTuple):
    """Ruby's own heap."""

    releases: Optional[str]
    pages: int
    slots: int
    free_slots: int
    slot_sizes: tuple[Slots, ...]
    objects: Optional[Objects]


class SizeClass(NamedTuple):
    """The blocks of one size that a runtime has."""

    size: int
    pools: int
    in_use: int
    free: int


class Space(NamedTuple):
    """A part of a runtime's heap, as the runtime counts it."""

    name: Optional[str]
    used: Optional[int]
    committed: Optional[int]


class Runtime(NamedTuple):
    """A part of a runtime's own memory, but Ruby's. Bytes are None where it was not found, or does not tell them."""

    runtime: Optional[str]
    part: Optional[str]
    releases: Optional[str]
    row: Optional[str]
    found: bool
    evidence: Optional[str]
    region_size: Optional[int]
    pool_size: Optional[int]
    regions: Optional[int]
    size: Optional[int]
    resident: Optional[int]
    used: Optional[int]
    committed: Optional[int]
    in_use: Optional[int]
    free: Optional[int]
    empty: Optional[int]
    empty_resident: Optional[int]
    size_classes: tuple[SizeClass, ...]
    spaces: tuple[Space, ...]
    objects: Optional[Objects]
