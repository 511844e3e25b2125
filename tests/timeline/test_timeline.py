# SPDX-License-Identifier: MIT
"""`arenascope watch` and its file: real processes that grow, restart and fork; kill -9; a full disk; a week."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from cli.test_diff import CHUNK, diff, growing
from graph.test_graph_schemas import closed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tools import harness, odd, programs

from arenascope.compare import compare, digest_of
from arenascope.processes import all_processes, process_at
from arenascope.schema import schema
from arenascope.timeline import delta_codec, store
from arenascope.timeline.delta_codec import Frame, applied, delta
from arenascope.timeline.reader import digest_of_snapshot, read
from arenascope.timeline.retention import DAY, HOUR, SECOND, WEEK, PollTime, surplus
from arenascope.timeline.store import APPLICATION, NoRoomError, Poll, TimelineStore
from arenascope.watch import loop as watch
from arenascope.watch.budget import SHARE
from arenascope.watch.loop import Watch
from arenascope.watch.poll import take
from arenascope.watch.process_group import OfCgroup, OfCommand, OfPid, Together
from arenascope.wire.dump import Dump
from arenascope.wire.how import How
from arenascope.wire.summary import summarize

SCHEMA = schema("timeline")
MIB = 1 << 20
HOW = How(mode="auto", max_pause="20ms")
KILLS = int(os.environ.get("KILLS", "8"))  # `make kills`: 100
# Poll after poll without a pause; a line for each that is in the file.
POLLS = """
import sys
from arenascope.processes import process_at
from arenascope.watch.process_group import OfPid
from arenascope.timeline.store import TimelineStore
from arenascope.watch.loop import Watch, boot_id
from arenascope.wire.how import How
store = TimelineStore(sys.argv[1], {"watched": "test"}, 64 << 20, boot_id())
watch = Watch(store, OfPid(process_at(int(sys.argv[2]))), How(mode="live"), lambda line: None)
while True:
    watch.poll(0.001)
    print(watch.polls, watch.missed, flush=True)
"""
# Snapshots that were taken once, written as fast as this goes.
WRITES = """
import sys, time
from arenascope.processes import process_at
from arenascope.watch.poll import take
from arenascope.wire.how import How
from arenascope.timeline.store import TimelineStore, Poll
from arenascope.watch.loop import boot_id
store = TimelineStore(sys.argv[1], {"watched": "test"}, 64 << 20, boot_id())
snapshot = take(process_at(int(sys.argv[2])), How(mode="live"))
for number in range(100000):
    store.add(Poll(time.time_ns(), 1, 1, number, 10, None, [snapshot]))
    print(number, flush=True)
"""
PREFORK = """
import os, signal, sys
def worker():
    pid = os.fork()
    if not pid:
        signal.pause()
    return pid
workers = [worker() for _ in range(3)]
print("ready", flush=True)
for line in sys.stdin:
    os.kill(workers[0], 9)
    os.waitpid(workers[0], 0)
    workers = [*workers[1:], worker()]
    print("ready", flush=True)
for pid in workers:
    os.kill(pid, 9)
"""

# A thread holds chunks of an arena of its own, and one mmapped chunk.
TWO_ARENAS = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
def hold():
    for size in [5000] * 2000 + [1 << 20]:
        ctypes.memset(libc.malloc(size), 1, size)
    print("ready", flush=True)
    sys.stdin.readline()
threading.Thread(target=hold).start()
"""


pytestmark = pytest.mark.usefixtures("own_arenadump")


