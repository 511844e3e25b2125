# SPDX-License-Identifier: MIT
"""What rows, tunables and states are called on the page, and what they mean."""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """A row of the ledger."""

    name: str
    title: str
    meaning: str
    remedy: str
    colour: str  # class of its colour in the style sheet

    @property
    def on_map(self) -> bool:
        """Whether it is malloc's: the map shows malloc's heaps."""
        return self.name != "stacks" and not self.name.startswith("other_")


ROWS: Final = (
    Row("in_use", "in use", "chunks that the application holds", "the application, by freeing it", "used"),
    Row(
        "mmapped_in_use",
        "mmapped, in use",
        "large blocks with a mapping of their own",
        "free() of such a block",
        "mmapped",
    ),
    Row("mmapped_slack", "mmapped, slack", "what those mappings waste on whole pages", "the same", "slack"),
    Row("tcache", "tcache", "freed, parked in threads' caches", "the end of that thread", "cached"),
    Row(
        "fastbin",
        "fastbin",
        "freed, parked in arenas' fast lists, beside something in use",
        "freeing what is beside it",
        "fastbin",
    ),
    Row("stranded", "stranded", "free, on pages that something else keeps", "freeing the pins beside it", "stranded"),
    Row("releasable", "releasable", "whole free pages", "malloc_trim(0)", "releasable"),
    Row("withheld", "withheld", "whole free pages that malloc_trim(0) never reaches", "a deep trim only", "withheld"),
    Row("metadata", "metadata", "malloc's own headers", "nothing", "metadata"),
    Row("other_file", "files", "not malloc's: program, libraries, mapped data", "whoever mapped it", "file"),
    Row("other_anon", "other anonymous", "not malloc's: own mmap, GC heaps, JIT code", "whoever mapped it", "anon"),
    Row("other_shmem", "shared memory", "not malloc's: tmpfs, memfd, shared anonymous", "whoever mapped it", "shmem"),
    Row("stacks", "stacks", "of threads", "the end of those threads", "stacks"),
    Row("unknown", "unknown", "could not be told apart", "", "unknown"),
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
