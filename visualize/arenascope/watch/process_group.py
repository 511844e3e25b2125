# SPDX-License-Identifier: MIT
"""The processes that a timeline is about: by PID, by command or by cgroup, found anew at each poll."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from arenascope.humanize import lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

PROC: Final = Path("/proc")
COMM: Final = 15  # bytes of a name that the kernel keeps
MOUNT_ROOT, MOUNT_POINT = 3, 4  # fields of /proc/PID/mountinfo
# Fields of /proc/PID/stat behind the name, counted from 0: proc_pid_stat(5).
STATE, PARENT, FLAGS, THREADS, STARTED, RSS = 0, 1, 6, 17, 19, 21
DEAD: Final = "ZX"  # states
MOST_TRIES: Final = 10
KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD of the kernel's sched.h
SUPERVISOR: Final = "arenadump-guard"  # AS_SUPERVISOR_NAME of the C program
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
        return _read(self.files / "cmdline").replace("\0", " ").strip()

    @property
    def uid(self) -> int | None:
        """Whose it is; None: it has ended."""
        try:
            return self.files.stat().st_uid
        except GONE:
            return None


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8", "surrogateescape")  # as names of files and arguments are
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


def _stat(folder: Path) -> _Stat | None:
    comm, found, rest = _read(folder / "stat").partition("(")[2].rpartition(")")
    return _Stat(comm, rest.split()) if found else None


def process_at(pid: int) -> Process | None:
    """A process that runs; None: there is none, or it is a zombie."""
    found = _process(pid)
    return None if found is None or found.zombie else found


def _process(pid: int) -> Process | None:
    """Asked again where the first thread has ended, and another one is about to have its id, by an exec."""
    for _ in range(MOST_TRIES):
        stat = _stat(PROC / str(pid))
        if stat is None or not stat.dead or stat.fields[THREADS] == "1":
            return stat and _described(pid, stat)
        for tid in _threads(pid):
            living = _stat(PROC / str(pid) / "task" / str(tid))
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


def _is_new(process: Process) -> bool:
    """Whether a process that was not there before is one of its own, and no clone that a snapshot has made.

    A clone is traced until it is killed. A process that is inspected just now is, too: it is new at the next poll.
    """
    found = re.search(r"^TracerPid:\s*([0-9]+)$", _read(process.files / "status"), re.MULTILINE)
    tracer = _read(PROC / found[1] / "comm").strip() if found and int(found[1]) else ""
    return tracer != SUPERVISOR and process_at(process.pid) is not None


def all_processes(*, zombies: bool = False) -> dict[int, Process]:
    """Every process that runs, but this one; with the zombies if they are asked for."""
    found = (_process(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdigit())
    return {each.pid: each for each in found if each and each.pid != os.getpid() and (zombies or not each.zombie)}


class Watched:
    """What is watched. `members()` finds the processes of now."""

    def __init__(self) -> None:
        """Nobody is known yet."""
        self._met: set[Identity] = set()

    def members(self) -> list[Process]:
        """The processes of now, the largest first. The clone that somebody's snapshot reads is none of them."""
        chosen = self.choose(all_processes())
        found = [each for each in chosen if each.identity in self._met or _is_new(each)]
        self._met = {each.identity for each in found}
        return sorted(found, key=lambda each: (-each.rss, each.pid))

    def choose(self, everything: dict[int, Process]) -> Iterable[Process]:
        """Those of `everything` that belong to it, in any order."""
        raise NotImplementedError


class OfCommand(Watched):
    """The processes of a name: the kernel's name of it, its executable's, or that of its first argument."""

    def __init__(self, name: str) -> None:
        """`name`: without a directory."""
        super().__init__()
        self.name: Final = name

    def choose(self, everything: dict[int, Process]) -> Iterable[Process]:
        """Those of the name."""
        return (each for each in everything.values() if self._is(each))

    def _is(self, each: Process) -> bool:
        if os.fsencode(each.comm) == os.fsencode(self.name)[:COMM]:  # the kernel cuts it after so many bytes
            return True
        first = _read(each.files / "cmdline").partition("\0")[0]
        return self.name in {Path(first).name, Path(each.exe or "").name}


