# SPDX-License-Identifier: MIT
"""`arenascope watch --dump-at`: real processes that grow, limits that are met, and a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli.test_diff import growing
from timeline.test_dump_folder import STEP, disk, files, folder_of, names_in, summary_of
from timeline.test_timeline import HOW, MIB, group_of, next_line, opened, started
from tools import harness, kernel

from arenascope.errors import ArenascopeError
from arenascope.processes import process_at
from arenascope.timeline import reader as timeline_reader
from arenascope.watch import cgroup
from arenascope.watch.cgroup import VERSION_2, Mount, cgroups_of, fullest, mounts
from arenascope.watch.dump_directory import DumpFolder
from arenascope.watch.dump_triggered import TriggeredDumps
from arenascope.watch.loop import Watch
from arenascope.watch.triggers import AGAIN, Triggers, When, held_by, parse_when
from arenascope.wire.dump import Dump
from arenascope.wire.summary import Summary

PATIENCE = 120  # seconds
# Holds so many MiB more, or fewer; in one mapping, so that memory comes and goes at once.
HOLDS = """
import sys
held = []
print("ready", flush=True)
for line in sys.stdin:
    number = int(line)
    if number > 0:
        held.append(b"x" * (number << 20))
    else:
        del held[number:]
    print("done", flush=True)
