# SPDX-License-Identifier: MIT
"""The consistency modes: answers that are one instant, targets that do not notice, and refusals that say why."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from soaks import soak
from tools import debian, harness, odd, programs
from tools.paths import ROOT
from tools.postures import ask, notes, posture
from tools.running import vforked

pytestmark = pytest.mark.usefixtures("pages_stay")

FIND_LIBC = Path(os.environ.get("FIND_LIBC", ROOT / "build/tests/unit/find_libc"))
SOAK_SECONDS = 2  # make nightly PART=soak: half an hour
SNAPSHOTS = 4


@pytest.fixture(scope="session")
def postures() -> Path:
    return programs.build("postures", "-lpthread")


def children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in soak.read(task / "children").split()
    ]


def check_exact(summary: dict[str, Any], *unknown: str) -> None:
    """The rows that are named may be unknown."""
    assert summary["snapshot"]["exact"], summary["warnings"]
    assert summary["snapshot"]["torn_chunks"] == 0
    known = {row: count for row, count in summary["ledger"].items() if row not in unknown or count is not None}
    assert sum(known.values()) == summary["kernel"]["rss"]


def check_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Two snapshots of a target at rest: they differ in how and when they were made, and in what is said of that."""
    assert one.keys() == other.keys()
    for part in one.keys() - {"snapshot", "warnings"}:
        assert one[part] == other[part], part


@pytest.mark.nearest
@pytest.mark.parametrize("threads", [1, 4, 16])
@pytest.mark.parametrize("mode", ["freeze", "clone"])
def test_one_instant_of_a_storm(
    libc: debian.Libc, selfcheck: Path, arenadump: harness.Arenadump, mode: str, threads: int
) -> None:
    """Each thread holds a fixed number of blocks, give or take the one at hand: so must what is found in use."""
    counts = soak.Counts()
    target = soak.Target(libc.command(selfcheck, f"storm={threads}", "blocks=500"), counts)
    for _ in range(SNAPSHOTS):
        # However busy the machine is: how long it may take is another test's business.
        summary = arenadump.summary(target.pid, "--mode", mode, "--max-pause=60s")
        assert summary["snapshot"]["mode"] == mode
        assert summary["snapshot"]["pause_ms"] > 0
        check_exact(summary)
        target.in_use.append(summary["chunks"]["in_use"]["count"] + summary["chunks"]["mmapped"]["count"])
    assert max(target.in_use) - min(target.in_use) <= 2 * threads
    assert min(target.in_use) >= threads * 500 - threads
    target.check_free(mode, arenadump)
    target.end()
    assert not counts.wrong, counts.first


def malloc_functions(libc: debian.Libc) -> list[tuple[int, int]]:
    """Where the static functions of malloc.c begin and end, by the names in the debug file."""
    notes_ = subprocess.run(
        ["readelf", "-n", str(libc.directory / "libc.so.6")], capture_output=True, text=True, check=True
    )
    build_id = notes_.stdout.partition("Build ID: ")[2].split()[0]
    debug = libc.debug / "usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    symbols = subprocess.run(["readelf", "-sW", str(debug)], capture_output=True, text=True, check=True).stdout
    found, file = [], ""
    for line in symbols.splitlines():
        words = line.split()
        if len(words) == 8 and words[3] == "FILE":
            file = words[7]
        elif len(words) == 8 and words[3:5] == ["FUNC", "LOCAL"] and file == "malloc.c":
            found.append((int(words[1], 16), int(words[1], 16) + int(words[2], 0)))
    return found


def test_all_of_malloc_is_known(libc: debian.Libc) -> None:
    """Its static functions too, of which a stripped libc has no names."""
    out = subprocess.run(
        [FIND_LIBC, "file", libc.directory / "libc.so.6", ""], capture_output=True, text=True, check=True
    ).stdout
    start, end = json.loads(out.splitlines()[0])["malloc_code"]
    functions = malloc_functions(libc)
    assert len(functions) > 20
    assert all(start <= first and last <= end for first, last in functions)
    assert end - start < 64 << 10


