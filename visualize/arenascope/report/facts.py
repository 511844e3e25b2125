# SPDX-License-Identifier: MIT
"""What the rules look at: the summary's numbers, and the few that only the whole dump has."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from arenascope import format as fmt
from arenascope.report.rules import MIB, SHARE, gdb_command
from arenascope.summary import number, summarize

if TYPE_CHECKING:
    from arenascope.dump import Dump

Json = dict[str, Any]
ANONYMOUS: Final = "anonymous memory"


class Facts:
    """One dump, with the questions that rules ask."""

    def __init__(self, dump: Dump, *, from_dump: bool = True) -> None:
        """`from_dump`: as summarize() has it."""
        self.dump: Final = dump
        self.summary: Final[Json] = summarize(dump, from_dump=from_dump)

    def row(self, name: str) -> int | None:
        """A row of the ledger, of the whole process."""
        held: int | None = self.summary["ledger"][name]
        return held

    @cached_property
    def whole(self) -> int:
        """What shares are of: Rss, or the rows that are known where Rss is not."""
        rss: int | None = self.summary["kernel"]["rss"]
        return rss if rss is not None else sum(held for held in self.summary["ledger"].values() if held)

    def matters(self, held: int | None) -> bool:
        """Whether so many bytes are worth a sentence."""
        return held is not None and held >= MIB and held >= SHARE * self.whole

    def gdb(self, call: str) -> str | None:
        """The command that has the process do something; None when it is no living process."""
        target = self.summary["target"]
        if "process" not in {target["kind"], target["dump_of"]} or not target["pid"]:
            return None
        return gdb_command(target["pid"], call)

    @cached_property
    def mmapped(self) -> tuple[int, int]:
        """How many blocks have a mapping of their own, and the size of the largest."""
        heaps = self.dump.heaps
        own = heaps[heaps["kind"] == fmt.HeapKind.MMAPPED]
        sizes = own["end"] - own["start"]
        return len(own), int(sizes.max(initial=0))

    @cached_property
    def mappings(self) -> list[tuple[str, int]]:
        """What is resident and not malloc's, by name, largest first."""
        held: Counter[str] = Counter()
        for mapping in self.dump.mappings:
            rss, mallocs = number(mapping["rss"]), number(mapping["malloc_rss"])
            if rss is not None and mallocs is not None and rss > mallocs:
                held[self.dump.string(mapping["path"]) or ANONYMOUS] += rss - mallocs
        return held.most_common()

    @cached_property
    def largest_in_use(self) -> tuple[int, int, int] | None:
        """The chunk size whose chunks in use hold the most bytes, how many they are, and their bytes."""
        sizes = self.dump.sizes
        known = sizes[(sizes["in_use"] != 0) & (sizes["in_use"] != fmt.UNKNOWN) & (sizes["chunk_size"] != fmt.UNKNOWN)]
        if not len(known):
            return None
        held = known["in_use"].astype(np.float64) * known["chunk_size"]
        top = known[int(np.argmax(held))]
        each, many = int(top["chunk_size"]), int(top["in_use"])
        return each, many, each * many
