#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What snapshots cost: `arenascope watch` and `arenascope exporter` over many processes; and a scrape."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from children import spent
from figures import Figure, Limit, parser, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

SNAPSHOTS = 0.5  # per cent of a processor: the limit for snapshots
BUSY = 0.05  # seconds of a processor within one second: what is less is no poll
POLLS = 0.1  # for the questions of watch --dump-at
SCRAPE = 0.1  # seconds
# The questions of watch --dump-at, whose conditions no process of a benchmark meets.
AMOUNTS = "--dump-at=rss=100G,cgroup=100%"
NOTICES = "--dump-at=oom,pressure=1s"
FORKS = """
import os, signal, sys, threading
def work():
    kept.append([bytes(n % 900) for n in range(5000)])
kept = []
ready, done = os.pipe()
for _ in range(int(sys.argv[1])):
    if not os.fork():
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]; [t.join() for t in threads]
        os.write(done, b"x")
        signal.pause()
for _ in range(int(sys.argv[1])):
    os.read(ready, 1)
print("ready", flush=True)
sys.stdin.readline()
os.killpg(0, 9)
"""


def run_time(pid: int) -> float:
    """Processor time of a process without its children, seconds. To the nanosecond: spent() has ticks of 10 ms."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text(encoding="ascii").split()[0]) for each in tasks) / 1e9


def poll_ends(pid: int) -> None:
    """Wait for the end of the next poll: it has used much, and then hardly anything."""
    used, busy = spent(pid), False
    while True:
        time.sleep(1)
        now = spent(pid)
        if now - used >= BUSY:
            busy = True
        elif busy:
            return
        used = now


def share(pid: int, polls: int) -> float:
    """Returns the per cent of a processor that whole polls take, with the pauses behind them."""
    poll_ends(pid)
    before, begun = spent(pid), time.monotonic()
    for _ in range(polls):
        poll_ends(pid)
    return 100 * (spent(pid) - before) / (time.monotonic() - begun)


@contextmanager
def forks(number: int) -> Iterator[str]:
    """A Python and its forks, with some arenas each: its PID."""
    command = [sys.executable, "-c", FORKS, str(number - 1)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as child:
        assert child.stdout
        child.stdout.readline()
        yield str(child.pid)  # the end of its stdin is its end


@contextmanager
def arenascope(*words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "arenascope", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.terminate()


def exporter(pid: str, polls: int) -> Iterator[Figure]:
    """Its snapshots, as often as they may be, and its scrapes."""
    with arenascope("exporter", "--listen=127.0.0.1:0", "--every=1s", pid) as child:
        assert child.stderr
        url = child.stderr.readline().split()[-1]
        while "polls_total 1" not in scrape(url):
            time.sleep(0.2)
        yield Figure("exporter, without scrapes: of a processor", share(child.pid, polls), "%", Limit(SNAPSHOTS))
        times = []
        before = spent(child.pid)
        for _ in range(50):
            begun = time.perf_counter()
            page = scrape(url)
            times.append(time.perf_counter() - begun)
        yield Figure("a scrape", times, "s", Limit(SCRAPE))
        yield Figure("a scrape: processor time", (spent(child.pid) - before) / len(times), "s", Limit(SCRAPE))
        yield Figure("a scrape: its size", len(page.splitlines()), "lines")


def scrape(url: str) -> str:
    request = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text"})
    with urllib.request.urlopen(request) as answer:
        text: str = answer.read().decode()
    return text


@contextmanager
def watching(pid: str, *words: str) -> Iterator[int]:
    with (
        tempfile.TemporaryDirectory() as folder,
        arenascope("watch", pid, f"--output={folder}/timeline", *words) as child,
    ):
        yield child.pid
        child.terminate()
        child.wait()


def watch(pid: str, polls: int, *words: str) -> Iterator[Figure]:
    """Its polls, as often as they may be."""
    with watching(pid, "--every=1s", "--budget=0.5%", *words) as child:
        limit = SNAPSHOTS + (POLLS if words else 0)
        yield Figure(f"{' '.join(('watch', *words))}: of a processor", share(child, polls), "%", Limit(limit))


def watch_between_polls(pid: str, seconds: int, *words: str) -> Iterator[Figure]:
    """What it does while it inspects nothing: it waits, and asks the questions of --dump-at."""
    with watching(pid, "--every=1h", *words) as child:
        poll_ends(child)
        before, begun = run_time(child), time.monotonic()
        time.sleep(seconds)
        used = 100 * (run_time(child) - before) / (time.monotonic() - begun)
        yield Figure(f"{' '.join(('watch', *words))}, between two polls: of a processor", used, "%", Limit(POLLS))


def measured(pid: str, polls: int, seconds: int) -> Iterator[Figure]:
    yield from exporter(pid, polls)
    for words in ([], [AMOUNTS], [NOTICES]):
        yield from watch(pid, polls, *words)
        yield from watch_between_polls(pid, seconds, *words)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--processes", type=int, default=8)
    arguments.add_argument("--polls", type=int, default=2)
    arguments.add_argument("--seconds", type=int, default=30, help="for what is measured between two polls")
    options = arguments.parse_args()
    with forks(options.processes) as pid:
        figures = [
            each._replace(what=f"{each.what}, {options.processes} processes")
            for each in measured(pid, options.polls, options.seconds)
        ]
    publish(options.page, "snapshots", figures)


if __name__ == "__main__":
    main()
