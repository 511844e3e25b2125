# SPDX-License-Identifier: MIT
"""The processes that a timeline is about: by PID, by command or by cgroup, found anew at each poll."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arenascope.humanize import lines
from arenascope.processes import (
    PROC,
    all_processes,
    cgroups_of,
    has_no_child,
    is_in_parents_memory,
    process_at,
    read_proc,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from arenascope.processes import Identity, Process

FEW: Final = 8  # processes of which the files of each are read, where a scan would read more
COMM: Final = 15  # bytes of a name that the kernel keeps
MOUNT_ROOT, MOUNT_POINT = 3, 4  # fields of /proc/PID/mountinfo
SUPERVISOR: Final = "arenadump-guard"  # AS_SUPERVISOR_NAME of the C program


def _is_new(process: Process) -> bool:
    """Whether a process that was not there before has memory of its own, and is no clone that a snapshot has made.

    A clone is traced until it is killed. A process that is inspected just now is, too: it is new at the next poll.
    The memory of a child of vfork() is its parent's, and would count twice.
    """
    found = re.search(r"^TracerPid:\s*([0-9]+)$", read_proc(process.files / "status"), re.MULTILINE)
    tracer = read_proc(PROC / found[1] / "comm").strip() if found and int(found[1]) else ""
    return tracer != SUPERVISOR and process_at(process.pid) is not None and not is_in_parents_memory(process)


class Watched:
    """What is watched. `members()` finds the processes of now."""

    def __init__(self) -> None:
        """Nobody is known yet."""
        self.met: set[Identity] = set()

    def members(self) -> list[Process]:
        """The processes of now, the largest first. The clone that somebody's snapshot reads is none of them."""
        without = self.choose_without_scan()
        chosen = self.choose(all_processes()) if without is None else without
        found = [each for each in chosen if each.identity in self.met or _is_new(each)]
        self.met = {each.identity for each in found}
        return sorted(found, key=lambda each: (-each.rss, each.pid))

    def choose(self, everything: dict[int, Process]) -> Iterable[Process]:
        """Those of `everything` that belong to it, in any order."""
        raise NotImplementedError

    def choose_without_scan(self) -> Iterable[Process] | None:
        """As `choose` with all processes, where a few files tell enough; None: they do not."""
        return None


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
        first = read_proc(each.files / "cmdline").partition("\0")[0]
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
    for line in lines(read_proc(PROC / "self" / "mountinfo")):
        fields = line.split(" ")
        root, mount = fields[MOUNT_ROOT], fields[MOUNT_POINT].rstrip("/")
        kind = fields[fields.index("-") + 1]
        if kind in {"cgroup", "cgroup2"} and (path + "/").startswith(mount + "/"):
            below = (root.rstrip("/") + path[len(mount) :]).strip("/")
            found = max(found or (0, ""), (len(mount), "/" + below))
    return found[1] if found else None


class OfPid(Watched):
    """A process and its forks that run the same program. When all have ended: who is started as it was."""

    def __init__(self, first: Process) -> None:
        """`first`: what the user has named."""
        super().__init__()
        self.met.add(first.identity)  # it may be inspected just now
        self.exe: Final = first.exe
        self.cmdline: Final = first.cmdline
        self.uid: Final = first.uid
        self.known: set[Identity] = {first.identity}

    def choose(self, everything: dict[int, Process]) -> Iterable[Process]:
        """The process, its forks, or their successors."""
        alive = {each.pid for each in everything.values() if each.identity in self.known}
        if not alive:
            alive = {each.pid for each in everything.values() if self._again(each)}
        forks = _descendants(everything, alive, lambda each: each.exe == self.exe)
        found = [everything[pid] for pid in forks | alive]
        self.known = {each.identity for each in found} or self.known
        return found

    def choose_without_scan(self) -> Iterable[Process] | None:
        """Those that live, if one does and none has a child: there is no fork then that is not known."""
        if len(self.known) > FEW:
            return None
        found = [
            each for each in map(process_at, [pid for pid, _ in self.known]) if each and each.identity in self.known
        ]
        if not found or not all(has_no_child(each.pid) for each in found):
            return None
        self.known = {each.identity for each in found}
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
        self.met.update(*(group.met for group in groups))

    def choose(self, everything: dict[int, Process]) -> Iterable[Process]:
        """Those of any of the groups."""
        return {each.pid: each for group in self.groups for each in group.choose(everything)}.values()

    def choose_without_scan(self) -> Iterable[Process] | None:
        """Likewise, where no group needs a scan."""
        found: dict[int, Process] = {}
        for group in self.groups:
            chosen = group.choose_without_scan()
            if chosen is None:
                return None
            found.update({each.pid: each for each in chosen})
        return found.values()


def _descendants(everything: dict[int, Process], of: set[int], is_one: Callable[[Process], bool]) -> set[int]:
    """The children of these, their children, and so on, of which each `is_one`."""
    found: set[int] = set()
    children: dict[int, list[int]] = {}
    for pid, each in everything.items():
        children.setdefault(each.parent, []).append(pid)
    waiting = list(of)
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found and child not in of and is_one(everything[child]):
                found.add(child)
                waiting.append(child)
    return found
