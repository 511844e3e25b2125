# SPDX-License-Identifier: MIT
"""Keeps blocks that one line makes: by threads one after another, then by the first, which forks in between.

by_thread.py FILE: each process writes its PID, and how many each thread keeps.
"""

import os
import sys
import threading
import time
from pathlib import Path

SIZE = 9001
THREADS = 8
OF_EACH = 1000
kept: list[bytearray] = []
counts: dict[int, int] = {}


def leaf() -> bytearray:
    return bytearray(SIZE)


def keep() -> None:
    kept.extend(leaf() for _ in range(OF_EACH))
    counts[threading.get_native_id()] = OF_EACH


for _ in range(THREADS):
    thread = threading.Thread(target=keep)
    thread.start()
    thread.join()
child = None
own: dict[int, int] = {}
for i in range(3 * OF_EACH):
    if i == 2 * OF_EACH:
        child = os.fork()
    kept.append(leaf())
    tid = threading.get_native_id() if child == 0 else os.getpid()
    own[tid] = own.get(tid, 0) + 1
counts |= own
name = sys.argv[1] + (".child" if child == 0 else "")
Path(name + ".new").write_text(repr((os.getpid(), counts)))
Path(name + ".new").rename(name)
time.sleep(600)
