#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Inspects targets that check themselves, again and again, in all modes.

The inspector is killed while it inspects, or finds the disk full; its targets end, or exec, under its eyes.

    .venv/bin/python tests/soaks/soak.py --minutes 10 [--suite bookworm ...]

Prints what was done and what went wrong as JSON; exit code 1 when anything did. `make soak` runs it for long; a
short run is in tests/inspector/test_modes.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# By its path, from wherever it is run.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tools import debian, harness, programs

MODES = ("freeze", "clone", "live", "auto")
LOADS = (
    ("storm=4", "waits=1", "limits=1", "lives=1", "spins=1"),
    ("storm=16", "blocks=300"),
    ("storm=1", "blocks=20000"),
    ("waits=2", "timers=2", "lives=1", "spins=2"),
    ("forks=3", "threads=3", "timers=1", "storm=2", "blocks=300"),
    ("reaps=1", "waits=1", "limits=1", "storm=1"),
)
PATIENCE = 300  # seconds for a snapshot, and for a target to end
SLACK = 24  # blocks that threads other than the storm's may hold or not
DENIED, UNSUPPORTED, GONE, IO = 4, 5, 7, 8  # exit codes
# Six of ten snapshots are left in peace, and the inspector of three is killed.
ACTIONS = ("peace",) * 6 + ("killed",) * 3 + ("full disk",)
FIXED = ("freeze", "clone")  # modes whose answer is one instant


@dataclass
class Counts:
    """What was done, and what went wrong: `wrong` is to stay empty."""

    snapshots: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    full: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)  # by what became of the target, and of the snapshot
    fallbacks: int = 0
    given_up: int = 0  # snapshots that said that to stop the target, or to hold it, took too long
    busy: int = 0  # answers that say themselves that a thread was inside malloc
    checks: int = 0  # that targets made of themselves
    eintr: Counter[str] = field(default_factory=Counter)
    pauses: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    by_libc: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # what made() counts
    wrong: Counter[str] = field(default_factory=Counter)
    first: list[str] = field(default_factory=list)

    def made(self) -> Counter[str]:
        """How many of each trial so far."""
        kinds = {"snapshots": self.snapshots, "killed": self.kills, "disk_full": self.full, "targets_ended": self.ends}
        return Counter({kind: sum(counted.values()) for kind, counted in kinds.items()})

    def fault(self, kind: str, what: str) -> None:
        self.wrong[kind] += 1
        print(f"{kind}: {what}", file=sys.stderr, flush=True)
        if len(self.first) < 20:
            self.first.append(f"{kind}: {what}")

    def report(self) -> dict[str, Any]:
        kinds = [f"targets_{word}" for word in ("harmed", "hung", "left_stopped", "left_with_a_child")]
        kinds += ["wrong_ledgers", "failed_snapshots", "snapshots_hung"]
        return {
            "snapshots": dict(self.snapshots),
            "killed": dict(self.kills),
            "disk_full": dict(self.full),
            "targets_ended": dict(self.ends),
            "by_libc": {suite: dict(counted) for suite, counted in self.by_libc.items()},
            "fallbacks": self.fallbacks,
            "given_up": self.given_up,
            "busy": self.busy,
            "checks_by_targets": self.checks,
            "eintr": dict(self.eintr),
            "pause_ms": {
                mode: {
                    "median": round(statistics.median(values), 2),
                    "p99": round(sorted(values)[int(len(values) * 0.99)], 2),
                    "max": round(max(values), 2),
                }
                for mode, values in self.pauses.items()
            },
            **{kind: self.wrong[kind] for kind in kinds},
            "first": self.first,
        }


