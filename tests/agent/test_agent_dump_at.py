# SPDX-License-Identifier: MIT
"""ARENASCOPE_DUMP_AT: programs that keep dumps of themselves, and what bounds them."""

from __future__ import annotations

import fcntl
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from timeline.test_dump_folder import disk, files, names_in, summary_of
from timeline.test_timeline import MIB, next_line
from timeline.test_triggers import HOLDS, again, hold
from tools import harness, programs
from tools.stage import Stage, threads, until

from arenascope.watch.dump_directory import DumpFolder
from arenascope.watch.triggers import held_by
from arenascope.wire.dump import Dump

# Forks; the child uses some processor time, after which a timer starts the agent's thread, and holds what it is told.
FORKS = f"""
import os, time
if os.fork():
    os.wait()
    os._exit(0)
print(os.getpid(), flush=True)
end = time.process_time() + 0.5
while time.process_time() < end:
    sum(range(10000))
{HOLDS}
"""
# Allocates and frees a little more each time, as fast as it can, beside many small chunks.
CHURNS = """
import sys, time
kept = [b"x" * 100 + bytes([n % 256]) for n in range(300000)]
print("ready", flush=True)
held, end = [], time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    held.append(b"y" * (1 << 20))
    if len(held) == 200:
        held.clear()
    time.sleep(0.01)
print("done", flush=True)
"""


@contextmanager
def holding(
    stage: Stage, when: str, code: str = HOLDS, *arguments: str, **more: str
) -> Iterator[subprocess.Popen[str]]:
    """A program that has had its first snapshot."""
    asked = {"ARENASCOPE_DUMP_AT": when, "ARENASCOPE_DUMPS": str(stage.folder / "dumps"), **more}
    environment = stage.environment(**asked)
    command = [sys.executable, "-c", code, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True, cwd=stage.folder) as child:
        try:
            yield child
        finally:
            child.kill()


def first_snapshot(stage: Stage, pid: int) -> None:
    """What the program holds from then on is growth."""
    stage.logged(rf"\[{pid}\]: dumps at a condition from now on, in ")


def kinds(stage: Stage) -> list[str]:
    folder = stage.folder / "dumps"
    return [each.name.split(".")[-2] for each in files(folder)] if folder.exists() else []


def has(stage: Stage, *expected: str) -> None:
    until(lambda: len(kinds(stage)) >= len(expected), f"not {expected}", stage.log)
    assert kinds(stage) == list(expected), stage.log()


def quiet(stage: Stage, number: int) -> None:
    """Three snapshots long."""
    time.sleep(4)
    assert len(kinds(stage)) == number, stage.log()


def test_growth_has_a_dump_at_each_step(stage: Stage) -> None:
    with holding(stage, "+16M,every=1s") as child:
        assert next_line(child) == "ready\n"
        first_snapshot(stage, child.pid)
        hold(child, 8)
        quiet(stage, 0)
        hold(child, 9)  # a snapshot in the middle of that has 16 MiB more at its very end only; so below
        has(stage, "growth")
        hold(child, -2)
        hold(child, 20)
        quiet(stage, 1)
        hold(child, 14)
        has(stage, "growth", "growth")
        (first, second) = files(stage.folder / "dumps")
        grown = [held_by(summary_of(each)) or 0 for each in (first, second)]
        assert 16 * MIB <= grown[1] - grown[0] <= 18 * MIB
        assert summary_of(second).target.pid == child.pid
        assert first.stat().st_mode & 0o777 == 0o600
        assert first.parent.stat().st_mode & 0o777 == 0o700
        stage.logged(rf"\[{child.pid}\]: wrote {re.escape(str(second))}")
        folder = DumpFolder(str(first.parent), 8, 1 << 40)  # of watch, which takes them for its own
        assert [each.name for each in folder.kept()] == [first.name, second.name]
        folder.close()


