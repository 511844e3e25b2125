# SPDX-License-Identifier: MIT
"""Reads a dump file: maps it and hands out its sections as numpy arrays, without copying one.

A dump may come from anywhere, so nothing in it is believed: `arenadump check` has checked the open file before it is
mapped, and whatever does not hold is a DumpError. The file must not be cut short while it is mapped; arenadump never
does that (it writes a new file and renames it).
"""

from __future__ import annotations

import mmap
import os
import re
import weakref
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope.errors import ArenascopeError, Code, DumpError
from arenascope.wire import commands
from arenascope.wire import dump_records as fmt
from arenascope.wire.dump_records import SECTIONS, SINGLE, Sections

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Records = NDArray[np.void]

_DESCRIPTOR: Final = re.compile("/proc/self/fd/[0-9]+")
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")  # how surrogateescape marks such bytes


class Chunks(NamedTuple):
    """The chunks of one heap, in address order."""

    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint64]  # bytes, headers included
    classes: NDArray[np.uint8]  # ChunkClass
    torn: bool  # the records do not cover the heap: more or less than its bytes


class SectionPlace(NamedTuple):
    """Where a section is in the file."""

    offset: int
    count: int  # type: ignore[assignment]
    record_size: int


class Dump(Sections):
    """A dump file, mapped. The arrays are read-only views of the file and keep it mapped as long as they live."""

    def __init__(self, path: str | os.PathLike[str], descriptor: int | None = None) -> None:
        """Open, check and map the file. DumpError: NO_TARGET, DENIED, or BAD_INPUT with what is wrong with it.

        `descriptor`: the open file, which arenadump has checked already; then the path is its name, for errors.
        """
        self.path: Final = os.fsdecode(path)
        with _checked([self.path]) if descriptor is None else nullcontext([descriptor]) as (fd,):
            self.descriptor: Final = os.dup(fd)  # open as long as the dump is: the file may lose its name
        weakref.finalize(self, os.close, self.descriptor)
        try:
            self._data: Final = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)
            self._sections: Final = _sections(self._data)
            self._strings: Final = self._records("strings").tobytes()
        except (OSError, ValueError, LookupError) as error:
            raise DumpError(Code.BAD_INPUT, f"'{self.path}' was changed while it was read: {error}") from error
        self.has_chunks: Final = "chunks" in self._sections

    def __getattr__(self, name: str) -> Any:
        """A section, made an array when it is first asked for: most commands need a few of them."""
        if name not in SECTIONS:
            raise AttributeError(name)
        records = self._records(name)
        made = records[0] if name in SINGLE else records
        setattr(self, name, made)
        return made

    def _records(self, name: str) -> NDArray[Any]:
        """The records of a section. What those of an older file do not have is unknown."""
        dtype = SECTIONS[name]
        if name not in self._sections:
            return np.empty(0, dtype)
        offset, count, size = self._sections[name]
        if size == dtype.itemsize:
            return np.frombuffer(self._data, dtype, count, offset)
        both = min(size, dtype.itemsize)
        made = np.tile(np.frombuffer(fmt.MISSING[name], np.uint8), (count, 1))
        made[:, :both] = np.frombuffer(self._data, np.uint8, count * size, offset).reshape(count, size)[:, :both]
        return made.view(dtype).reshape(count)

    @classmethod
    def opened(cls, paths: Sequence[str]) -> list[Dump]:
        """As Dump() of each of the files, which are checked together."""
        with _checked(paths) as descriptors:
            return [cls(path, fd) for path, fd in zip(paths, descriptors)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the dump to a new file of mode 0600: one that was taken has no name of its own any more."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(self._data)

    def let_go(self) -> None:
        """Let go of what was read of the file: it counts as our memory, and comes back when it is asked for."""
        self._data.madvise(mmap.MADV_DONTNEED)

    def bytes_at(self, offset: int) -> bytes:
        """The string at an offset into section "strings", as the target had it; empty for an offset outside."""
        offset = int(offset)
        return self._strings[offset : self._strings.index(b"\0", offset)] if offset < len(self._strings) else b""

    def string(self, offset: int) -> str:
        """The string at an offset, as text."""
        return text(self.bytes_at(offset))

    def heap_pages(self, heap: int) -> Records:
        """The page records of one heap; the first is of the page that holds the heap's `start`."""
        first = int(self.heaps[heap]["first_page"])
        return self.pages[first : first + int(self.heaps[heap]["page_count"])]

    def heap_chunks(self, heap: int) -> Chunks:
        """The chunks of one heap, none of them outside it, whatever the records say; none without --chunks."""
        record = self.heaps[heap]
        first = int(record["first_chunk"])
        words = self.chunks[first : first + int(record["chunk_count"])]
        # A chunk of 4 GiB or more takes several records: all but the last of them say that it goes on.
        ends = (words & np.uint32(fmt.CHUNK_MORE)) == 0
        ends[-1:] = True
        last = np.flatnonzero(ends)
        units = np.cumsum(words & np.uint32((1 << fmt.CHUNK_SIZE_BITS) - 1), dtype=np.uint64)
        behind = units[last] * np.uint64(fmt.UNIT)  # each chunk's end, relative to the heap's start
        sizes = np.diff(behind, prepend=np.uint64(0))
        limit = np.uint64(record["end"] - record["start"])
        wrong = (sizes == 0) | (behind > limit)
        if wrong.any():
            last = last[: int(np.argmax(wrong))]
        sizes, behind = sizes[: len(last)], behind[: len(last)]
        classes = (words[last] >> np.uint32(fmt.CHUNK_CLASS_SHIFT)).astype(np.uint8)
        classes[classes > max(fmt.ChunkClass)] = fmt.ChunkClass.UNKNOWN
        covered = behind[-1] if len(behind) else 0
        return Chunks(record["start"] + behind - sizes, sizes, classes, bool(covered != limit))


@contextmanager
def _checked(paths: Sequence[str]) -> Iterator[list[int]]:
    """The descriptors of dump files, for as long as this lasts; arenadump has checked the very files.

    DumpError: one cannot be opened, is no dump, or is damaged; it says what is wrong.
    """
    with ExitStack() as stack:
        descriptors = []
        for path in paths:
            descriptors.append(_open(path))
            stack.callback(os.close, descriptors[-1])
        names = {f"/proc/self/fd/{fd}": path for fd, path in zip(descriptors, paths)}
        try:
            commands.check(list(names), descriptors)
        except ArenascopeError as error:
            words = _DESCRIPTOR.sub(lambda name: names.get(name[0], name[0]), str(error))
            raise DumpError(error.code, words) from None
        yield descriptors


def _sections(data: mmap.mmap) -> dict[str, SectionPlace]:
    """Where the sections are, those of a later minor version left out. ValueError, LookupError: not in the file."""
    header = np.frombuffer(data, fmt.HEADER, 1)[0]
    table = np.frombuffer(data, fmt.SECTION, int(header["section_count"]), int(header["table_offset"]))
    found = {}
    for raw, offset, count, size, _ in table.tolist():
        name = raw.split(b"\0")[0].decode("ascii", "replace")
        if name in SECTIONS:
            if offset + count * size > len(data):
                raise ValueError(f"section {name} is not in the file")
            found[name] = SectionPlace(offset, count, size)
    for name in ("strings", *SINGLE):
        if name not in found or (name in SINGLE and not found[name].count):
            raise LookupError(f"there is no section {name}")
    return found


def text(raw: bytes) -> str:
    """Bytes that a target chose, as text: each byte that is not part of valid UTF-8 becomes U+FFFD, as in C."""
    return _NOT_UTF8.sub("\N{REPLACEMENT CHARACTER}", raw.decode("utf-8", "surrogateescape"))


def _open(path: str) -> int:
    """The file's descriptor."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not make us wait
    except OSError as error:
        code = Code.DENIED if isinstance(error, PermissionError) else Code.NO_TARGET
        raise DumpError(code, f"cannot open '{path}': {error.strerror}") from error