"""


pytestmark = pytest.mark.usefixtures("own_arenadump")


class Watching:
    """A watch that keeps dumps."""

    def __init__(self, watch: Watch, folder: DumpFolder, said: list[str]) -> None:
        self.watch, self.folder, self.said = watch, folder, said

    def poll(self) -> list[str]:
        """One poll: which kinds of dumps there are after it."""
        self.watch.poll(0.001)
        return self.kinds()

    def kinds(self) -> list[str]:
        return [each.name.split(".")[-2] for each in self.folder.kept()]

    def says(self) -> str | None:
        """What the timeline says of the last poll."""
        return timeline_reader.read(self.watch.store.path).polls[-1].notes


@contextmanager
def watching(pid: int, path: Path, when: str, folder: Path | None = None) -> Iterator[Watching]:
    whens = parse_when(when)
    assert whens
    said: list[str] = []
    with folder_of(folder or path / "dumps") as dumps, opened(path / "timeline") as file:
        triggered = TriggeredDumps(Triggers(whens), dumps, said.append)
        yield Watching(Watch(file, group_of(pid), HOW, said.append, triggered), dumps, said)


def hold(child: subprocess.Popen[str], megabytes: int) -> None:
    assert child.stdin
    print(megabytes, file=child.stdin, flush=True)
    assert next_line(child) == "done\n"


def test_growth_has_a_dump_at_each_step(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with growing() as grows, watching(grows.pid, tmp_path, "+4M") as watched:
        assert watched.poll() == []
        grows.grow(STEP)
        assert watched.poll() == [], "half a step"
        grows.grow(STEP)
        assert watched.poll() == ["growth"]
        now = arenadump.summary(grows.pid)
        assert watched.poll() == ["growth"]
        grows.grow(-2 * STEP)
        assert watched.poll() == ["growth"]
        grows.grow(2 * STEP)
        assert watched.poll() == ["growth"], "it held as much before"
        grows.grow(2 * STEP)
        assert watched.poll() == ["growth"] * 2
    (first, second) = files(tmp_path / "dumps")
    assert summary_of(first).ledger["in_use"] == now["ledger"]["in_use"]
    assert summary_of(second).target.pid == grows.pid
    assert first.stat().st_mode & 0o777 == 0o600
    assert first.parent.stat().st_mode & 0o777 == 0o700
    next_line = [line for line in watched.said if line.startswith("dump ")]  # a slow snapshot is told, too
    assert next_line[0].startswith(f"dump {first.name} (growth: ")


def test_a_peak_has_a_dump_and_what_comes_back_to_it_has_none(tmp_path: Path) -> None:
    with growing() as grows, watching(grows.pid, tmp_path, "peak") as watched:
        assert watched.poll() == []
        grows.grow(STEP)
        assert watched.poll() == ["peak"]
        grows.grow(-STEP)
        assert watched.poll() == ["peak"]
        grows.grow(STEP)
        assert watched.poll() == ["peak"]
        grows.grow(STEP // 16)
        assert watched.poll() == ["peak"], "hardly higher"
        grows.grow(STEP)
        assert watched.poll() == ["peak"] * 2


def test_rss_is_asked_between_two_snapshots(tmp_path: Path) -> None:
    """Snapshots are so rare that only a poll can find it."""
    folder = tmp_path / "dumps"
    with started(HOLDS) as child:
        assert next_line(child) == "ready\n"
        with hourly(child.pid, tmp_path, "rss=100M"):
            assert files(folder) == []
            hold(child, 120)
            first = appears(folder, 1)
            hold(child, 20)
            time.sleep(4)
            assert files(folder) == [first], "a limit that has been met already"
            again(lambda: hold(child, -2), lambda: hold(child, 120), lambda: len(files(folder)) > 1)
    rss = summary_of(first).kernel.rss
    assert rss
    assert rss >= 100 * MIB
    assert first.name.endswith(".rss.dump")


def again(leave: Callable[[], None], meet: Callable[[], None], seen: Callable[[], bool]) -> None:
    """A limit is left and met anew, for longer and longer, until both have been noticed: a poll has no fixed time."""
    seconds = 3.0
    while True:
        leave()
        time.sleep(seconds)
        meet()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if seen():
                return
            time.sleep(0.1)
        seconds *= 2
        assert seconds < PATIENCE, "nobody has noticed it"


@contextmanager
def hourly(pid: int, path: Path, when: str) -> Iterator[list[str]]:
    """The real command, once it has had the only snapshot of its hour. What it said is known when it has ended."""
    words = ["--every=1h", f"--dump-at={when}", f"--dumps={path / 'dumps'}", f"--output={path / 'timeline'}"]
    command = [sys.executable, "-m", "arenascope", "watch", *words, str(pid)]
    said: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as watch:
        try:
            end = time.monotonic() + PATIENCE
            while not has_polls(path / "timeline"):
                assert time.monotonic() < end
                time.sleep(0.1)
            yield said
        finally:
            watch.send_signal(signal.SIGINT)
            assert watch.wait(60) == 0
            assert watch.stderr
            said += watch.stderr.read().splitlines()


def has_polls(timeline: Path) -> bool:
    try:
        return bool(timeline_reader.read(str(timeline)).polls)
    except ArenascopeError:  # the watch is about to make it
        return False


def appears(folder: Path, number: int) -> Path:
    end = time.monotonic() + PATIENCE
    while len(files(folder)) < number:
        assert time.monotonic() < end
        time.sleep(0.1)
    return files(folder)[-1]


def test_a_limit_that_stays_met_has_one_dump(tmp_path: Path) -> None:
    with started(HOLDS) as child:
        assert next_line(child) == "ready\n"
        with watching(child.pid, tmp_path, "rss=50M") as watched:
            assert watched.poll() == []
            hold(child, 60)
            for _ in range(3):
                assert watched.poll() == ["rss"]
            members = [process for process in [process_at(child.pid)] if process]
            triggers = Triggers([When("rss", 50 * MIB)])
            assert [triggers.poll(members) for _ in range(3)] == [True, False, False]
            hold(child, -1)
            assert not triggers.poll(members)
            hold(child, 60)
            assert triggers.poll(members)


def test_a_cgroup_that_is_nearly_full(tmp_path: Path) -> None:
    limit = 64 * MIB
    try:
        group = kernel.Cgroup("arenascope-triggers")
    except kernel.NotAllowedError as reason:
        pytest.xfail(f"this machine does not allow it: {reason}")
    with group, started(HOLDS) as child:
        assert next_line(child) == "ready\n"
        (group.path / "cgroup.procs").write_text(str(child.pid))
        names = ("memory.max", "memory.limit_in_bytes")
        file = next(group.path / name for name in names if (group.path / name).exists())
        file.write_text(str(limit))
        with watching(child.pid, tmp_path, "cgroup=75%") as watched:
            assert watched.poll() == []
            hold(child, 50)
            fill = fullest(cgroups_of(child.pid), mounts())
            assert fill
            assert (fill.cgroup, fill.limit) == (str(group.path), limit)
            assert 50 * MIB <= fill.used <= limit
            assert watched.poll() == ["cgroup"]
            assert watched.poll() == ["cgroup"]
            hold(child, -1)
            assert watched.poll() == ["cgroup"]
            hold(child, 50)
            assert watched.poll() == ["cgroup"] * 2
            assert sum(f"{group.path}, of 64.0 MiB" in line for line in watched.said) == 2
            hold(child, -1)


def test_the_nearest_limit_of_version_2_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files as the kernel has them: few machines give memory to a cgroup of each version."""
    own = tmp_path / "outer/inner"
    own.mkdir(parents=True)
    values = {"outer": ("900", "1000", "max"), "outer/inner": ("300", "max", "400")}
    for name, (used, high, most) in values.items():
        for file, text in zip(("memory.current", "memory.high", "memory.max"), (used, high, most)):
            (tmp_path / name / file).write_text(f"{text}\n")
    (tmp_path / "memory.current").write_text("5000\n")  # the root has no limit
    for line, root in (("0::/outer/inner", "/"), ("0::/k/outer/inner", "/k")):
        fills = list(cgroup._fills(line, Mount(VERSION_2, root, tmp_path)))
        assert {(Path(fill.cgroup).name, fill.used, fill.limit) for fill in fills} == {
            ("outer", 900, 1000),
            ("inner", 300, 400),
        }
        assert max(fill.share for fill in fills) == 0.9
    for line in ("4:memory:/outer", "0::/../outer", "0::/none"):
        names = {Path(fill.cgroup).name for fill in cgroup._fills(line, Mount(VERSION_2, "/", tmp_path))}
        assert names <= {tmp_path.name}, line


