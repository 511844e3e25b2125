# SPDX-License-Identifier: MIT
"""The classes of pages that have stranded bytes, with a title for each: what page and terminal show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from arenascope.wire.summary.heaps import StrandedPages

CHUNKS: Final = {0: "none in use", 1: "1 chunk", 2: "2 chunks", 3: "3 or 4", 5: "5 to 8", 9: "9 or more"}
EIGHTHS: Final = 8


class Class(NamedTuple):
    """Pages that are alike."""

    title: str
    pages: int | None
    in_use: int | None  # bytes on them
    stranded: int | None  # likewise


def by_chunks(pages: StrandedPages) -> list[Class]:
    """By the number of chunks in use on a page; classes without a page are left out."""
    return [
        Class(CHUNKS.get(each.chunks_from, str(each.chunks_from)), each.pages, each.in_use, each.stranded)
        for each in pages.by_chunks
        if each.pages != 0
    ]


def by_share(pages: StrandedPages) -> list[Class]:
    """By the part of a page that is in use; classes without a page are left out."""
    return [
        Class(_per_cent(each.eighths_from), each.pages, each.in_use, each.stranded)
        for each in pages.by_share
        if each.pages != 0
    ]


def _per_cent(eighths: int) -> str:
    low, high = (f"{100 * at / EIGHTHS:.3g}" for at in (eighths, eighths + 1))
    return f"{low} to {high} %"
