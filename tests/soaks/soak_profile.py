#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Switches the recorder of a running process on and off, again and again, while 16 threads allocate without a pause.

Beside them threads fork, and load and unload libraries. Now and then a whole `arenadump profile` is done, or killed.
The code is marked for indirect branches (CET, BTI).

    .venv/bin/python tests/soaks/soak_profile.py --rounds 1000 [--suite bookworm ...] [--seed 1]

Prints what was done and what went wrong as JSON; exit code 1 when anything did. `make soak` runs it for long; a short
run is in tests/profiles/test_profile_attach_storms.py.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

# By its path, from wherever it is run.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tools import debian, harness, programs
from tools.control import RECORD, RECORD_END, ask, control_socket
from tools.profiling import hooks_left

THREADS = 16
WHOLE = 20  # one round in so many is a whole recording; the first is, as it carries the recorder's code
RATES = ("exact", "1", "pages=8,bytes=16K", "exact,memory=64M")
DENIED = 4  # a thread was still in the tables: the next round waits for it
PATIENCE = 300
MARKED = ["-fcf-protection=full"] if debian.NATIVE == "amd64" else ["-mbranch-protection=standard"]


@dataclass
class Counts:
    switched: int = 0
    whole: int = 0
    killed: int = 0
    still_in_it: int = 0
    blocks: int = 0
    wrong: list[str] = field(default_factory=list)


def target(libc: debian.Libc, folder: Path) -> subprocess.Popen[str]:
    libraries = [
        programs.build_portable("allocates", debian.NATIVE, "-shared", "-fPIC", *MARKED, f"-DROOM={room}")
        for room in (64, 4000)
    ]
    command = ["threads", str(THREADS), "forks", "plugins", *map(str, libraries), "allocates", "1", str(folder / "no")]
    return subprocess.Popen(
        libc.command(programs.build_portable("attached", debian.NATIVE, *MARKED), *command),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def whole(pid: int, folder: Path, arenadump: harness.Arenadump, counts: Counts, *, kills: float) -> None:
    """A profile of arenadump's own, which ends, or is killed so many seconds later (0: it is not)."""
    command = [str(arenadump.path), "profile", str(pid), "-o", str(folder / "dump"), "--for=50ms", "--timeout=120s"]
    with subprocess.Popen([*command, "--exact"], stderr=subprocess.PIPE, text=True) as process:
        if kills:
            time.sleep(kills)
            process.kill()
        _, said = process.communicate(timeout=PATIENCE)
    counts.killed += kills > 0
    counts.whole += 1
    if process.returncode not in (0, *((-signal.SIGKILL,) if kills else ())):
        counts.wrong.append(f"exit {process.returncode}: {said}")


def switch(pid: int, counts: Counts, rng: random.Random) -> None:
    """On, and off by request or by the end of the connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(control_socket(pid))
        code = ask(client, RECORD, rates=rng.choice(RATES))
        time.sleep(rng.choice((0, 0, 0.002, 0.02)))
        if code == 0 and rng.random() < 0.7:
            code = ask(client, RECORD_END)
            counts.still_in_it += code == DENIED
            code = 0 if code == DENIED else code
    if code != 0:
        counts.wrong.append(f"the agent answered {code}")


def settle(pid: int) -> bool:
    """Whether all hooks go, once nobody records."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if not hooks_left(pid):
            return True
        time.sleep(0.05)
    return False


def soak_one(rounds: int, libc: debian.Libc, arenadump: harness.Arenadump, counts: Counts, rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as name, target(libc, Path(name)) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            for number in range(rounds):
                if number % WHOLE == 0:
                    kills = rng.uniform(0, 0.3) if number > 0 and rng.random() < 0.5 else 0
                    whole(process.pid, Path(name), arenadump, counts, kills=kills)
                else:
                    switch(process.pid, counts, rng)
                counts.switched += 1
                if counts.wrong or process.poll() is not None:
                    break
            if process.poll() is None and not settle(process.pid):
                counts.wrong.append(f"{libc.suite}: hooks stay: {hooks_left(process.pid)}")
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=PATIENCE)
            if process.returncode != 0:
                counts.wrong.append(f"{libc.suite}: harmed: exit {process.returncode}: {out}")
            else:
                counts.blocks += int(out.split()[-1])
        finally:
            process.kill()


def soak_for(
    rounds: int, suites: list[str], arenadump: harness.Arenadump, seed: int, *, progress: bool = False
) -> Counts:
    """So many rounds under each libc."""
    counts = Counts()
    rng = random.Random(seed)
    for suite in suites:
        soak_one(rounds, debian.libc(suite), arenadump, counts, rng)
        if progress:
            print(f"{suite}: {json.dumps(asdict(counts))}", file=sys.stderr, flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description="Switch the recorder on and off in a storm.")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--suite", action="append", choices=list(debian.SUITES), help="a libc; all unless told")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    suites = options.suite or list(debian.SUITES)
    counts = soak_for(options.rounds, suites, harness.Arenadump(harness.arenadump_path()), options.seed, progress=True)
    print(json.dumps(asdict(counts), indent=2))
    return 1 if counts.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
