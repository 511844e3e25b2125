# SPDX-License-Identifier: MIT
"""Who holds the chunks in use: what arenadump types, leaks, owners and why print (docs/owners.md).

What is not known is None. Bytes are those of chunks, headers included.
"""

# As decode.py wants it: without "from __future__ import annotations".
# ruff: noqa: FA100
from typing import Final, NamedTuple, Optional

from arenascope.humanize import printable
from arenascope.wire.json_decode import answer, document

LEAKS: Final = "arenascope.leaks/1"
TYPES: Final = "arenascope.types/1"
OWNERS: Final = "arenascope.owners/1"
WHY: Final = "arenascope.why/1"


class Sum(NamedTuple):
    """Chunks, and their bytes."""

    count: int  # type: ignore[assignment]
    bytes: int


class Graph(NamedTuple):
    """What was searched."""

    chunks: int
    bytes: int
    objects: Sum  # of these, what is no chunk of malloc's
    pointers: int
    roots: int
    unread: int
    unsearched: int
    left_out: Optional[str]  # what was not read of debug information, or of files that a core leaves out, and why


class GraphTarget(NamedTuple):
    """Whose chunks these are."""

    kind: str
    pid: Optional[int]
    comm: str


class LeakGroup(NamedTuple):
    """The lost chunks of one type and size."""

    type: Optional[str]
    evidence: Optional[str]
    size: Optional[int]
    direct: Sum
    indirect: Sum
    suspects: Sum
    example: str


class Leaks(NamedTuple):
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


class TypeSum(NamedTuple):
    """The chunks in use of a type. `others`: of all types for which there was no room."""

    type: Optional[str]
    evidence: Optional[str]
    others: bool
    count: int  # type: ignore[assignment]
    bytes: int


class Types(NamedTuple):
    """What the chunks in use are."""

    target: GraphTarget
    mode: str
    exact: bool
    graph: Graph
    warnings: tuple[str, ...]
    types: tuple[TypeSum, ...]  # by bytes


class Owner(NamedTuple):
    """A root: a variable, a thread's stack, a mapping. Kind "several": no one of them alone."""

    kind: str
    name: Optional[str]
    type: Optional[str]
    address: Optional[str]
    module: Optional[str]
    offset: Optional[str]
    thread: Optional[int]
    thread_name: Optional[str]
    mapping: Optional[str]


class Branch(NamedTuple):
    """Chunks of a type that are held together; at depth 0 an owner. `retained`: bytes, with all that only they hold."""

    depth: int
    owner: Optional[Owner]
    type: Optional[str]
    count: int  # type: ignore[assignment]
    bytes: int
    retained: int


class Leading(NamedTuple):
    """An owner of what several have, and to how many bytes of it this one leads."""

    owner: Owner
    bytes: int


class Several(NamedTuple):
    """What no owner retains alone. `owners`: how many lead to any of it; `leading`: those that lead to most.

    To how much they lead is known of `asked` of the owners, those that lead to most directly.
    """

    bytes: int
    owners: int
    asked: int
    leading: tuple[Leading, ...]


class Owners(NamedTuple):
    """The dominator tree by types, from the owners down."""

    target: GraphTarget
    mode: str
    exact: bool
    graph: Graph
    warnings: tuple[str, ...]
    reached: int
    unreached: int
    branches: tuple[Branch, ...]  # each behind the one that it hangs on
    several: Several


class WayStep(NamedTuple):
    """A chunk on the way, and where in it the pointer to the next one is."""

    address: str
    size: int
    type: Optional[str]
    offset: Optional[int]
    member: Optional[str]
    leads_to: Optional[int]


class Why(NamedTuple):
    """The shortest way from a root to a chunk."""

    target: GraphTarget
    mode: str
    exact: bool
    graph: Graph
    warnings: tuple[str, ...]
    address: str
    reached: bool
    owner: Optional[Owner]
    member: Optional[str]
    path: tuple[WayStep, ...]


def parse_leaks(text: str) -> Leaks:
    """What arenadump leaks printed. ArenascopeError INTERNAL where that is no such answer."""
    return answer(Leaks, document(text, LEAKS), LEAKS)


def parse_types(text: str) -> Types:
    """What arenadump types printed, likewise."""
    return answer(Types, document(text, TYPES), TYPES)


def parse_owners(text: str) -> Owners:
    """What arenadump owners printed, likewise."""
    return answer(Owners, document(text, OWNERS), OWNERS)


def parse_why(text: str) -> Why:
    """What arenadump why printed, likewise."""
    return answer(Why, document(text, WHY), WHY)


def owner_words(owner: Owner) -> str:
    """An owner as people call it: "variable app::cache (server+0x4040)"."""
    if owner.kind == "variable":
        named = f" {printable(owner.name)}" if owner.name else ""
        return f"variable{named}" + (f" ({printable(owner.module)}+{owner.offset})" if owner.module else "")
    words = {
        "lost": "nothing: it is lost",
        "others": "other owners",
        "several": "several owners together",
        "thread_variables": "thread-local variables",
        "runtime": "heaps of runtimes (Ruby, Java, ...)",
        "frames": "frames of Python functions",
        "unreached_objects": "nothing: garbage that has not been collected, or held in an unknown way",
        "interpreter": f"the interpreter ({printable(owner.module or '?')})",
        "memory": "anonymous memory",
        "shared_memory": "shared memory",
    }.get(owner.kind, owner.kind)
    if owner.thread is not None:
        return f"{words} of thread {owner.thread} ({printable(owner.thread_name or '')})"
    return words + (f" at {owner.address}" if owner.address and owner.kind != "runtime" else "")


def owner_name(owner: Owner) -> str:
    """The same in a sentence, without an address where a name says enough: "open_connections (libserver.so)"."""
    if owner.kind == "variable" and owner.name:
        return printable(owner.name) + (f" ({printable(owner.module)})" if owner.module else "")
    return owner_words(owner)
