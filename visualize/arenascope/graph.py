# SPDX-License-Identifier: MIT
"""Who holds the chunks in use: what arenadump leaks, owners and why print (docs/graph.md).

What is not known is None. Bytes are those of chunks, headers included.
"""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from dataclasses import dataclass
from typing import Final, Optional

from arenascope.decode import answer, document

LEAKS: Final = "arenascope.leaks/1"
OWNERS: Final = "arenascope.owners/1"
WHY: Final = "arenascope.why/1"


@dataclass(frozen=True)
class Graph:
    """What was searched."""

    chunks: int
    bytes: int
    pointers: int
    roots: int
    unread: int
    unsearched: int


@dataclass(frozen=True)
class GraphTarget:
    """Whose chunks these are."""

    kind: str
    pid: Optional[int]
    comm: str


@dataclass(frozen=True)
class Sum:
    """Chunks, and their bytes."""

    count: int
    bytes: int


@dataclass(frozen=True)
class LeakGroup:
    """The lost chunks of one type and size."""

    type: Optional[str]
    evidence: Optional[str]
    size: Optional[int]
    direct: Sum
    indirect: Sum
    suspects: Sum
    example: str


@dataclass(frozen=True)
class Leaks:
    """What nothing points to any more."""

    target: GraphTarget
    mode: str
    exact: bool
    graph: Graph
    warnings: tuple[str, ...]
    direct: Sum
    indirect: Sum
    suspects: Sum
    by_type: tuple[LeakGroup, ...]


@dataclass(frozen=True)
class Owner:
    """A root: a variable, a thread's stack, a mapping. Kind "several": no one of them alone."""

    kind: str
    name: Optional[str]
    address: Optional[str]
    module: Optional[str]
    offset: Optional[str]
    thread: Optional[int]
    thread_name: Optional[str]
    mapping: Optional[str]


@dataclass(frozen=True)
class Branch:
    """Chunks of a type that are held together; at depth 0 an owner. `retained`: bytes, with all that only they hold."""

    depth: int
    owner: Optional[Owner]
    type: Optional[str]
    count: int
    bytes: int
    retained: int


@dataclass(frozen=True)
class Owners:
    """The dominator tree by types, from the owners down."""

    target: GraphTarget
    mode: str
    exact: bool
    graph: Graph
    warnings: tuple[str, ...]
    reached: int
    unreached: int
    branches: tuple[Branch, ...]  # each behind the one that it hangs on


@dataclass(frozen=True)
class WayStep:
    """A chunk on the way, and where in it the pointer to the next one is."""

    address: str
    size: int
    type: Optional[str]
    offset: Optional[int]
    leads_to: Optional[int]


@dataclass(frozen=True)
class Why:
    """The shortest way from a root to a chunk."""

    target: GraphTarget
    mode: str
    exact: bool
    graph: Graph
    warnings: tuple[str, ...]
    address: str
    reached: bool
    owner: Optional[Owner]
    path: tuple[WayStep, ...]


def parse_leaks(text: str) -> Leaks:
    """What arenadump leaks printed. ArenascopeError INTERNAL where that is no such answer."""
    return answer(Leaks, document(text, LEAKS), LEAKS)


def parse_owners(text: str) -> Owners:
    """What arenadump owners printed, likewise."""
    return answer(Owners, document(text, OWNERS), OWNERS)


def parse_why(text: str) -> Why:
    """What arenadump why printed, likewise."""
    return answer(Why, document(text, WHY), WHY)
