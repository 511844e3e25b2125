# SPDX-License-Identifier: MIT
"""The programs that benchmarks start: when they are ready, what they take, and their end."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TICK = os.sysconf("SC_CLK_TCK")


@contextmanager
def ready(command: Sequence[str | Path], **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A program that has printed a line, as it does once it is ready. In the end it is killed."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **how) as process:
        try:
            line(process)
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert process.stdout
    printed = process.stdout.readline()
    if not printed:
        raise SystemExit("the benchmark's target died: not enough memory?")
    return printed


def spent(pid: int) -> float:
    """Processor time of a process and of its children, of which one may be a server that runs; seconds."""
    running = 0.0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text(encoding="ascii").split():
            with suppress(FileNotFoundError):  # it has ended meanwhile, and is counted below
                running += spent(int(child))
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return running + sum(map(int, fields[11:15])) / TICK


def seconds(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> float:
    """How long a command takes."""
    before = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - before


def raw_read(build: Path, pid: int | str, *ranges: str) -> float:
    """Seconds of the bare copy (limits.c): of all its writable memory, or of what lies in these ranges."""
    command = [build / "bench/limits", "read", str(pid), *ranges]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[1]) / 1e9


def spent_by(command: list[str], environment: dict[str, str]) -> float:
    """Processor time of a command and of what it starts, seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peak(command: list[str]) -> tuple[float, int]:
    """Seconds of a command, and the bytes that it had resident at most."""
    nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    before = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[nowhere])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - before, usage.ru_maxrss * 1024
