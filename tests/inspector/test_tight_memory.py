# SPDX-License-Identifier: MIT
"""A clone of a process that writes costs memory, which counts against its cgroup: near a limit there is none.

On the code before, the kernel killed the clone and then the process, in each of these snapshots.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools import debian, harness, programs, tight
from tools.exporting import exporting
from tools.postures import notes

MEGABYTES = 160  # a freeze would take too long for the default limit of 50 ms
LITTLE, MUCH = 24 << 20, 1 << 30
SOME = 96 << 20  # more than the margin that a clone leaves, and less than the target has
# The freeze in place of a clone has a limit of two seconds and more by itself, which an emulated processor may need.
SNAPSHOT = ("--mode", "clone", "--max-pause", "60s")
RUN = [sys.executable, "-m", "arenascope"]


@pytest.fixture
def target(group: tight.TightCgroup) -> Iterator[subprocess.Popen[str]]:
    try:
        with tight.running(group.path, MEGABYTES) as process:
            yield process
    except debian.UnavailableError as reason:
        pytest.skip(str(reason))


def check_unharmed(group: tight.TightCgroup, target: subprocess.Popen[str]) -> None:
    assert target.poll() is None, "the target was killed"
    assert group.kills() == 0


COMMANDS = {
    "summary": ["summary", "--json"],
    "types": ["types", "--json"],
    "owners": ["owners", "--json"],
    "leaks": ["leaks", "--json"],
    "why": ["why"],
    "dump": ["dump", "-o"],
    "trim": ["trim", "--forecast"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_snapshot_gets_it_killed(
    command: str, arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str], tmp_path: Path
) -> None:
    group.leave(LITTLE)
    words: list[str | int | Path] = [*COMMANDS[command]]
    words += [tmp_path / "dump"] if command == "dump" else []
    words += [target.pid, "0x1000"] if command == "why" else [target.pid]
    done = arenadump.run(*words)
    assert done.returncode == (2 if command == "why" else 0), done.stderr  # at that address is no chunk
    check_unharmed(group, target)


@pytest.mark.parametrize("room", [LITTLE, SOME])
def test_summary_says_why(
    room: int, arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str]
) -> None:
    limit = group.leave(room)
    summary = arenadump.summary(target.pid)
    assert summary["snapshot"]["mode"] == "live"
    assert summary["snapshot"]["pause_ms"] == 0
    said = notes(summary)
    assert "a freeze would take longer than --max-pause" in said
    assert "might get it killed for lack of memory" in said
    assert f"({group.hard.name} {limit / 1e6:.1f} MB, used" in said
    assert group.path.name in said
    check_unharmed(group, target)


def mode_of(summary: dict[str, Any]) -> str:
    return str(summary["snapshot"]["mode"])


def test_each_mode(arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str]) -> None:
    group.leave(LITTLE)
    frozen = arenadump.summary(target.pid, "--max-pause", "60s")
    assert mode_of(frozen) == "freeze"
    assert "clone" not in notes(frozen), "a freeze was the choice"
    asked = arenadump.summary(target.pid, *SNAPSHOT)
    assert mode_of(asked) == "freeze"
    assert "the target was frozen while it was read, because it could not be cloned: a clone" in notes(asked)
    limited = arenadump.run("summary", "--mode", "clone", "--max-pause", "1us", target.pid)
    assert limited.returncode == 4
    assert mode_of(arenadump.summary(target.pid, "--mode", "live")) == "live"
    check_unharmed(group, target)


def test_with_room_it_is_cloned(
    arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str]
) -> None:
    group.leave(MUCH)
    summary = arenadump.summary(target.pid, *SNAPSHOT)
    assert mode_of(summary) == "clone"
    assert "killed" not in notes(summary)
    check_unharmed(group, target)


def test_a_limit_further_up(arenadump: harness.Arenadump, group: tight.TightCgroup) -> None:
    """Its own cgroup has none."""
    inner = group.inner("inner")
    with tight.running(inner, MEGABYTES) as target:
        group.leave(LITTLE)
        summary = arenadump.summary(target.pid, *SNAPSHOT)
        assert mode_of(summary) == "freeze"
        assert f"its memory cgroup {group.path.relative_to(group.root).as_posix()}" not in notes(summary)
        assert f"/{group.path.name} has room for" in notes(summary)
        check_unharmed(group, target)


def test_where_it_would_be_slowed_down(
    arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str]
) -> None:
    """memory.high kills no process, but a process that meets it waits for seconds."""
    if not group.unified:
        pytest.xfail("memory.high is of version 2 of cgroups, and this machine's memory is with version 1")
    group.leave(LITTLE, soft=True)
    summary = arenadump.summary(target.pid, *SNAPSHOT)
    assert mode_of(summary) == "freeze"
    assert "(memory.high " in notes(summary)
    check_unharmed(group, target)


def test_what_the_page_cache_takes_is_no_lack(
    arenadump: harness.Arenadump, group: tight.TightCgroup, target: subprocess.Popen[str], tmp_path: Path
) -> None:
    """Most cgroups are full of it: the kernel takes it back where memory is needed, and kills nobody."""
    large = tmp_path / "large"
    large.write_bytes(bytes(1 << 20) * (MEGABYTES * 3 // 2))
    subprocess.run(["sync", large], check=True)
    read = f'echo $$ >"{group.path}/cgroup.procs" && dd if="{large}" iflag=nocache count=0 && cat "{large}" >/dev/null'
    subprocess.run(["sh", "-c", read], check=True, stderr=subprocess.DEVNULL)
    if group.usage < 2 * MEGABYTES << 20:
        pytest.skip(f"the files of {tmp_path} are not in the page cache, or are charged to somebody else")
    group.leave(LITTLE)
    summary = arenadump.summary(target.pid, *SNAPSHOT)
    assert mode_of(summary) == "clone", notes(summary)
    check_unharmed(group, target)


def test_watch_top_and_exporter(group: tight.TightCgroup, target: subprocess.Popen[str], tmp_path: Path) -> None:
    group.leave(LITTLE)
    watch = [*RUN, "watch", str(target.pid), "--every", "1s", "--for", "4s", "-o", str(tmp_path / "timeline")]
    subprocess.run(watch, check=True, capture_output=True, timeout=120)
    check_unharmed(group, target)
    done = subprocess.run(
        [*RUN, "top", "--once", "--json", str(target.pid)], capture_output=True, timeout=120, check=True
    )
    assert json.loads(done.stdout)
    check_unharmed(group, target)
    with exporting(target.pid, eager=True) as exporter:
        exporter.after_poll()
    check_unharmed(group, target)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_so(what: Callable[[], object], seconds: int = 60) -> bool:
    """Does it come to be so? For how long that is awaited is no verdict on how soon it ought to be."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


