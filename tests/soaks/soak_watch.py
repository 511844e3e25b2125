#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A long watch over three programs that work: a redis, a Puma and a Python that leaks at a known rate.

    .venv/bin/python tests/soaks/soak_watch.py FOLDER --hours 8 [--every 10s]

FOLDER gets the timelines and their pages. A run that was ended goes on in the same timelines when it is started again:
the new processes are the next generation. Ctrl-C and SIGTERM end it like its time. Prints what each timeline says as
JSON; exit code 1 when the leak was not found at its rate, or a watch failed. `make soak-watch HOURS=8` runs it. Each
watch takes 0.5 % of a processor, so that ten snapshots take some minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# By its path, from wherever it is run.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tools import debian, redises
from tools.paths import ROOT
from tools.stage import until

PUMA_RU = ROOT / "visualize/arenascope/experiment/workloads/puma.ru"
ARENASCOPE = ROOT / ".venv/bin/arenascope"

KEYS = 20_000
LEAST, MOST = 50, 4000  # bytes of a value
WRITES, REQUESTS = 100, 4  # a second

# What it keeps is by the clock, however fast it runs. The rest is churn.
EVERY, BLOCK = 0.5, 3000
LEAKING = f"""
import random, time
kept, churn, begun = [], {{}}, time.monotonic()
while True:
    while len(kept) < (time.monotonic() - begun) / {EVERY}:
        kept.append(bytes({BLOCK}))
    for _ in range(200):
        churn[random.randrange(5000)] = bytes(random.randrange(600, 6000))
    time.sleep({EVERY} / 2)
"""
PER_MINUTE = 60 / EVERY * (BLOCK + 48)  # bytes() has a head of 33, a chunk one of 8, in steps of 16
NEAR = 0.1  # of the rate, beside the interval: what lies around the kept blocks


@dataclass
class Program:
    """One that is watched, and what keeps it at work until the event is set."""

    name: str
    pid: int
    load: Callable[[threading.Event], None] | None = None


class Redis:
    """One connection that sets keys of a fixed number, so that what is in use does not grow."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._answers = self._socket.makefile("rb")
        self._random = random.Random(1)

    def set(self, key: int) -> None:
        value = bytes(self._random.randrange(LEAST, MOST))
        name = b"key:%d" % key
        self._socket.sendall(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(name), name, len(value), value))
        answer = self._answers.readline()
        if answer != b"+OK\r\n":
            raise RuntimeError(f"redis answered {answer!r}")

    def load(self, over: threading.Event) -> None:
        while not over.wait(1 / WRITES):
            self.set(self._random.randrange(KEYS))


def ask(port: int, over: threading.Event) -> None:
    number = 0
    while not over.wait(1 / REQUESTS):
        number += 1
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{number % 1000}", timeout=60) as answer:
            answer.read()


@contextlib.contextmanager
def started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed in the end. What it says stands in a file."""
    with log.open("ab") as file, subprocess.Popen(command, stdout=file, stderr=file, cwd=log.parent) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[Program]:
    path = folder / "redis.sock"
    command = [*redises.command("redis", "trixie", folder), "--port", "0", "--unixsocket", str(path), "--save", ""]
    with started(command, folder / "redis.log") as process:
        until(path.exists, "redis does not listen")
        client = Redis(path)
        for key in range(KEYS):
            client.set(key)
        yield Program("redis", process.pid, client.load)


@contextlib.contextmanager
def puma(folder: Path) -> Iterator[Program]:
    if not shutil.which("puma"):
        raise debian.UnavailableError("puma is not installed")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = ["puma", "--quiet", "--threads", "5:5", "--bind", f"tcp://127.0.0.1:{port}", str(PUMA_RU)]

    def listens() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    with started(command, folder / "puma.log") as process:
        until(listens, "Puma does not listen")
        yield Program("puma", process.pid, lambda over: ask(port, over))


@contextlib.contextmanager
def leaking(folder: Path) -> Iterator[Program]:
    with started([sys.executable, "-c", LEAKING], folder / "leaking.log") as process:
        yield Program("leaking", process.pid)


def processor_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def facts_of(file: Path) -> dict[str, Any]:
    command = [str(ARENASCOPE), "timeline", "suspects", "--json", str(file)]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return answer


def page_of(file: Path) -> None:
    page = file.with_suffix(".html")
    page.unlink(missing_ok=True)
    subprocess.run([str(ARENASCOPE), "report", str(file), "-o", str(page)], check=True, stdout=subprocess.DEVNULL)


def is_the_leak(suspect: dict[str, Any], pid: int) -> bool:
    """Whether it is what the program keeps, at the rate at which it keeps it."""
    rate = suspect["per_minute"]
    low, high = rate["low"] - NEAR * PER_MINUTE, rate["high"] + NEAR * PER_MINUTE
    return suspect["pid"] == pid and suspect["kind"] in {"size", "type", "object"} and low <= PER_MINUTE <= high


def result(program: Program, file: Path, share: float) -> tuple[dict[str, Any], list[str]]:
    """What a timeline says, and what of it is wrong."""
    answer = facts_of(file)
    page_of(file)
    suspects = answer["suspects"]
    wrong = []
    if program.name == "leaking" and not any(is_the_leak(each, program.pid) for each in suspects):
        wrong.append(f"no suspect is the leak of {PER_MINUTE:.0f} bytes a minute in {file}")
    said = {
        "polls": answer["polls"],
        "first": answer["first"],
        "last": answer["last"],
        "file_bytes": file.stat().st_size,
        "processor_share": round(share, 5),
        "suspects": [
            {key: each[key] for key in ("kind", "title", "pid", "per_minute", "snapshots", "exact", "ended")}
            for each in suspects
        ],
    }
    return said, wrong


def watch(programs: list[Program], folder: Path, options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """All at once, until the time is over. What their timelines say, and what is wrong."""
    over, wrong = threading.Event(), []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: over.set())
    with contextlib.ExitStack() as stack:
        watches = []
        for program in programs:
            command = [str(ARENASCOPE), "watch", str(program.pid), "-o", str(folder / f"{program.name}.timeline")]
            command += ["--every", options.every, "--graph", "--objects"]
            watches.append(stack.enter_context(started(command, folder / f"watch-{program.name}.log")))
        begun = time.monotonic()
        loads = [threading.Thread(target=each.load, args=(over,), daemon=True) for each in programs if each.load]
        for load in loads:
            load.start()
        over.wait(options.hours * 3600)
        over.set()
        lasted = time.monotonic() - begun
        shares = []
        for program, process in zip(programs, watches, strict=True):
            if process.poll() is not None:
                wrong.append(f"the watch of {program.name} ended by itself with exit code {process.returncode}")
                shares.append(0.0)
                continue
            shares.append(processor_seconds(process.pid) / lasted)
            process.send_signal(signal.SIGINT)
            process.wait()
    answer: dict[str, Any] = {"seconds": round(lasted)}
    for program, share in zip(programs, shares, strict=True):
        answer[program.name], more = result(program, folder / f"{program.name}.timeline", share)
        wrong += more
    return answer, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hours", type=float, default=8)
    parser.add_argument("--every", default="10s")
    parser.add_argument("--only", nargs="+", choices=STARTS, default=list(STARTS))
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        programs = [stack.enter_context(STARTS[name](scratch)) for name in options.only]
        answer, wrong = watch(programs, options.folder.resolve(), options)
    print(json.dumps({**answer, "wrong": wrong}, indent=2))
    return 1 if wrong else 0


STARTS = {"redis": redis, "puma": puma, "leaking": leaking}

if __name__ == "__main__":
    sys.exit(main())
