# SPDX-License-Identifier: MIT
"""Who holds the chunks in use: what arenadump types, leaks, owners and why print (docs/owners.md).

What is not known is None. Bytes are those of chunks, headers included.
"""

from typing import Annotated, Literal, NamedTuple, Optional, Union

from arenascope.humanize import size
from arenascope.runtime_names import NAMES
from arenascope.wire.graph_parts import Evidence, Owner, Several, Sum, TypeName
from arenascope.wire.json_types import Address, Bounds, Duration, EnumNames, Positive, Time, Unsigned

Mode = Annotated[str, EnumNames("Mode", but=("in_process",)), "How the target was read (docs/safety.md)."]


class Graph(NamedTuple):
    """What was searched."""

    chunks: Unsigned  # Chunks in use, objects of runtimes, and mappings.
    bytes: Unsigned  # Their bytes.
    # What of these is no chunk of malloc's: the blocks in use of a Python's arenas, the slots in use of a Ruby's pages.
    objects: Sum
    mappings: Sum  # Likewise, anonymous mappings that the program made, and what of them is resident.
    pointers: Unsigned  # Pointers between them.
    roots: Unsigned  # Words outside of malloc's heaps that lead to one.
    unread: Unsigned  # Bytes of heaps that could not be read.
    unsearched: Unsigned  # Bytes of shared memory that were not searched.
    left_out: Optional[str]  # Debug information that was not read, and why. null: none.
    # The interpreter whose collector is switched off: cpython (gc.disable; that of cycles), ruby (GC.disable). null:
    # there is none, or that is not known.
    collector_off: Optional[str]


class NotSearched(NamedTuple):
    """Heaps of other allocators and of runtimes, which the graph leaves out.

    For `leaks` without the heaps of collectors: nothing there is lost.
    """

    bytes: Optional[Unsigned]  # Resident in these heaps. null: not known.
    # More than the graph has, or not known: the answer may be about the smaller part, and the exit code is 12.
    larger: bool
    heaps: tuple[str, ...]  # Names of the allocators and runtimes.
    # Interpreters (cpython, ruby) that run here, whose objects were not found. The objects are chunks without a type.
    objects_of: tuple[str, ...]


class GraphTarget(NamedTuple):
    """Whose chunks these are."""

    kind: Annotated[str, EnumNames("TargetKind", but=("self",))]
    pid: Optional[int]
    comm: str


class InCycles(NamedTuple):
    """What is lost in a cycle: only chunks that lead to each other, or what these lead to, lead to it."""

    direct: Sum  # Those that stand for a cycle each.
    indirect: Sum


class LeakGroup(NamedTuple):
    """The lost chunks of one type and size."""

    type: Optional[TypeName]
    evidence: Optional[Evidence]
    size: Optional[Annotated[int, Bounds(minimum=16)]]  # Bytes of each chunk. null: there are many sizes.
    direct: Sum
    indirect: Sum
    suspects: Sum
    in_cycles: Unsigned  # How many of them are lost in a cycle.
    example: Address  # What malloc returned for one of them: a direct one, if there is any.


class Leaks(NamedTuple):
    """What nothing points to: `arenadump leaks` (docs/owners.md). Bytes are those of chunks, headers included."""

    version: str
    time: Optional[Time]
    target: GraphTarget
    mode: Mode
    pause_ms: Optional[Duration]  # How long the target was stopped.
    exact: bool  # Everything was read, and of one instant.
    graph: Graph
    not_searched: NotSearched
    warnings: tuple[str, ...]  # What limits one's trust in the answer.
    direct: Sum  # Chunks to which nothing leads.
    indirect: Sum  # Chunks to which only lost chunks lead.
    suspects: Sum  # Chunks to which only one word of a stack leads, with what only they hold. They are not lost.
    in_cycles: InCycles  # A part of direct and indirect.
    # Objects of Python's or Ruby's that nothing leads to, with what only they hold: garbage that is not yet collected,
    # or held in an unknown way. They are not lost. null: there is no such runtime, or its objects are not known.
    garbage: Optional[Sum]
    by_type: tuple[LeakGroup, ...]  # By type and size, most bytes first.


class TypeSum(NamedTuple):
    """The chunks in use of a type. `others`: of all types for which there was no room."""

    type: Optional[TypeName]
    evidence: Optional[Evidence]
    others: bool  # All types but the 10,000 that take most.
    count: Positive  # type: ignore[assignment]
    bytes: Annotated[int, Bounds(minimum=16)]
    example: Optional[Address]  # What malloc returned for one of them, for `arenascope why`. null: of `others`.


