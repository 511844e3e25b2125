# SPDX-License-Identifier: MIT
"""Inspects processes that write all their memory and are near their cgroups' limits: counts those that are killed.

    .venv/bin/python tests/soaks/soak_headroom.py --snapshots 500 --headroom 1,5,10,20

For each headroom (per cent of what is used) there are as many pods (tests/tools/pods.py), all at the same time: small
and large ones, with the limit at their own cgroup (hard), at the one above (above), or as memory.high (soft; of version
2 alone). `top`, `watch` and `exporter` inspect all of
them at once, and all of them write; the other commands inspect one after the other, and only that one writes. So each
command goes on until it has inspected so often at each headroom. A line of JSON for each round has the counts:
snapshots, failed ones, modes where the answer says them, targets killed, all kills of the kernel's in the cgroups
(clones included), and how often memory.high was met.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

# By its path, from wherever it is run.
sys.path.insert(0, str(Path(__file__).parents[1]))
from tools import exporting, harness, kernel, pods

from arenascope.timeline import reader

PYTHON = [sys.executable, "-m", "arenascope"]
# The same program, whose turns follow one another as fast as they can, whatever they cost.
WATCH = "from arenascope.watch import loop as watch; watch.SHARE = 1e6; from arenascope.cli.main import run; run()"
MEGABYTES = (24, 24, 24, 24, 64)  # of each pod of one headroom; its limit is the next one of --limits
POLLS = 5  # of the exporter and of watch, in each round


class Snapshot(NamedTuple):
    """What came of a snapshot."""

    pid: int
    failed: str = ""  # why
    mode: str = ""


def ran(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def once(command: str) -> Callable[[str, list[int], Path], Iterator[Snapshot]]:
    """A command of arenadump's, at one pod."""

    def snapshots(_: str, pids: list[int], folder: Path) -> Iterator[Snapshot]:
        for pid in pids:
            words = ["-o", str(folder / "dump")] if command == "dump" else ["--json"]
            done = ran([str(harness.arenadump_path()), command, *words, str(pid)])
            if done.returncode != 0:
                yield Snapshot(pid, f"exit code {done.returncode}: {done.stderr.strip()[:200]}")
            elif command == "summary":
                yield Snapshot(pid, mode=json.loads(done.stdout)["snapshot"]["mode"])
            else:
                yield Snapshot(pid)

    return snapshots


def top(group: str, pids: list[int], _: Path) -> Iterator[Snapshot]:
    done = ran([*PYTHON, "top", "--once", "--json", "--filter", group])
    assert done.returncode == 0, done.stderr
    for each in json.loads(done.stdout)["processes"]:
        if each["pid"] in pids:
            yield Snapshot(
                each["pid"],
                "" if each["snapshot"] else each["why"],
                each["snapshot"]["mode"] if each["snapshot"] else "",
            )


