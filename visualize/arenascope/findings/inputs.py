# SPDX-License-Identifier: MIT
"""A summary, with the questions that evidence and next steps ask."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from arenascope.coverage import total, whole_of
from arenascope.findings.parts import Telling, WholeBytes
from arenascope.trim_commands import living_pid

if TYPE_CHECKING:
    from collections.abc import Callable

    from arenascope.wire.profile_json import ReadProfile
    from arenascope.wire.summary import Summary
    from arenascope.wire.summary.heaps import Arena
    from arenascope.wire.summary.mappings import AnonymousMapping

ANONYMOUS: Final = "anonymous memory"
LARGE: Final = 0.25  # of a row, or of a heap: what a part has that is named
NOTABLE: Final = 0.1  # of all pins, or of all chunks: a size that has less is not named
NAMED: Final = 3  # arenas, mappings and the like that a sentence names


class Facts:
    """What evidence may know."""

    def __init__(
        self, summary: Summary, *, steps: bool = True, profile: Callable[[], ReadProfile | None] = lambda: None
    ) -> None:
        """Takes the summary of one snapshot. Without `steps`, no next step is searched for.

        `profile`: reads the snapshot's profile, which takes time, when it is asked for. None: it has none.
        """
        self.summary: Final = summary
        self.profile: Final = profile
        # The process that next steps ask. None: nobody is asked, or it is no more.
        self.pid: Final = living_pid(summary.target) if steps else None
        self.telling: Final = Telling()

    def row(self, name: str) -> int | None:
        """A row of the ledger, of the whole process."""
        return self.summary.ledger[name]

    @cached_property
    def whole(self) -> int:
        """What shares are of: Rss, or the rows that are known where Rss is not."""
        return whole_of(self.summary).bytes

    def tell(self, held: int | None, whole: WholeBytes | None = None) -> str:
        """Bytes in words. Without a whole they are a part of Rss, as far as this is known."""
        return self.telling.tell(held, whole or WholeBytes(self.whole or None))

    def tell_apart(self, held: int | None) -> str:
        """Bytes in words that are no part of what the sentence is about: a limit, or what is not resident."""
        return self.telling.tell(held, None)

    @cached_property
    def allocated(self) -> WholeBytes:
        """Chunks in use, resident or not. Chunks' sizes, types and owners are parts of it, and of no resident bytes."""
        chunks = self.summary.chunks
        return WholeBytes(total(tally.bytes for tally in (chunks.in_use, chunks.mmapped)), "allocated")

    @cached_property
    def in_chunks(self) -> WholeBytes:
        """What the graph has without mappings: chunks in use, and a runtime's objects. Types are parts of it."""
        graph = self.summary.graph
        objects = ", with the objects of the runtime" if graph and graph.objects.count else ""
        return WholeBytes(graph.bytes - self._mapped if graph else None, f"allocated{objects}")

    @cached_property
    def in_graph(self) -> WholeBytes:
        """All that the graph has, with what is resident of mappings that the program made. Owners hold parts of it."""
        graph = self.summary.graph
        mapped = f", with {self.tell_apart(self._mapped)} mapped" if self._mapped else ""
        return WholeBytes(graph.bytes if graph else None, f"{self.in_chunks.kind}{mapped}")

    @property
    def _mapped(self) -> int:
        graph = self.summary.graph
        return graph.mappings.bytes if graph and graph.mappings else 0

    def matters(self, held: int | None) -> bool:
        """Whether so many bytes are worth a sentence."""
        return held is not None and held >= self.summary.verdict.least

    @property
    def idle_arenas(self) -> list[Arena]:
        """Those that no thread allocates from; then those that hold next to nothing but free memory."""
        idle = [arena for arena in self.summary.arenas if arena.idle]
        return sorted(idle, key=lambda arena: arena.idle != "no_thread")

    @cached_property
    def not_mallocs(self) -> list[tuple[str, int]]:
        """What is resident in mappings, and neither malloc's nor a runtime's nor a stack: by name, largest first."""
        anonymous, files = self.summary.mappings.anonymous, self.summary.mappings.files
        held = [(file.title, file.bytes) for file in files.largest]
        held.append((ANONYMOUS, total([*(mapping.bytes for mapping in anonymous.largest), anonymous.rest.bytes])))
        return sorted(((name, left) for name, left in held if left), key=lambda each: -each[1])

    @cached_property
    def large_mappings(self) -> list[AnonymousMapping]:
        """The anonymous mappings of which so much is not malloc's that it matters, largest first."""
        return [mapping for mapping in self.summary.mappings.anonymous.largest if self.matters(mapping.bytes)]
