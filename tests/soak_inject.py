#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Injects the agent into targets that check themselves, again and again, and is killed while it does.

    .venv/bin/python tests/soak_inject.py --injections 1000 [--suite bookworm ...]

Prints what was done and what went wrong as JSON; exit code 1 when anything did. `make soak` runs it for long; a short
run is in tests/test_inject.py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# By its path, from wherever it is run.
sys.path.insert(0, str(Path(__file__).parent))
import soak
from tools import debian, harness, programs

LOADS = (
    ("allbusy", "4"),  # no thread that ever waits
    ("selfcheck", "storm=4", "waits=1", "lives=1", "spins=1"),
    ("allbusy", "1"),
    ("selfcheck", "storm=2", "lives=1", "spins=2", "blocks=5000"),
)
REFUSED = 4  # exit code: not now
PRELOADED, KILLED, OTHERS = 0.2, 0.3, 0.2  # shares of the targets
PATIENCE = 30  # seconds for a target to end


@dataclass
class Counts:
    """What was done, and what went wrong: all of `wrong` is to stay empty."""

    done: Counter[str] = field(default_factory=Counter)  # loaded, present, woken, refused, killed, others
    trims: int = 0
    checks: int = 0
    looks: list[int] = field(default_factory=list)
    away: list[float] = field(default_factory=list)
    search: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    first: list[str] = field(default_factory=list)

    def fault(self, kind: str, what: str) -> None:
        self.wrong[kind] += 1
        if len(self.first) < 20:
            self.first.append(f"{kind}: {what}")

    def report(self) -> dict[str, Any]:
        kinds = ("hung", "harmed", "failed", "left_traced")
        return {
            "injections": dict(self.done),
            "trims": self.trims,
            "checks_by_targets": self.checks,
            "looks": spread(self.looks),
            "search_ms": spread(self.search),
            "away_ms": spread(self.away),
            **{kind: self.wrong[kind] for kind in kinds},
            "first": self.first,
        }


def spread(values: list[Any]) -> dict[str, float]:
    ordered = sorted(values) or [0]
    return {"median": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)], "max": ordered[-1]}


