# SPDX-License-Identifier: MIT
"""Injections, and what the tests of them share."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from soaks import soak

from . import debian, harness, odd, programs
from .paths import ROOT

DENIED, UNSUPPORTED, NO_MALLOC, BAD_INPUT = 4, 5, 10, 6


SCRIPT = ROOT / "visualize" / "arenascope" / "arenascope.gdb"


def inject(arenadump: harness.Arenadump, pid: int, *options: str, **how: Any) -> dict[str, Any]:
    # How long dlopen takes on a slow machine, or an emulated one, is not what is tested.
    done = arenadump.run(
        "inject", "--json", *(() if "--timeout" in options else ("--timeout", "120s")), *options, pid, **how
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def refused(arenadump: harness.Arenadump, pid: int, code: int, words: str, *options: str) -> None:
    """An injection is refused for that reason, and nothing has been loaded."""
    done = arenadump.run("inject", *options, pid)
    assert done.returncode == code, done
    assert words in done.stderr, done.stderr
    assert not loaded(pid)


def loaded(pid: int) -> int:
    """How many copies of the agent are mapped."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    # The file's beginning is mapped once for each copy.
    return len(re.findall(r" r\S+ 0+ \S+ \S+ +.*(?:memfd:arenascope-agent|libarenascope\.so)", maps))


def threads(pid: int) -> list[str]:
    """Their names, without what tells one build of a program from another."""
    names = (comm.read_text().strip() for comm in Path(f"/proc/{pid}/task").glob("*/comm"))
    return sorted(name.partition("-")[0] for name in names)


def descriptors(pid: int) -> list[str]:
    return sorted(str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir())


@contextmanager
def selfcheck(*command: str, **environment: str) -> Iterator[int]:
    """A program that checks itself; unharmed in the end, and able to end."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        out, _ = process.communicate("quit\n", timeout=60)
        assert process.returncode == 0, out
    finally:
        process.kill()
        process.wait()


def under(libc: debian.Libc, *options: str) -> list[str]:
    """The program that checks itself, with whatever libc loads of its own accord."""
    program = programs.build_portable("selfcheck")
    return [str(libc.loader), "--library-path", f"{libc.directory}:{debian.libgcc()}", str(program), *options]


def plugin() -> Path:
    return programs.build_portable("plugin", "amd64", "-shared", "-fPIC")


TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(0x4206, int(sys.argv[1]), None, None) == 0  # PTRACE_SEIZE
sys.stdin.read()
"""


@contextmanager
def in_the_middle(
    arenadump: harness.Arenadump, folder: Path, what: str
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process of which one thread is in our dlopen, until the file is made, and another does something else now."""
    audit, until = odd.build("slow_audit", "-shared", "-fPIC"), folder / "go"
    environment = {**os.environ, "LD_AUDIT": str(audit), "SLOW_AUDIT_UNTIL": str(until)}
    command = [str(odd.build("posing", "-pthread")), what]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            odd.wait_for(lambda: odd.state(process.pid) == "S")
            done = arenadump.run("inject", "--timeout", "500ms", process.pid)
            assert done.returncode == DENIED
            assert "has been in dlopen for 500 ms" in done.stderr
            # Its first thread waits in a call for which others are taken first.
            assert f"thread {process.pid} " not in done.stderr
            process.send_signal(signal.SIGUSR1)
            yield process, until
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def carriers(arenadump: harness.Arenadump, pid: int) -> list[str]:
    return soak.inspectors(arenadump, pid)


def state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(") ")[2][0]
