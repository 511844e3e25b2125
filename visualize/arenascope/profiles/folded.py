# SPDX-License-Identifier: MIT
"""Folded stacks: "main;read_config;strdup 4096", outermost function first, as tools for flame graphs read them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from arenascope.humanize import printable

if TYPE_CHECKING:
    from arenascope.wire.profile import Profile


def folded(profile: Profile, measure: str) -> str:
    r"""A line for each stack of which the measure is not 0; in names `;` becomes `:`, and white space one space.

    What else is not printable comes out as `\xNN` or `\u{NNNN}`, in a file as in a terminal: names are the target's.
    """
    lines: Counter[str] = Counter()
    for site in profile.sites:
        names = [
            printable(" ".join(name.replace(";", ":").split())) for frame in site.outwards() for name in frame.names()
        ]
        lines[";".join(reversed(names))] += site.values.get(measure, 0)
    return "".join(f"{stack} {value}\n" for stack, value in sorted(lines.items()) if value)
