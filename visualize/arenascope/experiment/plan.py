# SPDX-License-Identifier: MIT
"""In which order the runs are made: blocks, each with every configuration once, in a random order that a seed decides.

So whatever changes about the machine with time falls on all configurations alike.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Planned(NamedTuple):
    """One run to be made."""

    number: int
    block: int
    configuration: str
    warmup: bool  # of the first blocks, whose numbers are kept apart

    @property
    def folder(self) -> str:
        """Its directory's name among the results."""
        return f"{self.number:04}-{self.configuration}"


def plan(configurations: Sequence[str], baseline: str, repeats: int, warmup: int, seed: int) -> list[Planned]:
    """All runs, in their order. Warm-ups, which count for nothing, begin with the baseline: does it work at all?"""
    order = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    made: list[Planned] = []
    for block in range(warmup + repeats):
        names = list(configurations)
        order.shuffle(names)
        if block < warmup:
            names.sort(key=lambda name: name != baseline)
        made += [Planned(len(made) + index, block, name, block < warmup) for index, name in enumerate(names)]
    return made
