# SPDX-License-Identifier: MIT
"""Programs of Debian's that none of us wrote, under the machine's own libc: every resident byte in exactly one row."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tools import harness, kernel
from tools.pressure import allowed
from tools.running import PYTHON, RUBY, started


@contextmanager
def redis(directory: Path) -> Iterator[int]:
    """redis-server after it has stored and dropped some data, with no port open: only a socket in `directory`."""
    socket = str(directory / "socket")
    command = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", str(directory)]
    store = "for i = 1, ARGV[1] do redis.call('SET', i .. ' of ' .. ARGV[2], ('x'):rep(ARGV[2])) end return 'OK'"
    with started(command, "accept connections") as pid:
        for words in (["EVAL", store, "0", "50000", "200"], ["EVAL", store, "0", "1000", "20000"], ["FLUSHDB"]):
            done = subprocess.run(["redis-cli", "-s", socket, *words], check=True, capture_output=True, text=True)
            assert done.stdout == "OK\n"
        time.sleep(0.5)  # it frees on a thread of its own
        yield pid


def sleeper(interpreter: str, flag: str, code: str) -> Callable[[Path], AbstractContextManager[int]]:
    return lambda _: started([interpreter, flag, code], "ready")


PROGRAMS: dict[str, Callable[[Path], AbstractContextManager[int]]] = {
    "python3": sleeper("/usr/bin/python3", "-c", PYTHON),
    "ruby": sleeper("/usr/bin/ruby", "-e", RUBY),
    "redis-server": redis,  # Debian's is linked with jemalloc
    "bash": sleeper("/bin/bash", "-c", "x=$(seq 50000); unset x; echo ready; read -r"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_resident_byte_is_in_one_row(name: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    with PROGRAMS[name](tmp_path) as pid:
        files = {m.path for m in kernel.smaps(pid) if Path(m.path).is_file()}
    # A kernel may drop a page of a file at any time, also one that our snapshot reads, and so brings in again.
    with allowed(kernel.files_in_memory(files)), PROGRAMS[name](tmp_path) as pid:
        os.kill(pid, signal.SIGSTOP)  # so that nothing changes between our snapshot and the kernel's word
        wait_until_stopped(pid)
        before = kernel.smaps(pid)
        summary = arenadump.summary(pid, "--mode=freeze")
        wait_until_stopped(pid)  # it must be again what it was before
        behind = kernel.smaps(pid)
    resident = [{m.start: m.counts["Rss"] for m in each} for each in (before, behind)]
    assert resident[0].keys() == resident[1].keys()
    assert not [hex(at) for at, bytes_of in resident[1].items() if bytes_of > resident[0][at]], "made resident by us"
    ledger = summary["ledger"]
    assert sum(ledger.values()) == summary["kernel"]["rss"]
    assert kernel.total(behind, "Rss") <= summary["kernel"]["rss"] <= kernel.total(before, "Rss")
    assert ledger["unknown"] == 0
    assert summary["snapshot"]["torn_chunks"] == 0
    assert summary["allocator"]["malloc"] == ("jemalloc" if name == "redis-server" else "glibc")


def stopped(pid: int) -> bool:
    """Whether every thread is."""
    return all("State:\tT " in (task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir())


def wait_until_stopped(pid: int) -> None:
    deadline = time.monotonic() + 10
    while not stopped(pid):
        assert time.monotonic() < deadline, f"{pid} does not stop"
        time.sleep(0.01)
