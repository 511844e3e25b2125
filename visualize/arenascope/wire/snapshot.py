# SPDX-License-Identifier: MIT
"""From what people type (a PID, a core file, a dump file) to a Dump: arenadump does the inspecting."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from arenascope.wire import commands
from arenascope.wire import dump_records as fmt
from arenascope.wire.arenadump import to_stderr
from arenascope.wire.dump import Dump
from arenascope.wire.how import DEFAULT, How

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from arenascope.wire.commands import Words


class TakenDump(NamedTuple):
    """The dump of a snapshot."""

    dump: Dump
    from_dump: bool  # the target is a dump file: the snapshot was taken earlier
    remarks: tuple[str, ...] = ()  # what arenadump said besides


def is_dump(target: str) -> bool:
    """Whether the target is a file that begins as a dump does. A number is a PID, unless it is written as a path."""
    if re.fullmatch("[0-9]+", target):
        return False
    try:
        # Not blocking: the name may be a FIFO's.
        fd = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False  # arenadump says what is wrong with it
    try:
        return os.read(fd, len(fmt.MAGIC) - 1) == fmt.MAGIC[:-1]  # one that lost its newline in a transfer, too
    except OSError:
        return False
    finally:
        os.close(fd)


def take_snapshot(target: str, how: How = DEFAULT) -> TakenDump:
    """Inspect the target; a dump file is opened as it is.

    What arenadump remarks on stderr is passed on; its failure is an ArenascopeError with its exit code and its words.
    The dump has no name: the mapping alone keeps it.
    """
    (snapshot,) = take_all([(target, how)])
    return snapshot


def take_all(asked: Sequence[tuple[str, How]], remark: Callable[[str], None] = to_stderr) -> list[TakenDump]:
    """As take_snapshot() of each target. arenadump starts once for all the dump files."""
    paths = [target for target, _ in asked if is_dump(target)]
    dumps = iter(Dump.opened(paths) if paths else ())
    return [
        TakenDump(next(dumps), from_dump=True) if target in paths else _taken(target, how, remark)
        for target, how in asked
    ]


def _taken(target: str, how: How, remark: Callable[[str], None]) -> TakenDump:
    remarks: list[str] = []
    with _file_without_name(how) as descriptor:
        commands.dump(target, how, "-", stdout=descriptor, remark=remarks.append)
        for each in remarks:
            remark(each)
        return TakenDump(Dump(target, descriptor), from_dump=False, remarks=tuple(remarks))


def _on_disk() -> int | None:
    """A file without a name where temporary files go. None: no directory takes one."""
    with suppress(OSError), tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
    return None


@contextmanager
def _file_without_name(how: How) -> Iterator[int]:
    """Where a dump goes: memory, which costs less than a file system. One with all chunks may be too large for it."""
    descriptor = _on_disk() if how.chunks else None
    if descriptor is None:
        descriptor = os.memfd_create("arenascope-dump", os.MFD_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def take_profile(pid: str, options: Words) -> TakenDump:
    """Have a process record who allocates, and take a snapshot with the profile; the file has no name afterwards."""
    with tempfile.TemporaryDirectory(prefix="arenascope-") as folder:
        path = f"{folder}/dump"
        remarks: list[str] = []
        commands.profile(pid, options, path, remarks.append)
        return TakenDump(Dump(path), from_dump=False, remarks=tuple(remarks))


def open_taken(path: str) -> TakenDump:
    """The dump in a file. DumpError: it cannot be opened, is no dump, or is damaged."""
    return TakenDump(Dump(path), from_dump=True)
