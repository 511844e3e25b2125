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
from tools import harness, programs

NOBODY = 65534
KIB = 1024


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
@pytest.mark.parametrize("options", [[], ["--max-pause=5ms"], ["--deep", "--max-pause=5ms"]])
@pytest.mark.parametrize("jailed", [False, True])
def test_a_program_that_changed_its_user(arenadump: harness.Arenadump, options: list[str], *, jailed: bool) -> None:
    """It may not read its own page map. Pages that were only ever read are not counted as memory that came back."""
    command = [str(programs.build("changes_user")), str(NOBODY), *["jailed"] * jailed]
    with started(*command) as pid:
        asked(arenadump, "inject", pid, *["--force"] * jailed)
        forecast = asked(arenadump, "trim", pid, "--forecast")["forecast"]
        before = heap(pid)
        done = asked(arenadump, "trim", pid, *options)
        gone = before - heap(pid)
        assert gone > 1 << 20
        assert forecast == gone  # root knows
        assert "may not read its own page map" in done["note"]
        if jailed:
            assert "not known" in done["note"]
            assert done["returned"] is done["forecast"] is None
            assert all(arena["resident"] is arena["releasable"] is None for arena in done["arenas"])
        elif done["returned"] is not None or has_no_swap() or "--max-pause=5ms" in options:
            assert done["returned"] == done["forecast"] == gone


def has_no_swap() -> bool:
    return len(Path("/proc/swaps").read_text().splitlines()) == 1
