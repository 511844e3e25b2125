#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A day of a service that records from its start: as many allocations, threads, forks, ... as it makes in 24 hours.

    .venv/bin/python tests/soaks/soak_recorder.py [--days 1] [--suite bookworm ...] [--minutes 60] [--seed 1]

tests/programs/service does all of it at once and as fast as it can, in rounds of 20 seconds, until the counts of DAY
are reached under each libc. Each round records in another way (WAYS): three profiles and a trace. Meanwhile
arenadump inspects it; one snapshot in five is killed. With --minutes it ends then, however far it has come.

Prints the counts of each libc, and what went wrong, as JSON. Exit code 1 when anything did, or a count was not reached.
Of a process that hangs, all threads' stacks are kept (gdb) before it is ended. `make soak` runs it; a short run is in
tests/profiles/test_recorder_soak.py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# By its path, from wherever it is run.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tools import debian, harness, programs

# As in tests/programs/service/service.h.
COUNTERS = (
    *("lives", "allocations", "threads", "forks", "programs", "signals", "handlers", "inside", "jumps"),
    *("coroutines", "moved", "libraries"),
)
IN_A_DAY = 24 * 60 * 60  # seconds
# What a service does in 24 hours that makes, in each second, 10,000 allocations, a thread, five signals and a
# coroutine; in each minute six forks, two programs and a library; and that is inspected every five minutes. It is
# started anew (a life) every hour.
DAY = {
    "allocations": 10_000 * IN_A_DAY,
    "threads": IN_A_DAY,
    "signals": 5 * IN_A_DAY,
    "coroutines": IN_A_DAY,
    "forks": IN_A_DAY // 10,
    "programs": IN_A_DAY // 30,
    "libraries": IN_A_DAY // 60,
    "snapshots": IN_A_DAY // 300,
    "lives": IN_A_DAY // 3600,
}
# A trace of all of them would be tens of GB: it has a round of four, which is shorter.
WAYS = {
    "exact": {"ARENASCOPE_PROFILE": "exact"},
    "rates": {"ARENASCOPE_PROFILE": "1"},
    "little memory": {"ARENASCOPE_PROFILE": "exact,memory=64M"},
    "trace": {},
}
SECONDS = {"trace": 2.0}  # of a life, where not LIFE
LIFE, LIVES = 5.0, 4
PATIENCE = 300
KILLED = 0.2  # of the snapshots
DENIED, UNSUPPORTED, GONE = 4, 5, 7
WRONG = 1000  # one recognised stack in so many may be wrong


@dataclass
class Counts:
    """What was done, by the libc and by the way of recording."""

    done: dict[str, Counter[str]] = field(default_factory=dict)
    ways: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, suite: str, way: str, what: Counter[str]) -> None:
        self.done.setdefault(suite, Counter()).update(what)
        self.ways.setdefault(way, Counter()).update(what)

    def lacks(self, suite: str, days: float) -> dict[str, int]:
        done = self.done.get(suite, Counter())
        return {name: done[name] for name, many in DAY.items() if done[name] < many * days}

    def report(self) -> dict[str, Any]:
        done = {suite: dict(counted) for suite, counted in self.done.items()}
        return {"done": done, "ways": {way: dict(counted) for way, counted in self.ways.items()}, "wrong": self.wrong}


