# SPDX-License-Identifier: MIT
"""A tracer of ours is killed behind each of its ptrace requests, one after the other."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from pathlib import Path

import pytest
from tools import debian, harness, held, odd

MMAP, MUNMAP, CLONE, WAIT4 = (222, 215, 220, 260) if debian.NATIVE == "arm64" else (9, 11, 56, 61)
INJECT = ("inject",)
CLONED = ("summary", "--mode", "clone")
# The system calls that a thread makes on its own stack: in the middle of one a death does harm (docs/injection.md).
EXPOSED = {INJECT: [MMAP, MUNMAP], CLONED: [CLONE, WAIT4]}


class Victim:
    """arenadump, whose tracer is killed behind one of its ptrace requests."""

    def __init__(self, arenadump: harness.Arenadump, log: Path, us: int) -> None:
        self.arenadump, self.log, self.us = arenadump, log, us
        self.library = odd.build("ptrace_faults", "-shared", "-fPIC", "-ldl")

    def run(self, command: tuple[str, ...], pid: int, at: int) -> list[str]:
        """What it was seen to do, killed behind request number `at`; 0: never."""
        self.log.unlink(missing_ok=True)
        preload = {"LD_PRELOAD": str(self.library), "DIES_LOG": str(self.log)}
        when = {"DIES_AT": str(at), "DIES_AFTER": str(self.us)}
        done = self.arenadump.run(*command, pid, env={**os.environ, **preload, **when})
        said = self.log.read_text().splitlines() if self.log.exists() else []
        assert done.returncode == 0 or "killed" in said, done.stderr
        return said


@pytest.fixture(params=[0, 2000], ids=["at once", "at its next stop"])
def victim(arenadump: harness.Arenadump, tmp_path: Path, request: pytest.FixtureRequest) -> Victim:
    headers = subprocess.run(["readelf", "-lW", arenadump.path], capture_output=True, check=True).stdout
    if b"INTERP" not in headers:
        pytest.skip(f"{arenadump.path} is linked statically: nothing can be preloaded into it")
    return Victim(arenadump, tmp_path / "log", request.param)


@pytest.mark.parametrize("command", EXPOSED, ids=" ".join)
@pytest.mark.parametrize("how", held.HOW)
def test_which_calls_are_exposed(victim: Victim, how: str, command: tuple[str, ...]) -> None:
    with held.holding(how, "none") as pid:
        said = victim.run(command, pid, 0)
    assert said == [f"exposed {number}" for number in EXPOSED[command]]


# `syscall; ret`; on aarch64 svc, and the snapshot of whether it failed, as in syscall().
SYSCALL_RETURN = bytes.fromhex("010000d41ffc3fb142000054c0035fd6" if debian.NATIVE == "arm64" else "0f05c3")


def write_code(pid: int) -> None:
    """Writes the page of libc's code that has a system call and a return, with what is there: a copy from then on."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    start, end = next(re.finditer(r"^(\w+)-(\w+) r-xp .*/libc[.-]\S*$", maps, re.MULTILINE)).groups()
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(int(start, 16))
        at = int(start, 16) + memory.read(int(end, 16) - int(start, 16)).index(SYSCALL_RETURN)
        memory.seek(at)
        memory.write(SYSCALL_RETURN)


def test_a_call_through_written_code_is_not_made(victim: Victim) -> None:
    """It would be let past a seccomp filter: all are made elsewhere."""
    with held.holding("reads", "none") as pid:
        write_code(pid)
        said = victim.run(INJECT, pid, 0)
        assert len(said) > len(EXPOSED[INJECT])
        assert victim.run(INJECT, pid, 0) == []  # the library is there


def kill_at(victim: Victim, command: tuple[str, ...], how: str, at: int) -> str:
    """Kills behind that request, and sees that a fresh target goes on undisturbed; what became of the tracer."""
    with held.holding(how, "none") as pid:
        before = held.blocked(pid)
        said = [word for word in victim.run(command, pid, at) if not word.startswith("exposed")]
        print(f"request {at}: {said}")
        odd.wait_for(lambda: odd.tracer(pid) == 0)
        odd.wait_for(lambda: held.blocked(pid) == before)
        if how == "reads":
            odd.wait_for(lambda: held.back_at_work(pid))
    return said[0] if said else "lived"


@pytest.mark.nightly("kills")
@pytest.mark.slow
@pytest.mark.parametrize("command", EXPOSED, ids=" ".join)
@pytest.mark.parametrize("how", held.HOW)
def test_killed_at_each_step(victim: Victim, how: str, command: tuple[str, ...]) -> None:
    steps = (kill_at(victim, command, how, at) for at in itertools.count(1))
    said = list(itertools.takewhile(lambda word: word != "lived", steps))
    assert said.count("killed") > (50 if command == INJECT else 10)
    # A call is some eleven requests: registers, signal mask, three moves, and snapshots between them.
    assert said.count("bare") <= 12 * len(EXPOSED[command])
