# SPDX-License-Identifier: MIT
"""What rows, tunables and states are called on the page, and what they mean."""

from __future__ import annotations

from typing import Final, NamedTuple

from arenascope.rows import ROWS as WORDS


class Row(NamedTuple):
    """A row of the ledger, as the page shows it."""

    name: str
    colour: str  # class of its colour in the style sheet
    plural: str = ""  # what to call such memory in a sentence, where one does

    @property
    def title(self) -> str:
        """Its name."""
        return WORDS[self.name].title

    @property
    def on_map(self) -> bool:
        """Whether it is malloc's: the map shows malloc's heaps."""
        return self.name not in {"stacks", "ruby_pages"} and not self.name.startswith("other_")


ROWS: Final = (  # in the order of the bar
    Row("in_use", "used"),
    Row("mmapped_in_use", "mmapped"),
    Row("mmapped_slack", "slack"),
    Row("tcache", "cached"),
    Row("fastbin", "fastbin"),
    Row("stranded", "stranded"),
    Row("releasable", "releasable"),
    Row("withheld", "withheld"),
    Row("metadata", "metadata"),
    Row("other_file", "file", "files"),
    Row("other_anon", "anon", "anonymous memory"),
    Row("other_shmem", "shmem", "shared memory"),
    Row("stacks", "stacks", "stacks"),
    Row("ruby_pages", "ruby", "Ruby's own pages"),
    Row("unknown", "unknown"),
)

ABSENT: Final = {
    "returned": ("returned", "free, and back with the kernel; mallinfo still counts it as held"),
    "untouched": ("never touched", "in use or top, and never written"),
    "swapped_in_use": ("swapped, in use", "the application holds it, in swap"),
    "swapped_free": ("swapped, free", "free, and in swap nevertheless"),
    "hugetlb": ("hugetlb", "malloc's, on hugetlb pages, which the kernel counts apart from Rss"),
}

TUNABLES: Final = {
    "trim_threshold": ("bytes", "free() gives the top of a heap back once it is larger than this"),
    "top_pad": ("bytes", "what is asked for, or left at the top, beyond what is needed"),
    "mmap_threshold": ("bytes", "blocks from this size on get a mapping of their own"),
    "no_dyn_threshold": (
        "flag",
        "1: the two thresholds above stay as they are set; 0: freeing a mmapped block raises them",
    ),
    "arena_max": ("count", "most arenas; 0: 8 for each processor"),
    "arena_test": ("count", "arenas that are made before that limit is looked at"),
    "tcache_count": ("count", "most chunks of one size in a thread's cache"),
    "tcache_max_bytes": ("bytes", "largest chunk that a thread caches"),
    "thp_pagesize": ("bytes", "size of transparent huge pages that malloc asks for; 0: none"),
    "hp_pagesize": ("bytes", "size of huge pages that malloc maps; 0: none"),
}

LAYOUTS: Final = {
    "dwarf": "from libc's debug information",
    "symtab": "from libc's symbols",
    "relocation": "from libc's relocation table",
    "decode": "from the machine code of malloc_trim",
    "scan": "by scanning libc's writable memory",
}

MODES: Final = {
    "freeze": "The process stood still for {pause} while it was read ({read} in all).",
    "snapshot": "The process stood still for {pause}, and cloned itself; the clone was read ({read} in all).",
    "live": "The process ran on while it was read ({read}): what changed meanwhile may be torn.",
    "in-process": "The process looked at itself, one arena at a time ({read}).",
    "core": "Read from a core file ({read}): the moment is the one of the core.",
}
