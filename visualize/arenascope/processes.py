# SPDX-License-Identifier: MIT
"""The processes of the machine, as /proc tells of them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from arenascope.humanize import lines

PROC: Final = Path("/proc")
# Fields of /proc/PID/stat behind the name, counted from 0: proc_pid_stat(5).
STATE, PARENT, FLAGS, THREADS, STARTED, RSS = 0, 1, 6, 17, 19, 21
DEAD: Final = (b"Z", b"X")  # states
MOST_OF_STAT: Final = 4096  # bytes; 52 numbers, and a name of at most 64 bytes
MOST_TRIES: Final = 10
MOST_ASKED: Final = 16  # threads of a process that are asked for children
KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD of the kernel's sched.h
KCMP: Final = {"x86_64": 312, "aarch64": 272}  # the number of kcmp(2)
KCMP_VM: Final = 1  # the kernel's kcmp.h
SMALLER: Final = 0.8  # of the memory of a process
DIGITS: Final = re.compile(r"\d+")
GONE: Final = (FileNotFoundError, ProcessLookupError)


class Identity(NamedTuple):
    """A process and no other: a PID is used again, but not at the same time since boot (clock ticks)."""

    pid: int
    started: int


class Process(NamedTuple):
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


def _text(folder: str) -> bytes:
    """What the stat file of a thread says; empty: it has ended. By three system calls: a scan reads many."""
    try:
        fd = os.open(f"{folder}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, MOST_OF_STAT)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _stat(text: bytes) -> list[bytes] | None:
    """Fields of a stat file (proc_pid_stat(5)), those behind the name, and last the name. None: it is none."""
    comm, found, rest = text[text.find(b"(") + 1 :].rpartition(b")")
    return [*rest.split(None, RSS + 1), comm] if found else None


def _is_dead(stat: list[bytes]) -> bool:
    """Whether this thread has ended."""
    return stat[STATE] in DEAD


def process_at(pid: int) -> Process | None:
    """A process that runs; None: there is none, or it is a zombie."""
    found = _process(pid)
    return None if found is None or found.zombie else found


def is_zombie(pid: int) -> bool:
    """Whether a process has ended, and its parent has not asked for its end."""
    found = _process(pid)
    return found is not None and found.zombie


def _process(pid: int) -> Process | None:
    """Asked again where the first thread has ended, and another one is about to have its id, by an exec."""
    stat = None
    for _ in range(MOST_TRIES):
        stat = _stat(_text(f"{PROC}/{pid}"))
        if stat is None or not _is_dead(stat) or stat[THREADS] == b"1":
            break
        for tid in _threads(pid):
            living = _stat(_text(f"{PROC}/{pid}/task/{tid}"))
            if living and not _is_dead(living):
                return _described(pid, stat, living, tid)
    return _described(pid, stat) if stat else None


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"{PROC}/{pid}/task")]  # noqa: PTH208 - each poll does it
    except OSError:
        return []


def _described(pid: int, stat: list[bytes], living: list[bytes] | None = None, through: int | None = None) -> Process:
    """`living`: of the thread `through`, where the first one has ended."""
    return Process(
        Identity(pid, int(stat[STARTED])),
        int(stat[PARENT]),
        stat[-1].decode("utf-8", "surrogateescape"),
        int((living or stat)[RSS]),
        zombie=_is_dead(stat) and not living,
        kernel=bool(int(stat[FLAGS]) & KERNEL_THREAD),
        through=through,
    )


def files_of(pid: int) -> Path:
    """Where the files of a process are, as `Process.files`."""
    found = _process(pid)
    return found.files if found else PROC / str(pid)


def has_no_child(pid: int) -> bool:
    """Whether a process has no child. False, too: that cannot be told by a few files.

    A thread's children go to another one when it ends, which may have been asked before: then one file is missing, or
    the list of threads has not as many as there are.
    """
    stat, tids = _stat(_text(f"{PROC}/{pid}")), _threads(pid)
    if not stat or len(tids) > MOST_ASKED or int(stat[THREADS]) != len(tids):
        return False
    try:
        return not any(_children(f"{PROC}/{pid}/task/{tid}/children") for tid in tids)
    except OSError:  # the kernel has no such files, or the thread has ended
        return False


def _children(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, MOST_OF_STAT)
    finally:
        os.close(fd)


def is_in_parents_memory(process: Process) -> bool:
    """Whether a process runs in its parent's memory, as a child of vfork() does until its exec.

    It cannot come to be so later. False, too: the kernel does not tell (no permission, no kcmp(2)).
    """
    import ctypes  # noqa: PLC0415 - most commands compare no processes

    number = KCMP.get(os.uname().machine)
    return number is not None and ctypes.CDLL(None).syscall(number, process.parent, process.pid, KCMP_VM, 0, 0) == 0


def smaller_sibling(pid: int) -> int | None:
    """The smallest process with the parent and the command of this one (but for numbers): of a server's workers, say.

    None: none is clearly smaller, or that cannot be told.
    """
    own = process_at(pid)
    found = [process_at(each) for each in children(own.parent)] if own else []
    alike = [
        each for each in found if each and own and each.rss < SMALLER * own.rss and _command(each) == _command(own)
    ]
    return min(alike, key=lambda each: each.rss).pid if alike else None


def _command(process: Process) -> tuple[str | None, str]:
    return process.exe, DIGITS.sub("", process.cmdline)


def children(pid: int) -> list[int]:
    """The processes that a process has started; some are missing while its threads end."""
    found: list[int] = []
    for tid in _threads(pid):
        with suppress(OSError):
            found += map(int, _children(f"{PROC}/{pid}/task/{tid}/children").split())
    return found


class _Seen:
    """What the last scan of /proc has read."""

    processes: ClassVar[dict[bytes, Process]] = {}  # by what their stat files said


def _scanned(name: str, now: dict[bytes, Process]) -> Process | None:
    """A process of a scan. What its file says is the same while it rests, and then so is what comes of it."""
    text = _text(f"{PROC}/{name}")
    known = _Seen.processes.get(text)
    if known is None:
        stat = _stat(text)
        if stat is None or _is_dead(stat):  # of a dead one other files tell more, which may change
            return _process(int(name))
        known = _described(int(name), stat)
    now[text] = known
    return known


def all_processes(*, zombies: bool = False) -> dict[int, Process]:
    """Every process that runs, but this one; with the zombies if they are asked for."""
    ours = os.getpid()
    now: dict[bytes, Process] = {}
    found = [_scanned(name, now) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208 - there are hundreds
    _Seen.processes = now
    return {each.pid: each for each in found if each and each.pid != ours and (zombies or not each.zombie)}


def cgroups_of(pid: int) -> list[str]:
    """Its cgroups' paths: one, or one for each hierarchy of version 1."""
    return [line.split(":", 2)[2] for line in lines(read_proc(PROC / str(pid) / "cgroup")) if line.count(":") >= 2]  # noqa: PLR2004
