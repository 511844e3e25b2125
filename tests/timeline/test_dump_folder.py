# SPDX-License-Identifier: MIT
"""The directory of a watch's dumps: which stay, a full disk, symlinks, kill -9."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli.test_diff import CHUNK, growing
from timeline.test_timeline import MIB, next_line, started
from tools import harness

from arenascope.errors import ArenascopeError, Code
from arenascope.processes import process_at
from arenascope.watch.dump_directory import FREE, NAME, DumpFolder
from arenascope.wire.dump import Dump
from arenascope.wire.summary import Summary, summarize

LARGE = 1 << 40
STEP = 2 * MIB // CHUNK + 1  # chunks that are a little more than two MiB
# Dump after dump of one snapshot, in small pieces; a line for each that is there.
WRITES = """
import os, sys, time
from arenascope.wire.snapshot import take_snapshot
from arenascope.watch.dump_directory import DumpFolder
from arenascope.processes import process_at
send = os.sendfile
def slowly(out, source, offset, count):
    time.sleep(0.001)
    return send(out, source, offset, min(count, 16384))
os.sendfile = slowly
folder = DumpFolder(sys.argv[1], 1000, 1 << 40)
snapshot = take_snapshot(sys.argv[2])
while True:
    print(folder.add(process_at(int(sys.argv[2])), "peak", snapshot.dump.descriptor), flush=True)
