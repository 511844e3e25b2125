# SPDX-License-Identifier: MIT
"""As much of ELF as it takes to read a build-id, for which machine a file is, or whether a loader starts it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Elf64_Ehdr from e_phoff on, Elf64_Phdr, Elf64_Nhdr: the ELF specification.
PROGRAM_HEADERS: Final = struct.Struct("<32xQ8x6xHH")
PROGRAM_HEADER: Final = struct.Struct("<IIQQQQQQ")
NOTE: Final = struct.Struct("<III")
PT_INTERP: Final = 3
PT_NOTE: Final = 4
NT_GNU_BUILD_ID: Final = 3
ELF64_LITTLE: Final = b"\x7fELF\x02\x01"
MOST_NOTES: Final = 1 << 20  # bytes; a libc's are some hundred


def machine(path: Path) -> bytes | None:
    """What says for which machine an ELF file is: class, byte order and e_machine; None when it is no such file."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError:
        return None
    return head[4:6] + head[18:20] if head.startswith(b"\x7fELF") else None


def build_id(path: Path) -> str | None:
    """The build-id of a 64-bit little-endian ELF file, in hexadecimal; None when it has none or is no such file."""
    try:
        with path.open("rb") as file:
            for kind, start, size in _segments(file):
                if kind == PT_NOTE:
                    file.seek(start)
                    found = _in_notes(file.read(min(size, MOST_NOTES)))
                    if found:
                        return found
    except (OSError, struct.error, OverflowError):
        pass  # unreadable, cut short or lying
    return None


def is_static(path: Path) -> bool:
    """Whether no loader starts it: a 64-bit little-endian ELF file that names none. A loader itself does not count."""
    try:
        with path.open("rb") as file:
            kinds = {kind for kind, _, _ in _segments(file)}
    except (OSError, struct.error, OverflowError):
        return False
    return bool(kinds) and PT_INTERP not in kinds and ".so" not in path.name


def _segments(file: BinaryIO) -> Iterator[tuple[int, int, int]]:
    """Yields each program header's type, where in the file its segment is, and how large; none: it is another file.

    struct.error, OverflowError: it is cut short or lies.
    """
    head = file.read(64)
    if not head.startswith(ELF64_LITTLE):
        return
    offset, entry_size, count = PROGRAM_HEADERS.unpack_from(head)
    for index in range(count):
        file.seek(offset + index * entry_size)
        kind, _, start, _, _, size, _, _ = PROGRAM_HEADER.unpack(file.read(PROGRAM_HEADER.size))
        yield kind, start, size


def _in_notes(notes: bytes) -> str | None:
    place = 0
    while place + NOTE.size <= len(notes):
        name_size, size, kind = NOTE.unpack_from(notes, place)
        name = place + NOTE.size
        description = name + (name_size + 3) // 4 * 4
        if kind == NT_GNU_BUILD_ID and notes[name : name + name_size] == b"GNU\0":
            return notes[description : description + size].hex()
        place = description + (size + 3) // 4 * 4
    return None