def target(libc: debian.Libc, way: str, folder: Path, agent: Path, times: tuple[float, int]) -> subprocess.Popen[str]:
    """`times`: seconds of a life, and lives."""
    libraries = [
        programs.build_portable("allocates", debian.NATIVE, "-shared", "-fPIC", f"-DROOM={room}") for room in (64, 4000)
    ]
    how = WAYS[way] or {"ARENASCOPE_PROFILE_TRACE": str(folder / "record")}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ARENASCOPE_")}
    arguments = [str(folder / "counts"), *map(str, times), *map(str, libraries), "allocates"]
    return subprocess.Popen(
        libc.command(programs.build_portable("service"), *arguments),
        env={**clean, "LD_PRELOAD": str(agent), "ARENASCOPE_LOG": str(folder / "log"), **how},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def take_snapshot(
    process: subprocess.Popen[str], way: str, arenadump: harness.Arenadump, rng: random.Random
) -> Counter[str]:
    """Inspects once, or is killed meanwhile. It says what is wrong by an assertion."""
    command = [str(arenadump.path), "sites", str(process.pid), "--json"]
    if way == "trace":
        command = [str(arenadump.path), "summary", str(process.pid), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as inspecting:
        if rng.random() < KILLED:
            time.sleep(rng.uniform(0, 0.5))
            inspecting.kill()
            inspecting.communicate()
            return Counter(snapshots=1, killed=1)
        out, said = inspecting.communicate(timeout=PATIENCE)
    # It executes itself or has ended; a busy machine; or it has just executed itself, and does not record yet.
    early = inspecting.returncode == UNSUPPORTED and "has no profile" in said
    # It ended just before the snapshot, and nobody has waited for it: poll() does.
    zombie = inspecting.returncode == UNSUPPORTED and "is a zombie" in said and process.poll() is not None
    if early or zombie or inspecting.returncode in {DENIED, GONE}:
        gone = zombie or inspecting.returncode == GONE
        return Counter(early=early, given_up=inspecting.returncode == DENIED, gone=gone)
    assert inspecting.returncode == 0, f"a snapshot: exit {inspecting.returncode}: {said}"
    if way != "trace":
        found = json.loads(out)
        assert found["wrong"] <= found["checked"] // WRONG + 1, f"{found['wrong']} of {found['checked']} are wrong"
        if way == "exact":
            assert found["every_page"], "exact: not every page is watched"
            if not found["sites"]:  # it has just executed itself: all that is in use, its thread is about to record
                counts = [found[name]["count"] for name in ("unseen", "without_stack")]
                assert found["known"]["count"] == 0, f"{found['known']['count']} chunks have a stack, and no site"
                assert found["misses"] <= 1, f"{found['misses']} stacks were unwound, and no site has anything"
                assert sum(counts) <= 1, f"{sum(counts)} chunks are in use, and none has a site"
                return Counter(early=1)
    return Counter(snapshots=1)


def kept_stacks(pid: int, folder: Path) -> Path:
    """The stacks of all threads of it and of its children, in a file."""
    pids = [pid]
    for each in pids:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):
                pids += map(int, children.read_text().split())
    file = folder / f"hung-{pid}.txt"
    with file.open("w") as out:
        for each in pids:
            gdb = ["gdb", "--batch", "-p", str(each), "-ex", "thread apply all bt", "-ex", "info proc mappings"]
            subprocess.run(gdb, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False)
    return file


def check_records(folder: Path, arenadump: harness.Arenadump, rng: random.Random) -> Counter[str]:
    """Some of them: what the reader finds is whole, and contradicts itself only where something is missing."""
    records = sorted(folder.glob("record*"))
    for record in [folder / "record", *rng.sample(records, min(5, len(records)))]:
        done = subprocess.run(
            [str(arenadump.path), "trace", str(record), "--json"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{record.name}: exit {done.returncode}: {done.stderr}"
        found = json.loads(done.stdout)
        assert found["backwards"] == 0, f"{record.name}: {found['backwards']} events have an earlier time"
        assert found["wrong"] <= found["checked"] // WRONG + 1, f"{found['wrong']} of {found['checked']} are wrong"
        assert found["ended"] != "exit" or found["torn_bytes"] == 0, f"{record.name}: {found['torn_bytes']} torn bytes"
    return Counter(records=len(records))


def read_counts(folder: Path) -> Counter[str]:
    words = struct.unpack(f"<{len(COUNTERS)}Q", (folder / "counts").read_bytes())
    return Counter(dict(zip(COUNTERS, words, strict=True)))


def one_round(
    libc: debian.Libc,
    way: str,
    arenadump: harness.Arenadump,
    rng: random.Random,
    counts: Counts,
    *,
    life: float = LIFE,
    lives: int = LIVES,
) -> None:
    done: Counter[str] = Counter(rounds=1)
    agent = harness.agent_path(arenadump.path)
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as name,
        target(libc, way, folder := Path(name), agent, (life, lives)) as process,
    ):
        deadline = time.monotonic() + life * lives + PATIENCE
        try:
            assert process.stdout
            first = process.stdout.readline()
            assert first == "ready\n", f"no start: {first + process.stdout.read()}; exit {process.wait(PATIENCE)}"
            while process.poll() is None and time.monotonic() < deadline:
                done += take_snapshot(process, way, arenadump, rng)
                time.sleep(rng.uniform(0, 1))
            done["hung"] += process.poll() is None
            assert not done["hung"], f"it hangs: {kept_stacks(process.pid, Path.cwd())}"
            done += read_counts(folder)
            assert process.returncode == 0, f"exit {process.returncode}: {process.stdout.read()}"
            assert done["lives"] == lives, f"{done['lives']} lives"
            if way == "trace":
                done += check_records(folder, arenadump, rng)
        except (AssertionError, subprocess.TimeoutExpired) as fault:
            counts.wrong.append(f"{libc.suite}, {way}: {fault}")
            print(counts.wrong[-1], file=sys.stderr, flush=True)
        finally:
            process.kill()
    counts.add(libc.suite, way, done)


def soak(options: argparse.Namespace, arenadump: harness.Arenadump) -> Counts:
    """Under each libc by turns."""
    counts, rng = Counts(), random.Random(options.seed)
    began, rounds = time.monotonic(), 0
    while left := [suite for suite in options.suite if counts.lacks(suite, options.days)]:
        for suite in left:
            if options.minutes and time.monotonic() - began > options.minutes * 60:
                return counts
            way = list(WAYS)[rounds % len(WAYS)]
            life = SECONDS.get(way, LIFE)
            one_round(debian.libc(suite), way, arenadump, rng, counts, life=life)
            print(f"{suite}, {way}: {json.dumps(counts.report())}", file=sys.stderr, flush=True)
        rounds += 1
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=1)
    parser.add_argument("--minutes", type=float, help="at most so long")
    parser.add_argument("--suite", action="append", choices=list(debian.SUITES), help="a libc; all unless told")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.suite = options.suite or list(debian.SUITES)
    counts = soak(options, harness.Arenadump(harness.arenadump_path()))
    lacks = {suite: counts.lacks(suite, options.days) for suite in options.suite}
    print(json.dumps({**counts.report(), "lacks": {suite: less for suite, less in lacks.items() if less}}, indent=2))
    return 1 if counts.wrong or any(lacks.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
