# SPDX-License-Identifier: MIT
"""Who allocated the chunks that keep stranded bytes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from arenascope.humanize import short_name
from arenascope.profiles.stack_titles import caller_and_callee

if TYPE_CHECKING:
    from arenascope.wire.profile_json import ReadProfile


def stranded_by_site(read: ReadProfile | None) -> list[tuple[str, int]]:
    """The stranded bytes of who called and what was called to allocate, most first.

    Empty where they are no counts: each chunk on a page must have been recorded, or be known as not recorded.
    """
    from arenascope.wire.profile_json import profile_of  # noqa: PLC0415 - most summaries have no profile

    sums: Counter[str] = Counter()
    if read and read.every_page:
        for site, stack in zip(read.sites, profile_of(read).sites):
            title = " → ".join(map(short_name, caller_and_callee(stack.names()))) or "an unknown function"
            sums[title] += site.pinned.stranded or 0
    return [(title, bytes_) for title, bytes_ in sums.most_common() if bytes_]