def watch(group: str, pids: list[int], folder: Path) -> Iterator[Snapshot]:
    command = [sys.executable, "-c", WATCH, "watch", "--cgroup", group, "--every", "200ms", "-o", str(folder / "line")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        timeline = None
        end = time.monotonic() + 600
        while (timeline is None or len(timeline.polls) < POLLS) and child.poll() is None and time.monotonic() < end:
            time.sleep(1)
            with contextlib.suppress(Exception):  # it is not there yet, or being written to
                timeline = reader.read(str(folder / "line"))
        child.terminate()
        _, said = child.communicate(timeout=600)
    assert child.returncode == 0, said
    for poll in reader.read(str(folder / "line")).polls:
        for snapshot in poll.snapshots:
            if snapshot.pid in pids:
                yield Snapshot(snapshot.pid)


def exporter(group: str, pids: list[int], _: Path) -> Iterator[Snapshot]:
    with exporting.exporting("--cgroup", group, "--processes", "100", every="10ms", eager=True) as serving:
        for poll in range(POLLS):
            page = serving.after_poll(poll + 1)
    polls = int(exporting.value(page, "arenascope_exporter_polls"))
    modes = {each.labels["pid"]: each.labels["mode"] for each in page["arenascope_process"].samples}
    for failed in page["arenascope_exporter_snapshots_failed"].samples:
        print(f"exporter: {failed.labels}: {failed.value}", flush=True)
    for pid in pids:
        for poll in range(polls):
            known = str(pid) in modes
            yield Snapshot(pid, "" if known else "no row", modes[str(pid)] if known and poll == 0 else "")


COMMANDS = {name: once(name) for name in ("summary", "owners", "types", "leaks", "dump")} | {
    "watch": watch,
    "top": top,
    "exporter": exporter,
}
AT_ONCE = ("watch", "top", "exporter")


def one_by_one(command: str, group: str, there: list[pods.Pod]) -> dict[float, Counter[str]]:
    """As round_of, where one pod writes at a time: twenty on two processors would leave no time for a snapshot."""
    found: dict[float, Counter[str]] = {}
    with contextlib.ExitStack() as stack:
        rests = [stack.enter_context(contextlib.ExitStack()) for _ in there]
        for rest, pod in zip(rests, there):
            rest.enter_context(pod.at_rest())
        for rest, pod in zip(rests, there):
            rest.close()
            for headroom, counts in round_of(command, group, [pod]).items():
                found.setdefault(headroom, Counter()).update(counts)
            rest.enter_context(pod.at_rest())
    return found


def round_of(command: str, group: str, there: list[pods.Pod]) -> dict[float, Counter[str]]:
    """Inspects all of these pods: what came of it, by headroom."""
    found: dict[float, Counter[str]] = {pod.shape.headroom: Counter() for pod in there}
    headrooms = {pod.pid: pod.shape.headroom for pod in there}
    with tempfile.TemporaryDirectory() as folder:
        for snapshot in COMMANDS[command](group, list(headrooms), Path(folder)):
            counts = found[headrooms[snapshot.pid]]
            counts["snapshots"] += 1
            counts["failed"] += bool(snapshot.failed)
            counts[f"mode {snapshot.mode}"] += bool(snapshot.mode)
            if snapshot.failed:
                print(f"{command} at {headrooms[snapshot.pid]} %: {snapshot.failed}", flush=True)
    for pod in there:
        found[pod.shape.headroom].update(pod.harm())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--snapshots", type=int, default=25, help="of each command, at each headroom")
    parser.add_argument("--minutes", type=float, default=1e9, help="end then, whatever was counted")
    parser.add_argument("--headroom", default="1,5,10,20", help="per cent of what is used")
    parser.add_argument("--limits", default="hard,above", help="of hard, above, soft")
    parser.add_argument("--megabytes", type=int, help="of each pod; there is one for each of the limits")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the pods go first
    end = time.monotonic() + 60 * chosen.minutes
    headrooms = [float(each) for each in chosen.headroom.split(",")]
    sizes = [chosen.megabytes] if chosen.megabytes else MEGABYTES
    limits = [limit for limit in chosen.limits.split(",") if limit != "soft" or kernel.Cgroup.unified_root()]
    of_each = list(zip(itertools.cycle(sizes), itertools.cycle(limits), range(max(len(sizes), len(limits)))))
    shapes = [pods.Shape(headroom, size, limit) for headroom in headrooms for size, limit, _ in of_each]
    total = {(command, headroom): Counter[str]() for command in chosen.commands.split(",") for headroom in headrooms}
    with pods.running(shapes) as (group, there):
        while time.monotonic() < end and min(counts["snapshots"] for counts in total.values()) < chosen.snapshots:
            for command in chosen.commands.split(","):
                if min(total[command, headroom]["snapshots"] for headroom in headrooms) < chosen.snapshots:
                    take_snapshot = round_of if command in AT_ONCE else one_by_one
                    for headroom, counts in take_snapshot(command, group, there).items():
                        total[command, headroom].update(counts)
                        print(json.dumps([command, headroom, total[command, headroom]]), flush=True)
    harmed = sum(counts["targets killed"] for counts in total.values())
    print(f"load {os.getloadavg()[0]:.0f}; targets killed: {harmed}")
    sys.exit(1 if harmed else 0)


if __name__ == "__main__":
    main()