class Target:
    """A program that checks itself, at work."""

    def __init__(self, command: list[str], name: str, environment: dict[str, str]) -> None:
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self, counts: Counts) -> None:
        """Has it end by itself, and say whether it was harmed."""
        if self.name == "allbusy":
            self.process.send_signal(signal.SIGTERM)
        try:
            out, _ = self.process.communicate("quit\n" if self.name == "selfcheck" else None, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            counts.fault("hung", f"{self.name}: {stacks(self.pid)}")
            self.process.kill()
            self.process.communicate()
            return
        if self.name == "selfcheck" and out.strip():
            counts.checks += json.loads(out.splitlines()[-1])["checks"]
        elif out.strip():
            counts.checks += int(out.split()[0]) * 1024
        if self.process.returncode != 0:
            counts.fault("harmed", f"{self.name}: exit {self.process.returncode}: {out.strip()}")


def stacks(pid: int) -> str:
    return "; ".join(
        f"{task.name} {soak.read(task / 'comm').strip()} {soak.read(task / 'syscall').strip()}"
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


def check_free(target: Target, arenadump: harness.Arenadump, counts: Counts) -> None:
    """No thread is in anybody's hand once nobody is at work any more: a carrier outlives its inspector by a moment."""
    deadline = time.monotonic() + PATIENCE
    while soak.lookers(arenadump) and time.monotonic() < deadline:
        time.sleep(0.01)
    for task in Path(f"/proc/{target.pid}/task").iterdir():
        status = soak.read(task / "status")
        if "\nTracerPid:\t0\n" not in status and "State:\tX" not in status and status:
            counts.fault("left_traced", soak.describe_tracer(status))


def inject(target: Target, expected: tuple[str, ...], arenadump: harness.Arenadump, counts: Counts) -> bool:
    """One injection that is left in peace; True: the agent answers."""
    done = arenadump.run("inject", "--json", target.pid)
    if done.returncode == REFUSED and "no thread was ever" in done.stderr:
        counts.done["refused"] += 1
        return False
    if done.returncode != 0:
        counts.fault("failed", f"{target.name}: exit {done.returncode}: {done.stderr.strip()}")
        return False
    facts = json.loads(done.stdout)
    counts.done[facts["how"]] += 1
    if facts["how"] not in expected:
        counts.fault("failed", f"{target.name}: it was {facts['how']}, not {' or '.join(expected)}")
    if facts["how"] != "present":
        counts.looks.append(facts["looks"])
        counts.search.append(facts["search_ms"])
        counts.away.append(facts["away_ms"])
    return True


def inject_and_die(target: Target, arenadump: harness.Arenadump, counts: Counts, rng: random.Random) -> None:
    """One injection whose inspector is killed at a random moment."""
    command = [str(arenadump.path), "inject", str(target.pid)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(rng.uniform(0, 0.15))
    os.killpg(process.pid, rng.choice((signal.SIGKILL, signal.SIGINT, signal.SIGTERM)))
    process.wait()
    counts.done["killed"] += 1
    check_free(target, arenadump, counts)


def look(target: Target, arenadump: harness.Arenadump, rng: random.Random) -> subprocess.Popen[str]:
    """Somebody else's look at the same time."""
    command = [str(arenadump.path), "summary", "--json", "--mode", rng.choice(soak.MODES), str(target.pid)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def trim(target: Target, arenadump: harness.Arenadump, counts: Counts) -> None:
    done = arenadump.run("trim", "--json", "--deep", "--max-pause", "5ms", target.pid)
    counts.trims += 1
    if done.returncode != 0:
        counts.fault("failed", f"trim of {target.name}: exit {done.returncode}: {done.stderr.strip()}")


def one(
    libc: debian.Libc, load: tuple[str, ...], arenadump: harness.Arenadump, counts: Counts, rng: random.Random
) -> None:
    """A fresh target, injected once or more."""
    program = programs.build_portable(load[0])
    preloaded = rng.random() < PRELOADED
    library = harness.agent_path(arenadump.path)
    command = [str(libc.loader), "--library-path", str(libc.directory)]
    command += ["--preload", str(library)] * preloaded + [str(program), *load[1:]]
    target = Target(command, load[0], {})
    try:
        time.sleep(rng.uniform(0, 0.05))
        fresh: tuple[str, ...] = ("woken",) if preloaded else ("loaded",)
        if rng.random() < KILLED:
            inject_and_die(target, arenadump, counts, rng)
            fresh = ("loaded", "woken", "present")
        other = look(target, arenadump, rng) if rng.random() < OTHERS else None
        injected = inject(target, fresh, arenadump, counts)
        if other:
            counts.done["others"] += 1
            _, words = other.communicate()
            if other.returncode != 0:
                counts.fault("failed", f"a look at {target.name} meanwhile: exit {other.returncode}: {words.strip()}")
        if injected:
            inject(target, ("present",), arenadump, counts)
            trim(target, arenadump, counts)
        check_free(target, arenadump, counts)
        time.sleep(0.05)
        target.end(counts)
    finally:
        target.process.kill()
        target.process.wait()


def soak_for(
    injections: int, suites: list[str], arenadump: harness.Arenadump, seed: int, *, progress: bool = False
) -> Counts:
    """Injects into so many fresh targets, of each libc and each load in turn."""
    counts = Counts()
    rng = random.Random(seed)
    for number in range(injections):
        suite, load = suites[number % len(suites)], LOADS[number // len(suites) % len(LOADS)]
        one(debian.libc(suite), load, arenadump, counts, rng)
        if progress and number % 50 == 49:
            print(f"{number + 1}: {json.dumps(counts.report())}", file=sys.stderr, flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description="Soak the injector on targets that check themselves.")
    parser.add_argument("--injections", type=int, default=1000)
    parser.add_argument("--suite", action="append", choices=list(debian.SUITES), help="a libc; all unless told")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    suites = options.suite or list(debian.SUITES)
    counts = soak_for(
        options.injections, suites, harness.Arenadump(harness.arenadump_path()), options.seed, progress=True
    )
    print(json.dumps(counts.report(), indent=2))
    return 1 if counts.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
