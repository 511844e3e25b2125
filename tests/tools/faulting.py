# SPDX-License-Identifier: MIT
"""Programs that use faults all the time, as language runtimes do: a thread that is moved in the middle of one dies."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from soaks import soak

from . import jvms, odd, programs

KINDS = ("mends", "jumps", "node", "go", "java")
SOURCES = programs.SOURCES / "faults"


def _go() -> list[str]:
    if not shutil.which("go"):
        pytest.skip("go is not installed (scripts/install-deps)")
    path = programs.BUILT / "faults-go"
    if not path.exists() or path.stat().st_mtime < (SOURCES / "faults.go").stat().st_mtime:
        built = path.with_suffix(".new")
        subprocess.run(["go", "build", "-o", built, SOURCES / "faults.go"], check=True)
        built.replace(path)
    return [str(path)]


def _java() -> list[str]:
    java, folder = jvms.required(), programs.BUILT / "faults-java"
    if not (folder / "Faults.class").exists():
        subprocess.run([java.tool("javac"), "-d", folder, SOURCES / "Faults.java"], check=True)
    return [java.tool("java"), "-XX:TieredStopAtLevel=1", "-Xmx64m", "-XX:+UseSerialGC", "-cp", str(folder), "Faults"]


def command(kind: str) -> list[str]:
    """How it is started. Skips the test where what it needs is missing."""
    if kind == "go":
        return _go()
    if kind == "java":
        return _java()
    if kind == "node":
        if not shutil.which("node"):
            pytest.skip("node is not installed (scripts/install-deps)")
        return ["node", str(SOURCES / "faults.js")]
    return [str(odd.build("faults")), kind]


def start(kind: str) -> subprocess.Popen[str]:
    """One that has said it is ready."""
    process = subprocess.Popen(
        command(kind), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str], seconds: float = 240) -> str:
    """Has it end by itself; what was wrong with that."""
    out, _ = process.communicate("", timeout=seconds)
    return "" if process.returncode == 0 and out == "ended well\n" else f"exit {process.returncode}: {out.strip()}"


@contextlib.contextmanager
def running(kind: str) -> Iterator[int]:
    """Its pid. In the end it is unharmed, and held by nobody."""
    process = start(kind)
    try:
        yield process.pid
        assert set(tracers(process.pid)) == {"0"}
        assert not end(process)
    finally:
        process.kill()
        process.wait()


def tracers(pid: int) -> list[str]:
    """Returns the tracer of each thread."""
    return [
        line.split()[1]
        for task in Path(f"/proc/{pid}/task").iterdir()
        for line in soak.read(task / "status").splitlines()  # of one that has ended meanwhile: nothing
        if line.startswith("TracerPid:")
    ]
