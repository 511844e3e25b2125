# SPDX-License-Identifier: MIT
"""Signals while a thread is in a call for us come once, afterwards; and a handler may leave the call by siglongjmp."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import harness, odd
from tools.injection import DENIED, carriers, inject, line

pytestmark = pytest.mark.usefixtures("pages_stay")


@contextmanager
def in_dlopen(arenadump: harness.Arenadump, folder: Path, how: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with one thread, which is in our dlopen until the file is made."""
    audit, until = odd.build("slow_audit", "-shared", "-fPIC"), folder / "go"
    environment = {**os.environ, "LD_AUDIT": str(audit), "SLOW_AUDIT_UNTIL": str(until)}
    with subprocess.Popen(
        [str(odd.build("signalled")), how], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert line(process) == "ready\n"
            odd.wait_for(lambda: odd.state(process.pid) == "S")
            done = arenadump.run("inject", "--timeout", "500ms", process.pid)
            assert done.returncode == DENIED
            assert "has been in dlopen for 500 ms" in done.stderr
            yield process, until
        finally:
            process.kill()


def pending(pid: int) -> set[int]:
    """The signals that wait for the process or its first thread."""
    masks = [
        int(words.split()[1], 16)
        for words in Path(f"/proc/{pid}/status").read_text().splitlines()
        if words.startswith(("SigPnd:", "ShdPnd:"))
    ]
    return {number for number in range(1, signal.NSIG) for mask in masks if mask >> (number - 1) & 1}


def send(process: subprocess.Popen[str], *numbers: signal.Signals) -> None:
    """All are there before the next is sent: one of a fault is taken from the thread, and given back to wait."""
    sent: set[int] = set()
    for number in numbers:
        process.send_signal(number)
        if number != signal.SIGSTOP:
            sent.add(number)
            odd.wait_for(lambda: sent <= pending(process.pid))


def over(arenadump: harness.Arenadump, process: subprocess.Popen[str], until: Path) -> None:
    until.touch()
    odd.wait_for(lambda: not carriers(arenadump, process.pid))


@pytest.mark.parametrize("how", ["handles", "waits"])
def test_each_comes_once_and_afterwards(arenadump: harness.Arenadump, tmp_path: Path, how: str) -> None:
    """Those of faults, too, which a process sent, and SIGABRT: with their senders, and on the thread's own stack."""
    sent = [signal.SIGUSR1, signal.SIGTRAP, signal.SIGUSR2, signal.SIGSEGV, signal.SIGABRT]
    with in_dlopen(arenadump, tmp_path, how) as (process, until):
        send(process, *sent)
        over(arenadump, process, until)
        got = sorted(line(process) for _ in sent)
        assert got == sorted(f"{number.value} from {os.getpid()}\n" for number in sent)
        assert inject(arenadump, process.pid)["how"] in ("present", "woken")
        process.send_signal(signal.SIGTERM)
        assert line(process) == f"{signal.SIGTERM.value} from {os.getpid()}\n"
        assert process.wait(timeout=60) == 0


def test_a_stop_comes_afterwards(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """It cannot be blocked: the one thread takes it, goes on in its call, and is given it back."""
    with in_dlopen(arenadump, tmp_path, "handles") as (process, until):
        send(process, signal.SIGUSR1, signal.SIGSTOP)
        over(arenadump, process, until)
        odd.wait_for(lambda: odd.state(process.pid) == "T")
        process.send_signal(signal.SIGCONT)
        got = {line(process), line(process)}
        assert got == {f"{number.value} from {os.getpid()}\n" for number in (signal.SIGUSR1, signal.SIGCONT)}
        assert inject(arenadump, process.pid)["how"] in ("present", "woken")


def test_who_was_told_to_go_on_goes_on(arenadump: harness.Arenadump, tmp_path: Path) -> None:
    """Stopped and continued, all during the call: it is not left stopped."""
    with in_dlopen(arenadump, tmp_path, "handles") as (process, until):
        send(process, signal.SIGSTOP)
        odd.wait_for(lambda: not pending(process.pid))  # it has been taken
        send(process, signal.SIGCONT)
        over(arenadump, process, until)
        assert line(process) == f"{signal.SIGCONT.value} from {os.getpid()}\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


@contextmanager
def faulty(how: str) -> Iterator[subprocess.Popen[str]]:
    """A process in which our dlopen meets a fault, and the handler does what it is told."""
    environment = {**os.environ, "LD_AUDIT": str(odd.build("faulty_audit", "-shared", "-fPIC"))}
    command = [str(odd.build("leaves")), how]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert line(process) == "ready\n"
            odd.wait_for_read(process.pid)
            yield process
        finally:
            process.kill()


def test_a_fault_in_a_call_is_mended(arenadump: harness.Arenadump) -> None:
    """A handler that returns is nothing special, on whichever stack it runs."""
    with faulty("mends") as process:
        assert inject(arenadump, process.pid)["how"] == "loaded"
        out, _ = process.communicate("", timeout=60)
        assert out == "ended\n"
        assert process.returncode == 0


@pytest.mark.parametrize("how", ["jumps", "alternate", "masked", "spins"])
def test_a_handler_leaves_the_call(arenadump: harness.Arenadump, how: str) -> None:
    """The thread is let go, with its own mask, and the injector ends and says so."""
    with faulty(how) as process:
        done = arenadump.run("inject", "--timeout", "1s" if how == "spins" else "60s", process.pid)
        assert done.returncode == DENIED, done
        if how == "spins":  # which is seen when the time is up
            assert "has been in dlopen for 1000 ms" in done.stderr
        else:
            assert "has left dlopen by itself" in done.stderr
        odd.wait_for(lambda: not carriers(arenadump, process.pid))
        assert odd.tracer(process.pid) == 0
        process.send_signal(signal.SIGUSR1)
        assert line(process) == "left, 0 blocked\n"
        out, _ = process.communicate("", timeout=60)
        assert out == "ended\n"
        assert process.returncode == 0
