# SPDX-License-Identifier: MIT
"""Processes in which some threads are under a seccomp filter: which thread loads the agent, and what is refused."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from tools import harness, odd
from tools.injection import DENIED, UNSUPPORTED, inject, loaded, refused

STATES = {".": "S", "f": "S", "F": "S", "v": "D", "x": "Z"}
SOME = ["".join(roles) for roles in product(".f", repeat=3) if len(set(roles)) == 2]


def tids(pid: int) -> list[int]:
    """In the order in which they were made, as the kernel lists them: numbers begin anew at kernel.pid_max."""
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]


def field(pid: int, tid: int, name: str) -> str:
    status = Path(f"/proc/{pid}/task/{tid}/status").read_text()
    found = re.search(rf"^{name}:\s+(\S+)", status, re.MULTILINE)
    assert found, status
    return found[1]


@contextlib.contextmanager
def running(roles: str) -> Iterator[int]:
    """A program with such threads (tests/programs/filtered_threads.c), each where it stays; unharmed in the end."""
    command = [str(odd.build("filtered_threads", "-pthread")), roles]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            wanted = [STATES[role] for role in roles]
            odd.wait_for(lambda: [field(process.pid, tid, "State") for tid in tids(process.pid)] == wanted)
            yield process.pid
            assert process.poll() is None
            if roles[0] in ".fF":
                process.communicate("", timeout=60)
                assert process.returncode == 0
        finally:
            process.kill()


def filtered(pid: int, roles: str) -> set[int]:
    return {tid for tid, role in zip(tids(pid), roles, strict=False) if role in "fF"}


def agents(pid: int) -> list[int]:
    return [tid for tid in tids(pid) if field(pid, tid, "Name").startswith("arenascope")]


@pytest.mark.parametrize("options", [(), ("--force",)], ids=["as-it-is", "forced"])
@pytest.mark.parametrize("roles", SOME)
def test_an_unfiltered_thread_is_used(arenadump: harness.Arenadump, roles: str, options: tuple[str, ...]) -> None:
    """Whichever it is. The agent's threads have no filter then."""
    with running(roles) as pid:
        done = inject(arenadump, pid, *options)
        assert done["how"] == "loaded"
        assert done["thread"] not in filtered(pid, roles)
        assert {field(pid, tid, "Seccomp") for tid in agents(pid)} == {"0"}
        arenadump.check("trim", "--deep", pid)


@pytest.mark.parametrize("roles", ["f", "fff", "xff"])
def test_all_are_filtered(arenadump: harness.Arenadump, roles: str) -> None:
    """A thread that has ended counts for nothing."""
    with running(roles) as pid:
        refused(arenadump, pid, UNSUPPORTED, "is under a seccomp filter, which may kill it")


@odd.needs_root
def test_all_are_filtered_and_it_is_forced(arenadump: harness.Arenadump) -> None:
    """The agent's thread is under the filter of the thread that made it."""
    with running("FF") as pid:
        assert inject(arenadump, pid, "--force")["thread"] in filtered(pid, "FF")
        assert {field(pid, tid, "Seccomp") for tid in agents(pid)} == {"2"}


@odd.needs_root
def test_the_unfiltered_one_never_stops(arenadump: harness.Arenadump) -> None:
    """Then --force takes a filtered one; without it none is taken."""
    with running("vF") as pid:
        refused(arenadump, pid, DENIED, "no thread could be examined", "--timeout", "300ms")
        assert inject(arenadump, pid, "--force")["thread"] in filtered(pid, "vF")


@pytest.mark.parametrize("there", [False, True], ids=["fresh", "injected"])
@pytest.mark.parametrize("roles", SOME)
def test_a_profile_runs_in_all_threads(
    arenadump: harness.Arenadump, tmp_path: Path, roles: str, *, there: bool
) -> None:
    """So it is refused where one has a filter, whether the agent is there or not."""
    with running(roles) as pid:
        if there:
            inject(arenadump, pid)
        done = arenadump.run("profile", "--for", "1ms", "-o", tmp_path / "dump", pid)
        assert done.returncode == UNSUPPORTED, done.stderr
        assert "is under a seccomp filter, which may kill the process" in done.stderr
        assert any(f"thread {tid} is" in done.stderr for tid in filtered(pid, roles))
        assert loaded(pid) == there


@odd.needs_root
def test_a_profile_is_forced(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with running(".F") as pid:
        arenadump.check("profile", "--force", "--for", "1ms", "--timeout", "120s", "-o", tmp_path / "dump", pid)
