#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Injects the agent into targets that check themselves, again and again, and is killed while it does.

The targets meanwhile call setuid, fork, exec, dlopen and dlclose, start and cancel threads, and end.

    .venv/bin/python tests/soaks/soak_inject.py --injections 1000 [--suite bookworm ...] [--seed 1]

Prints what was done and what went wrong as JSON; exit code 1 when anything did. `make soak` runs it for long; a short
run is in tests/agent/test_inject_meanwhile.py.
"""

from __future__ import annotations

import argparse
import contextlib
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
sys.path.insert(0, str(Path(__file__).parents[1]))
from soaks import soak
from tools import debian, harness, programs

# All but the first and the third have a thread that waits, and so can be injected at any time. Where threads are
# cancelled, nobody calls setuid: the two deadlock by themselves, in every glibc from 2.31 to 2.44, within seconds.
LOADS = (
    ("allbusy", "4"),  # no thread that ever waits
    ("selfcheck", "storm=4", "waits=1", "lives=1", "spins=1"),
    ("allbusy", "1"),
    ("selfcheck", "storm=2", "lives=1", "spins=2", "blocks=5000"),
    ("selfcheck", "shy=1", "setxid=1", "threads=2", "storm=1", "blocks=100"),
    ("selfcheck", "shy=1", "plugins=1", "cancels=1", "threads=1"),
    ("selfcheck", "shy=1", "forks=2", "setxid=1", "clocks=1"),
    ("selfcheck", "shy=1", "spawns=2", "kernels=1", "rseqs=1", "threads=1"),
    ("selfcheck", "spawns=1", "setxid=1", "spins=1"),
    ("selfcheck", "waits=1", "limits=1", "timers=1", "spins=1"),
)
NO_TARGET, NOT_NOW, GONE = 3, 4, 7  # exit codes
PRELOADED, OTHERS, ENDS = 0.2, 0.2, 0.2  # shares of the targets
MOST_KILLS = 2  # of inspectors, before the injection that is left in peace
TIMEOUT = "120s"  # no verdict depends on how fast the machine is
PATIENCE = 300  # seconds for a target to end


@dataclass
class Counts:
    """What was done, and what went wrong: all of `wrong` is to stay empty."""

    # loaded, present, woken, refused, late, killed, others; and by what became of the target, and of the injection
    done: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    targets: int = 0
    trims: int = 0
    checks: int = 0
    snapshots: list[int] = field(default_factory=list)
    away: list[float] = field(default_factory=list)
    search: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    first: list[str] = field(default_factory=list)

    def fault(self, kind: str, what: str) -> None:
        self.wrong[kind] += 1
        print(f"{kind}: {what}", file=sys.stderr, flush=True)
        if len(self.first) < 20:
            self.first.append(f"{kind}: {what}")

    def report(self) -> dict[str, Any]:
        kinds = ("hung", "harmed", "failed", "left_traced", "leaked")
        return {
            "targets": self.targets,
            "targets_ended": dict(self.ends),
            "injections": dict(self.done),
            "trims": self.trims,
            "checks_by_targets": self.checks,
            "snapshots": spread(self.snapshots),
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

    def __init__(self, libc: debian.Libc, load: tuple[str, ...], preloaded: Path | None, counts: Counts) -> None:
        self.name = " ".join(load)
        self.libc = libc.suite
        self.checks_itself = load[0] == "selfcheck"
        self.counts = counts
        counts.targets += 1
        command = [str(libc.loader), "--library-path", f"{libc.directory}:{debian.libgcc()}"]
        command += ["--preload", str(preloaded)] if preloaded else []
        command += [str(programs.build_portable(load[0])), *load[1:]]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SELFCHECK_PLUGIN": str(plugin())},
        )
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"

    @property
    def pid(self) -> int:
        return self.process.pid

    def fault(self, kind: str, what: str) -> None:
        self.counts.fault(kind, f"{self.libc}, {self.name}: {what}")

    def ways(self) -> tuple[str, ...]:
        """How it may end. Not by exec beside setuid: of 150 that nobody injected 8 died, by a late SIGSETXID."""
        if not self.checks_itself:
            return ("quit", "kill")
        return ("quit", "kill") if "setxid" in self.name else ("quit", "kill", "exec")

    def tell(self, what: str) -> None:
        """quit, exec (it becomes cat), kill."""
        if what == "kill":
            self.process.kill()
        elif self.checks_itself:
            assert self.process.stdin
            self.process.stdin.write(what + "\n")
            self.process.stdin.flush()
        else:
            self.process.send_signal(signal.SIGTERM)

    def end(self, how: str = "quit", *, answer: bool = False) -> None:
        """Has it end by itself, unless it has been told already, and say whether it was harmed."""
        if not answer:
            with contextlib.suppress(BrokenPipeError):  # it has died: that is seen below
                self.tell(how)
        if how == "exec":  # or both lines could be read as one
            while soak.read(Path(f"/proc/{self.pid}/comm")) != "cat\n" and self.process.poll() is None:
                time.sleep(0.001)
        try:
            out, _ = self.process.communicate("still here\n" if how == "exec" else None, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.fault("hung", stacks(self.pid))
            self.process.kill()
            self.process.communicate()
            return
        expected = -signal.SIGKILL if how == "kill" else 0
        if self.process.returncode != expected or (how == "exec" and not out.endswith("still here\n")):
            self.fault("harmed", f"{how}: exit {self.process.returncode}: {out.strip()}")
        elif how == "quit" and out.strip():
            self.counts.checks += (
                json.loads(out.splitlines()[-1])["checks"] if self.checks_itself else 1024 * int(out.split()[0])
            )


def plugin() -> Path:
    return programs.build_portable("plugin", "amd64", "-shared", "-fPIC")


def stacks(pid: int) -> str:
    return "; ".join(
        f"{task.name} {soak.read(task / 'comm').strip()} {soak.read(task / 'syscall').strip()}"
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


def check_free(target: Target, arenadump: harness.Arenadump, counts: Counts) -> None:
    """Nothing is left once nobody is at work any more: a carrier outlives its inspector by a little."""
    deadline = time.monotonic() + PATIENCE
    while soak.inspectors(arenadump, target.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    for task in Path(f"/proc/{target.pid}/task").iterdir():
        status = soak.read(task / "status")
        if "\nTracerPid:\t0\n" not in status and "State:\tX" not in status and status:
            target.fault("left_traced", soak.describe_tracer(status))
    for name in Path(f"/proc/{target.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if "memfd:arenascope" in str(name.readlink()):
                target.fault("leaked", f"descriptor {name.name} is {name.readlink()}")


def inject(target: Target, expected: tuple[str, ...], arenadump: harness.Arenadump, counts: Counts) -> bool:
    """One injection that is left in peace; True: the agent answers."""
    done = arenadump.run("inject", "--json", "--timeout", TIMEOUT, target.pid)
    if done.returncode == NOT_NOW and (
        "no thread was ever" in done.stderr or "loader's lock all the time" in done.stderr
    ):
        counts.done["refused"] += 1
        return False
    if done.returncode == NOT_NOW and "cannot be interrupted without harm" in done.stderr:
        counts.done["late"] += 1  # it is finished by itself, and that is waited for
        return False
    if done.returncode != 0:
        target.fault("failed", f"exit {done.returncode}: {done.stderr.strip()}")
        return False
    facts = json.loads(done.stdout)
    counts.done[facts["how"]] += 1
    if facts["how"] not in expected:
        target.fault("failed", f"it was {facts['how']}, not {' or '.join(expected)}")
    if facts["how"] != "present":
        counts.snapshots.append(facts["attempts"])
        counts.search.append(facts["search_ms"])
        counts.away.append(facts["away_ms"])
    return True


def start_injection(target: Target, arenadump: harness.Arenadump) -> subprocess.Popen[str]:
    command = [str(arenadump.path), "inject", "--timeout", TIMEOUT, str(target.pid)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def inject_and_die(target: Target, arenadump: harness.Arenadump, counts: Counts, rng: random.Random) -> None:
    """One injection whose inspector is killed at a random time."""
    process = start_injection(target, arenadump)
    time.sleep(rng.uniform(0, 0.15))
    os.killpg(process.pid, rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)))
    process.communicate()
    counts.done["killed"] += 1
    check_free(target, arenadump, counts)


def inject_at_the_end(target: Target, arenadump: harness.Arenadump, counts: Counts, rng: random.Random) -> None:
    """The target exits, becomes another program, or is killed, during an injection."""
    how = rng.choice(target.ways())
    process = start_injection(target, arenadump)
    time.sleep(rng.uniform(0, 0.1))
    target.tell(how)
    try:
        _, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        target.fault("failed", f"{how} during an injection: that did not end")
        return
    counts.ends[f"{how}, exit code {process.returncode}"] += 1
    # Found to be a zombie; without the agent by the time that it is asked; a thread was in the middle.
    over = process.returncode in (0, NO_TARGET, NOT_NOW, GONE) or "is a zombie" in err
    if not over:
        target.fault("failed", f"{how} during an injection: exit {process.returncode}: {err.strip()}")
    target.end(how, answer=True)


def take_snapshot(target: Target, arenadump: harness.Arenadump, rng: random.Random) -> subprocess.Popen[str]:
    """Somebody else's snapshot of the same time."""
    command = [str(arenadump.path), "summary", "--json", "--mode", rng.choice(soak.MODES), str(target.pid)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def trim(target: Target, arenadump: harness.Arenadump, counts: Counts) -> None:
    done = arenadump.run("trim", "--json", "--deep", "--max-hold", "5ms", target.pid)
    counts.trims += 1
    if done.returncode != 0:
        target.fault("failed", f"trim: exit {done.returncode}: {done.stderr.strip()}")


def inject_in_peace(
    target: Target, fresh: tuple[str, ...], arenadump: harness.Arenadump, counts: Counts, rng: random.Random
) -> None:
    """Perhaps beside somebody else's snapshot; then again, and a trim."""
    other = take_snapshot(target, arenadump, rng) if rng.random() < OTHERS else None
    injected = inject(target, fresh, arenadump, counts)
    if other:
        counts.done["others"] += 1
        _, words = other.communicate()
        if other.returncode != 0 and not soak.is_given_up(other.returncode, words):
            target.fault("failed", f"a snapshot meanwhile: exit {other.returncode}: {words.strip()}")
    if injected:
        inject(target, ("present",), arenadump, counts)
        trim(target, arenadump, counts)
    check_free(target, arenadump, counts)
    target.end(rng.choice(("quit", *(way for way in target.ways() if way != "kill"))))


def one(
    libc: debian.Libc, load: tuple[str, ...], arenadump: harness.Arenadump, counts: Counts, rng: random.Random
) -> None:
    """A fresh target, injected once or more."""
    preloaded = rng.random() < PRELOADED
    target = Target(libc, load, harness.agent_path(arenadump.path) if preloaded else None, counts)
    try:
        time.sleep(rng.uniform(0, 0.05))
        fresh: tuple[str, ...] = ("woken",) if preloaded else ("loaded",)
        for _ in range(rng.randrange(MOST_KILLS + 1)):
            inject_and_die(target, arenadump, counts, rng)
            fresh = ("loaded", "woken", "present")
        if rng.random() < ENDS:
            inject_at_the_end(target, arenadump, counts, rng)
        else:
            inject_in_peace(target, fresh, arenadump, counts, rng)
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
        suite, load = suites[(number + number // len(LOADS)) % len(suites)], LOADS[number % len(LOADS)]
        one(debian.libc(suite), load, arenadump, counts, rng)
        if progress and number % 10 == 9:
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
