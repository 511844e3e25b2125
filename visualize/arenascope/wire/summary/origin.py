# SPDX-License-Identifier: MIT
"""Whose memory it is, and how it was inspected. Part of the schema "arenascope.summary/1"."""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import NamedTuple, Optional

from arenascope import rows


class Target(NamedTuple):
    """What was inspected."""

    kind: str
    dump_of: Optional[str]
    pid: Optional[int]
    comm: str
    exe: Optional[str]
    cmdline: Optional[str]
    page_size: int
    threads: int


class NotGlibc(NamedTuple):
    """What it means for the summary that malloc() is not glibc's, in words."""

    says: str
    memory: str
    meanings: dict[str, str]  # of rows that mean something else then, by name


class Allocator(NamedTuple):
    """Who answers malloc(), and how its structures were found."""

    malloc: str
    detail: Optional[str]
    glibc: Optional[str]
    layout_source: Optional[str]
    not_glibc: Optional[NotGlibc]

    @property
    def is_glibc(self) -> bool:
        """Whether malloc() is glibc's."""
        return self.not_glibc is None

    def meaning(self, row: rows.Row) -> str:
        """What is in a row, for people."""
        return (self.not_glibc.meanings if self.not_glibc else {}).get(row.name, row.meaning)


class Consistency(NamedTuple):
    """How the snapshot was taken, and what that means for its numbers."""

    mode: str
    pause_ms: Optional[float]
    read_ms: Optional[float]
    torn_chunks: Optional[int]
    time: Optional[str]
    exact: bool
    residency_known: bool


class Kernel(NamedTuple):
    """What the kernel counts of the process."""

    rss: Optional[int]
    swap: Optional[int]
    hugetlb: Optional[int]


class Doubt(NamedTuple):
    """A warning: what limits the trust in the numbers, or a note."""

    code: str
    text: str
