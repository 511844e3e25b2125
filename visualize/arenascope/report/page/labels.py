# SPDX-License-Identifier: MIT
"""What tunables and states are called on the page, and what they mean; the rows are rows.py's."""

from __future__ import annotations

from typing import Final

TUNABLES: Final = {
    "trim_threshold": ("bytes", "free() gives the top of a heap back once it is larger than this"),
    "top_pad": ("bytes", "extra bytes at the top: requested with each extension of a heap, and kept by each trim"),
    "mmap_threshold": ("bytes", "blocks of at least this size get their own mapping"),
    "no_dyn_threshold": (
        "flag",
        "1: trim_threshold and mmap_threshold are fixed; 0: freeing a mmapped block raises them",
    ),
    "arena_max": ("count", "maximum number of arenas; 0: 8 for each processor"),
    "arena_test": ("count", "arenas that are made before the limit arena_max is checked"),
    "tcache_count": ("count", "maximum number of chunks of one size in a thread's cache"),
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
    "clone": "The process stood still for {pause} while a clone of it was made; the clone was read ({read} in all).",
    "live": "The process ran on while it was read ({read}): structures that changed meanwhile may be torn.",
    "in-process": "The agent inside the process read it, one arena at a time ({read}).",
    "core": "Read from a core file ({read}): the answer is of the poll at which the core was written.",
}