def test_a_peak_has_a_dump_and_what_comes_back_to_it_has_none(stage: Stage) -> None:
    with holding(stage, "peak,every=1s") as child:
        assert next_line(child) == "ready\n"
        first_snapshot(stage, child.pid)
        hold(child, 40)
        until(lambda: kinds(stage) != [], "no peak", stage.log)
        time.sleep(2.5)
        met = kinds(stage)
        assert set(met) == {"peak"}
        # One more only if it was taken in the middle of that.
        assert all((held_by(summary_of(each)) or 0) < 40 * MIB for each in files(stage.folder / "dumps")[:-1])
        hold(child, -1)
        time.sleep(1.5)
        hold(child, 40)
        quiet(stage, len(met))
        hold(child, 1)
        quiet(stage, len(met))
        hold(child, 4)
        has(stage, *met, "peak")


def test_rss_is_asked_between_two_snapshots(stage: Stage) -> None:
    with holding(stage, "rss=100M,peak,every=1h") as child:
        assert next_line(child) == "ready\n"
        first_snapshot(stage, child.pid)
        hold(child, 120)
        has(stage, "peak+rss")
        hold(child, 20)
        quiet(stage, 1)
        again(lambda: hold(child, -2), lambda: hold(child, 120), lambda: len(kinds(stage)) > 1)
        has(stage, "peak+rss", "rss")


def test_every_chunk_is_recorded_where_that_is_asked_for(stage: Stage) -> None:
    for number, chunks in enumerate(("1", ""), 1):
        with holding(stage, "rss=1M", ARENASCOPE_CHUNKS=chunks):
            has(stage, *["rss"] * number)
            assert Dump(files(stage.folder / "dumps")[-1]).has_chunks == bool(chunks)


def test_the_newest_stay(stage: Stage) -> None:
    folder = stage.folder / "dumps"
    folder.mkdir(mode=0o700)
    (folder / "notes").write_text("mine")
    (folder / "z.1.2020-01-01.dump").write_text("no name of ours")
    (folder / "z.1.20200101T000000.000Z.peak.dump").write_text("the oldest")
    (folder / "a.1.20200101T000000.001Z.peak.dump").write_text("the next")
    (folder / ".arenascope-0123456789abcdef.partial").write_text("of a process that was killed")
    os.utime(folder / ".arenascope-0123456789abcdef.partial", (0, 0))
    (folder / ".arenascope-0123456789abcdee.partial").write_text("of one that perhaps still writes")
    with holding(stage, "rss=1M,keep=2") as child:
        stage.logged(rf"\[{child.pid}\]: wrote")
        child.kill()
    left = [
        "notes",
        "z.1.2020-01-01.dump",
        "a.1.20200101T000000.001Z.peak.dump",
        ".arenascope-0123456789abcdee.partial",
    ]
    assert set(left) < set(names_in(folder))
    assert len(names_in(folder)) == len(left) + 1


def test_not_all_old_dumps_go_at_once(stage: Stage) -> None:
    """Each that goes costs a scan of the directory: after a change of `keep` there may be thousands."""
    folder = stage.folder / "dumps"
    folder.mkdir(mode=0o700)
    for number in range(70):
        (folder / f"a.1.20200101T000000.0{number:02}Z.peak.dump").touch()
    with holding(stage, "rss=1M,keep=2") as child:
        stage.logged(rf"\[{child.pid}\]: wrote")
        child.kill()
    assert len(names_in(folder)) == 71 - 64


def test_a_clock_that_was_set_back(stage: Stage) -> None:
    """Dumps of a time to come go first, and never the one that the log says was written."""
    folder = stage.folder / "dumps"
    folder.mkdir(mode=0o700)
    ahead = [f"a.1.20990101T000000.00{number}Z.peak.dump" for number in range(2)]
    old = "a.1.20200101T000000.000Z.peak.dump"
    for name in [*ahead, old]:
        (folder / name).write_bytes(b"x")
    with holding(stage, "rss=1M,keep=3") as child:
        stage.logged(rf"\[{child.pid}\]: wrote")
        until(lambda: len(names_in(folder)) == 3, "no dump goes", stage.log)
        child.kill()
    (first,) = [name for name in names_in(folder) if name not in [*ahead, old]]
    assert set(names_in(folder)) == {first, ahead[1], old}
    with holding(stage, "rss=1M,keep=1") as child:
        stage.logged(rf"\[{child.pid}\]: wrote")
        until(lambda: len(names_in(folder)) == 1, "no dump goes", stage.log)
        child.kill()
    assert f".{child.pid}." in names_in(folder)[0]


