# SPDX-License-Identifier: MIT
"""What the recorder costs servers under load, and their answers: redis on glibc's malloc, and Rails (`make bench`)."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import recorder
from rich.console import Console
from rich.table import Table

from arenascope.wire.agent import preloadable

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKLOADS = recorder.ROOT / "visualize/arenascope/experiment/workloads"
PATIENCE = 600  # seconds until a server listens: with some profilers it takes its time
# Debian's redis is linked with jemalloc, of which redis 7 uses only malloc(): libc before it serves instead.
ON_GLIBC = "libc.so.6"
COMMANDS = {
    "redis": "redis-server --port {port} --bind 127.0.0.1 --save --appendonly no --activedefrag no",
    "rails": "ruby -S puma --quiet --threads 5:5 --bind tcp://127.0.0.1:{port} {here}/rails.ru",
}
LOADS = {"redis": "redis_load.py {port} 200000 64 1024", "rails": "http_load.py {port} 4 {requests}"}
WARM = {"redis": None, "rails": "http_load.py {port} 1 40"}
TIMES = ("seconds", "p50_ms", "p99_ms")


class NotServingError(Exception):
    """A server does not listen."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def processor_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(name: str, values: dict[str, str], port: int) -> Iterator[int]:
    """A server's pid, from when it listens on."""
    words = [word.format(port=port, here=WORKLOADS) for word in COMMANDS[name].split(" ")]
    if name == "redis":
        words.insert(words.index("--save") + 1, "")  # no snapshots, whose forks would count, too
    process = subprocess.Popen(words, env=values, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + PATIENCE
        while True:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > end:
                raise NotServingError(f"{name} does not listen; exit code {process.poll()}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def load(words: str, port: int, requests: int) -> dict[str, float]:
    """What the load says of the answers."""
    command = [sys.executable, *words.format(port=port, requests=requests).split(" ")]
    command[1] = str(WORKLOADS / command[1])
    done = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    pairs = [word.partition("=")[::2] for word in done.stdout.splitlines()[-1].split()]
    return {key: float(value) for key, value in pairs if key.endswith("_ms")}


def once(name: str, values: dict[str, str], requests: int, arenadump: Path) -> dict[str, float]:
    """One run: the server's processor time under load, how long its answers took, and what of its memory is ours."""
    last = [ON_GLIBC] if name == "redis" else []  # behind a profiler that has a malloc of its own
    values = {**values, "RAILS_ENV": "production"}
    values["LD_PRELOAD"] = " ".join([*values.get("LD_PRELOAD", "").split(), *last])
    port = free_port()
    with serving(name, values, port) as pid:
        if warm := WARM[name]:
            load(warm, port, requests)
        before = processor_seconds(pid)
        answer = load(LOADS[name], port, requests)
        seconds = processor_seconds(pid) - before
        return {"seconds": seconds, **answer, **recorder.shares_of_memory(arenadump, pid)}


def measure(
    names: list[str], build: Path, runs: int, requests: int, folder: Path
) -> dict[str, dict[str, dict[str, float]]]:
    """What is shown of each server in each way; all in turn."""
    library = preloadable(build / "inspector/agent/libarenascope.so")
    arenadump = build / "inspector/cli/arenadump"
    output = folder / "output"
    ways = recorder.environments(library, output)
    found: dict[str, dict[str, list[dict[str, float]]]] = {name: {how: [] for how in ways} for name in names}
    for _ in range(runs):
        for name in names:
            for how, values in ways.items():
                taken = found[name][how]
                if taken and taken[0]["seconds"] > recorder.SLOW * found[name]["plain"][0]["seconds"]:
                    continue
                try:
                    with recorder.directory(output):
                        taken.append(once(name, values, requests, arenadump))
                except NotServingError as reason:  # not with every profiler: Debian's redis aborts behind heaptrack
                    if how == "plain":
                        sys.exit(str(reason))
                    print(f"{how}: {reason}", file=sys.stderr)
    return {name: {how: figures(each, of["plain"]) for how, each in of.items() if each} for name, of in found.items()}


def figures(found: list[dict[str, float]], plain: list[dict[str, float]]) -> dict[str, float]:
    """The least times and the largest shares of memory; and, beside plain, the mean of processor times.

    There is an error, too, where there is more than one run.

    One run of a server differs from the next by more than what is to be measured, and the least of some runs does, too.
    """
    answer = {key: min(run[key] for run in found) for key in TIMES}
    answer |= {key: max(run[key] for run in found) for key in recorder.SHARES}
    seconds, alone = ([run["seconds"] for run in runs] for runs in (found, plain))
    answer["mean"] = statistics.mean(seconds) / statistics.mean(alone)
    if len(seconds) > 1:
        answer["mean_error"] = answer["mean"] * math.hypot(error(seconds), error(alone))
    return answer


def error(values: list[float]) -> float:
    """The standard error of their mean, as a share of it."""
    return statistics.stdev(values) / math.sqrt(len(values)) / statistics.mean(values)


def show(answer: dict[str, dict[str, dict[str, float]]]) -> None:
    table = Table(
        title="Servers under load: least processor time and answers beside the server alone, largest shares of memory"
    )
    columns = ("processor time", "p50", "p99", "beside plain", "p50", "p99", "mean beside plain")
    for column in ("server", "way", *columns, "recorder, of Rss", "tables, of Rss"):
        table.add_column(column, justify="left" if column in {"server", "way"} else "right")
    for name, ways in answer.items():
        for how, of in ways.items():
            beside = [f"{of[key] / ways['plain'][key]:.2f}" for key in TIMES]
            shown = [f"{of['seconds']:.2f} s", *(f"{of[key]:.2f} ms" for key in TIMES[1:])]
            known = how != "plain" and "mean_error" in of
            mean = f"{of['mean']:.2f} ± {of['mean_error']:.2f}" if known else ""
            table.add_row(name, how, *shown, *beside, mean, *(f"{of[key]:.1%}" for key in recorder.SHARES))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=recorder.ROOT / "build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200, help="of each of four connections to Rails")
    parser.add_argument("--servers", default="redis,rails", help="comma-separated")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = [name for name in options.servers.split(",") if shutil.which(COMMANDS[name].split(" ")[0])]
    with tempfile.TemporaryDirectory(prefix="arenascope-bench-", dir="/dev/shm") as temporary:
        answer = measure(names, options.build.resolve(), options.runs, options.requests, Path(temporary))
    if options.json:
        print(json.dumps(answer))
    else:
        show(answer)


if __name__ == "__main__":
    main()
