# SPDX-License-Identifier: MIT
"""Scans of /proc: what a scan has read before is taken again only where nothing of it has changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tools import odd
from tools.running import vforked

from arenascope.processes import PROC, all_processes, has_no_child, is_in_parents_memory, process_at
from arenascope.watch.process_group import OfPid, Together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.processes import Process

pytestmark = pytest.mark.check


def test_a_scan_tells_what_a_process_is_now() -> None:
    with subprocess.Popen(["sh", "-c", "read go; exec sleep 1000"], stdin=subprocess.PIPE) as child:
        try:
            _scan_while_it_changes(child)
        finally:
            child.kill()


def _scan_while_it_changes(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin
    before = all_processes()[child.pid]
    assert all_processes()[child.pid].identity == before.identity
    child.stdin.write(b"\n")
    child.stdin.flush()
    while (PROC / str(child.pid) / "comm").read_text() != "sleep\n":
        time.sleep(0.01)
    after = all_processes()[child.pid]
    assert (before.comm, after.comm) == ("sh", "sleep")
    assert after.identity == before.identity
    child.kill()
    while (PROC / str(child.pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    assert child.pid not in all_processes()
    assert all_processes(zombies=True)[child.pid].zombie


# At a word it does what this says, and prints that it has.
WITH_CHILDREN = """
import os, sys, threading, time
def fork():
    if os.fork() == 0:
        time.sleep(1000)
def fork_in_thread():
    def forked():
        fork()
        done.set()
        end.wait()
    done, end = threading.Event(), threading.Event()
    threading.Thread(target=forked).start()
    done.wait()
    return end
def reap():
    os.kill(child_of(), 9)
    os.wait()
def child_of():
    tids = os.listdir("/proc/self/task")
    return int("".join(open(f"/proc/self/task/{tid}/children").read() for tid in tids).split()[0])
def threads():
    for _ in range(20):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
for line in sys.stdin:
    word = line.strip()
    if word == "end thread":
        end.set()
        while threading.active_count() > 1 or len(os.listdir("/proc/self/task")) > 1:
            time.sleep(0.01)
    else:
        end = globals()[word]()
    print(word, flush=True)
"""


def test_a_fork_is_found_whoever_has_it_for_a_child() -> None:
    if not (PROC / f"self/task/{os.getpid()}/children").exists():
        pytest.xfail("this kernel does not list children (CONFIG_PROC_CHILDREN)")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WITH_CHILDREN], stdin=pipe, stdout=pipe, text=True) as program:
        try:
            _fork_and_ask(program)
        finally:
            for each in all_processes().values():
                if each.parent == program.pid:
                    os.kill(each.pid, 9)
            program.kill()


def _fork_and_ask(program: subprocess.Popen[str]) -> None:
    first = process_at(program.pid)
    assert first
    group = Together([OfPid(first)])

    def pids(word: str | None = None) -> tuple[int, bool]:
        """How many processes it has, and whether that took no scan."""
        if word:
            assert program.stdin
            assert program.stdout
            print(word, file=program.stdin, flush=True)
            assert program.stdout.readline().strip() == word
        quick = group.choose_without_scan()
        found = {each.pid for each in group.members()}
        assert program.pid in found
        assert quick is None or {each.pid for each in quick} == found
        return len(found), quick is not None

    assert pids() == (1, True)
    assert pids("fork") == (2, False)
    assert pids("reap") == (1, True)
    assert pids("fork_in_thread") == (2, False)
    assert pids("end thread") == (2, False)  # another thread has the child now
    assert pids("reap") == (1, True)
    assert pids("threads") == (1, False)  # too many to ask each
    assert not has_no_child(program.pid)


@contextmanager
def resting() -> Iterator[Process]:
    """A program that waits, as it is once it runs."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", "print(1, flush=True); input()"], stdin=pipe, stdout=pipe) as program:
        try:
            assert program.stdout
            program.stdout.readline()
            found = process_at(program.pid)
            assert found
            yield found
        finally:
            program.kill()


def test_who_has_ended_has_a_successor() -> None:
    with resting() as before:
        group = OfPid(before)
    assert group.choose_without_scan() is None
    with resting() as after:
        assert [each.pid for each in group.members()] == [after.pid]
        assert group.choose_without_scan() == [after]


def test_a_child_of_vfork_is_watched_once_it_has_memory_of_its_own() -> None:
    with vforked() as (pid, child):
        watched = OfPid(all_processes()[pid])
        assert [each.pid for each in watched.members()] == [pid]
        assert is_in_parents_memory(all_processes()[child])
        os.kill(child, signal.SIGUSR1)
        odd.wait_for(lambda: (PROC / str(child) / "cmdline").read_bytes().endswith(b"alone\0"))
        assert {each.pid for each in watched.members()} == {pid, child}
