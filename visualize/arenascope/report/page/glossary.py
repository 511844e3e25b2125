# SPDX-License-Identifier: MIT
"""The project's own words, for the page, which links to nothing. docs/glossary.md has the same sentences."""

from __future__ import annotations

from typing import Final

GLOSSARY: Final = {
    "ledger": "The table that puts every resident byte of a process into exactly one row. The rows add up to the "
    "kernel's Rss of the process.",
    "cached": "Freed by the application and kept in a tcache or a fastbin, where only the next allocation of that size "
    "finds it.",
    "releasable": "Whole free pages, resident, that one malloc_trim(0) returns to the kernel. malloc keeps them "
    "for later allocations.",
    "withheld": "Whole free pages, resident, that malloc_trim(0) never returns: above all the tops of thread arenas. A "
    "deep trim returns them.",
    "stranded": "Free memory on a page that something else keeps resident: a chunk in use, a cached chunk, or malloc's "
    "own headers. No trim returns it.",
    "pin": "A chunk in use that keeps a page resident although everything else on the page is free. Freeing the pins "
    "makes stranded memory releasable.",
}
