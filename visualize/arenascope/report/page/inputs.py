# SPDX-License-Identifier: MIT
"""What the page inspects: the rules' facts, and the dump, of which it draws the map."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from arenascope import findings
from arenascope.compare import digest_of
from arenascope.wire import dump_records as fmt
from arenascope.wire.summary import summarize

if TYPE_CHECKING:
    from arenascope.compare import Digest
    from arenascope.wire.dump import Dump
    from arenascope.wire.profile_json import ReadProfile
    from arenascope.wire.summary.heaps import Arena


class PageFacts(findings.Facts):
    """One dump."""

    def __init__(self, dump: Dump, *, from_dump: bool = True, profile: ReadProfile | None = None) -> None:
        """`from_dump`: as summarize() has it. `profile`: the dump's."""
        super().__init__(summarize(dump, from_dump=from_dump), profile=lambda: profile)
        self.dump: Final = dump

    @cached_property
    def arena_names(self) -> dict[int, str]:
        """What each arena is called, by address."""
        return {address_of(arena): arena.name for arena in self.summary.arenas}

    @cached_property
    def digest(self) -> Digest:
        """What can be compared with another snapshot."""
        return digest_of(self.dump, self.summary)


def address_of(arena: Arena) -> int:
    """An arena's address as the dump has it."""
    return fmt.UNKNOWN if arena.address is None else int(arena.address, 16)
