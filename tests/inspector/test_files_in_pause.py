# SPDX-License-Identifier: MIT
"""No file is opened while a target stands still: one on a dead network mount would hold the target for as long."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools import harness, programs
from tools.jvms import required

READY = {
    "python3": ["-c", "import json; held = [{} for i in range(20000)]; print('ready', flush=True); input()"],
    "ruby": ["-e", "$stdout.sync = true; held = Array.new(20000) { {} }; puts 'ready'; gets"],
    "node": ["-e", "console.log('ready'); process.stdin.on('data', () => {})"],
    "php": ["-r", 'echo "ready\\n"; fgets(STDIN);'],
    "java": [str(programs.SOURCES / "java/Holds.java"), "10", "10"],
}


@contextmanager
def program(name: str) -> Iterator[int]:
    command = required().tool("java") if name == "java" else shutil.which(name)
    if not command:
        pytest.skip(f"{name} is not installed (scripts/install-deps test)")
    with subprocess.Popen([command, *READY[name]], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def opened_in_pause(trace: str) -> list[str]:
    """The calls that opened a file, other than the kernel's own, between the first stop and the last release."""
    lines = trace.splitlines()
    stops = [i for i, line in enumerate(lines) if "PTRACE_INTERRUPT" in line]
    ends = [i for i, line in enumerate(lines) if "PTRACE_DETACH" in line]
    assert stops
    assert ends
    return [
        line for line in lines[stops[0] : ends[-1]] if re.search(r"\bopen(at|at2)?\b.*= \d+<(?!/(proc|sys)/)", line)
    ]


def test_a_file_in_the_pause_is_seen() -> None:
    """What the check below rests on."""
    calls = [
        'openat(4</proc/7>, "map_files/1-2", O_PATH) = 8</usr/lib/libc.so.6>',
        "ptrace(PTRACE_INTERRUPT, 7) = 0",
        'openat(4</proc/7>, "maps", O_RDONLY) = 8</proc/7/maps>',
        'openat(AT_FDCWD</>, "/usr/lib/none", O_RDONLY) = -1 ENOENT (No such file or directory)',
        'openat(4</proc/7>, "map_files/1-2", O_PATH) = 8</usr/lib/libjvm.so>',
        'openat(4</proc/7>, "map_files/1-2", O_PATH <unfinished ...>',
        "<... openat resumed>) = 8</usr/lib/libjvm.so>",
        "ptrace(PTRACE_DETACH, 7, NULL, 0) = 0",
        'openat(AT_FDCWD</>, "/etc/passwd", O_RDONLY) = 8</etc/passwd>',
    ]
    assert opened_in_pause("\n".join(calls)) == [calls[4], calls[6]]


@pytest.mark.parametrize("name", READY)
def test_no_file_is_opened_in_the_pause(name: str, arenadump: harness.Arenadump, tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("strace is not installed (scripts/install-deps test)")
    trace = tmp_path / "trace"
    with program(name) as pid:
        snapshot = ["summary", "--json", "--objects", "--mode", "freeze", "--max-pause", "60s", str(pid)]
        calls = "trace=?open,openat,openat2,ptrace"  # aarch64 has no open
        # Other calls are not to be slowed down: a snapshot makes thousands of them.
        traced = [strace, "-f", "--seccomp-bpf", "-y", "-e", calls, "-o", str(trace)]
        subprocess.run([*traced, str(arenadump.path), *snapshot], check=True, capture_output=True)
    assert opened_in_pause(trace.read_text()) == []