class Types(NamedTuple):
    """What the chunks in use are: `arenadump types` (docs/owners.md). Bytes are those of chunks, headers included."""

    version: str
    time: Optional[Time]
    target: GraphTarget
    mode: Mode
    pause_ms: Optional[Duration]  # How long the target was stopped.
    exact: bool  # Everything was read, and of one instant.
    graph: Graph
    not_searched: NotSearched
    warnings: tuple[str, ...]  # What limits one's trust in the answer.
    types: tuple[TypeSum, ...]  # Most bytes first. Their sums are those of graph.


class Branch(NamedTuple):
    """Chunks of a type that are held together; at depth 0 an owner. `retained`: bytes, with all that only they hold."""

    depth: Unsigned  # 0: an owner. At most one more than that of the branch before.
    owner: Optional[Owner]
    type: Optional[TypeName]
    evidence: Optional[Evidence]
    count: Unsigned  # type: ignore[assignment]  # Chunks of the branch itself.
    bytes: Unsigned  # Their bytes.
    retained: Unsigned  # What would be free without the branch.
    example: Optional[Address]  # What malloc returned for one of its chunks: `why` takes it. null: of an owner.


class Owners(NamedTuple):
    """Who holds the chunks in use: `arenadump owners` (docs/owners.md). Bytes are those of chunks, headers included.

    `branches` is the dominator tree by types, from the owners down.
    """

    version: str
    time: Optional[Time]
    target: GraphTarget
    mode: Mode
    pause_ms: Optional[Duration]  # How long the target was stopped.
    exact: bool  # Everything was read, and of one instant.
    graph: Graph
    not_searched: NotSearched
    warnings: tuple[str, ...]  # What limits one's trust in the answer.
    reached: Unsigned  # Bytes that some owner leads to.
    unreached: Unsigned  # Bytes that no owner leads to: lost.
    # The tree: each branch stands behind the one that it hangs on, and siblings by what they retain.
    branches: tuple[Branch, ...]
    several: Several  # What no owner retains alone.


class WayStep(NamedTuple):
    """A chunk on the way, and where in it the pointer to the next one is."""

    address: Address  # What malloc returned for it.
    size: Unsigned  # Bytes of the chunk.
    type: Optional[TypeName]
    evidence: Optional[Evidence]
    offset: Optional[Unsigned]  # Where in this chunk the pointer to the next one is. null: the last chunk.
    member: Optional[str]  # Which member the pointer is, by debug information.
    leads_to: Optional[Unsigned]  # Where in the next chunk the pointer leads. null: the last chunk.


class Why(NamedTuple):
    """The shortest way from a root to a chunk: `arenadump why` (docs/owners.md)."""

    version: str
    time: Optional[Time]
    target: GraphTarget
    mode: Mode
    pause_ms: Optional[Duration]  # How long the target was stopped.
    exact: bool  # Everything was read, and of one instant.
    graph: Graph
    warnings: tuple[str, ...]  # What limits one's trust in the answer.
    address: Address  # The chunk that was asked for.
    reached: bool  # false: nothing leads to the chunk.
    owner: Optional[Owner]
    word: Optional[Address]  # Where the root is. null: a register, or nothing leads to the chunk.
    # Why nothing leads to the chunk. lost_with_others: only lost chunks do. lost_in_a_cycle: only chunks that lead to
    # each other, or what these lead to. garbage: an object, or what only objects hold, that is not yet collected, or
    # held in an unknown way. null: the chunk is reached.
    unreached: Optional[Literal["lost", "lost_with_others", "lost_in_a_cycle", "garbage"]]
    member: Optional[str]  # Which part of the variable the word is, by debug information.
    leads_to: Optional[Unsigned]  # Where in the first chunk the root's pointer leads.
    path: tuple[WayStep, ...]  # From the chunk that the root leads to, to the one that was asked for.


def not_searched_words(facts: Union[Leaks, Types, Owners]) -> str:
    """What was not searched, where this is the larger part: "137.2 MiB of jemalloc"; else empty."""
    left = facts.not_searched
    if not left.larger:
        return ""
    held = "memory" if left.bytes is None else size(left.bytes)
    return held + (f" of {', '.join(NAMES.get(name, name) for name in left.heaps)}" if left.heaps else "")


def unfound_words(facts: Union[Leaks, Types, Owners]) -> str:
    """The interpreters of which no object was found: "Python", "Python, Ruby"; empty: there is none."""
    return ", ".join(NAMES.get(name, name) for name in facts.not_searched.objects_of)