class OfCgroup(Watched):
    """The processes of a cgroup and of those below it."""

    def __init__(self, path: str) -> None:
        """`path`: as /proc/PID/cgroup has it, or its directory."""
        super().__init__()
        self.path: Final = _of_directory(path) or "/" + path.strip("/")

    def choose(self, everything: dict[int, Process]) -> Iterable[Process]:
        """Those below the path."""
        return (each for each in everything.values() if any(map(self._below, cgroups_of(each.pid))))

    def _below(self, path: str) -> bool:
        return path == self.path or path.startswith(self.path.rstrip("/") + "/")


def _of_directory(path: str) -> str | None:
    """The cgroup whose directory this is, as /proc/PID/cgroup has it; None: it is none."""
    found: tuple[int, str] | None = None
    for line in lines(_read(PROC / "self" / "mountinfo")):
        fields = line.split(" ")
        root, mount = fields[MOUNT_ROOT], fields[MOUNT_POINT].rstrip("/")
        kind = fields[fields.index("-") + 1]
        if kind in {"cgroup", "cgroup2"} and (path + "/").startswith(mount + "/"):
            below = (root.rstrip("/") + path[len(mount) :]).strip("/")
            found = max(found or (0, ""), (len(mount), "/" + below))
    return found[1] if found else None


def cgroups_of(pid: int) -> list[str]:
    """Its cgroups' paths: one, or one for each hierarchy of version 1."""
    return [line.split(":", 2)[2] for line in lines(_read(PROC / str(pid) / "cgroup")) if line.count(":") >= 2]  # noqa: PLR2004


class OfPid(Watched):
    """A process and its forks that run the same program. When all have ended: who is started as it was."""

    def __init__(self, first: Process) -> None:
        """`first`: what the user has named."""
        super().__init__()
        self._met.add(first.identity)  # it may be inspected just now
        self.exe: Final = first.exe
        self.cmdline: Final = first.cmdline
        self.uid: Final = first.uid
        self.known: set[Identity] = {first.identity}

    def choose(self, everything: dict[int, Process]) -> Iterable[Process]:
        """The process, its forks, or their successors."""
        alive = {each.pid for each in everything.values() if each.identity in self.known}
        if not alive:
            alive = {each.pid for each in everything.values() if self._again(each)}
        same = {pid for pid, each in everything.items() if pid in alive or each.exe == self.exe}
        found = [everything[pid] for pid in _descendants(everything, alive, same) | alive]
        self.known = {each.identity for each in found} or self.known
        return found

    def _again(self, each: Process) -> bool:
        if each.identity.started < max(known.started for known in self.known):
            return False  # a twin that ran beside it
        return each.cmdline == self.cmdline and each.exe == self.exe and each.uid == self.uid and bool(self.cmdline)


class Together(Watched):
    """The processes of several groups, each once."""

    def __init__(self, groups: Sequence[Watched]) -> None:
        """`groups`: the groups."""
        super().__init__()
        self.groups: Final = groups

    def choose(self, everything: dict[int, Process]) -> Iterable[Process]:
        """Those of any of the groups."""
        return {each.pid: each for group in self.groups for each in group.choose(everything)}.values()


def _descendants(everything: dict[int, Process], of: set[int], among: Collection[int]) -> set[int]:
    """The children of these, their children, and so on, of which each is `among` those."""
    found: set[int] = set()
    children: dict[int, list[int]] = {}
    for pid, each in everything.items():
        children.setdefault(each.parent, []).append(pid)
    waiting = list(of)
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child in among and child not in found and child not in of:
                found.add(child)
                waiting.append(child)
    return found
