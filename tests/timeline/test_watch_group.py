# SPDX-License-Identifier: MIT
"""What `arenascope watch` prints of a group of small Python processes, of which one leaks."""

from __future__ import annotations

import json
import re
import shlex
import signal
import statistics
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from timeline.test_timeline import arenascope

from arenascope.humanize import signed, size

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS = 4
PATIENCE = 240  # seconds until a leak is a suspect: on a busy machine each of ten polls takes some of them
# Workers that do the same, but for one, which keeps what it has made: so many chunks in each second that has passed.
PREFORK = """
import os, sys, time
def work(leaks):
    begun, kept = time.monotonic(), []
    while True:
        made = [bytearray(3000) for _ in range(8)]
        while leaks and len(kept) < 100 * (time.monotonic() - begun):
            kept.append(bytearray(5000))
        time.sleep(0.05)
pids = []
for number in range(int(sys.argv[1])):
    pids.append(os.fork())
    if not pids[-1]:
        work(number == 2)
print(*pids, flush=True)
sys.stdin.readline()
for pid in pids:
    os.kill(pid, 9)
"""

pytestmark = pytest.mark.usefixtures("own_arenadump")


@contextmanager
def prefork() -> Iterator[list[int]]:
    """A parent, then its workers. The third of these leaks."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", PREFORK, str(WORKERS)], stdin=pipe, stdout=pipe, text=True) as parent:
        assert parent.stdout
        yield [parent.pid, *map(int, parent.stdout.readline().split())]
        parent.communicate("\n")


@contextmanager
def watching(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "arenascope", "watch", *map(str, arguments)]
    with ExitStack() as closing:
        child = closing.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        patience = threading.Timer(PATIENCE, child.kill)
        patience.start()
        closing.callback(patience.cancel)
        closing.callback(child.kill)
        yield child


def lines_of(table: str) -> dict[int, list[str]]:
    """The cells of each process's line, by PID."""
    found = (
        re.split(r"  +", line.strip()) for line in table.splitlines() if re.match(r"\S+ [0-9]+( \(ended\))?  ", line)
    )
    return {int(cells[0].split(" ")[1]): cells for cells in found}


def test_each_process_of_a_group_has_a_line(tmp_path: Path) -> None:
    """While the watch goes on, at its end, and in its timeline; the commands under the table say more."""
    path = tmp_path / "a timeline"
    with prefork() as pids:
        with watching(pids[0], "-o", path, "--every", "200ms", "--budget", "100%") as watch:
            assert watch.stdout
            before = []
            for line in watch.stdout:
                before.append(line)
                if line.startswith("The evidence: "):
                    break
            watch.send_signal(signal.SIGINT)
            after, said = watch.communicate()
        assert watch.returncode == 0, said
        first, last = lines_of("".join(before)), lines_of(after)
        assert first.keys() == last.keys() == set(pids), "the parent and its workers"
        leaking = pids[3]
        for table in (first, last):
            assert next(iter(table)) == leaking
            assert table[leaking][-1].startswith("5024-byte chunks")
            assert re.fullmatch(r"\+[0-9.]+ [KM]iB/min", table[leaking][-2])
            assert all(table[pid][-1] == "none" for pid in pids if pid != leaking)
        evidence, compare = (
            next(line for line in after.splitlines() if words in line) for words in ("suspects", "diff")
        )
        command = evidence.partition(": arenascope ")[2]
        assert command == f"timeline suspects {shlex.quote(str(path))}"
        shown = arenascope(*shlex.split(command)).stdout
        assert f"{leaking}, 5024-byte chunks: +" in shown
        command = compare.partition(": arenascope ")[2]
        assert re.fullmatch(
            rf"diff --graph ({'|'.join(str(pid) for pid in pids[1:] if pid != leaking)}) {leaking}", command
        )
        assert re.search(r"^ +4\.9 KiB .* new", arenascope(*shlex.split(command)).stdout, re.MULTILINE)
    polls = json.loads(arenascope("timeline", path, "--json").stdout)["polls"]
    by_pid: dict[int, list[Any]] = {}
    for snapshot in (snapshot for poll in polls for snapshot in poll["snapshots"]):
        by_pid.setdefault(snapshot["pid"], []).append(snapshot)
    for pid, snapshots in by_pid.items():
        rss = [snapshot["rss"] for snapshot in snapshots]
        change = signed(rss[-1] - rss[0])
        assert last[pid][1:4] == [str(len(snapshots)), size(rss[-1]), change]
    assert lines_of(arenascope("timeline", path, "--lines", "2").stdout) == last


def test_a_watch_of_several_processes_says_when_and_with_what_budget(tmp_path: Path) -> None:
    """Five small processes, by their PIDs: the budget that it names has polls as often as they were asked for."""
    with prefork() as pids:
        done = arenascope("watch", *pids, "-o", tmp_path / "one", "--every", "1s", "--for", "1s", "--budget", "0.5%")
        assert done.returncode == 0, done.stderr
        found = re.search(
            r"a poll costs ([0-9.]+) ms of processor time: one in .*, and not in 1\.0 s, to stay below 0\.5 % of a "
            r"processor; a leak suspect takes 10 polls: the first can be known in about .* min, with --budget "
            r"([0-9.]+%) in 9\.0 s",
            done.stderr,
        )
        assert found, done.stderr
        cost, proposed = float(found[1]) / 1000, float(found[2][:-1]) / 100
        assert cost <= proposed <= 1.25 * cost + 0.002, "a fourth more, and what is rounded"
        assert lines_of(done.stdout).keys() == set(pids)
        assert all(cells[-1] == "not known yet: 1 of 10 polls" for cells in lines_of(done.stdout).values())
        again = arenascope(
            "watch", *pids, "-o", tmp_path / "other", "--every", "1s", "--for", "5s", "--budget", found[2]
        )
    document = json.loads(arenascope("timeline", tmp_path / "other", "--json").stdout)
    assert document["about"]["watched"] == f"processes {', '.join(map(str, pids))}"
    intervals = [poll["interval_s"] for poll in document["polls"]]
    assert again.returncode == 0, again.stderr
    assert statistics.median(intervals) <= 2, "a busy machine's caches can double what a poll costs"


def test_an_ended_process_keeps_its_line(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    with prefork() as pids:
        one, other = pids[1:3]
        assert arenascope("watch", one, other, "-o", path, "--for", "1ms").returncode == 0
    done = arenascope("timeline", path)
    assert lines_of(done.stdout).keys() == {one, other}
    with prefork() as pids:
        done = arenascope("watch", pids[1], "-o", path, "--for", "1ms")
    assert [cells[0].partition(" (")[2] for cells in lines_of(done.stdout).values()] == ["", "ended)", "ended)"]
    assert "1 of 10 polls" in done.stdout
