# SPDX-License-Identifier: MIT
"""The processes of the machine, as /proc tells of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from arenascope.humanize import lines

PROC: Final = Path("/proc")
# Fields of /proc/PID/stat behind the name, counted from 0: proc_pid_stat(5).
STATE, PARENT, FLAGS, THREADS, STARTED, RSS = 0, 1, 6, 17, 19, 21
DEAD: Final = "ZX"  # states
MOST_OF_STAT: Final = 4096  # bytes; 52 numbers, and a name of at most 64 bytes
MOST_TRIES: Final = 10
KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD of the kernel's sched.h
GONE: Final = (FileNotFoundError, ProcessLookupError)


class Identity(NamedTuple):
    """A process and no other: a PID is used again, but not at the same time since boot (clock ticks)."""

    pid: int
    started: int


@dataclass(frozen=True)
class Process:
    """A process that runs, or a zombie."""

    identity: Identity
    parent: int
    comm: str
    rss: int  # pages, by the kernel's quick count: threads add what they have gained or lost now and then
    zombie: bool = False
    kernel: bool = False  # a thread of the kernel's
    through: int | None = None  # the thread whose files tell of it, where its first thread has ended

    @property
    def pid(self) -> int:
        """Its PID."""
        return self.identity.pid

    @property
    def files(self) -> Path:
        """Where its files are. Those of a first thread that has ended say nothing of the memory of the others."""
        own = PROC / str(self.pid)
        return own if self.through is None else own / "task" / str(self.through)

    @property
    def exe(self) -> str | None:
        """Its executable; None: we may not know."""
        try:
            return str((self.files / "exe").readlink())
        except OSError:
            return None

    @property
    def cmdline(self) -> str:
        """Its arguments, as it has them now."""
        return read_proc(self.files / "cmdline").replace("\0", " ").strip()

    @property
    def uid(self) -> int | None:
        """Whose it is; None: it has ended."""
        try:
            return self.files.stat().st_uid
        except GONE:
            return None


def read_proc(file: Path | str) -> str:
    """The text of a file of a process; empty: it has ended, or we may not read it."""
    try:
        with open(file, "rb", buffering=0) as opened:  # noqa: PTH123 - of a string: to make a Path takes longer than this
            return opened.readall().decode("utf-8", "surrogateescape")  # as names of files and arguments are
    except OSError:
        return ""


class _Stat(NamedTuple):
    """What a stat file in /proc says (proc_pid_stat(5))."""

    comm: str
    fields: list[str]  # those behind the name

    @property
    def dead(self) -> bool:
        """Whether this thread has ended."""
        return self.fields[STATE] in DEAD


def _stat(folder: str) -> _Stat | None:
    """By three system calls: a scan reads the file of each process of the machine."""
    try:
        fd = os.open(f"{folder}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, MOST_OF_STAT).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(fd)
    comm, found, rest = text.partition("(")[2].rpartition(")")
    return _Stat(comm, rest.split()) if found else None


def process_at(pid: int) -> Process | None:
    """A process that runs; None: there is none, or it is a zombie."""
    found = _process(pid)
    return None if found is None or found.zombie else found


def _process(pid: int) -> Process | None:
    """Asked again where the first thread has ended, and another one is about to have its id, by an exec."""
    for _ in range(MOST_TRIES):
        stat = _stat(f"{PROC}/{pid}")
        if stat is None or not stat.dead or stat.fields[THREADS] == "1":
            return stat and _described(pid, stat)
        for tid in _threads(pid):
            living = _stat(f"{PROC}/{pid}/task/{tid}")
            if living and not living.dead:
                return _described(pid, stat, living, tid)
    return stat and _described(pid, stat)


def _threads(pid: int) -> list[int]:
    try:
        return [int(entry.name) for entry in (PROC / str(pid) / "task").iterdir()]
    except OSError:
        return []


def _described(pid: int, stat: _Stat, living: _Stat | None = None, through: int | None = None) -> Process:
    """`living`: of the thread `through`, where the first one has ended."""
    return Process(
        Identity(pid, int(stat.fields[STARTED])),
        int(stat.fields[PARENT]),
        stat.comm,
        int((living or stat).fields[RSS]),
        zombie=stat.dead and not living,
        kernel=bool(int(stat.fields[FLAGS]) & KERNEL_THREAD),
        through=through,
    )


def files_of(pid: int) -> Path:
    """Where the files of a process are, as `Process.files`."""
    found = _process(pid)
    return found.files if found else PROC / str(pid)


def all_processes(*, zombies: bool = False) -> dict[int, Process]:
    """Every process that runs, but this one; with the zombies if they are asked for."""
    ours = os.getpid()
    found = (_process(int(name)) for name in os.listdir(PROC) if name.isdigit())  # noqa: PTH208 - there are hundreds
    return {each.pid: each for each in found if each and each.pid != ours and (zombies or not each.zombie)}


def cgroups_of(pid: int) -> list[str]:
    """Its cgroups' paths: one, or one for each hierarchy of version 1."""
    return [line.split(":", 2)[2] for line in lines(read_proc(PROC / str(pid) / "cgroup")) if line.count(":") >= 2]  # noqa: PLR2004