class Target:
    """tests/programs/selfcheck, at work."""

    def __init__(self, command: list[str], counts: Counts) -> None:
        self.counts = counts
        self.storm = next((int(word[6:]) for word in command if word.startswith("storm=")), 0)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"
        self.in_use: list[int] = []

    @property
    def pid(self) -> int:
        return self.process.pid

    def tasks(self) -> Iterator[Path]:
        yield from Path(f"/proc/{self.pid}/task").iterdir()

    def traced(self) -> str:
        """Returns the status of the first thread that is in somebody's hand."""
        for task in self.tasks():
            status = read(task / "status")
            if "\nTracerPid:\t0\n" not in status and "State:\tX" not in status and status:
                return status
        return ""

    def strangers(self) -> set[int]:
        """Children that are traced, or dead and of no exit signal: clones, and none of its own."""
        children = {int(pid) for task in self.tasks() for pid in read(task / "children").split()}
        states = {pid: read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() for pid in children}
        return {pid for pid, words in states.items() if words and (words[0] == "t" or words[0] + words[35] == "Z0")}

    def check_free(self, why: str, arenadump: harness.Arenadump) -> None:
        """It is as if nobody had inspected, once nobody does: a supervisor outlives its inspector by a little."""
        deadline = time.monotonic() + 30
        while inspectors(arenadump, self.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        held = self.traced()
        if held:
            self.counts.fault("targets_left_stopped", f"after {why}: {describe_tracer(held)}")
        left = self.strangers()
        while left and time.monotonic() < deadline:  # its own children die and are waited for all the time
            time.sleep(0.01)
            left &= self.strangers()
        if left:
            self.counts.fault("targets_left_with_a_child", f"after {why}: {left}")

    def end(self, *, answer: bool = False) -> None:
        """Has it end, unless it has been told already, and takes its word on how it was."""
        try:
            out, _ = self.process.communicate("" if answer else "quit\n", timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.counts.fault("targets_hung", where(self.pid))
            return
        last = json.loads(out.splitlines()[-1])
        self.counts.checks += last["checks"]
        self.counts.eintr.update(last["eintr"])
        if self.process.returncode != 0 or last["harms"] != 0:
            self.counts.fault("targets_harmed", f"exit {self.process.returncode}: {last}")

    def tell(self, what: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")  # a process may give itself any name
    except OSError:
        return ""


def where(pid: int) -> str:
    """Where the threads of a process are, for one that does not come to its end."""
    tasks = sorted(Path(f"/proc/{pid}/task").iterdir())
    words = ("comm", "wchan", "syscall", "stack")
    states = {task: read(task / "stat").rpartition(") ")[2][:1] for task in tasks}
    return "; ".join(
        f"{task.name} {states[task]} {' '.join(read(task / word).strip() for word in words)}" for task in tasks
    )


def inspectors(arenadump: harness.Arenadump, pid: int) -> list[str]:
    """The processes that run the inspector on this target."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if str(pid).encode() in words and (entry / "exe").samefile(arenadump.path):
                    found.append(entry.name)
    return found


def describe_tracer(status: str) -> str:
    """Who holds the thread of which this is the status, and where that one is."""
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    tracer = Path("/proc") / lines.get("TracerPid", "0")
    about = [f"thread {lines.get('Pid')} in state {lines.get('State')} by {tracer.name}"]
    return ", ".join(about + [read(tracer / name).strip() for name in ("comm", "syscall", "stack")])


def is_given_up(code: int, text: str) -> bool:
    return code == DENIED and ("before all of it was read" in text or "could not be stopped within" in text)


def take_snapshot(target: Target, mode: str, arenadump: harness.Arenadump, counts: Counts) -> None:
    """One snapshot that is left in peace."""
    command = [str(arenadump.path), "summary", "--json", "--mode", mode, str(target.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            counts.fault("snapshots_hung", f"{mode}: {where(process.pid)}; the target: {where(target.pid)}")
            process.kill()
            return
    counts.snapshots[mode] += 1
    if is_given_up(process.returncode, err):
        counts.given_up += 1
        return
    if process.returncode != 0:
        counts.fault("failed_snapshots", f"{mode}: exit {process.returncode}: {err.strip()}")
        return
    facts = json.loads(out)
    snapshot, warnings = facts["snapshot"], facts["warnings"]
    counts.pauses[mode].append(snapshot["pause_ms"])
    counts.fallbacks += mode == "clone" and snapshot["mode"] != mode
    if any(warning["code"] == "locked" for warning in warnings):
        counts.busy += 1
        return
    if mode == "live":
        if snapshot["exact"] or snapshot["pause_ms"] != 0:
            counts.fault("wrong_ledgers", "a live snapshot that says it is exact, or that it stopped the target")
        return
    ledger = facts["ledger"]
    if not snapshot["exact"] or snapshot["torn_chunks"] or sum(ledger.values()) != facts["kernel"]["rss"]:
        counts.fault("wrong_ledgers", f"{mode}: {snapshot}, {warnings}")
    target.in_use.append(facts["chunks"]["in_use"]["count"] + facts["chunks"]["mmapped"]["count"])
    if max(target.in_use) - min(target.in_use) > 2 * target.storm + SLACK:
        counts.fault("wrong_ledgers", f"{mode}: blocks in use vary: {min(target.in_use)} to {max(target.in_use)}")


def take_and_die(target: Target, mode: str, arenadump: harness.Arenadump, counts: Counts, rng: random.Random) -> None:
    """One snapshot whose inspector is killed by SIGKILL at a random time, or its supervisor's group told to end."""
    command = [str(arenadump.path), "summary", "--json", "--mode", mode, str(target.pid)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(rng.uniform(0, 0.12))
    which = rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM))
    os.killpg(process.pid, which)
    process.wait()
    counts.kills[mode] += 1
    target.check_free(f"{mode}, {which.name}", arenadump)


def take_on_full_disk(target: Target, mode: str, arenadump: harness.Arenadump, counts: Counts, disk: Disk) -> None:
    """A dump that finds no room: exit code 8, or 0 if it was small enough, and nothing half made is left behind."""
    done = arenadump.run("dump", "--chunks", "--mode", mode, "-o", disk.path / "dump", target.pid, **disk.limits())
    counts.full[disk.kind] += 1
    made = [path.name for path in disk.path.iterdir() if path.name != "filler"]
    if is_given_up(done.returncode, done.stderr):
        counts.given_up += 1
    elif (done.returncode, made) not in ((0, ["dump"]), (IO, [])):
        counts.fault("failed_snapshots", f"{disk.kind}: exit {done.returncode}, left {made}: {done.stderr.strip()}")
    for name in made:
        (disk.path / name).unlink()
    target.check_free(f"{mode}, {disk.kind}", arenadump)


class Disk:
    """A place where hardly anything can be written: a tmpfs that is full, or a limit on the size of files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        command = ["mount", "-t", "tmpfs", "-o", "size=64k", "arenascope-soak", str(path)]
        self.mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
        self.kind = "ENOSPC" if self.mounted else "RLIMIT_FSIZE"
        if self.mounted:
            (path / "filler").write_bytes(bytes(40 << 10))

    def limits(self) -> dict[str, Any]:
        if self.mounted:
            return {}
        return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))}

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", str(self.path)], check=True)


@contextlib.contextmanager
def full_disks() -> Iterator[list[Disk]]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        disks = [Disk(Path(one))]
        if disks[0].mounted:
            limited = Disk.__new__(Disk)
            limited.path, limited.mounted, limited.kind = Path(other), False, "RLIMIT_FSIZE"
            disks.append(limited)
        try:
            yield disks
        finally:
            for disk in disks:
                disk.close()


def take_at_the_end(command: list[str], arenadump: harness.Arenadump, counts: Counts, rng: random.Random) -> None:
    """The target exits, becomes another program, or is killed during a snapshot."""
    target = Target(command, counts)
    how, mode = rng.choice(("quit", "exec", "kill")), rng.choice(MODES)
    try:
        snapshot = [str(arenadump.path), "summary", "--json", "--mode", mode, str(target.pid)]
        process = subprocess.Popen(snapshot, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(rng.uniform(0, 0.05))
        if how == "kill":
            target.process.kill()
        else:
            target.tell(how)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
        counts.ends[f"{how}, exit code {process.returncode}"] += 1
        ended_before = process.returncode == UNSUPPORTED and "is a zombie" in err
        given_up = is_given_up(process.returncode, err)
        counts.given_up += given_up
        if process.returncode not in (0, GONE) and not ended_before and not given_up:
            counts.fault("failed_snapshots", f"{how} during {mode}: exit {process.returncode}: {err.strip()}")
        if how == "quit":
            target.end(answer=True)
        elif how == "exec":
            target.check_free(f"{mode}, exec", arenadump)
            while read(Path(f"/proc/{target.pid}/comm")) != "cat\n":  # or both lines could be read as one
                time.sleep(0.001)
            out, _ = target.process.communicate("still here\n", timeout=60)
            if not out.endswith("still here\n") or target.process.returncode != 0:
                counts.fault("targets_harmed", f"what it became ended with {target.process.returncode}")
    finally:
        target.process.kill()
        target.process.wait()


def soak(seconds: float, command: list[str], arenadump: harness.Arenadump, counts: Counts, seed: int) -> None:
    """Inspects one target for a time."""
    rng = random.Random(seed)
    target = Target(command, counts)
    end = time.monotonic() + seconds
    try:
        with full_disks() as disks:
            while time.monotonic() < end:
                mode, action = rng.choice(MODES), rng.choice(ACTIONS)
                if action == "peace":
                    take_snapshot(target, mode, arenadump, counts)
                elif action == "killed":
                    take_and_die(target, mode, arenadump, counts, rng)
                else:
                    take_on_full_disk(target, mode, arenadump, counts, rng.choice(disks))
                if rng.random() < 0.05:
                    take_at_the_end(command, arenadump, counts, rng)
        target.check_free("the last snapshot", arenadump)
        target.end()
    finally:
        target.process.kill()
        target.process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="Soak arenadump on targets that check themselves.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--suite", action="append", choices=list(debian.SUITES), help="a libc; all unless told")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    program = programs.build_portable("selfcheck")
    arenadump = harness.Arenadump(harness.arenadump_path())
    counts = Counts()
    suites = options.suite or list(debian.SUITES)
    runs = [(suite, load) for suite in suites for load in LOADS]
    for number, (suite, load) in enumerate(runs):
        print(f"{suite}, {' '.join(load)}: {sum(counts.wrong.values())} wrong so far", file=sys.stderr, flush=True)
        command, before = debian.libc(suite).command(program, *load), counts.made()
        soak(options.minutes * 60 / len(runs), command, arenadump, counts, options.seed + number)
        counts.by_libc[suite].update(counts.made() - before)
    print(json.dumps(counts.report(), indent=2))
    return 1 if counts.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