def test_a_number_is_compared_with_its_like_alone(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with growing() as grows:
        process = process_at(grows.pid)
        assert process
        snapshots = []
        for _ in range(4):
            arenadump.check("dump", "-o", tmp_path / "dump", grows.pid)
            snapshots.append(summary_of(tmp_path / "dump"))
            grows.grow(STEP)
    held = held_by(snapshots[0])
    assert held == sum(snapshots[0].ledger[row] or 0 for row in ("in_use", "mmapped_in_use", "python_arenas"))
    assert (snapshots[0].kernel.rss or 0) > held + 3 * MIB, "resident and in use are too much alike here"

    def due(*chosen: Summary) -> list[str]:
        triggers, dump = Triggers([When("growth", MIB)]), Dump(tmp_path / "dump")
        return ["; ".join(reason.says for reason in triggers.due(process, snapshot, dump)) for snapshot in chosen]

    blind = [
        snapshot._replace(ledger=type(snapshot.ledger)({**snapshot.ledger.held, "python_arenas": None}))
        for snapshot in snapshots
    ]
    assert held_by(blind[1]) is None
    assert ["in use" in says for says in due(*snapshots)] == [False, True, True, True]
    assert ["resident" in says for says in due(*blind)] == [False, True, True, True]
    assert due(snapshots[0], blind[0]._replace()) == ["", ""]
    assert ["resident" in says for says in due(snapshots[0], blind[1], blind[1])] == [False, True, False]
    assert ["in use" in says for says in due(blind[0], snapshots[1], snapshots[2])] == [False, False, True]
    nothing = blind[3]._replace(kernel=blind[3].kernel._replace(rss=None))
    assert due(snapshots[0], nothing) == ["", ""]


def test_a_full_disk_is_said_and_the_watch_goes_on(tmp_path: Path) -> None:
    """A file system that has no inode left: the write itself fails."""
    with disk(tmp_path / "disk", "size=64m,nr_inodes=3") as place, growing() as grows:
        place.chmod(0o700)
        with watching(grows.pid, tmp_path, "+1M", folder=place) as watched:
            watched.poll()
            grows.grow(STEP)
            watched.poll()
            (place / "inode").touch()
            grows.grow(STEP)
            assert watched.poll() == ["growth"]
            assert watched.watch.polls == 3
            assert any("No space left on device (growth: " in line for line in watched.said), watched.said
            (place / "inode").unlink()
            grows.grow(STEP)
            assert watched.poll() == ["growth"] * 2
            assert names_in(place) == [each.name for each in watched.folder.kept()]


@pytest.mark.check
def test_conditions_as_they_are_typed() -> None:
    assert parse_when("peak,+64M,allocated=2G,rss=1G,cgroup=90%") == (
        When("peak"),
        When("growth", 64 * MIB),
        When("allocated", 2 << 30),
        When("rss", 1 << 30),
        When("cgroup", 0.9),
    )
    assert parse_when("peak,peak") == (When("peak"),)
    for wrong in ("", "peak,", "64M", "+0", "rss=", "rss=0", "cgroup=90", "cgroup=0%", "cgroup=101%", "+64T", "rss=-1"):
        assert parse_when(wrong) is None, wrong
    for wrong in ("allocated", "allocated=", "allocated=0", "allocated=+1", "allocated"):
        assert parse_when(wrong) is None, wrong
    assert AGAIN < 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--dump-at=often"], "is no condition: write some of peak,+64M"),
        (["--dumps=somewhere"], "--dumps needs --dump-at"),
        (["--dump-at=peak", "--keep=0"], "--keep"),
        (["--dump-at=peak", "--dumps-size=1"], "is not a size"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], says: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "arenascope", "watch", *words, "-o", str(tmp_path / "t"), str(os.getpid())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert says in done.stderr
    assert names_in(tmp_path) == []
