# SPDX-License-Identifier: MIT
"""Odd targets: what starts them, and what may be asked of the machine for it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import debian, programs
from .paths import ROOT

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


USERFAULTFD = Path("/proc/sys/vm/unprivileged_userfaultfd")
# The numbers of system calls.
READ, CLOCK_NANOSLEEP = (63, 115) if debian.NATIVE == "arm64" else (0, 230)


def build(name: str, *flags: str, compiler: str = "gcc") -> Path:
    """A program of tests/programs; a test that cannot have it is skipped."""
    return programs.build(name, *flags, compiler=compiler)


def hostile() -> str:
    """tests/programs/hostile, built."""
    return str(build("hostile", f"-I{ROOT}/inspector", f"-I{ROOT}/inspector/include", "-lpthread"))


@contextlib.contextmanager
def running(command: list[str], *, ready: str = "ready", **environment: str) -> Iterator[int]:
    """A program that has said it is ready, by its pid. It ends when its stdin does, or with us."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            assert process.stdout
            for line in process.stdout:
                if line.strip() == ready:
                    break
            else:
                pytest.fail(f"{command} ended early: {process.wait()}")
            wait_for(lambda: state(process.pid) == "S")  # on its way from here to there it may map another page
            yield process.pid
        finally:
            process.kill()


def on_tmpfs(command: list[str], root: Path, place: Path) -> list[str]:
    """A command with files below `root`: the same from a copy on a tmpfs of its own. Needs root."""
    place.mkdir()
    script = 'mount -t tmpfs none "$1" && cp -a "$0"/. "$1" && shift && exec "$@"'
    moved = [word.replace(str(root), str(place)) for word in command]
    return ["unshare", "--mount", "sh", "-c", script, str(root), str(place), *moved]


def wait_for(what: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.002)


def state(pid: int) -> str:
    """As in /proc/PID/stat: R, S, Z, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def wait_for_read(pid: int) -> None:
    """Until its first thread waits for input: what it did to say that it is ready has left its words then."""
    wait_for(lambda: _call(pid) == str(READ))


def wait_for_sleep(pid: int) -> None:
    """Until a `sleep` sleeps: before, its libc may not be there yet."""
    wait_for(lambda: _call(pid) == str(CLOCK_NANOSLEEP))


def wait_until_settled(pid: int) -> None:
    """Until its first thread waits in a system call; the few programs that never do get five seconds."""
    deadline = time.monotonic() + 5
    with contextlib.suppress(OSError, IndexError):  # it has ended, or we may not know
        while _call(pid) == "running" and time.monotonic() < deadline:
            time.sleep(0.002)


def _call(pid: int) -> str:
    return Path(f"/proc/{pid}/syscall").read_text().split()[0]


@contextlib.contextmanager
def asleep(*command: str | Path, user: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """`sleep`, or a copy of it, once it sleeps."""
    with subprocess.Popen(command or ("sleep", "1000"), user=user) as process:
        try:
            wait_for_sleep(process.pid)
            yield process
        finally:
            process.kill()


def tracer(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("TracerPid:"):
            return int(line.split()[1])
    raise AssertionError(f"/proc/{pid}/status has no TracerPid")


CALLED = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[-1]), 0, 0, 0)
print("ready", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def called(name: bytes, *arguments: bytes, program: str = sys.executable) -> Iterator[int]:
    """The PID of a Python that has given itself a name, of any bytes, and waits."""
    command: list[str | bytes] = [program, "-c", CALLED, *arguments, name.hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == b"ready\n"
            yield child.pid
        finally:
            child.kill()