def test_what_is_not_whole_counts(stage: Stage) -> None:
    """What an agent still writes counts, and so does a killed agent's file: a tenth of the disk is for all of them."""
    with written(stage, stage.folder / "dumps"):
        size = files(stage.folder / "dumps")[0].stat().st_size
    old = "a.1.20200101T000000.000Z.peak.dump"
    with disk(stage.folder / "disk", f"size={size * 25}") as place:
        folder = place / "dumps"
        folder.mkdir(mode=0o700)
        (folder / old).write_bytes(bytes(size // 2))
        (folder / ".arenascope-0123456789abcdef.partial").write_bytes(bytes(2 * size))
        with written(stage, folder):
            assert [each.name for each in files(folder)] == [old]
        assert "is the limit for all dumps" in stage.log()


@pytest.mark.parametrize(
    ("dumps", "filled", "stay"), [(25, 0, 2), (17, 0, 1), (25, 22.5, 0), (9, 0, None), (25, 23, None)]
)
def test_a_part_of_the_disk_and_no_more(stage: Stage, dumps: int, filled: float, stay: int | None) -> None:
    """A disk for so many dumps, filled up so far by something else; of two old dumps of half a size so many stay."""
    with written(stage, stage.folder / "dumps"):
        size = files(stage.folder / "dumps")[0].stat().st_size
    old = [f"a.1.20200101T000000.00{number}Z.peak.dump" for number in range(2)]
    with disk(stage.folder / "disk", f"size={size * dumps}") as place:
        folder = place / "dumps"
        folder.mkdir(mode=0o700)
        for name in old:
            (folder / name).write_bytes(bytes(size // 2))
        (place / "filler").write_bytes(bytes(int(filled * size)))
        with written(stage, folder):
            names = [each.name for each in files(folder)]
        if stay is None:
            assert names == old, "their going is of no use"
            assert "a twentieth of the disk stays free" in stage.log()
        else:
            assert names[:stay] == old[2 - stay :]
            assert len(names) == stay + 1


@contextmanager
def written(stage: Stage, folder: Path) -> Iterator[None]:
    """A program that has written a dump there, or has said why not."""
    with holding(stage, "rss=100M,every=1h", ARENASCOPE_DUMPS=str(folder)) as child:
        assert next_line(child) == "ready\n"
        hold(child, 120)
        stage.logged(rf"\[{child.pid}\]: (wrote|no dump)")
        yield


def test_no_symlink_is_followed_and_no_strange_directory_used(stage: Stage, tmp_path: Path) -> None:
    folder = stage.folder / "dumps"
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    folder.symlink_to(real)
    with holding(stage, "rss=1M"):
        stage.logged(r"no dump \(rss\): cannot keep a dump in '.*/dumps': ")
    assert names_in(real) == []
    folder.unlink()
    folder.mkdir(mode=0o700)
    folder.chmod(0o770)
    with holding(stage, "rss=1M"):
        stage.logged("others can write to it")
    folder.chmod(0o700)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with holding(stage, "rss=1M"):
        stage.logged("another process has it locked")
    os.close(descriptor)
    assert names_in(folder) == []


def test_a_child_begins_anew(stage: Stage) -> None:
    with holding(stage, "+16M,every=1s", FORKS) as parent:
        child = int(next_line(parent))
        assert next_line(parent) == "ready\n"
        first_snapshot(stage, child)
        hold(parent, 20)
        has(stage, "growth")
        assert f".{child}." in files(stage.folder / "dumps")[0].name
        os.kill(child, 9)


@pytest.mark.slow
def test_inspects_cost_little_however_fast_it_grows(stage: Stage) -> None:
    with holding(stage, "+1M,peak,every=1s,keep=1000", CHURNS, "300") as child:
        assert next_line(child) == "ready\n"
        # The first snapshot finds libc and its layout: 0.1 s of a processor or more. Then it rests 200 times as long.
        until(lambda: kinds(stage), "no dump", stage.log, seconds=240)
        threads_of = Path(f"/proc/{child.pid}/task").iterdir()
        (task,) = (each for each in threads_of if (each / "comm").read_text() == "arenascope\n")
        first = used(task)  # of a snapshot or two, and a dump
        begun = time.monotonic()
        time.sleep(8)
        assert used(task) - first <= 0.005 * (time.monotonic() - begun) + 2 * first + 0.02


def used(task: Path) -> float:
    fields = (task / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_kill_9_leaves_whole_dumps_alone(stage: Stage) -> None:
    chance = random.Random(17)
    for _ in range(10):
        with holding(stage, "rss=1M,keep=100") as child:
            assert next_line(child) == "ready\n"
            until(lambda: "arenascope" in threads(child.pid), "no thread")
            time.sleep(chance.uniform(0.9, 1.1))  # the first is written after a second
    for each in files(stage.folder / "dumps"):
        Dump(each)
    assert all(name.endswith(".dump") for name in names_in(stage.folder / "dumps"))


@pytest.mark.parametrize(
    "words",
    [
        "often",
        "peak,",
        "+0",
        "+64T",
        "rss=",
        "rss=1M,keep=0",
        "rss=1M,every=1x",
        "rss=1M,dumps-size=1K",
        "keep=3",
        ",".join(["peak"] * 9),
    ],
)
def test_what_makes_no_sense_is_said(stage: Stage, words: str) -> None:
    process = stage.start(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], ARENASCOPE_DUMP_AT=words
    )
    assert process.stdout
    process.stdout.readline()
    stage.logged("ARENASCOPE_DUMP_AT: '.*peak, \\+64M, rss=1G")
    assert len(threads(process.pid)) == 1


def test_run_takes_it(agent: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "arenascope", "run"]
    environment = {**os.environ, "ARENASCOPE_LIBRARY": str(agent)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    def until_there_is(name: str) -> list[str]:
        """A program that runs until a file has this name."""
        code = """
import glob, sys, time
end = time.monotonic() + 240
while not glob.glob(sys.argv[1]):
    assert time.monotonic() < end, "there never was one"
    time.sleep(0.05)
"""
        return ["--", sys.executable, "-c", code, name]

    assert run("--dump-at=rss=1M,keep=1", *until_there_is("arenascope.dumps/*.dump")).returncode == 0
    assert len(files(tmp_path / "arenascope.dumps")) == 1
    assert run("--dump-at=rss=1M", "--dumps=%e-%p", *until_there_is("*-*/*.dump")).returncode == 0
    (folder,) = [each.name for each in tmp_path.iterdir() if "-" in each.name]
    assert re.fullmatch(r"python[0-9.]*-[0-9]+", folder)
    wrong = run("--dump-at=cgroup=90%", "--", "true")
    assert wrong.returncode == 2
    assert "--dump-at: 'cgroup=90%' is not one of peak, +64M, rss=1G" in wrong.stderr
    assert "--dumps needs --dump-at" in run("--dumps=x", "--", "true").stderr


def test_an_injected_agent_says_that_it_cannot(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    program = programs.build("causes", "-lpthread")
    environment = {
        **os.environ,
        "ARENASCOPE_DUMP_AT": "rss=1M",
        "ARENASCOPE_DUMPS": str(tmp_path / "dumps"),
        "ARENASCOPE_LOG": str(tmp_path / "log"),
    }
    with subprocess.Popen([program, "in-use"], env=environment, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            child.stdout.readline()
            arenadump.check("inject", child.pid)
            until(
                lambda: (tmp_path / "log").exists() and "ARENASCOPE_DUMP_AT" in (tmp_path / "log").read_text(),
                "no word",
            )
            assert not (tmp_path / "dumps").exists()
        finally:
            child.kill()