@contextlib.contextmanager
def inspected(
    group: tight.TightCgroup, arenadump: harness.Arenadump, tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """A target that writes nothing yet, and a snapshot of a clone of it, which dawdles in a read."""
    slow = {
        "LD_PRELOAD": str(programs.build("slow_reads", "-shared", "-fPIC", "-ldl")),
        "SLOW_READS": "600000",
        "SLOW_READS_FILE": str(tmp_path / "reads"),
    }
    with tight.running(group.path, MEGABYTES, "late") as target:
        group.leave(MUCH)
        command = [str(tight.preloadable(arenadump.path)), "summary", "--json", str(target.pid)]
        with subprocess.Popen(
            command, env={**os.environ, **slow}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as snapshot:
            try:
                assert is_so(lambda: (tmp_path / "reads").exists() or snapshot.poll() is not None)
                assert snapshot.poll() is None, snapshot.communicate()
                yield target, snapshot
            finally:
                snapshot.kill()


def tell(target: subprocess.Popen[str], megabytes: int) -> None:
    assert target.stdin
    target.stdin.write(f"{megabytes}\n")
    target.stdin.flush()


def check_given_up(snapshot: subprocess.Popen[str], why: str, tmp_path: Path) -> None:
    (tmp_path / "reads").unlink()
    out, err = snapshot.communicate(timeout=120)
    assert snapshot.returncode == 0, err
    summary = json.loads(out)
    assert mode_of(summary) == "live"
    said = notes(summary)
    assert "the clone of process" in said
    assert why in said


def test_a_limit_that_comes_closer(arenadump: harness.Arenadump, group: tight.TightCgroup, tmp_path: Path) -> None:
    """Lowered while the clone is read, to what leaves no room for what the target writes then."""
    with inspected(group, arenadump, tmp_path) as (target, snapshot):
        group.leave(8 << 20)
        assert is_so(lambda: children(target.pid) == []), "the clone is still there"
        check_unharmed(group, target)
        tell(target, 0)
        check_given_up(snapshot, f"/{group.path.name} has room for", tmp_path)
        check_unharmed(group, target)


def test_a_target_that_allocates(arenadump: harness.Arenadump, group: tight.TightCgroup, tmp_path: Path) -> None:
    """It has room for that or for a clone. On a slow machine the kernel kills the clone before it is given up."""
    with inspected(group, arenadump, tmp_path) as (target, snapshot):
        group.leave(200 << 20)
        tell(target, 150)
        assert is_so(lambda: children(target.pid) == []), "the clone is still there"
        check_given_up(snapshot, "", tmp_path)
        assert target.poll() is None, "the target was killed"


def test_the_one_who_inspects_stands_still(
    arenadump: harness.Arenadump, group: tight.TightCgroup, tmp_path: Path
) -> None:
    """In the middle of a read, by Ctrl-Z, say: the clone goes all the same, and the target runs on."""
    with inspected(group, arenadump, tmp_path) as (target, snapshot):
        snapshot.send_signal(signal.SIGSTOP)
        group.leave(8 << 20)
        assert is_so(lambda: children(target.pid) == []), "the clone is still there"
        assert is_so(lambda: "TracerPid:\t0" in Path(f"/proc/{target.pid}/status").read_text())
        tell(target, 0)
        check_unharmed(group, target)
        snapshot.send_signal(signal.SIGCONT)
        check_given_up(snapshot, "has room for", tmp_path)
        check_unharmed(group, target)


def test_a_clone_that_is_killed(arenadump: harness.Arenadump, group: tight.TightCgroup, tmp_path: Path) -> None:
    """It is told from the target, which lives and is inspected in another way."""
    with inspected(group, arenadump, tmp_path) as (target, snapshot):
        os.kill(children(target.pid)[0], signal.SIGKILL)
        assert is_so(lambda: children(target.pid) == [])
        check_given_up(snapshot, "killed", tmp_path)
        check_unharmed(group, target)


def test_a_target_that_is_killed_with_its_clone(
    arenadump: harness.Arenadump, group: tight.TightCgroup, tmp_path: Path
) -> None:
    with inspected(group, arenadump, tmp_path) as (target, snapshot):
        clone = children(target.pid)[0]
        target.kill()
        os.kill(clone, signal.SIGKILL)
        (tmp_path / "reads").unlink()
        out, err = snapshot.communicate(timeout=120)
        assert snapshot.returncode == 7, (out, err)
        assert f"process {target.pid} " in err
        assert "clone" not in err
