# SPDX-License-Identifier: MIT
"""kill -9 of `watch`, `exporter` and `top` at any time: nothing is lost, torn, stopped or left behind.

KILLS says how often each is killed; `make kills` does it 100 times.
"""

from __future__ import annotations

import contextlib
import os
import pty
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli.test_diff import growing
from tools import harness

from arenascope.timeline.reader import read
from arenascope.wire.dump import Dump

KILLS = int(os.environ.get("KILLS", "6"))
PATIENCE = 120  # seconds
MARK = "ARENASCOPE_TEST_KILLED"
COMMANDS = {
    "watch": ("watch", "--every=50ms", "--dump-at=+1M,peak,oom,pressure=1ms", "--output=timeline"),
    "exporter": ("exporter", "--every=50ms", "--listen=127.0.0.1:0"),
    "top": ("top",),
}


@pytest.fixture(scope="module")
def longest(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Seconds in which a command is loaded, and snapshots some times, on this machine now."""
    path = tmp_path_factory.mktemp("watch") / "timeline"
    command = [sys.executable, "-m", "arenascope", "watch", "--every=50ms", f"--output={path}"]
    environment = {**os.environ, "ARENASCOPE_ARENADUMP": str(harness.arenadump_path().resolve())}
    begun = time.monotonic()
    with growing() as grows, subprocess.Popen([*command, str(grows.pid)], env=environment) as child:
        until(lambda: path.exists() and path.stat().st_size and has_poll(path), "no poll")
        passed = time.monotonic() - begun
        child.send_signal(signal.SIGINT)
    return 1.5 * passed


def has_poll(path: Path) -> bool:
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database,
    ):
        return bool(database.execute("SELECT count(*) FROM polls").fetchone()[0])
    return False


@contextmanager
def terminal() -> Iterator[int]:
    """One end of a terminal at whose other end everything is read."""
    ours, theirs = pty.openpty()

    def drain() -> None:
        with contextlib.suppress(OSError):
            while os.read(ours, 65536):
                pass

    reader = threading.Thread(target=drain)
    reader.start()
    try:
        yield theirs
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)


def killed(name: str, pid: int, folder: Path, after: float, mark: str) -> None:
    command = [sys.executable, "-m", "arenascope", *COMMANDS[name], str(pid)]
    environment = {**os.environ, MARK: mark, "TMPDIR": str(folder / "tmp"), "TERM": "xterm-256color"}
    environment["ARENASCOPE_ARENADUMP"] = str(harness.arenadump_path().resolve())
    with (
        terminal() as tty,
        subprocess.Popen(command, env=environment, cwd=folder, stdin=tty, stdout=tty, stderr=tty) as child,
    ):
        time.sleep(after)
        assert child.poll() is None, f"{name} has ended by itself"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        # As long as anybody writes to the terminal, its reader goes on.
        until(lambda: not of(mark), f"processes of {name} are left: {of(mark)}")


def of(mark: str) -> list[str]:
    """The processes that a command has started, and theirs."""
    found = []
    wanted = f"{MARK}={mark}\0".encode()
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (each / "environ").read_bytes():
                found.append(f"{each.name} {(each / 'comm').read_text().strip()}")
    return found


def until(true: object, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.01)


def is_as_before(pid: int) -> bool:
    """It runs, nobody traces it, and no copy of it is left."""
    process = Path(f"/proc/{pid}")
    status = (process / "status").read_text()
    states = [(each / "stat").read_text().rpartition(")")[2].split()[0] for each in (process / "task").iterdir()]
    children = (process / "task" / str(pid) / "children").read_text()
    return "TracerPid:\t0\n" in status and not {"T", "t"} & set(states) and not children.strip()


@pytest.mark.nightly("kills")
@pytest.mark.parametrize("name", list(COMMANDS))
def test_kill_9_at_any_time(name: str, longest: float, tmp_path: Path) -> None:
    chance = random.Random(KILLS)
    (tmp_path / "tmp").mkdir()
    polls = 0
    with growing() as grows:
        grows.grow(2000)
        digests = [chance.uniform(0, longest) for _ in range(KILLS)]
        for number, after in enumerate(digests):
            killed(name, grows.pid, tmp_path, after, f"{tmp_path}.{number}")
            until(lambda: is_as_before(grows.pid), "the process is not as it was")
            grows.grow(500)
            kept = list((tmp_path / "tmp").iterdir())
            assert len(kept) <= 1, "the next snapshot has not taken away what a snapshot that was killed has left"
            for each in kept:
                assert {file.name for file in each.iterdir()} <= {"dump"}
                os.utime(each, (0, 0))
            if name == "watch":
                polls = is_whole(tmp_path, polls)
                if polls == 0 and number + 1 == len(digests):  # the machine is slower now than when it was measured
                    assert after < PATIENCE, "no poll"
                    digests.append(longest + 2 * after)
    left = {each.name.partition("-")[0] for each in tmp_path.iterdir()}
    assert left == {"tmp"} | ({"timeline", "timeline.dumps"} if name == "watch" else set())


def servers_of(pid: int) -> list[int]:
    """The `arenadump serve` of a command, if there is one now."""
    found = []
    for each in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, each.read_text().split()):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[1:2] == [b"serve"]:
                    found.append(child)
    return found


@pytest.mark.nightly("kills")
@pytest.mark.parametrize("name", list(COMMANDS))
def test_kill_9_of_the_server_at_any_time(name: str, tmp_path: Path) -> None:
    """The command goes on with another one."""
    chance = random.Random(KILLS)
    command = [sys.executable, "-m", "arenascope", *COMMANDS[name]]
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment["ARENASCOPE_ARENADUMP"] = str(harness.arenadump_path().resolve())
    with growing() as grows, terminal() as tty:
        grows.grow(2000)
        with subprocess.Popen(
            [*command, str(grows.pid)], env=environment, cwd=tmp_path, stdin=tty, stdout=tty, stderr=tty
        ) as child:
            before: list[int] = []
            for _ in range(KILLS):
                until(lambda: set(servers_of(child.pid)) - set(before), "no server")  # noqa: B023
                before = servers_of(child.pid)
                time.sleep(chance.uniform(0, 0.3))
                for each in before:
                    os.kill(each, signal.SIGKILL)
                until(lambda: is_as_before(grows.pid), "the process is not as it was")
                grows.grow(500)
            assert child.poll() is None, f"{name} has ended by itself"
            child.send_signal(signal.SIGTERM)
        until(lambda: is_as_before(grows.pid), "the process is not as it was")
        if name == "watch":
            assert is_whole(tmp_path, 0)


def is_whole(folder: Path, before: int) -> int:
    """No poll is lost, and no dump torn. How many polls there are."""
    path = folder / "timeline"
    with contextlib.suppress(FileNotFoundError):
        for each in (folder / "timeline.dumps").iterdir():
            if not each.name.startswith("."):
                Dump(each)
    if not path.exists() or not path.stat().st_size:
        return before
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        made = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'polls'").fetchone()[0]
    now = len(read(str(path)).polls) if made else 0
    assert now >= before
    return now
