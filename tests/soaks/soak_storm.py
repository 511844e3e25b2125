#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records a program that does at the same time all that a recorder has to get right (tests/programs/storm).

Profiles begin and end all the time: in slots or at entries, with several rates. One in three is killed at any time.
The program checks all that it does, and ends with 0 only if nothing was wrong.

    .venv/bin/python tests/soaks/soak_storm.py [--profiles 300] [--each 50] [--seed 1]

Prints what was done and what went wrong as JSON; exit code 1 when anything did. A short run is in
tests/profiles/test_profile_storm.py.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

# By its path, from wherever it is run.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tools import harness, programs

RATES = ("exact", "1", "pages=8,bytes=16K")
FINE = (0, 4)  # 4: not now: a thread stood in the way of an entry, or was in the tables
PATIENCE = 600  # seconds


@dataclass
class Counts:
    lives: int = 0
    profiles: int = 0
    at_entries: int = 0
    killed: int = 0
    not_now: int = 0
    rounds: dict[str, int] = field(default_factory=dict)  # of the program's threads
    wrong: list[str] = field(default_factory=list)


def record(arenadump: harness.Arenadump, pid: int, folder: Path, chance: random.Random, counts: Counts) -> None:
    entry = platform.machine() == "x86_64" and chance.random() < 0.25
    command = [str(arenadump.path), "profile", str(pid), "-o", str(folder / "dump"), "--timeout=120s"]
    command += [f"--for={chance.choice((20, 100, 400))}ms", f"--rates={chance.choice(RATES)}"]
    process = subprocess.Popen([*command, *(["--entry"] if entry else [])], stderr=subprocess.PIPE, text=True)
    counts.profiles += 1
    counts.at_entries += entry
    if chance.random() < 1 / 3:
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.random())
        counts.killed += process.poll() is None
        process.kill()
        process.communicate()
        return
    _, said = process.communicate(timeout=PATIENCE)
    counts.not_now += process.returncode == max(FINE)
    if process.returncode not in FINE:
        counts.wrong.append(f"record: {process.returncode}: {said}")


def live(arenadump: harness.Arenadump, folder: Path, chance: random.Random, profiles: int, counts: Counts) -> None:
    plugins = [programs.build("storm_plugin", "-shared", "-fPIC", f"-DROOM={room}") for room in (64, 4000)]
    command = [str(programs.build("storm", "-pthread", "-ldl", compiler="g++")), *map(str, plugins)]
    with (
        (folder / "said").open("w") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        assert process.stdout
        try:
            ready = process.stdout.readline()
            for _ in range(profiles if ready else 0):
                if process.poll() is not None:
                    break
                record(arenadump, process.pid, folder, chance, counts)
            process.send_signal(signal.SIGTERM)
            answer, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    counts.lives += 1
    for line in answer.splitlines():
        name, _, rounds = line.partition(" ")
        counts.rounds[name] = counts.rounds.get(name, 0) + int(rounds)
    if process.returncode != 0:
        counts.wrong.append(f"the program: {process.returncode}: {(folder / 'said').read_text()[-500:]}")


def soak(arenadump: harness.Arenadump, profiles: int, each: int, seed: int) -> Counts:
    counts, chance = Counts(), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        while counts.profiles < profiles and not counts.wrong:
            live(arenadump, Path(folder), chance, min(each, profiles - counts.profiles), counts)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", type=int, default=300)
    parser.add_argument("--each", type=int, default=50, help="profiles of one process")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts = soak(harness.Arenadump(harness.arenadump_path()), options.profiles, options.each, options.seed)
    print(json.dumps(asdict(counts), indent=2))
    return 1 if counts.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
