# SPDX-License-Identifier: MIT
"""Reads a dump file: maps it and hands out its sections as numpy arrays, without copying one.

A dump may come from anywhere, so nothing in it is believed: what inspector/dump checks in C is checked here, before
any array is handed out, and whatever does not hold is a DumpError. The file must not be cut short while it is mapped;
arenadump never does that (it writes a new file and renames it).
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope import dump_records as fmt
from arenascope.dump_records import SECTIONS, SINGLE, Sections
from arenascope.errors import Code, DumpError
from arenascope.validate import check_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Records = NDArray[np.void]

SECTION_ALIGN: Final = 64
MAX_SECTIONS: Final = 1024
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")  # how surrogateescape marks such bytes


class Chunks(NamedTuple):
    """The chunks of one heap, in address order."""

    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint64]  # bytes, headers included
    classes: NDArray[np.uint8]  # ChunkClass
    torn: bool  # the records do not cover the heap: more or less than its bytes


class Dump(Sections):
    """A dump file, mapped. The arrays are read-only views of the file and keep it mapped as long as they live."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map and check the file. DumpError: NO_TARGET, DENIED, or BAD_INPUT with what is wrong with it."""
        self.path: Final = os.fsdecode(path)
        self.descriptor: Final = _open(self.path)  # open as long as the dump is: the file may lose its name
        weakref.finalize(self, os.close, self.descriptor)
        self._data: Final = _map(self.path, self.descriptor)
        sections = self._sections()
        problem = check_records(sections)
        if problem:
            raise self._damaged(problem)
        self.has_chunks: Final = "chunks" in sections
        for name, dtype in SECTIONS.items():
            records = sections.get(name, np.empty(0, dtype))
            setattr(self, name, records[0] if name in SINGLE else records)
        self._strings: Final = sections["strings"].tobytes()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the dump to a new file of mode 0600: one that was captured has no name of its own any more."""
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

    def _bad(self, problem: str) -> DumpError:
        return DumpError(Code.BAD_INPUT, f"'{self.path}' {problem}")

    def _damaged(self, problem: str) -> DumpError:
        return self._bad(f"is damaged: {problem}")

    def _sections(self) -> dict[str, NDArray[Any]]:
        """The sections as arrays, each found to lie within the file."""
        header = self._header()
        table = np.frombuffer(self._data, fmt.SECTION, int(header["section_count"]), int(header["table_offset"]))
        found: dict[str, NDArray[Any]] = {}
        for entry in table:
            name = bytes(entry["name"]).split(b"\0")[0].decode("ascii", "replace")
            if name not in SECTIONS:
                continue  # a later minor version's
            problem = self._section_problem(name, entry)
            if name in found:
                problem = "is there twice"
            if problem:
                raise self._damaged(f'its section "{name}" {problem}')
            found[name] = _records(self._data, name, entry)
        for name in SECTIONS.keys() - found.keys() - {"chunks"}:
            if name in SINGLE or header["minor"] >= fmt.MINOR:  # else it may be newer than the file
                raise self._damaged(f'it has no section "{name}"')
            found[name] = np.empty(0, SECTIONS[name])
        return found

    def _section_problem(self, name: str, entry: Any) -> str | None:
        offset, count, record_size = int(entry["offset"]), int(entry["count"]), int(entry["record_size"])
        if not _is_record_size(name, record_size):
            return "has records of a size that no version has"
        if name in SINGLE and count != 1:
            return "does not have one record"
        if offset < fmt.HEADER.itemsize or offset % SECTION_ALIGN:
            return "is not aligned"
        if offset + count * record_size > len(self._data):
            return "does not fit the file"
        return None

    def _header(self) -> Any:
        size = len(self._data)
        magic = self._data[: len(fmt.MAGIC)]
        if magic == fmt.MAGIC[:-1] + b"\r":
            raise self._bad("was damaged by a transfer in text mode: copy it again in binary mode")
        if magic != fmt.MAGIC:
            raise self._bad(f"is not a dump of arenascope: it does not begin with {fmt.MAGIC.decode().strip()}")
        header = np.frombuffer(self._data, fmt.HEADER, 1)[0]
        version = f"{header['major']}.{header['minor']}"
        if header["major"] > fmt.MAJOR:
            raise self._bad(
                f"was made by a newer arenascope (format {version}); this one reads {fmt.MAJOR}.x: update arenascope"
            )
        if header["major"] != fmt.MAJOR:
            raise self._bad(f"has format {version}, which does not exist; this arenascope reads {fmt.MAJOR}.x")
        wanted, count = int(header["file_size"]), int(header["section_count"])
        if size < wanted:
            raise self._bad(f"is truncated: {wanted - size} of its {wanted} bytes are missing")
        fits = int(header["table_offset"]) + count * fmt.SECTION.itemsize <= size == wanted
        sizes = (int(header["header_size"]), int(header["section_size"]))
        if not fits or count > MAX_SECTIONS or sizes != (fmt.HEADER.itemsize, fmt.SECTION.itemsize):
            raise self._damaged("its header does not fit the file")
        return header


def _is_record_size(name: str, size: int) -> bool:
    """Whether a record may end there: behind a field that we know (parts are of words), or behind all of them."""
    dtype = SECTIONS[name]
    if not dtype.fields or size >= dtype.itemsize:
        return size == dtype.itemsize or bool(dtype.fields)
    ends = {end for kind, at, *_ in dtype.fields.values() for end in range(at + kind.itemsize, at, -8)}
    return size >= fmt.FIRST_SIZES[name] and size in ends


def _records(data: mmap.mmap, name: str, entry: Any) -> NDArray[Any]:
    """The records of a section. What those of an older file do not have is unknown."""
    dtype = SECTIONS[name]
    size, count, offset = int(entry["record_size"]), int(entry["count"]), int(entry["offset"])
    if size == dtype.itemsize:
        return np.frombuffer(data, dtype, count, offset)
    both = min(size, dtype.itemsize)
    made = np.tile(np.frombuffer(fmt.MISSING[name], np.uint8), (count, 1))
    made[:, :both] = np.frombuffer(data, np.uint8, count * size, offset).reshape(count, size)[:, :both]
    return made.view(dtype).reshape(count)


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


def _map(path: str, fd: int) -> mmap.mmap:
    """The file's bytes, read-only."""
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise DumpError(Code.BAD_INPUT, f"'{path}' is not a regular file")
        if status.st_size < fmt.HEADER.itemsize:
            short = f"it is only {status.st_size} bytes long"
            raise DumpError(Code.BAD_INPUT, f"'{path}' is not a dump of arenascope: {short}")
        return mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise DumpError(Code.BAD_INPUT, f"'{path}' cannot be mapped: {error.strerror}") from error