def test_snapshot_is_what_freeze_says(postures: Path, arenadump: harness.Arenadump) -> None:
    """The two agree on everything but the way if the target is at rest, and on what the kernel says."""
    with posture(postures, "plain") as process:
        frozen = arenadump.summary(process.pid, "--mode", "freeze")
        cloned = arenadump.summary(process.pid, "--mode", "clone")
        check_same(cloned, frozen)
        assert cloned["kernel"]["rss"] == harness.smaps(process.pid, "Rss")
        assert "counted" in notes(cloned)
        assert children(process.pid) == []
        assert ask(process) == "seen 0, children none"


def test_live_stops_nothing(own_libc: debian.Libc, selfcheck: Path, arenadump: harness.Arenadump) -> None:
    counts = soak.Counts()
    target = soak.Target(own_libc.command(selfcheck, "storm=4", "waits=1"), counts)
    for _ in range(SNAPSHOTS):
        summary = arenadump.summary(target.pid, "--mode", "live")
        assert summary["snapshot"]["mode"] == "live"
        assert summary["snapshot"]["pause_ms"] == 0
        assert not summary["snapshot"]["exact"]
    target.end()
    assert not counts.wrong, counts.first
    assert not counts.eintr


@pytest.mark.parametrize("load", soak.LOADS, ids=" ".join)
def test_soak(selfcheck: Path, arenadump: harness.Arenadump, load: tuple[str, ...]) -> None:
    """In all modes, and killed while it inspects; `make soak` does so for hours."""
    counts = soak.Counts()
    soak.soak(SOAK_SECONDS, [str(selfcheck), *load], arenadump, counts, seed=7)
    assert not counts.wrong, json.dumps(counts.report(), indent=1)


@pytest.mark.parametrize("name", ["dontfork", "wipe", "arena", "block", "inner"])
def test_heap_that_children_do_not_get(postures: Path, arenadump: harness.Arenadump, name: str) -> None:
    """A clone has not got it either: where that shows only in the clone, its answer is dropped."""
    with posture(postures, name) as process:
        summary = arenadump.summary(process.pid, "--mode", "clone")
        assert summary["snapshot"]["mode"] == "freeze"
        assert "MADV_DONTFORK" in notes(summary)
        check_exact(summary)
        assert children(process.pid) == []
        assert ask(process) == "seen 0, children none"


@pytest.mark.parametrize("name", ["own", "ownwipe", "ownfile", "ownnear"])
def test_own_memory_that_children_do_not_get(postures: Path, arenadump: harness.Arenadump, name: str) -> None:
    """Its pages are counted in the target, as those of files are, and malloc's in the clone."""
    with posture(postures, name) as process:
        frozen = arenadump.summary(process.pid, "--mode", "freeze")
        cloned = arenadump.summary(process.pid, "--mode", "clone")
        assert cloned["snapshot"]["mode"] == "clone", notes(cloned)
        check_same(cloned, frozen)
        check_exact(cloned)
        assert cloned["kernel"]["rss"] == harness.smaps(process.pid, "Rss")
        assert "MADV_DONTFORK" in notes(cloned)
        assert ask(process) == "seen 0, children none"


