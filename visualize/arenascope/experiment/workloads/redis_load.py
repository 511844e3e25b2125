# SPDX-License-Identifier: MIT
"""Fills a redis-server, fragments it, fills it again and empties it. Arguments: PORT KEYS SMALLEST LARGEST.

Marks each stage; reports the commands sent, and the percentiles of the time that a pipeline of them took.
"""

from __future__ import annotations

import random
import socket
import sys
import time
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PIPELINE = 200  # commands
SURVIVES = 16  # one of so many


class Server:
    """A connection that sends commands in pipelines."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies: IO[bytes] = self._socket.makefile("rb")
        self.commands = 0
        self.times: list[float] = []  # milliseconds, of each pipeline

    def send(self, commands: Iterable[tuple[bytes, ...]]) -> None:
        """Send them all; an error in a reply ends the program."""
        batch: list[tuple[bytes, ...]] = []
        for command in commands:
            batch.append(command)
            if len(batch) == PIPELINE:
                self._exchange(batch)
                batch = []
        if batch:
            self._exchange(batch)

    def _exchange(self, batch: list[tuple[bytes, ...]]) -> None:
        words = []
        for command in batch:
            words.append(b"*%d\r\n" % len(command))
            words += [b"$%d\r\n%s\r\n" % (len(word), word) for word in command]
        begun = time.perf_counter()
        self._socket.sendall(b"".join(words))
        for _ in batch:
            reply = self._replies.readline()
            if not reply or reply.startswith(b"-"):
                raise SystemExit(f"redis_load: the server answered {reply!r}")
        self.times.append((time.perf_counter() - begun) * 1000)
        self.commands += len(batch)


def values(keys: Iterable[int], smallest: int, largest: int, rng: random.Random) -> Iterator[tuple[bytes, ...]]:
    """A SET for each key."""
    for key in keys:
        yield b"SET", b"key:%d" % key, b"v" * rng.randint(smallest, largest)


def mark(name: str) -> None:
    """Wait until the one who measures has inspected; no longer when nobody does."""
    print(f"arenascope mark {name}", flush=True)
    sys.stdin.readline()


def main() -> None:
    """All stages."""
    port, keys, smallest, largest = map(int, sys.argv[1:])
    rng = random.Random(1)
    server = Server(port)
    server.send(values(range(keys), smallest, largest, rng))
    mark("filled")
    gone = [key for key in range(keys) if rng.randrange(SURVIVES)]
    rng.shuffle(gone)
    server.send((b"DEL", b"key:%d" % key) for key in gone)
    mark("fragmented")
    server.send(values(range(keys, keys + keys // 4), 2 * largest, 4 * largest, rng))
    mark("filled-again")
    server.send([(b"FLUSHALL", b"SYNC")])
    mark("emptied")
    times = sorted(server.times)
    answer = {f"p{share}_ms": times[min(len(times) * share // 100, len(times) - 1)] for share in (50, 90, 99)}
    words = " ".join(f"{name}={value:.3f}" for name, value in answer.items())
    print(f"arenascope report operations={server.commands} {words} latency_of=pipelines", flush=True)


if __name__ == "__main__":
    main()
