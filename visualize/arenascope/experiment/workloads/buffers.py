# SPDX-License-Identifier: MIT
"""Threads that make, work on and drop buffers. Arguments: THREADS REQUESTS KEPT, the last two of each thread."""

from __future__ import annotations

import importlib
import math
import random
import sys
import threading
from typing import Any

try:
    np: Any = importlib.import_module("numpy")
except ImportError:
    np = None

SMALLEST, LARGEST = 1 << 10, 1 << 20
STAGES = 3  # arrays for each request


def size(rng: random.Random) -> int:
    """A size, log-uniform."""
    return int(SMALLEST * math.exp(rng.random() * math.log(LARGEST / SMALLEST)))


def request(rng: random.Random) -> Any:
    """What a request leaves behind."""
    held: list[Any] = []
    for _ in range(STAGES):
        length = size(rng)
        if np is None:
            held.append(bytearray(b"\1") * length)
        else:
            array = np.ones(length // 4, dtype=np.float32)
            array *= 1.5
            held.append(array)
    return held[rng.randrange(STAGES)]


def work(seed: int, requests: int, kept: int, results: list[Any]) -> None:
    """One thread."""
    rng = random.Random(seed)
    mine: list[Any] = [None] * kept
    for _ in range(requests):
        mine[rng.randrange(kept)] = request(rng)
    results.append(mine)


def main() -> None:
    """Start, work, and wait to be inspected."""
    threads, requests, kept = map(int, sys.argv[1:])
    print("ready", flush=True)
    results: list[Any] = []
    workers = [threading.Thread(target=work, args=(seed, requests, kept, results)) for seed in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"arenascope report operations={threads * requests} buffers={'bytearray' if np is None else 'numpy'}")
    print("done", flush=True)
    if sys.stdin.readline():
        results.clear()
        print("arenascope mark dropped", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
