# SPDX-License-Identifier: MIT
"""Programs that several tests inspect, started and ready: interpreters at work, and tests/programs/causes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import debian, odd, programs

PYTHON = """
import threading, time
def work():
    for i in range(200):
        blocks = [bytearray(n * 37 % 5000 + 1) for n in range(400)]
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
kept = {i: str(i) * 50 for i in range(20000)}
print("ready", flush=True); time.sleep(1000)
"""
RUBY = """
threads = 4.times.map { |i| Thread.new { 3000.times { |n| "x" * (n * 37 % 20000) } } }
threads.each(&:join)
$stdout.puts "ready"; $stdout.flush; sleep
"""


@contextmanager
def started(command: list[str], ready: str) -> Iterator[int]:
    """A program that has said it is ready, by its pid."""
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    patience = threading.Timer(60, process.kill)
    patience.start()
    try:
        assert process.stdout
        said = ""
        while ready not in said:
            line = process.stdout.readline()
            assert line, f"{command[0]} ended early, or did not say in a minute that it is ready: {said}"
            said += line
        patience.cancel()
        odd.wait_until_settled(process.pid)  # what it did to say so has left its words then
        yield process.pid
    finally:
        patience.cancel()
        process.kill()
        process.communicate()


@contextmanager
def running(cause: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """tests/programs/causes, when it has made that cause."""
    if cause == "fastbin":  # glibc 2.43 and later have none
        old = debian.libc("bookworm")
        command = old.command(programs.build_portable("causes"), cause)
    else:
        command = [str(programs.build("causes", "-lpthread")), cause]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **environment}) as program:
        try:
            assert program.stdout
            assert program.stdout.readline() == b"ready\n"
            yield program
        finally:
            program.kill()


@contextmanager
def process(cause: str, **environment: str) -> Iterator[int]:
    """Its process id."""
    with running(cause, **environment) as program:
        yield program.pid


def trim_itself(program: subprocess.Popen[bytes]) -> None:
    """It calls malloc_trim(0), and has when this returns."""
    program.send_signal(signal.SIGUSR1)
    assert program.stdout
    assert program.stdout.readline() == b"trimmed\n"


@contextmanager
def mapped() -> Iterator[tuple[int, dict[str, tuple[int, int]]]]:
    """tests/programs/mappings: its pid, and address and bytes of each kind of memory."""
    program = programs.build("mappings")
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout
            kinds = {}
            for line in running.stdout:
                if line == "ready\n":
                    break
                name, address, size = line.split()
                kinds[name] = int(address, 16), int(size)
            while running.poll() is None and ") S " not in Path(f"/proc/{running.pid}/stat").read_text():
                time.sleep(0.01)  # on its way to pause() it may touch another page of libc's code
            yield running.pid, kinds
        finally:
            running.kill()


@contextmanager
def vforked(*arguments: str) -> Iterator[tuple[int, int]]:
    """tests/programs/vforks.c: the process that waits, and the child that runs in its memory."""
    with started([str(programs.build("vforks")), *arguments, "parent"], "ready") as pid:
        odd.wait_for(lambda: odd.state(pid) == "D")
        child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        try:
            yield pid, child
        finally:
            os.kill(child, signal.SIGKILL)
