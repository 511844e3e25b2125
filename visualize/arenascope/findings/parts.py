# SPDX-License-Identifier: MIT
"""The bytes that a finding's words name, each with what it is a part of: no part is larger than its whole."""

from __future__ import annotations

from typing import NamedTuple

from arenascope.humanize import size


class WholeBytes(NamedTuple):
    """Bytes of one kind, of which others are a part."""

    bytes: int | None
    kind: str = ""  # a word for it in sentences, where these are no resident bytes: "allocated"

    @property
    def words(self) -> str:
        """The whole, behind a part: " of 147.9 MiB allocated". Empty: it is not known."""
        return "" if self.bytes is None else f" of {size(self.bytes)} {self.kind}".rstrip()


class PartBytes(NamedTuple):
    """A number in a finding's words."""

    bytes: int
    whole: WholeBytes | None  # None: it is no part of anything that the words are about


class Telling:
    """Puts numbers into words, and keeps them until the finding is made."""

    def __init__(self) -> None:
        """Nothing has been told."""
        self._parts: list[PartBytes] = []

    def tell(self, held: int | None, whole: WholeBytes | None) -> str:
        """Bytes in words."""
        if held is not None:
            self._parts.append(PartBytes(held, whole))
        return size(held)

    def take(self) -> tuple[PartBytes, ...]:
        """What was told since the last call."""
        taken, self._parts = tuple(self._parts), []
        return taken
