# SPDX-License-Identifier: MIT
"""What a summary has of the graph as well as arenadump types, leaks, owners and why: sums of chunks, and owners.

What is not known is None. Bytes are those of chunks, headers included.
"""

from typing import Annotated, Final, NamedTuple, Optional

from arenascope.humanize import printable
from arenascope.wire.json_types import Address, Bounds, Unsigned

MAPPING: Final = "mapping"  # the evidence of an anonymous mapping, which is no chunk
TypeName = Annotated[str, "Name of the type, demangled. null: not known."]
Evidence = Annotated[str, "What the name rests on (docs/owners.md). null: there is no name."]


class Sum(NamedTuple):
    """Chunks, and their bytes, headers included."""

    count: Unsigned  # type: ignore[assignment]
    bytes: Unsigned


OWNER_KINDS: Final = (
    "variable", "thread_variables", "runtime", "memory", "shared_memory", "registers", "stack", "frames",
    "unreached_objects", "interpreter", "several", "lost", "others",
)  # fmt: skip


class Owner(NamedTuple):
    """Who has a root: a variable, a thread's stack, a mapping."""

    # interpreter: all of Python's or Ruby's own variables. unreached_objects: nothing leads to these objects. several:
    # no single owner retains the chunks. In a dump, lost: nobody has them, and others: owners for which there was no
    # room.
    kind: Annotated[str, Bounds(enum=OWNER_KINDS)]
    name: Optional[str]  # The variable's, demangled.
    type: Optional[str]  # Type of the variable, by debug information.
    address: Optional[Address]  # The variable's, or where the memory begins.
    module: Optional[str]  # File whose data have the variable.
    offset: Optional[Address]  # The address in the module.
    thread: Optional[int]  # Thread id, of what is a thread's.
    thread_name: Optional[str]  # Name of the thread.
    mapping: Optional[str]  # Path of the mapping, of what is no variable.


class Leading(NamedTuple):
    """An owner of what several have, and to how many bytes of it this one leads."""

    owner: Owner
    bytes: Unsigned  # To how much of it the owner leads: it is free only if this owner goes, too.


class Several(NamedTuple):
    """What no owner retains alone. `owners`: how many lead to any of it; `leading`: those that lead to most.

    To how much they lead is known of `asked` of the owners, those that lead to most directly.
    """

    bytes: Unsigned  # All of it.
    owners: Unsigned  # How many owners lead to any of it.
    asked: Unsigned  # So many of these were asked to how much of it they lead: those that lead to most directly.
    # Up to 64 of them that lead to most, the most bytes first.
    leading: Annotated[tuple[Leading, ...], Bounds(maxItems=64)]


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
        "unreached_objects": "nothing: garbage not yet collected, or held in an unknown way",
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
