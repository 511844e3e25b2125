# SPDX-License-Identifier: MIT
"""What the live view costs while nobody types, with so many processes that rest."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TICK = os.sysconf("SC_CLK_TCK")
SETTLED = 60.0  # seconds: what the view has for its start is spent by then
WINDOW = 30.0


def spent(pid: int) -> float:
    """Processor time of a process and of its children that have ended, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:15])) / TICK


@contextmanager
def resting(count: int, mark: str) -> Iterator[None]:
    """So many processes with this word among their arguments, a tenth of them Pythons."""
    python = [sys.executable, "-c", "import sys; kept = [str(i) for i in range(50000)]; sys.stdin.readline()", mark]
    sleeper = ["bash", "-c", 'exec -a "$0" sleep 100000', mark]
    made = [subprocess.Popen(python if number % 10 == 0 else sleeper, stdin=subprocess.PIPE) for number in range(count)]
    try:
        yield
    finally:
        for each in made:
            each.kill()
        for each in made:
            each.wait()


def _drain(terminal: int) -> None:
    with suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


def percent(count: int, windows: int) -> list[float]:
    """Per cent of a processor that `arenascope top` takes, in so many windows of half a minute."""
    mark = f"mark{uuid.uuid4().hex}"
    with resting(count, mark):
        pid, terminal = pty.fork()
        if not pid:
            os.execv(sys.executable, [sys.executable, "-m", "arenascope", "top", "--filter", mark])
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        threading.Thread(target=_drain, args=(terminal,), daemon=True).start()
        try:
            time.sleep(SETTLED)
            found = []
            for _ in range(windows):
                before, begun = spent(pid), time.monotonic()
                time.sleep(WINDOW)
                found.append(100 * (spent(pid) - before) / (time.monotonic() - begun))
            return found
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
