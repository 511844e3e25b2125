# SPDX-License-Identifier: MIT
"""A process whose malloc holds free pages, and which trims itself or leaks when it is told to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SIZE = 1000
MANY = 20000
CODE = f"""
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
def allocated(size):
    made = libc.malloc(size)
    ctypes.memset(made, 1, size)
    return made
def rss():
    with open("/proc/self/smaps_rollup") as rollup:
        return next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Rss:"))
chunks = [allocated({SIZE}) for _ in range({MANY})]
pin = allocated({SIZE})
for chunk in chunks:
    libc.free(chunk)
print("ready", flush=True)
for line in sys.stdin:
    word, number = (line.split() + ["0"])[:2]
    before = rss()
    if word == "trim":
        libc.malloc_trim(0)
    leaked = [allocated(int(number)) for _ in range(5000)] if word == "leak" else []
    print(before - rss(), flush=True)
"""


class Hoarder:
    """Such a process."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child, self.pid = child, child.pid

    def ask(self, *words: object) -> int:
        """Tell it something; how much its Rss has shrunk by that, as it says itself."""
        assert self.child.stdin
        assert self.child.stdout
        self.child.stdin.write(" ".join(map(str, words)) + "\n")
        self.child.stdin.flush()
        return int(self.child.stdout.readline())


@contextmanager
def hoarding(mark: str) -> Iterator[Hoarder]:
    """One with this word among its arguments."""
    command = [sys.executable, "-c", CODE, mark]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            yield Hoarder(child)
        finally:
            child.kill()
