# SPDX-License-Identifier: MIT
"""What the live view costs while nobody types: of so many processes that rest, and of one, with a profile too."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from children import ready, spent

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTLED = 60.0  # seconds: what the view has for its start is spent by then
WINDOW = 30.0
PATIENCE = 60.0  # seconds for what a key does
# Holds blocks of many functions, and replaces some of them all the time, a tenth of the time at work.
ALLOCATES = """
import random, time
made = []
for number in range(200):
    space = {}
    exec(f"def make_{number}(): return [bytes(random.randrange(1000, 20000)) for _ in range(10)]", globals(), space)
    made += space.values()
kept = [random.choice(made)() for _ in range(500)]
print("ready", flush=True)
while True:
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        kept[random.randrange(len(kept))] = random.choice(made)()
    time.sleep(0.09)
"""


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


class View:
    """`arenascope top` in a terminal of its own."""

    def __init__(self, *words: str) -> None:
        """Start it."""
        self._written = bytearray()
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.execv(sys.executable, [sys.executable, "-m", "arenascope", "top", *words])
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        with suppress(OSError):
            while more := os.read(self._terminal, 1 << 16):
                self._written += more

    def press(self, key: str) -> None:
        """What the view writes from then on is what until() snapshots in."""
        self._written.clear()
        os.write(self._terminal, key.encode())

    def until(self, words: str) -> None:
        """It has written this."""
        end = time.monotonic() + PATIENCE
        while words.encode() not in self._written:
            if time.monotonic() > end:
                raise SystemExit(f"arenascope top does not show: {words}")
            time.sleep(0.05)

    def percent(self, windows: int) -> list[float]:
        """Returns the per cent of a processor that it uses in each window, once what it has for its start is spent."""
        time.sleep(SETTLED)
        found = []
        for _ in range(windows):
            before, begun = spent(self.pid), time.monotonic()
            time.sleep(WINDOW)
            found.append(100 * (spent(self.pid) - before) / (time.monotonic() - begun))
        return found

    def end(self) -> None:
        """Kill it; a profile of its ends with it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@contextmanager
def viewing(*words: str) -> Iterator[View]:
    made = View(*words)
    try:
        yield made
    finally:
        made.end()


def percent(count: int, windows: int) -> list[float]:
    """Per cent of a processor that `arenascope top` takes, in so many windows of half a minute."""
    mark = f"mark{uuid.uuid4().hex}"
    with resting(count, mark), viewing("--filter", mark) as view:
        return view.percent(windows)


def percent_of_one(windows: int, *, profile: bool) -> list[float]:
    """The same with one process, which allocates all the time; `profile`: and whose profile is on."""
    with ready([sys.executable, "-c", ALLOCATES]) as process, viewing(str(process.pid)) as view:
        view.until("Rss")
        if profile:
            view.press("p")
            view.until("record who allocates")
            view.press("y")
            view.until("A profile is on since")
        return view.percent(windows)
