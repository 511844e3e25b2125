# SPDX-License-Identifier: MIT
"""`--dump-at oom,pressure`: cgroups that meet their limit, processes that the kernel kills, and stalls."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from timeline.test_dump_folder import files, summary_of
from timeline.test_timeline import MIB, next_line, started
from timeline.test_triggers import HOLDS, PATIENCE, Watching, appears, hold, hourly, watching
from tools import kernel

from arenascope.processes import process_at
from arenascope.watch import memory_pressure
from arenascope.watch.cgroup import VERSION_2, Mount, cgroups_of, mounts
from arenascope.watch.kernel_events import Alarms
from arenascope.watch.loop import Bell
from arenascope.watch.memory_pressure import Counts, Notices, counts_of
from arenascope.watch.triggers import Triggers, When, parse_when

LIMIT = 64 * MIB
V2 = "0::/outer/inner\n"
# Reads a file again and again; and for each number it is told, a child of its own writes to so many MiB.
STRAINS = """
import os, sys
print("ready", flush=True)
for line in sys.stdin:
    word, number = line.split()
    if word == "read":
        for _ in range(3):
            with open(sys.argv[1], "rb", 0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                while file.read(1 << 20):
                    pass
    elif os.fork() == 0:
        b"x" * (int(number) << 20)
        os._exit(0)
    else:
        os.wait()
    print("done", flush=True)
"""


pytestmark = pytest.mark.usefixtures("own_arenadump")


@dataclass
class Strained:
    """A process in a cgroup with a limit."""

    child: subprocess.Popen[str]
    cgroup: Path

    @property
    def pid(self) -> int:
        return self.child.pid

    def do(self, word: str, number: int = 0) -> None:
        assert self.child.stdin
        print(word, number, file=self.child.stdin, flush=True)
        assert next_line(self.child) == "done\n"


@contextmanager
def limited(name: str) -> Iterator[kernel.Cgroup]:
    try:
        group = kernel.Cgroup(name)
    except kernel.NotAllowedError as reason:
        pytest.xfail(f"this machine does not allow it: {reason}")
    with group:
        of_version = {
            "memory.max": LIMIT,
            "memory.swap.max": 0,
            "memory.limit_in_bytes": LIMIT,
        }
        for file, limit in of_version.items():
            if (group.path / file).exists():
                (group.path / file).write_text(str(limit))
        yield group


@contextmanager
def strained(tmp_path: Path) -> Iterator[Strained]:
    """Its file is twice as large as the limit, so that reading it meets the limit, and harms nobody."""
    large = tmp_path / "large"
    with large.open("wb") as out:
        for _ in range(2 * LIMIT // MIB):
            out.write(bytes(MIB))
        out.flush()
        os.fsync(out.fileno())
    with limited("arenascope-notices") as group, started(STRAINS, large) as child:
        assert next_line(child) == "ready\n"
        (group.path / "cgroup.procs").write_text(str(child.pid))
        yield Strained(child, group.path)


def last_dump(watched: Watching) -> str:
    return [line for line in watched.said if line.startswith("dump ")][-1]


def test_a_limit_that_is_met_and_a_kill_have_a_dump_each(tmp_path: Path) -> None:
    with strained(tmp_path) as strain, watching(strain.pid, tmp_path, "oom") as watched:
        assert watched.poll() == []
        assert watched.poll() == []
        strain.do("read")
        assert watched.poll() == ["oom"]
        assert f"times in {strain.cgroup}" in last_dump(watched)
        assert "(oom: the limit was met, " in last_dump(watched)
        strain.do("read")
        assert watched.poll() == ["oom"], "it goes on"
        strain.do("write", 2 * LIMIT // MIB)
        assert watched.poll() == ["oom"] * 2
        assert f"the kernel killed for want of memory, 1 times in {strain.cgroup}" in last_dump(watched)
    for each in files(tmp_path / "dumps"):
        assert summary_of(each).target.pid == strain.pid


def test_a_notice_is_new_after_a_minute_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with strained(tmp_path) as strain, watching(strain.pid, tmp_path, "oom") as watched:
        watched.poll()
        for expected in (1, 1, 2):
            if expected == 2:
                monkeypatch.setattr(memory_pressure, "STILL", 0.0)
            strain.do("read")
            assert watched.poll() == ["oom"] * expected


def test_who_was_killed_before_a_snapshot_is_told(tmp_path: Path) -> None:
    with limited("arenascope-notices") as group, started(HOLDS) as child:
        assert next_line(child) == "ready\n"
        (group.path / "cgroup.procs").write_text(str(child.pid))
        with watching(child.pid, tmp_path, "oom") as watched:
            watched.poll()
            assert child.stdin
            print(2 * LIMIT // MIB, file=child.stdin, flush=True)
            assert child.wait(PATIENCE) == -signal.SIGKILL
            assert watched.poll() == []
            (line,) = [each for each in watched.said if "killed for want" in each]
            assert line.startswith("no dump (oom: ")
            assert line.endswith(f"no snapshot of process {child.pid} came in time")
            assert line in (watched.says() or "")


def test_a_stall_wakes_the_watch(tmp_path: Path) -> None:
    """By the real command, which inspects once an hour."""
    whole = Path("/proc/pressure/memory")
    if not whole.exists():
        pytest.xfail("this kernel has no PSI")
    folder = tmp_path / "dumps"
    end = time.monotonic() + PATIENCE
    with strained(tmp_path) as strain, hourly(strain.pid, tmp_path, "pressure=100us") as said:
        while not files(folder):
            strain.do("read")
            assert time.monotonic() < end
        first = appears(folder, 1)
    assert any("for memory)" in line for line in said)
    assert first.name.endswith(".pressure.dump")


def test_a_stall_is_as_long_as_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files as the kernel has them, at times that are known to the second."""
    clock = [100.0]
    monkeypatch.setattr(memory_pressure, "monotonic", lambda: clock[0])
    place = Mount(VERSION_2, "/", tmp_path)
    file = tmp_path / "memory.pressure"

    def after(seconds: float, total: int) -> int:
        clock[0] += seconds
        file.write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 total=7\n")
        return len(found.of("0::/\n", [place])[0])

    found = Notices(0.010, oom=False)
    assert after(0, 5000) == 0
    assert after(1, 14000) == 0, "9 ms in a second"
    assert after(0.3, 20000) == 0
    assert after(0.3, 24000) == 1, "10 ms since the last whole second, though asked twice meanwhile"
    assert after(10, 500000) == 0, "it goes on"
    assert after(61, 500000) == 0
    assert after(1, 700000) == 1
    assert after(61, 700000) == 0
    assert after(61, 700000 + 609999) == 0, "9.99 ms in each second"


def test_the_counts_of_version_2(tmp_path: Path) -> None:
    """Files as the kernel has them: few machines give memory to a cgroup of each version."""
    own = tmp_path / "outer/inner"
    own.mkdir(parents=True)
    place = Mount(VERSION_2, "/", tmp_path)

    def write(directory: Path, name: str, **counts: int) -> None:
        known = {"low": 0, "high": 0, "max": 0, "oom": 0, "oom_kill": 0, **counts}
        (directory / name).write_text("".join(f"{key} {value}\n" for key, value in known.items()))

    write(own.parent, "memory.events", max=70)  # of a neighbour
    write(own.parent, "memory.events.local", max=1)
    write(own, "memory.events", oom=5)  # before Linux 5.2
    both = frozenset({"oom", "pressure"})
    assert counts_of(V2, [place], both).events == {
        (str(own), "max"): 0,
        (str(own), "oom"): 5,
        (str(own), "oom_kill"): 0,
        (str(own), "high"): 0,
        (str(own.parent), "max"): 1,
        (str(own.parent), "oom"): 0,
        (str(own.parent), "oom_kill"): 0,
        (str(own.parent), "high"): 0,
    }
    found = Notices(0.5, oom=True)
    assert found.of(V2, [place])[0] == []
    write(own.parent, "memory.events", max=90)
    assert found.of(V2, [place])[0] == []
    write(own.parent, "memory.events.local", max=3, high=1)
    next_line = found.of(V2, [place])[0]
    assert [(each.kind, each.says) for each in next_line] == [
        ("oom", f"the limit was met, 2 times in {own.parent}"),
        ("pressure", f"memory.high was met, 1 times in {own.parent}"),
    ]


def test_what_nobody_counts_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_pressure, "PRESSURE", tmp_path / "none")
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 9\noom_kill 4\n")
    monkeypatch.setattr(memory_pressure, "VMSTAT", vmstat)
    with started(HOLDS) as child:
        assert next_line(child) == "ready\n"
        with watching(child.pid, tmp_path, "oom,pressure=1ms") as watched:
            watched.watch.triggered.triggers._mounts = []  # type: ignore[union-attr, misc]
            assert watched.poll() == []
            hold(child, 1)
            assert watched.poll() == []
            lines = [each for each in watched.said if f"process {child.pid}" in each]
            assert [line.split(",")[0] for line in lines] == ["oom", "pressure"]
            assert "the kills of the whole machine count instead" in lines[0]
            assert "the kernel has no PSI" in lines[1]
            vmstat.write_text("pgfault 9\noom_kill 5\n")
            assert watched.poll() == ["oom"]
            assert "killed for want of memory, 1 times in the machine" in last_dump(watched)


