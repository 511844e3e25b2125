# SPDX-License-Identifier: MIT
"""Mappings that are not malloc's. Part of the schema "arenascope.summary/1"."""

from typing import Annotated, Final, Literal, NamedTuple, Optional

from arenascope.wire.json_types import Address, Bounds, Unsigned

ANONYMOUS_SHARED: Final = "anonymous shared memory"


class AnonymousMapping(NamedTuple):
    """Anonymous memory, but for what of it is malloc's or in a runtime's row."""

    address: Optional[Address]  # Where it begins.
    size: Unsigned  # Its size.
    resident: Optional[Unsigned]  # Resident bytes of it, malloc's and runtimes' included.
    bytes: Optional[Unsigned]  # Resident bytes of it that are neither malloc's nor in a runtime's row. null: unknown.
    row: Literal["other_anon", "unknown"]  # The row that counts these bytes.
    protection: Annotated[str, Bounds(pattern="^[r-][w-][x-][sp]$")]  # As /proc/PID/maps shows it.
    name: Optional[str]  # The kernel's name of it: "[heap]", "[anon:NAME]"; null: it has none.
    may_be: Optional[str]  # What it may be: a suspicion, which the evidence supports. null: nothing is known.
    evidence: Optional[str]  # What speaks for may_be: its name, its protection, or the mappings next to it.


class Rest(NamedTuple):
    """The others together."""

    count: Unsigned  # type: ignore[assignment]  # How many mappings.
    bytes: Optional[Unsigned]  # Resident bytes of them.


class StacksWithoutThread(NamedTuple):
    """What may be stacks of coroutines, or of threads that have ended: a guard lies below, no stack pointer inside."""

    count: Unsigned  # type: ignore[assignment]  # How many mappings with something resident.
    size: Unsigned  # Their size: of address space.
    bytes: Optional[Unsigned]  # Resident bytes of them.


class AnonymousMemory(NamedTuple):
    """The largest anonymous mappings, and the sum of the others."""

    largest: Annotated[tuple[AnonymousMapping, ...], Bounds(maxItems=20)]
    rest: Rest
    stacks_without_thread: StacksWithoutThread
    # Private copies of pages of files, which are no anonymous mappings: the row file_copies. null: unknown.
    copies_of_files: Optional[Unsigned]


class MappedFile(NamedTuple):
    """What one row has of all mappings of a file, or of shared memory of one name, but for what of them is malloc's."""

    name: Optional[str]  # Path of the file, or the kernel's name of the shared memory.
    row: Literal["other_file", "other_shmem", "file_copies"]  # The row that counts these bytes.
    # How many mappings of this name have something resident that is not malloc's.
    count: Unsigned  # type: ignore[assignment]
    bytes: Optional[Unsigned]  # Resident bytes of them that are neither malloc's nor in a runtime's row.

    @property
    def title(self) -> str:
        """What to call it: the kernel names shared anonymous memory after a file that was never there."""
        title = ANONYMOUS_SHARED if self.name in {None, "/dev/zero (deleted)"} else str(self.name)
        return f"{title}, pages that were written to" if self.row == "file_copies" else title


class MappedFiles(NamedTuple):
    """The largest by name, and the sum of the others."""

    largest: Annotated[tuple[MappedFile, ...], Bounds(maxItems=20)]
    rest: Rest


class ThreadStack(NamedTuple):
    """The stack of a thread."""

    tid: Unsigned
    name: str
    resident: Unsigned  # What is resident of its mapping; glibc keeps a thread's variables there, too.
    unused: Unsigned  # The part of it on pages below the stack pointer: of calls that have returned.


class ThreadStacks(NamedTuple):
    """The stacks of threads that have a mapping of their own for it, and whose stack pointer is known."""

    threads: Unsigned  # How many.
    resident: Unsigned
    unused: Unsigned
    largest: Annotated[tuple[ThreadStack, ...], Bounds(maxItems=20)]


class OpenFile(NamedTuple):
    """A file in memory: a memfd, one on tmpfs whose name was removed, or one in /dev/shm."""

    name: Optional[str]  # As the kernel tells it: "/memfd:NAME (deleted)".
    descriptors: Unsigned  # How many of the process's descriptors lead to it.
    bytes: Optional[Unsigned]  # What the kernel has allocated for it, in memory or swapped out.


class OpenFiles(NamedTuple):
    """Files in memory that the process has open and does not map, listed just after the snapshot: in no Rss.

    Other processes may have them open, too.
    """

    count: Unsigned  # type: ignore[assignment]  # How many files.
    bytes: Optional[Unsigned]  # What the kernel has allocated for them, in memory or swapped out.
    descriptors_left: Optional[Unsigned]  # How many descriptors were not searched: those beyond 16,384.
    largest: Annotated[tuple[OpenFile, ...], Bounds(maxItems=20)]


class Mappings(NamedTuple):
    """What is resident besides malloc's memory, the runtimes' heaps and stacks."""

    anonymous: AnonymousMemory  # Anonymous memory, mapping by mapping.
    files: MappedFiles  # Mappings of files and of shared memory, by name.
