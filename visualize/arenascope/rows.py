# SPDX-License-Identifier: MIT
"""What the rows of the ledger are called and mean, in the words of the C program's table."""

from __future__ import annotations

from typing import Final, NamedTuple


class Words(NamedTuple):
    """A row's title, and what is in it."""

    title: str
    meaning: str


ROWS: Final = {
    "in_use": Words("in use", "the application holds it"),
    "mmapped_in_use": Words("mmapped, in use", "likewise, in mappings of its own"),
    "mmapped_slack": Words("mmapped, slack", "rounding of those to pages"),
    "tcache": Words("tcache", "freed, kept in threads' caches"),
    "fastbin": Words("fastbin", "freed, kept in fastbins"),
    "releasable": Words("releasable", "free: malloc_trim(0) returns it"),
    "withheld": Words("withheld", "free: only a deep trim returns it"),
    "stranded": Words("stranded", "free, on pages that are pinned"),
    "metadata": Words("metadata", "malloc's own headers"),
    "other_file": Words("files", "not malloc's: program, libraries"),
    "other_anon": Words("other anonymous", "not malloc's: own mmap, GC, JIT"),
    "other_shmem": Words("shared memory", "not malloc's"),
    "stacks": Words("stacks", "of threads"),
    "ruby_pages": Words("Ruby's pages", "its objects, and free slots"),
    "unknown": Words("unknown", "could not be told apart"),
}


def meaning_of(row: str, malloc: str) -> str:
    """What is in a row, given whose malloc() the process has: what is not glibc's may be that one's."""
    return ROWS[row].meaning if row != "other_anon" or malloc == "glibc" else "another malloc's, own mmap, GC, JIT"
