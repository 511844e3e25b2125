#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Injects into programs that use faults all the time, records, clones and trims them, again and again.

An injection wants a fresh process. Each process is injected once; then it is recorded, cloned and trimmed, `--each`
times. Several are at work at once, of every kind in turn, so that each kind has the same counts at any time.

    .venv/bin/python tests/soaks/soak_faults.py [--injections 1000] [--each 1] [--kind node ...] [--lanes 2]

Prints the counts of each kind as JSON, every 100 processes and in the end; the exit code is 1 when anything was harmed,
held or failed. After SIGINT it finishes the processes at hand, and ends so. tests/agent/test_faults.py has a short run.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

# By its path, from wherever it is run.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tools import faulting, harness, odd

TIMEOUT = "120s"  # no verdict depends on how fast the machine is
NOT_NOW = 4  # exit code: no thread was safe, for all of that time
WRONG = ("harmed", "held", "failed")  # all that is to stay away
HELD = 60  # seconds, after which a process that is traced is held
REPORT_EVERY = 100  # processes


@dataclass
class Counts:
    """By kind: what was done, and what went wrong."""

    of: dict[str, Counter[str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, what: str, words: str = "") -> None:
        with self.lock:
            self.of.setdefault(kind, Counter())[what] += 1
            if words:
                print(f"{kind}: {what}: {words}", file=sys.stderr, flush=True)

    def report(self) -> str:
        with self.lock:
            zeros = dict.fromkeys(WRONG, 0)
            return json.dumps({kind: {**zeros, **done} for kind, done in self.of.items()})

    def wrong(self) -> int:
        return sum(done[what] for done in self.of.values() for what in WRONG)


@dataclass
class Soak:
    """What all lanes share."""

    arenadump: harness.Arenadump
    each: int
    counts: Counts = field(default_factory=Counts)
    ended: threading.Event = field(default_factory=threading.Event)

    def do(self, kind: str, what: str, *command: str | int | Path) -> None:
        done = self.arenadump.run(*command)
        if done.returncode == 0:
            self.counts.add(kind, what)
        elif done.returncode == NOT_NOW and "no thread was ever" in done.stderr:
            self.counts.add(kind, f"{what} not now", done.stderr.strip())
        else:
            self.counts.add(kind, "failed", f"{what}: exit {done.returncode}: {done.stderr.strip()}")

    def work_on(self, kind: str, pid: int, dump: Path) -> None:
        """All that runs code in a thread of the process."""
        self.do(kind, "injections", "inject", "--timeout", TIMEOUT, pid)
        for _ in range(self.each):
            self.do(kind, "profiles", "profile", "--for", "5ms", "--timeout", TIMEOUT, "-o", dump, pid)
            self.do(kind, "clones", "summary", "--mode", "clone", pid)
            self.do(kind, "trims", "trim", "--deep", "--timeout", TIMEOUT, pid)

    def check(self, kind: str, process: subprocess.Popen[str]) -> None:
        try:  # a command leaves a supervisor behind that finds no processor for GOODBYE_MS (clone_target.c)
            odd.wait_for(lambda: process.poll() is not None or set(faulting.tracers(process.pid)) <= {"0"}, HELD)
        except AssertionError:
            self.counts.add(kind, "held", f"by {faulting.tracers(process.pid)}")
        try:
            problem = faulting.end(process)
        except subprocess.TimeoutExpired:
            problem = "it did not end"
        self.counts.add(kind, "harmed" if problem else "ended well", problem)

    def one(self, kind: str) -> None:
        """A fresh process."""
        if self.ended.is_set():
            return
        process = faulting.start(kind)
        try:
            with tempfile.TemporaryDirectory() as folder:
                self.work_on(kind, process.pid, Path(folder) / "dump")
            self.check(kind, process)
        finally:
            process.kill()
            process.wait()


def run(soak: Soak, rounds: int, kinds: list[str], lanes: int) -> Iterator[int]:
    """So many processes of each kind; yields how many have ended."""
    for kind in kinds:
        faulting.command(kind)  # compiles it
    with ThreadPoolExecutor(lanes) as pool:
        work = [pool.submit(soak.one, kind) for _ in range(rounds) for kind in kinds]
        for number, one in enumerate(work, 1):
            one.result()
            yield number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--injections", type=int, default=1000, help="of each kind")
    parser.add_argument("--each", type=int, default=1, help="profiles, clones and trims of one process")
    parser.add_argument("--kind", action="append", choices=faulting.KINDS, help="all unless told")
    parser.add_argument("--lanes", type=int, default=2, help="processes at once")
    options = parser.parse_args()
    soak = Soak(harness.Arenadump(harness.arenadump_path()), options.each)
    signal.signal(signal.SIGINT, lambda *_: soak.ended.set())
    for number in run(soak, options.injections, options.kind or list(faulting.KINDS), options.lanes):
        if number % REPORT_EVERY == 0 and not soak.ended.is_set():
            print(soak.counts.report(), flush=True)
    print(soak.counts.report())
    return 1 if soak.counts.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