def test_a_stall_is_an_alarm(tmp_path: Path) -> None:
    path = Path("/proc/pressure/memory")
    if not path.exists():
        pytest.xfail("this kernel has no PSI")
    alarms = Alarms(0.0001)
    with strained(tmp_path) as strain:
        alarms.on(path, stalls=True)
        assert len(alarms._files) == 1
        end = time.monotonic() + PATIENCE
        while not alarms.poll.poll(100):
            assert time.monotonic() < end
            strain.do("read")
    alarms.close()


def test_counts_that_move_are_an_alarm(version_2: Path) -> None:
    """By a file that the kernel treats as memory.events, which few machines have in version 2."""
    alarms = Alarms(None)
    alarms.on(version_2 / "cgroup.events")
    with Bell().listening() as bell:
        for _ in range(2):
            with started("print('ready', flush=True); input()") as child:
                assert next_line(child) == "ready\n"
                (version_2 / "cgroup.procs").write_text(str(child.pid))
                ((fd, _),) = alarms.poll.poll(10_000)
                alarms.heard({fd})
                assert alarms.poll.poll(0) == [], "it has been read"
            ((fd, _),) = alarms.poll.poll(10_000)
            alarms.heard({fd})
        begun = time.monotonic()
        bell.wait(0.2, alarms)
        assert time.monotonic() - begun >= 0.19
    alarms.close()