def arenascope(*arguments: str | Path | int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "arenascope", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@contextmanager
def started(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def next_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    return child.stdout.readline()


@contextmanager
def opened(path: Path, max_size: int = 64 * MIB) -> Iterator[TimelineStore]:
    made = TimelineStore(str(path), {"watched": "test"}, max_size, watch.boot_id())
    try:
        yield made
    finally:
        made.close()


def group_of(pid: int) -> OfPid:
    process = process_at(pid)
    assert process
    return OfPid(process)


def take_of(pid: int, how: How = HOW) -> store.Taken:
    process = process_at(pid)
    assert process
    taken = take(process, how)
    assert taken
    return taken


def intact(path: Path) -> Any:
    """The timeline, of which every snapshot can be read."""
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()
    made = read(str(path))
    for poll in made.polls:
        for snapshot in poll.snapshots:
            assert digest_of_snapshot(str(path), snapshot.id)[0].sizes.listed
    return made


@pytest.mark.check
def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_growth_over_a_timeline(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    with growing() as grows, opened(path) as file:
        watching = Watch(file, group_of(grows.pid), HOW, print)
        for _ in range(4):
            interval = watching.poll(0.001)
            grows.grow(1000)
        assert watching.polls == 4
        during = read(str(path))  # while it is being written
    made = intact(path)
    assert made == during
    costs = [poll.cost_us / 1e6 for poll in made.polls]
    assert interval >= costs[-1] / SHARE
    assert min(costs) > 0.001, "arenadump's own time is missing"
    assert {snapshot.pid for poll in made.polls for snapshot in poll.snapshots} == {grows.pid}
    answer = diff(f"{path}@first", f"{path}@last")
    held = next(each for each in answer["sizes"] if each["chunk_size"] == CHUNK)
    assert held["count"]["change"] == 3000
    assert held["bytes"]["per_minute"] == pytest.approx(3000 * CHUNK * 60 / answer["elapsed_s"], rel=1e-6)
    assert answer["same_process"] is True
    assert answer["types"] is None
    shown = json.loads(arenascope("timeline", path, "--json").stdout)
    jsonschema.validate(shown, closed(SCHEMA))
    assert [poll["snapshots"][0]["rows"] for poll in shown["polls"]] == [
        dict(poll.snapshots[0].rows) for poll in made.polls
    ]
    words = arenascope("timeline", path).stdout
    assert "4 polls with 4 snapshots" in words
    assert "shared pages" not in words
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_digest_comes_back_as_it_was(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with growing() as grows:
        digests = []
        for number in range(3):
            arenadump.check("dump", "-o", tmp_path / f"{number}", grows.pid)
            dump = Dump(tmp_path / f"{number}")
            digests.append(digest_of(dump, summarize(dump)))
            grows.grow(300)
    bodies = [delta_codec.body_of(digest, {"in use": 5}) for digest in digests]
    frame = Frame(json.loads(json.dumps(bodies[0])), digests[0].pages)
    for digest, body in zip(digests[1:], bodies[1:]):
        assert digest.pages
        packed = (
            delta_codec.pack_body(body, frame),
            delta_codec.pack_pages(digest.pages, digest.who.page_size, frame.pages),
        )
        assert len(packed[1]) < len(delta_codec.pack_pages(digest.pages, digest.who.page_size, None))
        pages = delta_codec.unpack_pages(packed[1], frame.pages)
        assert np.array_equal(pages.address, digest.pages.address)
        assert np.array_equal(pages.state, digest.pages.state)
        when = digest.who.time or "", digest.who.time_ns or 0
        back = delta_codec.digest_from(
            delta_codec.unpack_body(packed[0], frame), digest.rows, digest.rss, when, pages, {}
        )
        for name in ("who", "rss", "swap", "rows", "chunks", "arenas", "sizes", "pins", "heaps"):
            assert getattr(back, name) == getattr(digest, name), name
        assert compare(digest, back).pinned_pages


def test_a_digest_has_the_heaps_of_each_arena(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with started(TWO_ARENAS) as child:
        assert next_line(child) == "ready\n"
        arenadump.check("dump", "-o", tmp_path / "dump", child.pid)
        taken = take_of(child.pid)
    dump = Dump(tmp_path / "dump")
    wanted = {
        int(heap["start"]) // 4096 * 4096: (int(dump.arenas[int(heap["arena"])]["address"]), int(heap["page_count"]))
        for heap in dump.heaps
        if heap["arena"] < len(dump.arenas)
    }
    assert len({arena for arena, _ in wanted.values()}) >= 2
    assert len(wanted) < len(dump.heaps)  # a mmapped chunk is no heap of an arena
    assert dict(taken.digest.heaps) == wanted
    pages = taken.digest.pages
    assert pages
    for start, heap in taken.digest.heaps.items():
        assert np.isin(start + 4096 * np.arange(heap.pages, dtype=np.uint64), pages.address).all()


VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.dictionaries(st.sampled_from("-=/abc"), inner, max_size=4),
    max_leaves=20,
)
BODIES = st.dictionaries(st.sampled_from("-=/abc"), VALUES, max_size=5)


@pytest.mark.check
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(BODIES, BODIES)
def test_what_differs_makes_one_of_the_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert applied(one, json.loads(json.dumps(delta(one, other)))) == other


def test_a_process_that_is_started_again_is_the_next_generation(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    said: list[str] = []
    with growing() as first:
        file = TimelineStore(str(path), {}, 64 * MIB, watch.boot_id())
        watching = Watch(file, group_of(first.pid), HOW, said.append)
        watching.poll(1)
        watching.poll(1)
    watching.poll(1)  # nobody is there
    watching.poll(1)
    with growing() as second:
        watching.poll(1)
    file.close()
    with growing() as third, opened(path) as file:  # the watch is started again, too
        Watch(file, group_of(third.pid), HOW, said.append).poll(1)
    made = intact(path)
    assert [poll.generation for poll in made.polls] == [1, 1, 1, 2, 3]
    assert [poll.processes for poll in made.polls] == [1, 1, 0, 1, 1]
    assert [(each.pid, each.generation) for each in made.processes] == [
        (first.pid, 1),
        (second.pid, 2),
        (third.pid, 3),
    ]
    assert any("generation 2" in line for line in said)


def test_forks_of_a_server_are_one_group(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    with started(PREFORK) as server, opened(path) as file:
        assert next_line(server) == "ready\n"
        watching = Watch(file, group_of(server.pid), HOW, print)
        watching.poll(1)
        assert server.stdin
        print("x", file=server.stdin, flush=True)  # a worker dies, and another comes
        assert next_line(server) == "ready\n"
        watching.poll(1)
        server.stdin.close()
        server.wait()
    made = intact(path)
    assert [(poll.generation, poll.processes, len(poll.snapshots)) for poll in made.polls] == [(1, 4, 4)] * 2
    one, other = ({snapshot.pid for snapshot in poll.snapshots} for poll in made.polls)
    assert len(one & other) == 3
    assert len(made.processes) == 5
    assert sum(each.parent == server.pid for each in made.processes) == 4


def test_the_clone_that_a_snapshot_reads_is_nobody(arenadump: harness.Arenadump) -> None:
    """Another snapshot of the process makes a clone, which is its child and runs the same program."""
    code = "held = [bytes(3000) for _ in range(100000)]; print('ready', flush=True); import time; time.sleep(300)"
    with started(code) as child:
        assert next_line(child) == "ready\n"
        group = Together([group_of(child.pid)])
        clones = 0
        for _ in range(10):
            command = [str(arenadump.path), "types", "--mode=clone", str(child.pid)]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as snapshot:
                while snapshot.poll() is None:
                    clones += any(each.parent == child.pid for each in all_processes().values())
                    assert [each.pid for each in group.members()] == [child.pid]
            if clones > 20:
                break
        assert clones, "there was none: the test shows nothing"


@pytest.mark.check
def test_groups_by_command_and_by_cgroup() -> None:
    with growing() as grows:
        name = Path(sys.executable).resolve().name
        assert grows.pid in {each.pid for each in OfCommand(name).members()}
        assert grows.pid not in {each.pid for each in OfCommand("other").members()}
        cgroup = Path(f"/proc/{grows.pid}/cgroup").read_text().splitlines()[-1].split(":", 2)[2]
        assert os.getppid() in {each.pid for each in OfCgroup(cgroup).members()} | {1}
        assert not OfCgroup("/no/such").members()
    assert grows.pid not in {each.pid for each in OfCommand(name).members()}


@contextmanager
def cgroup() -> Iterator[Path]:
    """A cgroup of our own; a skip where the machine lets us make none."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for where in (Path(each[1]) for each in mounts if each[2] == "cgroup2"):
        made = where / f"arenascope-{os.getpid()}"
        try:
            (made / "below").mkdir(parents=True)
        except OSError:
            continue
        try:
            yield made
        finally:
            (made / "below").rmdir()
            made.rmdir()
        return
    pytest.skip("no cgroup of version 2 can be made here")


def test_a_cgroup_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    with cgroup() as made:
        with growing() as one, growing() as other, growing() as outside:
            (made / "cgroup.procs").write_text(f"{one.pid}")
            (made / "below" / "cgroup.procs").write_text(f"{other.pid}")
            for name in (str(made), f"/{made.name}/", f"{made}/below"):
                done = arenascope("watch", "--cgroup", name, "-o", path, "--every", "100ms", "--for", "300ms")
                assert done.returncode == 0, done.stderr
            watched = {each.pid for each in OfCgroup(f"/{made.name}").members()}
            assert watched == {one.pid, other.pid}
            assert outside.pid not in watched
        # The kernel lets a cgroup go when its processes are reaped.
        odd.wait_for(lambda: "populated 0" in (made / "cgroup.events").read_text())
    assert "shared pages are counted in each" in arenascope("timeline", path).stdout
    polls = read(str(path)).polls
    assert len(polls) >= 3
    assert {snapshot.pid for poll in polls[:2] for snapshot in poll.snapshots} == {one.pid, other.pid}
    assert {snapshot.pid for snapshot in polls[-1].snapshots} == {other.pid}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(POLLS, id="polls"),
        pytest.param(WRITES, id="writes", marks=pytest.mark.nightly("kills")),
    ],
)
def test_kill_9_loses_and_tears_nothing(code: str, tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    chance = random.Random(17)
    with growing() as grows:
        before = 0
        for _ in range(KILLS):
            with started(code, path, grows.pid) as child:
                assert next_line(child)
                assert next_line(child)  # two polls, however slow the machine is
                time.sleep(chance.uniform(0, 0.3))
                child.kill()
                assert child.stdout
                acknowledged = 2 + len(child.stdout.readlines())
            held = len(read(str(path)).polls)
            assert before + acknowledged <= held <= before + acknowledged + 1
            before = held
    assert len(intact(path).polls) == before
    assert before >= 2 * KILLS


def test_a_watch_that_was_killed_while_it_made_the_file_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    for words in ("", "PRAGMA application_id={}", "PRAGMA application_id={}; PRAGMA journal_mode=WAL"):
        path.touch()
        with closing(sqlite3.connect(path)) as database:
            database.executescript(words.format(APPLICATION))
        with opened(path) as file:
            assert file.last() == (0, set())
        assert not intact(path).polls
        path.unlink()


def test_a_full_disk_loses_and_tears_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no tmpfs may be mounted: {done.stderr.strip()}")
    try:
        path, filler = tmp_path / "timeline", tmp_path / "filler"
        said: list[str] = []
        with growing() as grows:
            file = TimelineStore(str(path), {"watched": "test"}, 64 * MIB, watch.boot_id())
            watching = Watch(file, group_of(grows.pid), HOW, said.append)
            for _ in range(3):
                watching.poll(1)
            space = os.statvfs(tmp_path)
            filler.write_bytes(b"x" * (space.f_bavail * space.f_frsize))
            for _ in range(40):
                watching.poll(1)
            assert watching.missed > 0
            assert sum("this poll is not kept" in line for line in said) == 1
            during = intact(path)
            assert during.polls
            kept = watching.polls
            filler.unlink()
            watching.poll(1)
            assert watching.polls == kept + 1
            file.close()
        assert intact(path).polls[-1].time_ns > during.polls[-1].time_ns
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_a_week_stays_below_its_limit(tmp_path: Path) -> None:
    """Real snapshots of a process that changes, at a clock on which a week takes seconds."""
    path, limit = tmp_path / "timeline", MIB
    snapshots = []
    with growing() as grows:
        for number in (3000, -1000, 2500, -4000, 800, 5000):
            grows.grow(number)
            snapshots.append(take_of(grows.pid))
    largest = 0
    begin = 1_800_000_000 * SECOND
    with opened(path, limit) as file:
        for number in range(7 * 24 * 15):
            now = begin + number * 240 * SECOND
            file.add(Poll(now, 1, 1, 1, 1, None, [snapshots[number % len(snapshots)]]))
            sizes = [path.with_name(f"timeline{each}").stat().st_size for each in ("", "-wal")]
            largest = max(largest, sum(sizes))
        assert file.factor > 1, "the limit was never met: the test shows nothing"
    assert largest <= limit
    made = intact(path)
    ages = [(now - poll.time_ns) / HOUR for poll in made.polls]
    assert ages[0] > 24 * 6.9, "the first poll stays"
    assert ages[-1] == 0
    assert len(made.polls) > 30


@pytest.mark.check
def test_old_polls_are_thinned_by_age() -> None:
    now = 100 * WEEK
    polls = [PollTime(number, now - WEEK + number * 10 * SECOND, 1 + number // 40000) for number in range(60481)]
    gone = set(surplus(polls, now))
    kept = [poll for poll in polls if poll.id not in gone]
    ages = np.array([now - poll.time_ns for poll in kept])
    assert (ages < HOUR).sum() == 360
    assert ((ages >= HOUR) & (ages < DAY)).sum() == pytest.approx(23 * 60, abs=2)
    assert ((ages >= DAY) & (ages <= WEEK)).sum() == pytest.approx(6 * 24 * 6, abs=4)
    assert {polls[0], polls[39999], polls[40000], polls[-1]} <= set(kept), "the ends of generations stay"
    assert surplus(kept, now) == []
    assert len(surplus(kept, now, 4)) > len(kept) / 2


def test_ends_by_a_signal_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    command = [sys.executable, "-m", "arenascope", "watch", "-o", str(path), "--every", "100ms", "--budget", "0.5%"]
    with growing() as grows:
        for number, each in enumerate((signal.SIGTERM, signal.SIGINT)):
            with subprocess.Popen([*command, str(grows.pid)], stderr=subprocess.PIPE, text=True) as child:
                until = time.monotonic() + 240
                while time.monotonic() < until and not (path.exists() and len(_polls(path)) > number):
                    time.sleep(0.1)
                second = arenascope("watch", grows.pid, "-o", path)
                child.send_signal(each)
                _, err = child.communicate(timeout=300)
            assert child.returncode == 0, err
            assert "to stay below 0.5 % of a processor" in err
            assert second.returncode == 8
            assert "another arenascope watch" in second.stderr
            assert [entry.name for entry in tmp_path.iterdir()] == ["timeline"]
    made = intact(path)
    assert len(made.polls) >= 2
    assert {poll.generation for poll in made.polls} == {1}, "the process is still the same one"


def test_a_signal_just_before_the_pause_ends_it(tmp_path: Path) -> None:
    shim = programs.build("just_before", "-shared", "-fPIC")
    command = [sys.executable, "-m", "arenascope", "watch", "-o", str(tmp_path / "timeline"), "--every", "1h"]
    with growing() as grows:
        environment = {**os.environ, "LD_PRELOAD": str(shim)}
        subprocess.run([*command, str(grows.pid)], env=environment, capture_output=True, timeout=300, check=True)
    assert len(intact(tmp_path / "timeline").polls) == 1


def _polls(path: Path) -> list[Any]:
    try:
        return list(read(str(path)).polls)
    except Exception:  # noqa: BLE001 - it is just being made
        return []


def test_what_cannot_be(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("something else")
    assert arenascope("timeline", tmp_path / "none").returncode == 3
    assert arenascope("timeline", other).returncode == 6
    assert arenascope("watch", os.getpid(), "-o", other).returncode == 8
    assert arenascope("watch", 1 << 22, "-o", tmp_path / "new").returncode == 3
    assert arenascope("watch", "-o", tmp_path / "new").returncode == 2
    (tmp_path / "link").symlink_to(other)
    assert arenascope("watch", os.getpid(), "-o", tmp_path / "link").returncode == 8
    assert other.read_text() == "something else"


def test_a_damaged_timeline_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    with growing() as grows, opened(path) as file:
        Watch(file, group_of(grows.pid), HOW, print).poll(1)
    assert arenascope("timeline", "--json", path).returncode == 0
    for statement in (
        "UPDATE snapshots SET rows = '[1]'",
        'UPDATE snapshots SET rows = \'{"in_use": "x"}\'',
        "UPDATE frames SET body = x'00'",
        "UPDATE snapshots SET body = substr(body, 1, 20)",
        "UPDATE snapshots SET process = 99",
        "PRAGMA user_version = 2",
    ):
        bad = tmp_path / "bad"
        bad.write_bytes(path.read_bytes())
        db = sqlite3.connect(bad)
        db.execute(statement)
        db.commit()
        db.close()
        done = arenascope("timeline", "--json", bad)
        assert done.returncode == 6, (statement, done.stderr)
        assert "Traceback" not in done.stderr
    for name in ("bad-wal", "bad-shm"):
        (tmp_path / name).unlink(missing_ok=True)


def test_no_room_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "timeline"
    with growing() as one, growing() as other:
        other.grow(3000)
        snapshots = [take_of(one.pid), take_of(other.pid)]
    with opened(path) as file:
        file.add(Poll(1 * SECOND, 1, 1, 1, 1, None, snapshots[:1]))
        file._db.execute(f"PRAGMA max_page_count={file._db.execute('PRAGMA page_count').fetchone()[0]}")
        for _ in range(3):
            with pytest.raises(NoRoomError):
                file.add(Poll(2 * SECOND, 1, 1, 1, 1, None, snapshots * 10))  # the other's frame is not in the file
        assert len(read(str(path)).polls) == 1
        file._db.execute("PRAGMA max_page_count=100000")
        file.add(Poll(3 * SECOND, 1, 1, 1, 1, None, snapshots[1:]))
        file.add(Poll(4 * SECOND, 1, 1, 1, 1, None, snapshots))
    assert [poll.time_ns // SECOND for poll in intact(path).polls] == [1, 3, 4]


TRACED = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
end, other = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        libc.prctl(1, 9)  # ends with its parent
        libc.ptrace(0, 0, 0, 0)  # PTRACE_TRACEME: nobody else may stop it
        os.write(other, b".")
        time.sleep(1000)
for _ in range(3):
    os.read(end, 1)
print("ready", flush=True)
sys.stdin.read()
"""


def test_processes_that_cannot_be_read_are_a_line(tmp_path: Path) -> None:
    """One for all with the same reason, in each poll's notes, and told once."""
    said: list[str] = []
    with odd.running(["python3", "-c", TRACED]) as pid, opened(tmp_path / "timeline") as file:
        watching = Watch(file, group_of(pid), How(mode="freeze"), said.append)
        for _ in range(2):
            watching.poll(0.001)
    last = intact(tmp_path / "timeline").polls[-1]
    assert len(last.snapshots) == 1
    assert last.notes.startswith("no snapshot of 3 processes, the first of which is ")
    assert [line for line in said if "no snapshot" in line] == [last.notes]
