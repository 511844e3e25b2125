# SPDX-License-Identifier: MIT
"""Mappings that are not malloc's. Part of the schema "arenascope.summary/1"."""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import Final, NamedTuple, Optional

from arenascope.wire.summary.heaps import Tally

ANONYMOUS_SHARED: Final = "anonymous shared memory"


class AnonymousMapping(NamedTuple):
    """Anonymous memory, but for what of it is malloc's or in a runtime's row."""

    address: Optional[str]
    size: int
    resident: Optional[int]
    bytes: Optional[int]
    row: str
    protection: str
    name: Optional[str]
    may_be: Optional[str]
    evidence: Optional[str]


class AnonymousMemory(NamedTuple):
    """The largest anonymous mappings, and the sum of the others."""

    largest: tuple[AnonymousMapping, ...]
    rest: Tally
    copies_of_files: Optional[int]


class MappedFile(NamedTuple):
    """All mappings of a file, or of shared memory of one name, but for what of them is malloc's."""

    name: Optional[str]
    row: str
    count: int  # type: ignore[assignment]
    bytes: Optional[int]

    @property
    def title(self) -> str:
        """What to call it: the kernel names shared anonymous memory after a file that was never there."""
        return ANONYMOUS_SHARED if self.name in {None, "/dev/zero (deleted)"} else str(self.name)


class MappedFiles(NamedTuple):
    """The largest by name, and the sum of the others."""

    largest: tuple[MappedFile, ...]
    rest: Tally


class Mappings(NamedTuple):
    """What is resident besides malloc's memory, the runtimes' heaps and stacks."""

    anonymous: AnonymousMemory
    files: MappedFiles