NODE = "const held = Array.from(Array(2e5), (_, i) => ({i})); console.log('ready'); setInterval(() => held, 1e6)"


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed (scripts/install-deps)")
def test_node(arenadump: harness.Arenadump) -> None:
    """V8 keeps all of its heap from children, in releases after Debian 11's (Node 12)."""
    process = subprocess.Popen(["node", "-e", NODE], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        kept = " dc" in soak.read(Path(f"/proc/{process.pid}/smaps"))
        summary = arenadump.summary(process.pid, "--mode", "clone")
        assert summary["snapshot"]["mode"] == "clone", notes(summary)
        assert ("MADV_DONTFORK" in notes(summary)) == kept
        check_exact(summary, "managed")  # of the V8 of Debian 11, arenascope does not know the heap
        assert process.poll() is None
        if not kept:
            pytest.xfail("this release of Node keeps nothing from its children (MADV_DONTFORK)")
    finally:
        process.kill()
        process.communicate()


def test_auto_never_stops_for_longer_than_promised(postures: Path, arenadump: harness.Arenadump) -> None:
    """What can neither be cloned nor be read within 50 ms is read while it runs; unless it stands still anyhow."""
    with posture(postures, "large") as process:
        summary = arenadump.summary(process.pid)
        assert summary["snapshot"]["mode"] == "live"
        assert summary["snapshot"]["pause_ms"] == 0
        assert "--max-pause" in notes(summary)
        assert "MADV_DONTFORK" in notes(summary)
        assert arenadump.summary(process.pid, "--max-pause=60s")["snapshot"]["mode"] == "freeze"
        os.kill(process.pid, signal.SIGSTOP)
        assert wait_until(lambda: "State:\tT" in soak.read(Path(f"/proc/{process.pid}/status")))
        summary = arenadump.summary(process.pid)
        assert summary["snapshot"]["mode"] == "freeze"
        check_exact(summary)


def test_seccomp(postures: Path, arenadump: harness.Arenadump) -> None:
    """With CAP_SYS_ADMIN the filter is suspended for the call; without it the target is not asked to make one."""
    with posture(postures, "seccomp") as process:
        summary = arenadump.summary(process.pid, "--mode", "clone")
        assert summary["snapshot"]["mode"] == ("clone" if os.geteuid() == 0 else "freeze")
        check_exact(summary)
        if os.geteuid() == 0 and shutil.which("setpriv"):
            less = ["setpriv", "--bounding-set=-sys_admin", str(arenadump.path)]
            done = subprocess.run(
                [*less, "summary", "--json", "--mode=clone", str(process.pid)], capture_output=True, check=True
            )
            summary = json.loads(done.stdout)
            assert summary["snapshot"]["mode"] == "freeze"
            assert "seccomp" in notes(summary)
            check_exact(summary)
        assert process.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user to try the limit with")
def test_limit_on_processes(postures: Path, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    program = Path(shutil.copy(postures, "/tmp")).rename(f"/tmp/postures-{os.getpid()}")
    try:
        user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        with posture(program, "nproc", *user) as process:
            summary = arenadump.summary(process.pid, "--mode", "clone")
            assert summary["snapshot"]["mode"] == "freeze"
            assert "limit on processes" in notes(summary)
            check_exact(summary)
            assert process.poll() is None
    finally:
        program.unlink()


def test_waiting_for_every_child(postures: Path, arenadump: harness.Arenadump) -> None:
    """Only who waits with __WALL can see the clone: it takes it off our hands then, and nothing is left."""
    with posture(postures, "wall") as process:
        for _ in range(3):
            check_exact(arenadump.summary(process.pid, "--mode", "clone"))
        assert children(process.pid) == []
        assert "children none" in ask(process)


def test_stopped_target_stays_stopped(postures: Path, arenadump: harness.Arenadump) -> None:
    with posture(postures, "plain") as process:
        os.kill(process.pid, signal.SIGSTOP)
        summary = arenadump.summary(process.pid, "--mode", "clone")
        assert summary["snapshot"]["mode"] == "freeze"
        assert "SIGSTOP" in notes(summary)
        # A thread that is let go takes an instant to stop again.
        assert wait_until(lambda: "State:\tT" in soak.read(Path(f"/proc/{process.pid}/status")))
        os.kill(process.pid, signal.SIGCONT)
        assert ask(process) == "seen 0, children none"


def supervisors(inspector: int) -> set[int]:
    """Those that this inspector has started: others may be at work on the same machine."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or soak.read(entry / "comm") != "arenadump-guard\n":
            continue
        if f"PPid:\t{inspector}\n" in soak.read(entry / "status"):
            found.add(int(entry.name))
    return found


def is_over(supervisor: int) -> bool:
    """Gone, or a zombie: a container's first process often reaps none of those that it inherits."""
    path = Path(f"/proc/{supervisor}")
    return soak.read(path / "comm") != "arenadump-guard\n" or "State:\tZ" in soak.read(path / "status")


def wait_until(what: Any, seconds: float = 10) -> bool:
    """Was it so at some instant? A stopped target, for one, is not in state T while a supervisor tries to trace it."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.002)
    return True


def caught(target: soak.Target, arenadump: harness.Arenadump) -> tuple[subprocess.Popen[bytes], int]:
    """A snapshot that is held (SIGSTOP) while its clone is there, however fast it is; and its supervisor."""
    command = [str(arenadump.path), "chunks", "--mode", "clone", str(target.pid)]
    for _attempt in range(20):
        # Nobody reads its output: it is there until it is killed.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        wait_until(lambda one=process: one.poll() is not None or (supervisors(one.pid) and children(target.pid)))
        if process.poll() is not None:
            process.communicate()
            continue
        process.send_signal(signal.SIGSTOP)
        assert wait_until(lambda pid=process.pid: "State:\tT" in soak.read(Path(f"/proc/{pid}/status")))
        found = supervisors(process.pid)
        if found and children(target.pid):
            (supervisor,) = found
            return process, supervisor
        process.kill()
        process.communicate()
        assert wait_until(lambda: children(target.pid) == [])
    target.process.kill()
    raise AssertionError("no snapshot was caught while its clone was there")


@pytest.fixture
def slow_snapshot(
    selfcheck: Path, arenadump: harness.Arenadump
) -> Iterator[tuple[soak.Target, subprocess.Popen[bytes]]]:
    """A snapshot of a large heap, caught while the clone is there."""
    counts = soak.Counts()
    target = soak.Target([str(selfcheck), "storm=1", "blocks=400000"], counts)
    process, supervisor = caught(target, arenadump)
    try:
        yield target, process
        assert wait_until(lambda: is_over(supervisor))
        assert target.traced() == ""
        target.end()
        assert not counts.wrong, counts.first
    finally:
        process.kill()
        process.communicate()
        target.process.kill()
        target.process.wait()


def test_inspector_is_killed(slow_snapshot: tuple[soak.Target, subprocess.Popen[bytes]]) -> None:
    target, process = slow_snapshot
    process.kill()
    assert wait_until(lambda: children(target.pid) == [])


def test_supervisor_is_killed(slow_snapshot: tuple[soak.Target, subprocess.Popen[bytes]]) -> None:
    """Then nobody has the clone reaped: it is dead (PTRACE_O_EXITKILL), and waits for the target's own end."""
    target, process = slow_snapshot
    (supervisor,) = supervisors(process.pid)
    os.kill(supervisor, signal.SIGKILL)
    assert wait_until(lambda: all("State:\tZ" in soak.read(Path(f"/proc/{c}/status")) for c in children(target.pid)))


def test_stopped_while_cloned(slow_snapshot: tuple[soak.Target, subprocess.Popen[bytes]]) -> None:
    """A target that is stopped by a signal cannot reap; it does as soon as it goes on."""
    target, process = slow_snapshot
    os.kill(target.pid, signal.SIGSTOP)
    process.kill()
    time.sleep(0.3)
    assert wait_until(lambda: "State:\tT" in soak.read(Path(f"/proc/{target.pid}/status")))
    os.kill(target.pid, signal.SIGCONT)
    assert wait_until(lambda: children(target.pid) == [])


def test_target_ends_while_cloned(selfcheck: Path, arenadump: harness.Arenadump) -> None:
    counts = soak.Counts()
    target = soak.Target([str(selfcheck), "storm=1", "blocks=100000"], counts)
    command = [str(arenadump.path), "summary", "--json", "--mode", "clone", str(target.pid)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert wait_until(lambda: process.poll() is not None or children(target.pid))
    target.process.kill()
    target.process.wait()
    out, err = process.communicate(timeout=60)
    # The clone outlives it: an answer of that time, or a plain refusal.
    assert process.returncode in (0, 7), err
    if process.returncode == 0:
        assert json.loads(out)["snapshot"]["torn_chunks"] == 0


def test_target_ends_before_its_files_are_counted(postures: Path, arenadump: harness.Arenadump) -> None:
    """A clone does not inherit shared memory: what can no longer be counted is as it was before, and never nothing."""
    ended = 0
    for _ in range(50):
        with posture(postures, "ends") as process:
            done = arenadump.run("summary", "--json", "--mode", "clone", process.pid)
        assert done.returncode in (0, 7), done.stderr
        if done.returncode == 0:
            summary = json.loads(done.stdout)
            assert summary["ledger"]["other_shmem"] >= 8 << 20, notes(summary)
            assert summary["ledger"]["other_file"] > 0
            ended += "gone or changed" in notes(summary)
        if ended:
            break
    assert ended


def test_execs_a_busy_program_while_cloned(selfcheck: Path, arenadump: harness.Arenadump) -> None:
    """Where no thread waits in a call, the instruction for ours is the vdso's: the old program's code is gone."""
    target = soak.Target([str(selfcheck), "storm=1", "blocks=100000"], soak.Counts())
    process, supervisor = caught(target, arenadump)
    try:
        target.tell("busy")
        assert wait_until(lambda: soak.read(Path(f"/proc/{target.pid}/comm")) == "sh\n")
        process.kill()
        assert wait_until(lambda: is_over(supervisor))
        assert children(target.pid) == []
    finally:
        process.kill()
        process.communicate()
        target.process.kill()
        target.process.communicate()


def test_execs_while_cloned(selfcheck: Path, arenadump: harness.Arenadump) -> None:
    """The other program has the clone for a child now, and reaps it as the first would have."""
    counts = soak.Counts()
    target = soak.Target([str(selfcheck), "storm=1", "blocks=100000"], counts)
    process, supervisor = caught(target, arenadump)
    try:
        target.tell("exec")
        assert wait_until(lambda: soak.read(Path(f"/proc/{target.pid}/comm")) == "cat\n")
        process.kill()
        assert wait_until(lambda: is_over(supervisor))
        assert children(target.pid) == []
        out, _ = target.process.communicate("still here\n", timeout=60)
        assert out == "still here\n"
        assert target.process.returncode == 0
    finally:
        process.kill()
        process.communicate()
        target.process.kill()
        target.process.wait()


def test_a_snapshot_ends_without_cancelling_a_thread(arenadump: harness.Arenadump) -> None:
    """A libc may lose the signal by which it cancels one: then whoever joins that thread waits for ever."""
    lost = programs.build("no_cancel", "-shared", "-fPIC")
    with odd.running([str(odd.build("posing")), "idle"]) as pid:
        for mode in ("live", "freeze", "clone"):
            command = [str(arenadump.path), "summary", "--mode", mode, str(pid)]
            environment = {**os.environ, "LD_PRELOAD": str(lost)}
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=120)


def test_a_parent_in_vfork_is_read_while_it_runs(arenadump: harness.Arenadump) -> None:
    """Nothing can stop a thread in an uninterruptible wait. Who asked for a mode is told."""
    with vforked() as (pid, _):
        summary = arenadump.summary(pid)
        frozen = arenadump.run("summary", "--mode=freeze", pid)
        assert odd.state(pid) == "D"
    assert summary["snapshot"]["mode"] == "live"
    (warning,) = (str(each) for each in summary["warnings"] if "in an uninterruptible wait" in str(each))
    assert "--mode live" not in warning
    assert summary["chunks"]["in_use"]["count"] >= 1000
    assert frozen.returncode == soak.DENIED
    assert f"process {pid} cannot be stopped: its thread {pid} is in an uninterruptible wait" in frozen.stderr
    assert frozen.stderr.endswith("To snapshot without stopping it: --mode live\n")
