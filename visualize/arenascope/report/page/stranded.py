# SPDX-License-Identifier: MIT
"""How full the pages are that have stranded bytes, and which sizes stand on them together, for page and terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from arenascope.coverage import total
from arenascope.report.amounts import Amount, amount
from arenascope.stranded_classes import by_chunks, by_share

if TYPE_CHECKING:
    from arenascope.report.page.inputs import PageFacts
    from arenascope.stranded_classes import Class


class FillLine(NamedTuple):
    """Pages of one class."""

    title: str
    pages: int | None
    in_use: Amount
    stranded: Amount
    width: float  # of its bar, in per cent of the longest


class SharerLine(NamedTuple):
    """Chunks of one size."""

    size: int | None
    places: int | None
    stranded: Amount


class StrandedTables(NamedTuple):
    """All that the page says of these pages."""

    by_chunks: list[FillLine]
    by_share: list[FillLine]
    shared: list[SharerLine]
    shared_bytes: Amount  # stranded bytes of pages with several chunks in use


def tables(facts: PageFacts) -> StrandedTables | None:
    """None where nothing is stranded, or it is not known."""
    stranded = facts.summary.stranded_pages
    if stranded is None or not total(each.stranded for each in stranded.by_chunks):
        return None
    several = total(each.stranded for each in stranded.by_chunks if each.chunks_from > 1)
    return StrandedTables(
        _lines(by_chunks(stranded)),
        _lines(by_share(stranded)),
        [SharerLine(each.chunk_size, each.places, amount(each.stranded, several or 0)) for each in stranded.shared],
        amount(several),
    )


def _lines(classes: list[Class]) -> list[FillLine]:
    whole = total(each.stranded for each in classes) or 0
    longest = max((each.stranded or 0 for each in classes), default=0) or 1
    return [
        FillLine(
            each.title,
            each.pages,
            amount(each.in_use),
            amount(each.stranded, whole),
            100 * (each.stranded or 0) / longest,
        )
        for each in classes
    ]
