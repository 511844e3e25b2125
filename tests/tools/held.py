# SPDX-License-Identifier: MIT
"""A thread that holds known values in all of its registers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import odd, programs

HOW = ["spins", "reads"]


@contextmanager
def holding(how: str, tiles: str, **environment: str) -> Iterator[int]:
    """A thread with known values in all of its registers, which finds all of them again in the end."""
    process = subprocess.Popen(
        [programs.build("holds"), how, tiles],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout
        covered = process.stdout.readline()
        assert covered.startswith("holds "), covered
        assert process.stdout.readline() == "ready\n"
        print(f"{how}, tiles {tiles}: {covered}", end="")
        odd.wait_for(lambda: odd.state(process.pid) == ("S" if how == "reads" else "R"))
        yield process.pid
        if how == "spins":
            process.send_signal(signal.SIGTERM)
        out, _ = process.communicate("." if how == "reads" else "", timeout=120)
        assert process.returncode == 0, out
    finally:
        process.kill()
        process.wait()


def back_at_work(pid: int) -> bool:
    """The thread is where holds.c keeps it: in its own code, or in a read from there."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    program = re.escape(programs.build("holds").name)
    code = re.findall(rf"^(\w+)-(\w+) r-xp .*/{program}$", maps, re.MULTILINE)
    call = Path(f"/proc/{pid}/syscall").read_text().split()
    return call[0] == str(odd.READ) and any(int(first, 16) <= int(call[-1], 16) < int(last, 16) for first, last in code)


def blocked(pid: int) -> str:
    """Its signal mask."""
    return str(re.findall(r"^SigBlk:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[0])