"""


pytestmark = pytest.mark.usefixtures("own_arenadump")


def summary_of(path: Path) -> Summary:
    return summarize(Dump(path))


def files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if NAME.fullmatch(each.name))


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def add(folder: DumpFolder, dump: Dump, comm: str = "x") -> str:
    process = process_at(os.getpid())
    assert process
    return folder.add(type(process)(process.identity, 1, comm, 1), "peak", dump.descriptor)


@contextmanager
def folder_of(path: Path, keep: int = 100, max_size: int = LARGE) -> Iterator[DumpFolder]:
    folder = DumpFolder(str(path), keep, max_size)
    try:
        yield folder
    finally:
        folder.close()


@pytest.fixture
def dump(arenadump: harness.Arenadump, tmp_path: Path) -> Dump:
    with growing() as grows:
        arenadump.check("dump", "-o", tmp_path / "one.dump", grows.pid)
    return Dump(tmp_path / "one.dump")


def test_the_newest_stay(dump: Dump, tmp_path: Path) -> None:
    size = os.fstat(dump.descriptor).st_size
    with folder_of(tmp_path / "dumps", keep=3) as folder:
        names = []
        for number in range(5):
            names.append(add(folder, dump, "zyxwv"[number]))  # the order of names is not that of time
            time.sleep(0.002)
        assert [each.name for each in folder.kept()] == names[2:]
    (tmp_path / "dumps/notes").write_text("mine")
    with folder_of(tmp_path / "dumps", max_size=2 * size + 10) as folder:
        new = add(folder, dump)
        assert [each.name for each in folder.kept()] == [names[4], new], "of an earlier watch they count, too"
    with folder_of(tmp_path / "dumps", max_size=size - 1) as folder:
        with pytest.raises(ArenascopeError, match="is the limit for all dumps"):
            add(folder, dump)
        assert [each.name for each in folder.kept()] == [names[4], new]
    assert (tmp_path / "dumps/notes").read_text() == "mine"
    assert (tmp_path / "dumps" / new).read_bytes() == (tmp_path / "one.dump").read_bytes()


def test_a_clock_that_was_set_back(dump: Dump, tmp_path: Path) -> None:
    """The dumps of a time to come go first, and never the new one."""
    size = os.fstat(dump.descriptor).st_size
    place = tmp_path / "dumps"
    place.mkdir(mode=0o700)
    ahead = [f"a.1.20990101T000000.00{number}Z.peak.dump" for number in range(2)]
    for name in ahead:
        (place / name).write_bytes(bytes(size))
    with folder_of(place, keep=2) as folder:
        first = add(folder, dump)
        assert [each.name for each in folder.kept()] == [first, ahead[1]]
        time.sleep(0.002)
        second = add(folder, dump)
        assert [each.name for each in folder.kept()] == [first, second]
    (place / ahead[0]).write_bytes(bytes(size))
    with folder_of(place, max_size=3 * size + 10) as folder:
        time.sleep(0.002)
        third = add(folder, dump)
        assert [each.name for each in folder.kept()] == [first, second, third]
    (place / ahead[0]).write_bytes(bytes(size))
    with folder_of(place, keep=1) as folder:
        time.sleep(0.002)
        new = add(folder, dump)
        assert names_in(place) == [new]


def test_what_is_not_whole_counts(dump: Dump, tmp_path: Path) -> None:
    size = os.fstat(dump.descriptor).st_size
    place = tmp_path / "dumps"
    place.mkdir(mode=0o700)
    of_killed_watch, of_agent = place / ".arenascope-123.partial", place / ".arenascope-0123456789abcdef.partial"
    of_killed_watch.write_bytes(bytes(size))
    of_agent.write_bytes(bytes(size))
    with folder_of(place, max_size=2 * size + 10) as folder:
        assert not of_killed_watch.exists()
        for _ in range(2):
            new = add(folder, dump)
            time.sleep(0.002)
        assert [each.name for each in folder.kept()] == [new]
        os.utime(of_agent, (0, 0))
        second = add(folder, dump)
        assert [each.name for each in folder.kept()] == [new, second]
    assert names_in(place) == [new, second]


@contextmanager
def disk(at: Path, options: str) -> Iterator[Path]:
    at.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(at)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no tmpfs may be mounted: {done.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", at], check=True)


def test_a_part_of_the_disk_and_no_more(dump: Dump, tmp_path: Path) -> None:
    size = os.fstat(dump.descriptor).st_size
    whole = size * 25
    with disk(tmp_path / "disk", f"size={whole}") as place, folder_of(place / "dumps") as folder:
        first = add(folder, dump)
        time.sleep(0.002)
        second = add(folder, dump)
        time.sleep(0.002)
        third = add(folder, dump)
        assert [each.name for each in folder.kept()] == [second, third], "a tenth of the disk"
        (place / "dumps" / second).unlink()
        filler = place / "filler"
        filler.write_bytes(b"x" * int(whole * (1 - FREE) - 1.5 * size))
        time.sleep(0.002)
        fourth = add(folder, dump)
        assert [each.name for each in folder.kept()] == [fourth], "a twentieth of the disk is free"
        with filler.open("ab") as file:
            file.write(b"x" * int(1.6 * size))
        with pytest.raises(ArenascopeError, match="a twentieth of the disk stays free") as error:
            add(folder, dump)
        assert error.value.code == Code.IO
        assert [each.name for each in folder.kept()] == [fourth], "its going is of no use"
    assert len({first, second, third, fourth}) == 4


def test_a_dump_that_cannot_be_written_leaves_nothing(dump: Dump, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with folder_of(tmp_path / "dumps") as folder:
        first = add(folder, dump)
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.fstat(dump.descriptor).st_size - 1, before[1]))
        try:
            with pytest.raises(ArenascopeError, match="File too large"):
                add(folder, dump)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert names_in(tmp_path / "dumps") == [first]


def test_no_symlink_is_followed_and_no_strange_directory_used(dump: Dump, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    place = tmp_path / "dumps"
    place.mkdir(mode=0o700)
    fake = "a.1.20200101T000000.000Z.peak.dump"
    (place / fake).symlink_to(victim)
    with folder_of(place, keep=1) as folder:
        part = place / f".arenascope-{os.getpid()}.partial"
        part.symlink_to(victim)
        with pytest.raises(ArenascopeError, match="File exists"):
            add(folder, dump)
        part.unlink()
        add(folder, dump)
        time.sleep(0.002)
        add(folder, dump)
        assert len(folder.kept()) == 1
        with pytest.raises(ArenascopeError, match="another arenascope watch uses it"):
            DumpFolder(str(place), 1, LARGE)
    assert (place / fake).is_symlink()
    assert victim.read_text() == "precious"
    link = tmp_path / "link"
    link.symlink_to(place)
    with pytest.raises(ArenascopeError, match="cannot keep dumps"):
        DumpFolder(str(link), 1, LARGE)
    place.chmod(0o770)
    with pytest.raises(ArenascopeError, match="others can write to it"):
        DumpFolder(str(place), 1, LARGE)
    with pytest.raises(ArenascopeError, match="cannot keep dumps"):
        DumpFolder(str(victim), 1, LARGE)


@pytest.mark.parametrize("comm", ["../../etc/x", "", ".hidden", "a\nb", "\ufffd\x1b[31m", "-rf"])
def test_a_process_cannot_choose_where_its_dump_lies(comm: str, dump: Dump, tmp_path: Path) -> None:
    with folder_of(tmp_path / "dumps") as folder:
        name = add(folder, dump, comm)
        assert [each.name for each in folder.kept()] == [name]
    assert name.isascii()
    assert name.isprintable()
    assert not name.startswith(".")
    assert names_in(tmp_path / "dumps") == [name]


def test_kill_9_leaves_whole_dumps_alone(tmp_path: Path) -> None:
    place = tmp_path / "dumps"
    chance = random.Random(17)
    with growing() as grows:
        grows.grow(20 * STEP)
        acknowledged = set()
        for _ in range(12):
            with started(WRITES, place, grows.pid) as child:
                acknowledged |= {next_line(child).strip() for _ in range(2)}
                time.sleep(chance.uniform(0, 0.1))
                child.kill()
                assert child.stdout
                acknowledged |= {line.strip() for line in child.stdout if line.endswith("\n")}
            assert acknowledged <= set(names_in(place))
    held = files(place)
    assert len(held) >= 24
    assert len({each.stat().st_size for each in held}) <= 12, "some are cut short"
    for each in held[-5:]:
        assert summary_of(each).target.pid == grows.pid
    for each in held:
        Dump(each)
    with folder_of(place):
        assert [each for each in names_in(place) if each.startswith(".")] == []
