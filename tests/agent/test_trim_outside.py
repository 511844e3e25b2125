# SPDX-License-Identifier: MIT
"""`trim` from outside: what it says is what the kernel counts, or it says that it does not know; and what it costs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tools import debian, harness, programs

pytestmark = pytest.mark.usefixtures("pages_stay")

NOBODY = 65534
KIB = 1024
LOADER = 64 * KIB  # what a libc before 2.34 loads and allocates to start a thread


@contextmanager
def started(*command: str) -> Iterator[int]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout
            assert program.stdout.readline() == "ready\n"
            yield program.pid
        finally:
            program.kill()


def asked(arenadump: harness.Arenadump, command: str, pid: int, *options: str) -> dict[str, Any]:
    return json.loads(arenadump.check(command, "--json", *options, pid))  # type: ignore[no-any-return]


def heap(pid: int) -> int:
    """Resident bytes of what brk gave."""
    rows = Path(f"/proc/{pid}/smaps").read_text().partition("[heap]\n")[2]
    found = re.search(r"^Rss: +(\d+) kB", rows, re.MULTILINE)
    assert found
    return int(found[1]) * KIB


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("options", [[], ["--max-hold=5ms"], ["--deep", "--max-hold=5ms"]])
@pytest.mark.parametrize("jailed", [False, True])
def test_a_program_that_changed_its_user(arenadump: harness.Arenadump, options: list[str], *, jailed: bool) -> None:
    """It may not read its own page map. Pages that were only ever read are not counted as memory that came back."""
    command = [str(programs.build("changes_user")), str(NOBODY), *["jailed"] * jailed]
    with started(*command) as pid:
        agent = asked(arenadump, "inject", pid, *["--force"] * jailed)["agent_resident"]
        assert agent is None if jailed else 0 < agent < MOST
        forecast = asked(arenadump, "trim", pid, "--forecast")["forecast"]
        before = heap(pid)
        done = asked(arenadump, "trim", pid, *options)
        gone = before - heap(pid)
        assert gone > 1 << 20
        assert forecast == gone  # root knows
        assert "may not read its own page map" in done["note"]
        if jailed:
            assert "unknown" in done["note"]
            assert done["returned"] is done["forecast"] is None
            assert done["arenas"]
            assert all(arena["resident"] is arena["releasable"] is None for arena in done["arenas"])
        elif done["returned"] is not None or has_no_swap() or "--max-hold=5ms" in options:
            assert done["returned"] == done["forecast"] == gone


def has_no_swap() -> bool:
    return len(Path("/proc/swaps").read_text().splitlines()) == 1


def smaps(pid: int) -> dict[tuple[str, str], dict[str, int]]:
    """The mappings, by their beginning and name, with what smaps counts of each, in bytes."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    counts: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if head := re.match(r"([0-9a-f]+)-[0-9a-f]+ \S+ \S+ \S+ \S+ *(.*)", line):
            counts = found.setdefault((head[1], head[2]), {})
        elif count := re.match(r"(\w+): +(\d+) kB", line):
            counts[count[1]] = int(count[2]) * KIB
    return found


def grown(before: dict[tuple[str, str], dict[str, int]], pid: int) -> int:
    """By how much memory: what the process has written, and what it keeps of the agent's own file, which is its alone.

    Not what it maps of libc's files by now: the page cache has those, whoever maps them.
    """
    return sum(
        now["Rss" if AGENT in name else "Anonymous"] - before.get((start, name), {"Anonymous": 0})["Anonymous"]
        for (start, name), now in smaps(pid).items()
    )


AGENT = "memfd:arenascope-agent"
MOST = 224 * KIB + 8 * os.sysconf("SC_PAGE_SIZE")  # 256 KiB with pages of 4 KiB


def settled(pid: int) -> None:
    """Until the agent sleeps again: its thread alone is called so."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text() == "arenascope\n":
            while " S " not in (task / "stat").read_text():
                pass


def test_what_the_agent_costs(arenadump: harness.Arenadump, libc: debian.Libc) -> None:
    """Less than 256 KiB, whatever has been asked of it; that is said, and all of the file that is kept is loaded."""
    program = programs.build_portable("changes_user")
    with started(*libc.command(program, "0")) as pid:
        before = smaps(pid)
        said = [asked(arenadump, "inject", pid)["agent_resident"]]
        assert 64 * KIB < grown(before, pid) < MOST + LOADER
        freed = asked(arenadump, "trim", pid, "--deep", "--max-hold=5ms")
        said.append(freed["agent_resident"])
        said.append(asked(arenadump, "trim", pid)["agent_resident"])
        settled(pid)
        now = smaps(pid)
        new = {key: counts["Rss"] for key, counts in now.items() if key not in before}
        assert said == sorted(said)
        assert said[-1] < MOST
        # Beside what it says: what libc keeps of the library in its heap, and libpthread, where that had to be loaded.
        others = sum(rss for (_, name), rss in new.items() if name and AGENT not in name)
        assert abs(sum(new.values()) - others - said[-1]) <= 8 * KIB
        # The thread's stack, as it is while the thread waits; a trim, and saying this, need three times as much.
        stacks = [at["Rss"] for key, at in now.items() if key not in before and at["Size"] >= 500 * KIB]
        assert 0 < max(stacks) <= 5 * os.sysconf("SC_PAGE_SIZE")
        files = [Path(f"/proc/{pid}/map_files") / span for span in spans(pid, AGENT)]
        assert {path.stat().st_blocks * 512 < MOST for path in files} == {True}


def spans(pid: int, name: str) -> list[str]:
    return [line.split()[0] for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if name in line]


def test_nothing_to_give_back_loads_nothing(arenadump: harness.Arenadump) -> None:
    """A trim that returns less than the agent takes makes a process larger: it is inspected from outside first."""
    with started(str(programs.build("causes", "-lpthread")), "in-use") as pid:
        before = (Path(f"/proc/{pid}/maps").read_text(), Path(f"/proc/{pid}/statm").read_text())
        for options in ([], ["--deep", "--max-hold=5ms", "--watch=10s"]):
            done = asked(arenadump, "trim", pid, *options)
            assert done["injected"] is done["trimmed"] is False
            assert done["forecast"] < MOST
            assert done["returned"] is done["watched_ms"] is None
            assert done["arenas"]
            assert "not loaded" in done["note"]
            assert "inject" in done["note"]
        assert before == (Path(f"/proc/{pid}/maps").read_text(), Path(f"/proc/{pid}/statm").read_text())
        asked(arenadump, "inject", pid)
        done = asked(arenadump, "trim", pid)  # it is there now
        assert done["trimmed"] is True
        assert done["injected"] is False


def test_a_library_that_sleeps_is_woken(arenadump: harness.Arenadump, agent: Path) -> None:
    """It is there already: nothing is to be saved by leaving it asleep."""
    with started("env", f"LD_PRELOAD={agent}", str(programs.build("causes", "-lpthread")), "in-use") as pid:
        done = asked(arenadump, "trim", pid)
        assert done["trimmed"] is True
        assert done["injected"] is False
        assert done["agent_resident"] > 0