@pytest.fixture
def version_2() -> Iterator[Path]:
    root = next((mount.place for mount in mounts() if mount.interface is VERSION_2), None)
    if root is None:
        pytest.xfail("no cgroups of version 2 here")
    path = root / "arenascope-alarm"
    path.mkdir()
    try:
        yield path
    finally:
        if path.exists():
            path.rmdir()


def test_an_alarm_whose_cgroup_has_gone_is_dropped(version_2: Path) -> None:
    if not (version_2 / "memory.pressure").exists():
        pytest.xfail("this kernel has no PSI")
    alarms = Alarms(0.001)
    alarms.on(version_2 / "memory.pressure", stalls=True)
    alarms.on(version_2 / "cgroup.events")
    version_2.rmdir()
    with Bell().listening() as bell:
        end = time.monotonic() + PATIENCE
        while alarms._files:
            assert time.monotonic() < end
            bell.wait(10, alarms)
        begun = time.monotonic()
        bell.wait(0.2, alarms)
        assert time.monotonic() - begun >= 0.19
    alarms.close()


def test_a_cgroup_of_many_processes_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(cgroups: str, *_: object) -> Counts:
        asked.append(cgroups)
        return Counts({}, None)

    monkeypatch.setattr(memory_pressure, "counts_of", ask)
    with started(HOLDS) as child:
        assert next_line(child) == "ready\n"
        both = [process for process in map(process_at, (os.getpid(), child.pid)) if process]
        assert len(both) == 2
        Triggers([When("oom")]).poll(both)
    assert asked == [cgroups_of(os.getpid())]


@pytest.mark.check
def test_conditions_as_they_are_typed() -> None:
    assert parse_when("oom,pressure=10ms") == (When("oom"), When("pressure", 0.01))
    assert parse_when("pressure=1s,pressure=200us") == (When("pressure", 1.0), When("pressure", 0.0002))
    for wrong in ("oom=1", "pressure", "pressure=0ms", "pressure=2s", "pressure=10", "pressure=1m", "pressure=-1ms"):
        assert parse_when(wrong) is None, wrong
