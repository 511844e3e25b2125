# SPDX-License-Identifier: MIT
"""What the recorder costs servers under load, and their answers: redis on glibc's malloc, and Rails (`make bench`)."""

from __future__ import annotations

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
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import recorder
from figures import ROOT, Figure, Limit, parser, publish

from arenascope.experiment.expand import free_port
from arenascope.wire.agent import preloadable

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKLOADS = ROOT / "visualize/arenascope/experiment/workloads"
PATIENCE = 600  # seconds until a server listens: with some profilers it takes its time
# Debian's redis is linked with jemalloc, of which redis 7 uses only malloc(): libc before it serves instead.
ON_GLIBC = "libc.so.6"
COMMANDS = {
    "redis": "redis-server --port {port} --bind 127.0.0.1 --save --appendonly no --activedefrag no",
    "rails": "ruby -S puma --quiet --threads 5:5 --bind tcp://127.0.0.1:{port} {here}/rails.ru",
}
LOADS = {"redis": "redis_load.py {port} 200000 64 1024", "rails": "http_load.py {port} 4 {requests}"}
WARM = {"redis": None, "rails": "http_load.py {port} 1 40"}


class NotServingError(Exception):
    """A server does not listen."""


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
    port = int(free_port())
    with serving(name, values, port) as pid:
        if warm := WARM[name]:
            load(warm, port, requests)
        before = processor_seconds(pid)
        answer = load(LOADS[name], port, requests)
        seconds = processor_seconds(pid) - before
        return {"seconds": seconds, **answer, **recorder.shares_of_memory(arenadump, pid)}


Runs = list[dict[str, float]]


def measure(names: list[str], build: Path, runs: int, requests: int, folder: Path) -> dict[str, dict[str, Runs]]:
    """The runs of each server in each way; all in turn."""
    library = preloadable(build / "inspector/agent/libarenascope.so")
    arenadump = build / "inspector/cli/arenadump"
    output = folder / "output"
    ways = recorder.environments(library, output)
    found: dict[str, dict[str, Runs]] = {name: {how: [] for how in ways} for name in names}
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
    return found


def figures(what: str, found: Runs, plain: Runs) -> list[Figure]:
    """The means of processor times, with the error of their ratio, and the least times of answers, beside plain.

    One run of a server differs from the next by more than what is to be measured, and the least of some runs does, too.
    """
    seconds, alone = ([run["seconds"] for run in runs] for runs in (found, plain))
    mean, its = statistics.mean(seconds), statistics.mean(alone)
    several = len(seconds) > 1 and len(alone) > 1
    spread = f"± {mean / its * math.hypot(error(seconds), error(alone)):.2f}" if several else ""
    least = {key: [min(run[key] for run in runs) for runs in (found, plain)] for key in ("p50_ms", "p99_ms")}
    return [
        Figure(f"{what}: processor time", mean, "s", Limit(its, "alone", None), spread),
        *(
            Figure(f"{what}: {key[:3]} of the answers", ours, "ms", Limit(bound, "alone", None))
            for key, (ours, bound) in least.items()
        ),
    ]


def error(values: list[float]) -> float:
    """The standard error of their mean, as a share of it."""
    return statistics.stdev(values) / math.sqrt(len(values)) / statistics.mean(values)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--requests", type=int, default=200, help="of each of four connections to Rails")
    arguments.add_argument("--servers", default="redis,rails", help="comma-separated")
    options = arguments.parse_args()
    names = [name for name in options.servers.split(",") if shutil.which(COMMANDS[name].split(" ")[0])]
    with tempfile.TemporaryDirectory(prefix="arenascope-bench-", dir="/dev/shm") as temporary:
        answer = measure(names, options.build.resolve(), options.runs, options.requests, Path(temporary))
    for name, ways in answer.items():
        of = {"redis": name, "rails": f"Rails, {options.requests} requests by each connection"}[name]
        found = {how: runs for how, runs in ways.items() if runs}
        times = [figures(f"{how}: {of}", runs, found["plain"]) for how, runs in found.items()]
        publish(options.page, "servers", chain.from_iterable(times))
        most = {how: max(found[how], key=lambda run: run["recorder_share"]) for how in recorder.MODES if how in found}
        publish(options.page, "memory", (recorder.figure_of_memory(of, *each) for each in most.items()))


if __name__ == "__main__":
    main()
